"""What is Redis's own: memory, what a server keeps, and how its URL is read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import support
from deployments import Servers, namespace
from engine_servers import running
from mcp_sansio import SessionRecord, StoreFull, StoreUnavailable

RedisStore = support.need("mcp_sansio_redis").RedisStore
Redis = support.need("redis.asyncio").Redis

PATIENCE = 30.0


async def keys(url: str, pattern: str) -> dict[bytes, float]:
    """The keys of a server that match, each with the seconds that it has left."""
    async with Redis.from_url(url) as client:
        return {key: await client.pttl(key) / 1000 async for key in client.scan_iter(match=pattern)}


async def test_everything_is_under_the_namespace_and_expires(servers: Servers) -> None:
    url, name = servers["redis"].url, namespace()
    async with asyncio.timeout(PATIENCE), RedisStore(url, namespace=name, keep_for=100.0) as store:
        await store.create("k", {}, ttl=50.0)
        await store.hub.publish("t", b"a")
        left = await keys(url, f"{name}*")
        assert left.pop(f"{name}:schema:".encode()) == -0.001, "it has no end"
        assert {
            key: 0 < limit - seconds < 5 or seconds == limit
            for (key, seconds), limit in zip(sorted(left.items()), (100.0, 50.0, 100.0), strict=True)
        } == {f"{name}:bell:".encode(): True, f"{name}:record:k".encode(): True, f"{name}:topic:t".encode(): True}
        await store.touch("k", ttl=1e300)
        assert await store.get("k") == SessionRecord({}, 1)


async def test_a_server_that_is_full_says_so_and_keeps_what_it_has() -> None:
    with running("redis") as server:
        async with asyncio.timeout(PATIENCE), Redis.from_url(server.url) as client, RedisStore(server.url) as store:
            await store.create("k", {"n": 1}, ttl=60)
            await client.config_set("maxmemory", "1mb")
            for work in (
                store.create("l", {}, ttl=60),
                store.save("k", {"n": 2}, expected=1, ttl=60),
                store.hub.publish("t", b"a"),
            ):
                with pytest.raises(StoreFull, match=r"^the session store is full$"):
                    await work
            assert await store.get("k", ttl=60) == SessionRecord({"n": 1}, 1)
            await client.config_set("maxmemory", "0")
            assert await store.save("k", {"n": 2}, expected=1, ttl=60) is True


async def test_a_server_that_became_a_replica_is_connected_to_anew() -> None:
    with running("redis") as server:
        async with asyncio.timeout(PATIENCE), Redis.from_url(server.url) as client, RedisStore(server.url) as store:
            await store.create("k", {}, ttl=60)
            before = {entry["id"] for entry in await client.client_list()}
            await client.replicaof("127.0.0.1", 9)
            for work in (store.create("l", {}, ttl=60), store.save("k", {}, expected=1, ttl=60)):
                with pytest.raises(StoreUnavailable, match=r"(?i)^Redis: .*read.?only"):
                    await work
            await client.replicaof("NO", "ONE")
            assert await store.create("l", {}, ttl=60) is True
            after = {entry["id"] for entry in await client.client_list()}
            assert len(after) == len(before)
            assert len(after & before) == 1, "the one that asks"


@pytest.mark.parametrize("url", ["", "localhost", "http://localhost", "redis://localhost:port"])
def test_what_is_no_url_of_redis_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        RedisStore(url)


async def test_a_password_is_in_no_error() -> None:
    store = RedisStore("redis://:s3cret@127.0.0.1:9/0", timeout=1.0)
    with pytest.raises(StoreUnavailable) as refused:
        await store.open()
    assert "s3cret" not in str(refused.value)
    assert "127.0.0.1:9" in str(refused.value)


async def test_options_of_its_connections(servers: Servers) -> None:
    options: dict[str, Any] = {"client_name": "a-worker", "decode_responses": True}
    async with asyncio.timeout(PATIENCE), RedisStore(servers["redis"].url, namespace=namespace(), **options) as store:
        await store.create("k", {"n": 1}, ttl=60)
        async with Redis.from_url(servers["redis"].url) as client:
            assert "a-worker" in {entry["name"] for entry in await client.client_list()}
        assert await store.get("k") == SessionRecord({"n": 1}, 1)


@pytest.mark.parametrize("connected", [True, False])
async def test_a_cancellation_is_never_lost(servers: Servers, connected: bool) -> None:
    for turns in range(60):  # of the event loop, so that it comes at each step of a use
        async with asyncio.timeout(PATIENCE), RedisStore(servers["redis"].url, namespace=namespace()) as store:
            if not connected:
                await store.close()
            use = asyncio.create_task(store.get("k"))
            for _ in range(turns):
                await asyncio.sleep(0)
            was_wanted = use.cancel()
            await asyncio.wait([use])
            assert use.cancelled() == was_wanted
            assert await store.get("k") is None

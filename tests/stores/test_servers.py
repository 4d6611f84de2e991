"""What holds of both engines that are servers: they may be away, end, freeze and come back, and many may share them."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import support
from deployments import Servers, namespace, used_in_loops_that_are_closed
from engine_servers import EngineServer, running
from mcp_sansio import SessionRecord, StoreTooNew, StoreUnavailable

CLASSES = {"redis": ("mcp_sansio_redis", "RedisStore"), "postgres": ("mcp_sansio_postgres", "PostgresStore")}
NOWHERE = {"redis": "unix:///nowhere/redis.sock", "postgres": "host=/nowhere user=mcp"}
PATIENCE = 30.0


@pytest.fixture(params=CLASSES)
def engine(request: pytest.FixtureRequest) -> Any:
    """The name of an engine whose binding is there."""
    support.need(CLASSES[request.param][0])
    return request.param


@pytest.fixture
def server(engine: str, servers: Servers) -> EngineServer:
    """The server that all tests share."""
    return servers[engine]  # type: ignore[no-any-return]


@pytest.fixture
def mortal(engine: str) -> Iterator[EngineServer]:
    """A server of the test's own, which it may kill."""
    with running(engine) as made:
        yield made


def store_of(engine: str, url: str, **options: Any) -> Any:
    module, name = CLASSES[engine]
    return getattr(support.need(module), name)(url, **options)


@asynccontextmanager
async def two(engine: str, url: str, **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    name = namespace()
    async with asyncio.timeout(PATIENCE):
        async with (
            store_of(engine, url, namespace=name, **options) as one,
            store_of(engine, url, namespace=name, **options) as other,
        ):
            yield one, other


async def again(work: Any) -> Any:
    """What ``work()`` gives, once it does not meet a server that is away."""
    while True:
        try:
            return await work()
        except StoreUnavailable:
            await asyncio.sleep(0.05)


# Ends and beginnings of the server ------------------------------------------------------------------------------------


async def test_a_server_that_is_killed_and_comes_back(engine: str, mortal: EngineServer) -> None:
    async with two(engine, mortal.url, timeout=1.0) as (one, other):
        await one.create("k", {"n": 1}, ttl=600)
        position = await one.hub.position("t")
        await one.hub.publish("t", b"before")
        waiting = [asyncio.create_task(store.hub.poll("u", position)) for store in (one, other, one)]
        await other.hub.poll("t", position)
        mortal.kill()
        for result in await asyncio.gather(*waiting, return_exceptions=True):
            assert isinstance(result, StoreUnavailable)
        for work in (
            one.create("l", {}, ttl=600),
            one.get("k"),
            one.get("k", ttl=600),
            one.save("k", {}, expected=1, ttl=600),
            other.touch("k", ttl=600),
            other.delete("k"),
            one.hub.publish("t", b"lost"),
            one.hub.position("t"),
            other.hub.poll("t", position),
            other.hub.delete("t"),
        ):
            with pytest.raises(StoreUnavailable, match=r"^(Redis|PostgreSQL): \w"):
                await work
        mortal.start()
        assert await again(lambda: one.get("k")) == SessionRecord({"n": 1}, 1)
        assert await again(lambda: other.save("k", {"n": 2}, expected=1, ttl=600)) is True
        heard = asyncio.create_task(again(lambda: other.hub.poll("u", position)))
        await again(lambda: one.hub.publish("t", b"after"))
        assert [message.data for message in await other.hub.poll("t", position)] == [b"before", b"after"]
        await one.hub.publish("u", b"a")
        assert [message.data for message in await heard] == [b"a"]


async def test_idle_connections_of_a_server_that_started_anew_cost_nobody_a_call(
    engine: str, mortal: EngineServer
) -> None:
    async with two(engine, mortal.url) as (one, other):
        await one.create("k", {"n": 1}, ttl=600)
        await asyncio.gather(*(store.get("k") for store in (one, other) for _ in range(10)))
        await asyncio.to_thread(mortal.kill)
        await asyncio.to_thread(mortal.start)
        found = await asyncio.gather(*(store.get("k") for store in (one, other) for _ in range(10)))
        assert found == [SessionRecord({"n": 1}, 1)] * 20
        assert await one.save("k", {"n": 2}, expected=1, ttl=600) is True


async def test_nothing_that_was_saved_is_lost_with_a_server_that_is_killed_in_the_middle(
    engine: str, mortal: EngineServer
) -> None:
    """Fifty writers count up while it is killed: what was acknowledged is there, and each wrote once or was told."""
    acknowledged: list[int] = []
    unsure: list[int] = []

    async def write(store: Any, number: int) -> None:
        while True:
            try:
                record = await store.get("k")
                data = {"by": [*record.data["by"], number]}
                if await store.save("k", data, expected=record.version, ttl=600):
                    acknowledged.append(number)
                    return
            except StoreUnavailable:
                unsure.append(number)
                return

    async with two(engine, mortal.url, timeout=1.0) as stores:
        await stores[0].create("k", {"by": []}, ttl=600)
        writing = [asyncio.create_task(write(stores[number % 2], number)) for number in range(50)]
        while len(acknowledged) < 10:
            await asyncio.sleep(0)
        mortal.kill()
        await asyncio.gather(*writing)
        mortal.start()
        record = await again(lambda: stores[1].get("k"))
        written = record.data["by"]
        assert len(acknowledged) + len(unsure) == 50
        assert set(acknowledged) <= set(written) <= {*acknowledged, *unsure}
        assert len(written) == len(set(written)) == record.version - 1
        print(f"\n{engine}: {len(acknowledged)} acknowledged, {len(unsure)} told, {len(written)} written")


async def test_a_server_that_freezes(engine: str, mortal: EngineServer) -> None:
    async with two(engine, mortal.url, timeout=0.5) as (one, _):
        await one.create("k", {"n": 1}, ttl=600)
        waiting = asyncio.create_task(one.hub.poll("t", 0))
        await one.hub.position("t")
        mortal.signal(signal.SIGSTOP)
        begun = time.monotonic()
        results = await asyncio.gather(*(one.get("k") for _ in range(3)), return_exceptions=True)
        took = time.monotonic() - begun
        mortal.signal(signal.SIGCONT)
        assert [type(result) for result in results] == [StoreUnavailable] * 3
        assert took < 10
        assert await again(lambda: one.get("k")) == SessionRecord({"n": 1}, 1)
        await again(lambda: one.hub.publish("t", b"a"))
        try:
            heard = await waiting
        except StoreUnavailable:
            heard = await again(lambda: one.hub.poll("t", 0))
        assert [message.data for message in heard] == [b"a"]


async def test_a_server_that_comes_up_later_than_its_clients(engine: str, mortal: EngineServer) -> None:
    mortal.kill()
    store = store_of(engine, mortal.url, timeout=1.0)
    async with asyncio.timeout(PATIENCE):
        for result in await asyncio.gather(*(store.get("k") for _ in range(20)), return_exceptions=True):
            assert isinstance(result, StoreUnavailable)
        mortal.start()
        assert await store.create("k", {}, ttl=60) is True
        await store.close()


async def test_a_server_that_is_not_there(engine: str) -> None:
    store = store_of(engine, NOWHERE[engine], timeout=1.0)
    for work in (store.open(), store.get("k"), store.hub.poll("t", 0), store.hub.publish("t", b"a")):
        with pytest.raises(StoreUnavailable, match=r"(?i)no such file or directory"):
            await work
    await store.close()


# Opening, closing, sharing --------------------------------------------------------------------------------------------


def test_an_unopened_store_opens_with_its_use_and_closes_with_the_loop(engine: str, server: EngineServer) -> None:
    module, name = CLASSES[engine]
    code = (
        "import asyncio, gc, sys, threading\n"
        f"from {module} import {name}\n"
        f"store = {name}(sys.argv[1], namespace=sys.argv[2])\n"
        "async def main():\n"
        "    made = await asyncio.gather(*(store.create('k', {}, ttl=60) for _ in range(10)))\n"
        "    polls = [asyncio.create_task(store.hub.poll('t', 0)) for _ in range(3)]\n"
        "    await store.hub.position('t')\n"
        "    await asyncio.sleep(0.1)\n"
        "    print(made.count(True), [poll.done() for poll in polls])\n"
        "asyncio.run(main())\n"
        "asyncio.run(main())\n"
        "gc.collect()\n"
        "print(threading.active_count())\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, server.url, namespace()]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = "1 [False, False, False]\n0 [False, False, False]\n1\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, lines, "")


def test_a_loop_that_is_closed_without_a_word_does_not_end_a_store(engine: str, server: EngineServer) -> None:
    ended = used_in_loops_that_are_closed(*CLASSES[engine], server.url)
    assert (ended.returncode, ended.stdout) == (0, "True 1\n" * 3 + "closed\n"), ended.stderr


async def test_closing_ends_who_waits_and_what_is_used_opens_again(engine: str, server: EngineServer) -> None:
    async with two(engine, server.url) as (store, _):
        waiting = asyncio.create_task(store.hub.poll("t", 0))
        await store.create("k", {}, ttl=60)
        await store.close()
        with pytest.raises(StoreUnavailable, match="it was closed"):
            await waiting
        await store.close()
        assert await store.get("k") == SessionRecord({}, 1)


async def test_however_many_wait_one_connection_does(engine: str, server: EngineServer) -> None:
    async with two(engine, server.url, connections=3) as (one, other):
        before = await connections(engine, server)
        waiting = [asyncio.create_task(one.hub.poll(f"topic {number % 10}", 0)) for number in range(100)]
        await asyncio.gather(*(one.get("k") for _ in range(50)))
        assert await connections(engine, server) - before <= 3
        for number in range(10):
            await other.hub.publish(f"topic {number}", b"%d" % number)
        heard = await asyncio.gather(*waiting)
        assert [[message.data for message in messages] for messages in heard] == [
            [b"%d" % (number % 10)] for number in range(100)
        ]


async def connections(engine: str, server: EngineServer) -> int:
    """How many the server has."""
    if engine == "redis":
        from redis.asyncio import Redis

        async with Redis.from_url(server.url) as client:
            return len(await client.client_list())
    from psycopg import AsyncConnection

    async with await AsyncConnection.connect(server.url) as connection:
        rows = await connection.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
        ((count,),) = await rows.fetchall()
        return int(count)


async def test_two_applications_share_a_server(engine: str, server: EngineServer) -> None:
    async with two(engine, server.url) as (one, _), two(engine, server.url) as (other, _):
        assert await one.create("k", {"of": "one"}, ttl=10) is True
        assert await other.create("k", {"of": "other"}, ttl=20) is True
        await one.hub.publish("t", b"one")
        await other.hub.publish("t", b"other")
        assert [message.data for message in await one.hub.poll("t", 0)] == [b"one"]
        await one.hub.delete("t")
        await one.delete("k")
        assert await other.get("k") == SessionRecord({"of": "other"}, 1)
        assert [message.data for message in await other.hub.poll("t", 0)] == [b"other"]


@pytest.mark.parametrize("namespace", ["", "a:b", "{a}", "a*", "x" * 49])
def test_a_namespace_is_plain(engine: str, namespace: str) -> None:
    with pytest.raises(ValueError, match=r"^a namespace is 1 to 48 of the characters"):
        store_of(engine, NOWHERE[engine], namespace=namespace)


# The schema -----------------------------------------------------------------------------------------------------------

_OPENS = """
import asyncio, sys
from {module} import {name}
async def main():
    async with {name}(sys.argv[1]) as store:
        print(await store.create("k", {{}}, ttl=60))
sys.stdout.write("started\\n"), sys.stdout.flush(), sys.stdin.readline()
asyncio.run(main())
"""


def test_any_number_of_processes_make_the_schema_at_once(engine: str, mortal: EngineServer) -> None:
    module, name = CLASSES[engine]
    command = [sys.executable, "-c", _OPENS.format(module=module, name=name), mortal.url]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    processes = [subprocess.Popen(command, text=True, **pipes) for _ in range(8)]
    for process in processes:
        assert process.stdout.readline() == "started\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert sorted(said) == ["False\n"] * 7 + ["True\n"]


async def test_a_newer_schema_is_left_alone(engine: str, mortal: EngineServer) -> None:
    store = store_of(engine, mortal.url)
    async with store:
        await store.create("k", {"n": 1}, ttl=60)
    await make_newer(engine, mortal)
    for work in (store.open(), store.get("k"), store.hub.poll("t", 0)):
        with pytest.raises(
            StoreTooNew, match=r"^\w+: its schema is 2, and this release knows up to 1; update it first$"
        ):
            await work


async def make_newer(engine: str, server: EngineServer) -> None:
    if engine == "redis":
        from redis.asyncio import Redis

        async with Redis.from_url(server.url) as client:
            assert await client.set("mcp:schema:", 2, xx=True)
    else:
        from psycopg import AsyncConnection

        async with await AsyncConnection.connect(server.url) as connection:
            await connection.execute("UPDATE mcp_sansio_schema SET version = 2")

"""What is PostgreSQL's own: cursors that are drawn before they are seen, rights, isolation, and sweeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import support
from deployments import Servers, namespace
from mcp_sansio import SessionRecord, StoreUnavailable

PostgresStore = support.need("mcp_sansio_postgres").PostgresStore
psycopg = support.need("psycopg")

PATIENCE = 30.0


@pytest.fixture
def url(servers: Servers) -> str:
    """Where the server is."""
    return str(servers["postgres"].url)


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[Any]:
    async with asyncio.timeout(PATIENCE), PostgresStore(url, **{"namespace": namespace(), **options}) as store:
        yield store


async def execute(url: str, statement: str) -> list[Any]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        cursor = await connection.execute(statement)
        return list(await cursor.fetchall()) if cursor.description else []


@asynccontextmanager
async def database(url: str, name: str) -> AsyncIterator[str]:
    """A database of the test's own, and how to reach it."""
    await execute(url, f"CREATE DATABASE {name}")
    try:
        yield url.replace("dbname=postgres", f"dbname={name}")
    finally:
        await execute(url, f"DROP DATABASE {name} WITH (FORCE)")


async def test_a_message_that_is_committed_late_is_not_overtaken(url: str) -> None:
    """Who publishes ``slow`` has drawn its cursor long before it commits. Nothing may be seen behind it before that."""
    async with database(url, "late") as url, opened(url) as one, opened(url, namespace=one._namespace) as other:
        await execute(
            url,
            "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN IF NEW.data = 'slow' THEN PERFORM pg_sleep(0.5); END IF; RETURN NULL; END $$",
        )
        await execute(
            url,
            "CREATE TRIGGER linger AFTER INSERT ON mcp_sansio_messages FOR EACH ROW EXECUTE FUNCTION linger()",
        )
        position = await other.hub.position("t")
        heard: list[bytes] = []

        async def listen() -> None:
            cursor = position
            while len(heard) < 5:
                for message in await other.hub.poll("t", cursor):
                    cursor = message.cursor
                    heard.append(message.data)

        listening = asyncio.create_task(listen())
        slow = asyncio.create_task(one.hub.publish("t", b"slow"))
        await asyncio.sleep(0.1)  # it lingers now
        await other.hub.publish("elsewhere", b"does not wait for it")
        assert not slow.done()
        await asyncio.gather(*(store.hub.publish("t", b"fast") for store in (one, one, other, other)))
        await listening
        assert heard == [b"slow"] + [b"fast"] * 4


async def test_many_who_publish_and_trim_at_once_do_not_lock_each_other(url: str) -> None:
    async with opened(url, keep=2) as one, opened(url, namespace=one._namespace, keep=2) as other:
        for _ in range(5):
            await asyncio.gather(*((one, other)[n % 2].hub.publish("t", b"%d" % n) for n in range(40)))
        await one.hub.publish("t", b"x")
        await one.hub.publish("t", b"y")
        assert [message.data for message in await other.hub.poll("t", 0)] == [b"x", b"y"]
        query = f"SELECT count(*) FROM mcp_sansio_messages WHERE namespace = '{one._namespace}'"
        assert await execute(url, query) == [(2,)]


async def test_a_role_that_may_make_no_tables_uses_those_that_are_there(url: str) -> None:
    async with database(url, "rights") as url:
        await execute(url, "CREATE ROLE plain LOGIN")
        try:
            plain = url.replace("user=mcp", "user=plain")
            with pytest.raises(StoreUnavailable, match=r"^PostgreSQL: permission denied for schema public"):
                await PostgresStore(plain).open()
            async with opened(url):
                await execute(url, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO plain")
            async with opened(plain) as store:
                assert await store.create("k", {}, ttl=60) is True
                await store.hub.publish("t", b"a")
                assert [message.data for message in await store.hub.poll("t", 0)] == [b"a"]
        finally:
            await execute(url, "DROP OWNED BY plain")
            await execute(url, "DROP ROLE plain")


async def test_a_database_with_another_isolation_of_its_own(url: str) -> None:
    async with database(url, "isolated") as url:
        await execute(url, "ALTER DATABASE isolated SET default_transaction_isolation TO 'serializable'")
        async with opened(url) as store:
            await store.create("k", {"n": 0}, ttl=60)

            async def count() -> None:
                while True:
                    record = await store.get("k", ttl=60)
                    if await store.save("k", {"n": record.data["n"] + 1}, expected=record.version, ttl=60):
                        return

            await asyncio.gather(*(count() for _ in range(20)))
            assert await store.get("k") == SessionRecord({"n": 20}, 21)


async def test_what_expired_is_removed_by_itself(url: str) -> None:
    async with opened(url, sweep_every=0.05, keep_for=0.2) as store:
        await asyncio.gather(*(store.create(f"short {number}", {}, ttl=0.1) for number in range(1_200)))
        await store.create("long", {}, ttl=600)
        await store.hub.publish("t", b"old")
        for table, left in (("records", 1), ("messages", 0)):
            query = f"SELECT count(*) FROM mcp_sansio_{table} WHERE namespace = '{store._namespace}'"
            while await execute(url, query) != [(left,)]:
                await asyncio.sleep(0.02)
        assert await store.get("long") == SessionRecord({}, 1)


async def test_a_password_is_in_no_error(servers: Servers) -> None:
    store = PostgresStore("postgresql://mcp:s3cret@127.0.0.1:9/mcp", timeout=1.0)
    with pytest.raises(StoreUnavailable) as refused:
        await store.open()
    assert "s3cret" not in str(refused.value)
    assert "127.0.0.1" in str(refused.value)

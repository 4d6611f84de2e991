"""Engines for stores and hubs, as tests need them: several workers on one engine, whose time passes as it is told."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import support
from engine_servers import EngineServer, running
from mcp_sansio import Hub, MemoryHub, MemorySessionStore, SessionStore
from mcp_sansio.testing import FakeClock

_numbers = itertools.count()


class Worker:
    """What one worker of a deployment has: a store and a hub, on connections of their own."""

    def __init__(self, store: SessionStore, hub: Hub) -> None:
        self.store = store
        self.hub = hub


class Deployment:
    """An engine with a namespace that nobody else uses.

    `worker` opens one more store on it, with the options of that store. `pass_time` has so many seconds pass for
    what expires.
    """

    def __init__(
        self, open_worker: Callable[..., Awaitable[Worker]], pass_time: Callable[[float], Awaitable[None]]
    ) -> None:
        self.worker = open_worker
        self.pass_time = pass_time


class Servers:
    """The programs that the tests of a run share, each started when it is first needed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._running: dict[str, EngineServer] = {}

    def __getitem__(self, engine: str) -> Any:
        if engine not in self._running:
            self._running[engine] = self._stack.enter_context(running(engine))
        return self._running[engine]

    def close(self) -> None:
        """End them."""
        self._stack.close()


def namespace() -> str:
    """One that no other test of this process has."""
    return f"test-{next(_numbers)}"


@asynccontextmanager
async def memory(folder: Path, servers: Servers) -> AsyncIterator[Deployment]:
    """One store for all, since there is one process."""
    clock = FakeClock()
    store = MemorySessionStore(clock=clock)
    hubs: dict[int, MemoryHub] = {}

    async def worker(*, keep: int = 1024) -> Worker:
        return Worker(store, hubs.setdefault(keep, MemoryHub(event=asyncio.Event, keep=keep)))

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    yield Deployment(worker, pass_time)


@asynccontextmanager
async def sqlite(folder: Path, servers: Servers) -> AsyncIterator[Deployment]:
    """A file for each test, and an injected clock."""
    SqliteStore = support.need("mcp_sansio_sqlite").SqliteStore
    clock = FakeClock()

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    async with AsyncExitStack() as stack:

        async def worker(**options: Any) -> Worker:
            store = await stack.enter_async_context(SqliteStore(folder / "mcp.sqlite", clock=clock, **options))
            return Worker(store, store.hub)

        yield Deployment(worker, pass_time)


@asynccontextmanager
async def redis(folder: Path, servers: Servers) -> AsyncIterator[Deployment]:
    """A namespace for each test. Its clock is the server's: records are told to expire earlier."""
    RedisStore = support.need("mcp_sansio_redis").RedisStore
    from redis.asyncio import Redis

    url, name = servers["redis"].url, namespace()
    client = Redis.from_url(url)

    async def pass_time(seconds: float) -> None:
        async for key in client.scan_iter(match=f"{name}:record:*"):
            await client.pexpire(key, await client.pttl(key) - round(seconds * 1000))

    async with client, AsyncExitStack() as stack:

        async def worker(**options: Any) -> Worker:
            store = await stack.enter_async_context(RedisStore(url, namespace=name, **options))
            return Worker(store, store.hub)

        yield Deployment(worker, pass_time)


@asynccontextmanager
async def postgres(folder: Path, servers: Servers) -> AsyncIterator[Deployment]:
    """A namespace for each test. Its clock is the database's: records are told to expire earlier."""
    PostgresStore = support.need("mcp_sansio_postgres").PostgresStore
    from psycopg import AsyncConnection

    url, name = servers["postgres"].url, namespace()

    async def pass_time(seconds: float) -> None:
        async with await AsyncConnection.connect(url) as connection:
            await connection.execute(
                "UPDATE mcp_sansio_records SET expires = expires - make_interval(secs => %s) WHERE namespace = %s",
                [float(seconds), name],
            )

    async with AsyncExitStack() as stack:

        async def worker(**options: Any) -> Worker:
            store = await stack.enter_async_context(PostgresStore(url, namespace=name, **options))
            return Worker(store, store.hub)

        yield Deployment(worker, pass_time)


Open = Callable[[Path, Servers], AbstractAsyncContextManager[Deployment]]
DEPLOYMENTS: dict[str, Open] = {"memory": memory, "sqlite": sqlite, "redis": redis, "postgres": postgres}


def used_in_loops_that_are_closed(module: str, name: str, where: str) -> subprocess.CompletedProcess[str]:
    """A process that uses one store of that class in three event loops, each closed with its tasks as they are.

    It says for each whether a record was created, and how many messages were heard, and last that it closed the store.
    """
    code = (
        "import asyncio, sys\n"
        f"from {module} import {name}\n"
        f"store = {name}(sys.argv[1], namespace=sys.argv[2])\n"
        "async def main(number):\n"
        "    made = await store.create(f'k{number}', {}, ttl=60)\n"
        "    poll = asyncio.ensure_future(store.hub.poll('t', await store.hub.position('t')))\n"
        "    await store.hub.publish('t', b'x')\n"
        "    print(made, len(await asyncio.wait_for(poll, 20)))\n"
        "    asyncio.ensure_future(store.hub.poll('t', await store.hub.position('t')))\n"
        "    await asyncio.sleep(0.05)\n"
        "for number in range(3):\n"
        "    loop = asyncio.new_event_loop()\n"
        "    loop.run_until_complete(main(number))\n"
        "    loop.close()\n"
        "asyncio.run(store.close())\n"
        "print('closed')\n"
    )
    command = [sys.executable, "-c", code, where, namespace()]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)

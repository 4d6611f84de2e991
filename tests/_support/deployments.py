"""Engines for stores and hubs, as tests need them: several workers on one engine, whose time passes as it is told."""

from __future__ import annotations

import asyncio
import importlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import support
from mcp_sansio import Hub, MemoryHub, MemorySessionStore, SessionStore
from mcp_sansio.testing import FakeClock

ENGINES = ("memory", "sqlite")

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

    def __init__(self, open_worker: Callable[..., Awaitable[Worker]], pass_time: Callable[[float], Awaitable[None]]):
        self.worker = open_worker
        self.pass_time = pass_time


@asynccontextmanager
async def _memory(folder: Path) -> AsyncIterator[Deployment]:
    clock = FakeClock()
    store = MemorySessionStore(clock=clock)
    hubs: dict[int, MemoryHub] = {}

    async def worker(*, keep: int = 1024) -> Worker:
        return Worker(store, hubs.setdefault(keep, MemoryHub(event=asyncio.Event, keep=keep)))

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    yield Deployment(worker, pass_time)


@asynccontextmanager
async def _sqlite(folder: Path) -> AsyncIterator[Deployment]:
    clock = FakeClock()
    SqliteStore = support.need("mcp_sansio_sqlite").SqliteStore
    async with AsyncExitStack() as stack:

        async def worker(**options: Any) -> Worker:
            store = await stack.enter_async_context(SqliteStore(folder / "mcp.sqlite", clock=clock, **options))
            return Worker(store, store.hub)

        async def pass_time(seconds: float) -> None:
            clock.advance(seconds)

        yield Deployment(worker, pass_time)


_DEPLOYMENTS = {"memory": _memory, "sqlite": _sqlite}


def deployment(engine: str, folder: Path) -> Any:
    """The context manager of a `Deployment` on that engine, which may keep its files in `folder`."""
    if engine != "memory":
        importlib.import_module(support.need(f"mcp_sansio_{engine}").__name__)
    return _DEPLOYMENTS[engine](folder)

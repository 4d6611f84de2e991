"""A client that is joined to a server in memory, on either event loop, and the loops to run tests on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import support
from mcp_sansio import AdapterSet, ClientApi, ClientConnection, Registry, Runtime
from mcp_sansio.testing import FakeClock, Simulation

Work = Callable[[], Awaitable[None]]


class Asyncio:
    """Runs a test on asyncio."""

    name = "asyncio"
    Event: Any = asyncio.Event

    def run(self, test: Callable[[Any], Awaitable[None]]) -> None:
        asyncio.run(test(self))  # type: ignore[arg-type]

    def spawn(self, work: Work) -> Callable[[], None]:
        task = asyncio.ensure_future(work())
        return lambda: None if task.done() else task.cancel() and None

    async def settle(self) -> None:
        """Let every task go as far as it can."""
        for _ in range(20):
            await asyncio.sleep(0)


class Trio:
    """Runs a test on trio."""

    name = "trio"

    def __init__(self) -> None:
        self.trio = support.need("trio")
        support.need("trio.testing")
        self.Event = self.trio.Event

    def run(self, test: Callable[[Any], Awaitable[None]]) -> None:
        async def main() -> None:
            async with self.trio.open_nursery() as self.nursery:
                await test(self)
                self.nursery.cancel_scope.cancel()

        self.trio.run(main)

    def spawn(self, work: Work) -> Callable[[], None]:
        scope = self.trio.CancelScope()

        async def scoped() -> None:
            with scope:
                await work()

        self.nursery.start_soon(scoped)
        return scope.cancel  # type: ignore[no-any-return]

    async def settle(self) -> None:
        """Let every task go as far as it can."""
        await self.trio.testing.wait_all_tasks_blocked()


LOOPS = {"asyncio": Asyncio, "trio": Trio}


class Joined(ClientApi):
    """A client of `version` (of all of them, where that is ``None``) at the other end of a server of `registry`."""

    def __init__(
        self, loop: Any, registry: Registry, version: str | None = None, *, callbacks: Any = None, **options: Any
    ) -> None:
        self.loop = loop
        self.clock = FakeClock()
        self.simulation = Simulation(registry)
        self.channel = self.simulation.channel()
        self.received = 0
        self.flushing = False
        adapters = AdapterSet.default()
        given = callbacks or {}
        engine = ClientConnection(
            runtime=Runtime(now=self.clock, token_bytes=bytes, event=loop.Event),
            adapters=adapters if version is None else adapters.by_version[version],
            **{"can_answer": "on_ask" in given, "wants_changes": "on_change" in given, **options},
        )
        super().__init__(engine, **given)

    def _spawn(self, work: Work) -> Callable[[], None]:
        return self.loop.spawn(work)  # type: ignore[no-any-return]

    def _flush(self) -> None:
        if self.flushing:
            return
        self.flushing = True
        try:
            while self.exchange():
                self._pump()
        finally:
            self.flushing = False

    def exchange(self) -> bool:
        """Carry over what either side has said; whether there was anything."""
        sent = self._engine.data_to_send()
        for message in sent:
            self.channel.engine.receive_message(message)
            self.simulation.settle()
        self.simulation.settle()
        received = self.channel.sent[self.received :]
        self.received = len(self.channel.sent)
        for message in received:
            self._engine.receive_message(message)
        return bool(sent or received)

    def advance(self, seconds: float) -> None:
        """Time passes for the client."""
        self.clock.advance(seconds)
        self._engine.handle_timeout(self.clock())
        self._pump()

    async def close(self) -> None:
        self._engine.close()
        self._pump()

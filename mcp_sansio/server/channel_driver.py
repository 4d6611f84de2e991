"""Drives the server's end of a channel that carries whole messages, beside the coroutines that read and write it.

How a message is read and sent, and how a coroutine is run beside others, is lent: by asyncio, trio or any other loop.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from mcp_sansio.call import Call
from mcp_sansio.events import CallCancelled, CallReceived, StoreNeeded, Work
from mcp_sansio.runtime import Event
from mcp_sansio.wire.lines import Overlong

from .server import Server

logger = logging.getLogger("mcp_sansio")


class Cancellable(Protocol):
    """Work that was started beside other work: a task of asyncio's, a cancel scope of trio's."""

    def cancel(self) -> Any:
        """Have it end soon."""


class ChannelDriver:
    """Serves the client at the other end of a channel.

    A transport runs three coroutines: its own, which hands what it reads to `receive`; `write`, with what sends one
    message; and `mind`, with what waits for an event so many seconds. When the channel has ended it awaits `close`. It
    has ended, too, when `write` raises: a client that can be told nothing is not read any more.

    `start` runs a coroutine beside others, and gives what cancels it, as ``asyncio.create_task`` does. Nothing else may
    cancel it. A tool without an ``await`` is mostly run by `receive`, in the task that calls that. `principal` and
    `request` are those of `ServerConnection`.
    """

    def __init__(
        self,
        server: Server,
        start: Callable[[Any], Cancellable],
        *,
        principal: str | None = None,
        request: Any = None,
    ) -> None:
        self.engine = server.connection(principal=principal, request=request, wake=self._wake, runs_at_once=True)
        """The engine that is driven."""
        self._runtime = server.runtime
        self._most = server.config.max_unsent
        self._start = start
        self._jobs: dict[object, _Job] = {}
        self._moved: Event = self._runtime.event()
        self._more: Event = self._runtime.event()
        self._room: Event = self._runtime.event()
        self._over: Event = self._runtime.event()

    async def receive(self, message: bytes | Overlong) -> None:
        """A message has come in, or one that was too long to be kept, as `LineDecoder` tells it.

        Returns when the next may be read: not before the client has read what was said to it, where that is much.
        """
        if isinstance(message, Overlong):
            self.engine.receive_overlong(message.size)
        else:
            self.engine.receive_message(message)
        self._act()
        self._stir()
        while self.engine.unsent > self._most:
            self._room = self._runtime.event()
            await self._room.wait()

    async def write(self, send: Callable[[bytes], Awaitable[object]]) -> None:
        """Send what there is to say, one message after the other, for ever.

        Raises what `send` raises. Calls in flight are given up then, and `receive` waits for nothing and does nothing
        any more; to stop reading, and to await `close`, is the transport's.
        """
        try:
            await self._write(send)
        except Exception:
            self._end()
            raise

    async def _write(self, send: Callable[[bytes], Awaitable[object]]) -> None:
        while True:
            self._more = more = self._runtime.event()
            messages = self.engine.data_to_send()
            self._room.set()
            for message in messages:
                await send(message)
            if not messages:
                await more.wait()

    async def mind(self, wait: Callable[[Event, float | None], Awaitable[object]]) -> None:
        """Run calls, and see to what is due in time, for ever.

        ``wait(event, seconds)`` returns once the event is set, or when that time is over, of which ``None`` is no end.
        """
        now = self._runtime.now
        while True:
            self._moved = moved = self._runtime.event()
            self._act()
            self._more.set()
            due = self.engine.next_deadline()
            await wait(moved, None if due is None else max(0.0, due - now()))
            if due is not None and due <= now():
                self.engine.handle_timeout(now())

    async def close(self) -> None:
        """The channel has ended: what is in flight is given up, and has ended when this returns."""
        self._end()
        for job in self._jobs.values():
            job.cancel()
        while self._jobs:
            self._over = self._runtime.event()
            await self._over.wait()

    def _end(self) -> None:
        self.engine.receive_eof()
        self._act()
        self._room.set()

    def _act(self) -> None:
        """Do what the events say."""
        for event in self.engine.events():
            if isinstance(event, CallReceived):
                self._run(event.call, event.run)
            elif isinstance(event, StoreNeeded):
                self._run(event, event.run)
            elif isinstance(event, CallCancelled):
                if event.call in self._jobs:
                    self._jobs[event.call].cancel()
            else:
                logger.debug("%s", event.failure)

    def _run(self, key: Call | StoreNeeded, work: Work) -> None:
        job = self._jobs[key] = _Job(work, lambda: self._ended(key))
        job.handle = self._start(job.run())

    def _ended(self, key: object) -> None:
        del self._jobs[key]
        self._over.set()
        self._stir()

    def _wake(self) -> None:
        """There is something to take. Called by the engine, from any thread."""
        self._runtime.run_in_loop(self._stir)

    def _stir(self) -> None:
        self._moved.set()
        self._more.set()


class _Job:
    """Work of the engine's. One that is given up before its first step does not begin."""

    handle: Cancellable | None = None
    _has_begun = False
    _is_given_up = False

    def __init__(self, work: Work, ended: Callable[[], None]) -> None:
        self._work = work
        self._ended = ended

    async def run(self) -> None:
        self._has_begun = True
        try:
            if not self._is_given_up:
                await self._work()
        finally:
            self._ended()

    def cancel(self) -> None:
        self._is_given_up = True
        if self._has_begun and self.handle is not None:
            self.handle.cancel()

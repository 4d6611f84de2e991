"""What standard input and output need of an event loop, whichever it is, and a loop that waits for descriptors.

asyncio calls back when a descriptor is ready; trio, and what is built like it, has a task wait for that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from mcp_sansio.driving import Task
from mcp_sansio.runtime import Event
from mcp_sansio.stream_driver import Loop, Sink, Source, StreamDriver, TaskSink, TaskSource

from .descriptors import PIECE, can_poll_writes, has_hung_up, write_piece, writer

__all__ = ["Means", "PolledSource", "WaitingLoop", "attach"]

T = TypeVar("T")


class Means(Loop, Protocol):
    """A loop, with what files and processes need besides."""

    def start(self, work: Awaitable[None], /) -> Task:
        """Run the coroutine `work` in a task."""

    def event(self) -> Event:
        """A fresh flag to wait for."""

    def in_a_thread(self, function: Callable[[], T], /) -> Awaitable[T]:
        """Do what blocks for as long as it likes. A cancellation leaves it to its thread."""

    def within(self, seconds: float, wait: Callable[[], Awaitable[object]], /) -> Awaitable[None]:
        """Await ``wait()`` for so many seconds at most."""

    def open_source(self, descriptor: int, receive: Callable[[bytes], None], /) -> Source:
        """Read `descriptor`: `receive` gets what arrives, and ``b""`` at the end, or for an error.

        It stays open when the source is closed, and a read that is under way is left to its thread.
        """

    def open_sink(self, descriptor: int, written: Callable[[], None], broken: Callable[[], None], /) -> Sink:
        """Write `descriptor`, which stays open when the sink is closed. Raises ``OSError`` for what is no open one.

        `written` is called when what had to wait is written, `broken` when nobody can read it, which may be within
        ``write``.
        """


def attach(driver: StreamDriver, loop: Means, source: int, sink: int) -> None:
    """Connect `driver` with its peer at the other ends of two descriptors."""
    driver.sink = loop.open_sink(sink, driver.feed, driver.broken)
    driver.source = loop.open_source(source, driver.receive)


class Polling(Protocol):
    """A loop that calls back for descriptors, as asyncio's does."""

    def add_reader(self, descriptor: int, callback: Callable[[], object], /) -> object:
        """Call back whenever it can be read. Raises ``OSError`` or ``NotImplementedError`` where nobody can tell."""

    def remove_reader(self, descriptor: int, /) -> object:
        """Call back no more."""


class PolledSource:
    """A pipe, a terminal, a socket: a `Source` that is read whenever `loop` says that it can be."""

    def __init__(self, loop: Polling, descriptor: int, receive: Callable[[bytes], object]) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._receive = receive

    def resume(self) -> None:
        """Read from now on. Raises as `Polling.add_reader` does."""
        self._loop.add_reader(self._descriptor, self._read)

    def pause(self) -> None:
        """Read no more, until `resume`."""
        self._loop.remove_reader(self._descriptor)

    close = pause  # the descriptor stays open

    def has_hung_up(self) -> bool:
        """See `descriptors.has_hung_up`."""
        return has_hung_up(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, PIECE)
        except (BlockingIOError, InterruptedError):
            return  # it was for somebody else
        except OSError:
            data = b""  # nothing more will come
        if not data:
            self.pause()
        self._receive(data)


class WaitingLoop(Means, Protocol):
    """The means of a loop that has tasks wait for descriptors."""

    def readable(self, descriptor: int, /) -> Awaitable[object]:
        """Wait until it can be read. Raises ``OSError`` for what cannot be waited for."""

    def writable(self, descriptor: int, /) -> Awaitable[object]:
        """Wait until it can be written."""

    def open_source(self, descriptor: int, receive: Callable[[bytes], None], /) -> Source:
        """See `Means.open_source`."""
        read, hung_up = partial(self._read, descriptor), partial(has_hung_up, descriptor)
        return TaskSource(read, receive, start=self.start, event=self.event, hung_up=hung_up)

    def open_sink(self, descriptor: int, written: Callable[[], None], broken: Callable[[], None], /) -> Sink:
        """See `Means.open_sink`."""
        if sys.platform == "win32" or not can_poll_writes(descriptor):
            return TaskSink(
                lambda data: self.in_a_thread(partial(write_piece, descriptor, data)), written, broken, start=self.start
            )
        now, release = writer(descriptor)

        async def later(data: memoryview) -> int:
            await self.writable(descriptor)
            return now(data)

        return TaskSink(later, written, broken, start=self.start, now=now, release=release)

    async def _read(self, descriptor: int) -> bytes:
        while True:
            try:
                await self.readable(descriptor)
            except OSError:
                return await self.in_a_thread(partial(os.read, descriptor, PIECE))
            try:
                return os.read(descriptor, PIECE)
            except (BlockingIOError, InterruptedError):
                pass  # it was for somebody else

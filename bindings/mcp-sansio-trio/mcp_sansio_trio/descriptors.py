"""Reading and writing file descriptors on trio, without blocking it; see `mcp_sansio_stdio.descriptors` for how.

What cannot be polled has a thread: a regular file, the output to a terminal (which may block all the same), and
everything on Windows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TypeVar

import trio

from mcp_sansio.stream_driver import StreamDriver
from mcp_sansio_stdio.descriptors import PIECE, Writer, can_poll_writes, has_hung_up

from .loop import Loop, Task

T = TypeVar("T")


async def in_a_thread(function: Callable[[], T]) -> T:
    """Do what blocks for as long as it likes. A cancellation leaves it to its thread."""
    return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=trio.CapacityLimiter(inf))


def attach(driver: StreamDriver, loop: Loop, source: int, sink: int) -> None:
    """Connect `driver` with its peer at the other ends of two descriptors. Raises ``OSError`` for what is none."""
    polls = sys.platform != "win32" and can_poll_writes(sink)
    driver.sink = (PolledSink if polls else ThreadedSink)(loop, sink, driver.feed, driver.broken)
    driver.source = Source(loop, source, driver.receive)


class Source:
    """Reads a descriptor: `receive` gets what arrives, and ``b""`` at the end, or for an error."""

    def __init__(self, loop: Loop, descriptor: int, receive: Callable[[bytes], None]) -> None:
        self._descriptor = descriptor
        self._receive = receive
        self._polls = True
        self._may_read = trio.Event()
        self._may_read.set()
        self._task = loop.start(self._read())

    def resume(self) -> None:
        """Read from now on."""
        self._may_read.set()

    def pause(self) -> None:
        """Read no more, until `resume`."""
        self._may_read = trio.Event()

    def has_hung_up(self) -> bool:
        """Whether nobody will write any more, where that can be seen without reading."""
        return self._polls and has_hung_up(self._descriptor)

    def close(self) -> None:
        """Read no more. The descriptor stays open, and a read that is under way is left to its thread."""
        self._task.cancel()

    async def _read(self) -> None:
        data = b"the first of it"
        while data:
            await self._may_read.wait()
            try:
                data = await self._piece()
            except OSError:
                data = b""
            self._receive(data)

    async def _piece(self) -> bytes:
        while self._polls:
            try:
                await trio.lowlevel.wait_readable(self._descriptor)
            except OSError:
                self._polls = False
                break
            try:
                return os.read(self._descriptor, PIECE)
            except (BlockingIOError, InterruptedError):
                pass  # it was for somebody else
        return await in_a_thread(lambda: os.read(self._descriptor, PIECE))


class PolledSink(Writer):
    """A pipe or a socket."""

    def __init__(self, loop: Loop, descriptor: int, written: Callable[[], None], broken: Callable[[], None]) -> None:
        super().__init__(descriptor, broken)
        self._loop = loop
        self._descriptor = descriptor
        self._when_written = written
        self._task: Task | None = None

    def write(self, data: bytes) -> None:
        """Write `data` now as far as it goes, and the rest when it can be."""
        waits = self.pending
        super().write(data)
        if self.pending and not waits:
            self._task = self._loop.start(self._go_on())

    def close(self) -> None:
        """Write no more. The descriptor stays open."""
        if self._task is not None:
            self._task.cancel()
        self.release()

    async def _go_on(self) -> None:
        while self.pending:
            await trio.lowlevel.wait_writable(self._descriptor)
            self.push()
        self._when_written()


class ThreadedSink:
    """Anything else, written by a thread."""

    def __init__(self, loop: Loop, descriptor: int, written: Callable[[], None], broken: Callable[[], None]) -> None:
        self.pending = self.written = 0
        self._rest = bytearray()
        self._descriptor = descriptor
        self._when_written = written
        self._when_broken = broken
        self._woken = trio.Event()
        self._task = loop.start(self._go_on())

    def write(self, data: bytes) -> None:
        """Have `data` written."""
        self._rest += data
        self.pending = len(self._rest)
        self._woken.set()

    def close(self) -> None:
        """Write no more. The descriptor stays open, and a write that is under way is left to its thread."""
        self._task.cancel()

    async def _go_on(self) -> None:
        try:
            while True:
                await self._woken.wait()
                self._woken = trio.Event()
                while self._rest:
                    piece = bytes(self._rest[:PIECE])
                    count = await in_a_thread(partial(os.write, self._descriptor, piece))
                    del self._rest[:count]
                    self.pending, self.written = len(self._rest), self.written + count
                self._when_written()
        except OSError:
            self._rest.clear()
            self.pending = 0
            self._when_broken()

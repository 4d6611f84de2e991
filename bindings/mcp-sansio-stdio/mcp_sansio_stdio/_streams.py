"""Reading and writing file descriptors on asyncio, without blocking the loop; see `descriptors` for how.

What is not polled has a thread: a regular file, the output to a terminal (which may block all the same), and everything
on Windows.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from mcp_sansio.stream_driver import Sink, Source

from ._threads import DaemonThreads
from .descriptors import PIECE, Writer, can_poll_writes, has_hung_up


def open_source(descriptor: int, receive: Callable[[bytes], None]) -> Source:
    """Read `descriptor` on the running loop: `receive` gets what arrives, and ``b""`` at the end.

    An error counts as the end, since nothing more will come.
    """
    source = PolledSource(descriptor, receive)
    try:
        source.resume()
    except (OSError, NotImplementedError):
        return ThreadedSource(descriptor, receive)
    return source


def open_sink(descriptor: int, written: Callable[[], None], broken: Callable[[], None]) -> Sink:
    """Write `descriptor` on the running loop.

    `written` is called when what had to wait is written, `broken` when nobody can read it, which may be within `write`.
    Raises ``OSError`` for what is no open descriptor.
    """
    if can_poll_writes(descriptor):
        try:
            return PolledSink(descriptor, written, broken)
        except NotImplementedError:
            pass  # a loop that polls nothing
    return ThreadedSink(descriptor, written, broken)


class PolledSource:
    """A pipe, a terminal, a socket."""

    def __init__(self, descriptor: int, receive: Callable[[bytes], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptor = descriptor
        self._receive = receive

    def resume(self) -> None:
        """Read from now on. Raises ``OSError`` or ``NotImplementedError`` for what cannot be polled."""
        self._loop.add_reader(self._descriptor, self._read)

    def pause(self) -> None:
        """Read no more, until `resume`."""
        self._loop.remove_reader(self._descriptor)

    def has_hung_up(self) -> bool:
        """See `descriptors.has_hung_up`."""
        return has_hung_up(self._descriptor)

    close = pause  # the descriptor stays open

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, PIECE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.pause()
        self._receive(data)


class ThreadedSource:
    """Anything else, read by a thread, one piece at a time."""

    def __init__(self, descriptor: int, receive: Callable[[bytes], None]) -> None:
        self._receive = receive
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._threads = DaemonThreads(1)
        self._pump = asyncio.ensure_future(self._read(descriptor))

    def resume(self) -> None:
        """Read from now on."""
        self._may_read.set()

    def pause(self) -> None:
        """Read no more, until `resume`. What is being read still arrives."""
        self._may_read.clear()

    def has_hung_up(self) -> bool:
        """See `descriptors.has_hung_up`: nobody can tell, other than by reading."""
        return False

    def close(self) -> None:
        """Read no more. The descriptor stays open, and a read that is under way is left to its thread."""
        self._pump.cancel()
        self._threads.shutdown()

    async def _read(self, descriptor: int) -> None:
        loop, data = asyncio.get_running_loop(), b"the first of it"
        while data:
            await self._may_read.wait()
            try:
                data = await loop.run_in_executor(self._threads, os.read, descriptor, PIECE)
            except OSError:
                data = b""
            loop.call_soon(self._receive, data)  # not here, since what it starts may be a task's first step


class PolledSink(Writer):
    """A pipe or a socket."""

    def __init__(self, descriptor: int, written: Callable[[], None], broken: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._when_written = written
        self._loop = asyncio.get_running_loop()
        self._loop.add_writer(descriptor, written)  # to see whether it can be polled
        self._loop.remove_writer(descriptor)
        super().__init__(descriptor, broken)

    def write(self, data: bytes) -> None:
        """Write `data` now as far as it goes, and the rest when it can be."""
        waits = self.pending
        super().write(data)
        if self.pending and not waits:
            self._loop.add_writer(self._descriptor, self._go_on)

    def close(self) -> None:
        """Write no more. The descriptor stays open."""
        self._loop.remove_writer(self._descriptor)
        self.release()

    def _go_on(self) -> None:
        self.push()
        if not self.pending:
            self._loop.remove_writer(self._descriptor)
            self._when_written()


class ThreadedSink:
    """Anything else, written by a thread."""

    def __init__(self, descriptor: int, written: Callable[[], None], broken: Callable[[], None]) -> None:
        self.pending = self.written = 0
        self._descriptor = descriptor
        self._when_written = written
        self._when_broken = broken
        self._loop = asyncio.get_running_loop()
        self._threads = DaemonThreads(1)
        self._is_closed = False

    def write(self, data: bytes) -> None:
        """Have `data` written."""
        self.pending += len(data)
        self._loop.run_in_executor(self._threads, self._write_all, data).add_done_callback(self._done)

    def close(self) -> None:
        """Write no more. The descriptor stays open, and a write that is under way is left to its thread."""
        self._is_closed = True
        self._threads.shutdown()

    def _write_all(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest and not self._is_closed:  # the number may be somebody else's by then
            count = os.write(self._descriptor, rest[:PIECE])
            self.written += count
            rest = rest[count:]
        return len(data)

    def _done(self, future: asyncio.Future[int]) -> None:
        if future.cancelled() or future.exception() is not None:
            self.pending = 0
            self._when_broken()
            return
        self.pending -= future.result()
        if not self.pending:
            self._when_written()

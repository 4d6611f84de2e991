"""Reading and writing file descriptors without blocking the loop, and without changing them.

``O_NONBLOCK`` belongs to what is open and not to a descriptor: whoever sets it on a terminal sets it for the shell, and
on an output for the error output that shares it. So nothing is set here. A descriptor is read only when it is readable.
A socket can be told for each send not to block. A pipe can be opened a second time on Linux, and anywhere it takes
``PIPE_BUF`` bytes when it polls as writable. What is not polled has a thread: a regular file, the output to a terminal
(which may block all the same), and everything on Windows.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import stat
from collections.abc import Callable

from mcp_sansio.stream_driver import Sink, Source

from ._threads import DaemonThreads

#: One read, or one write of a thread. A pipe holds no more; a larger buffer would be mapped and unmapped for each read.
_PIECE = 64 * 2**10
#: POLLHUP needs no asking for; a socket of which the other half is still open says it by this, where it says it.
_HANGING_UP = getattr(select, "POLLRDHUP", 0)


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
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
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
        """Whether nobody will write any more; the end itself may lie behind what is not read yet."""
        poll = select.poll()
        poll.register(self._descriptor, _HANGING_UP)
        return bool(poll.poll(0))

    def close(self) -> None:
        """Read no more. The descriptor stays open."""
        self.pause()

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _PIECE)
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
        """See `PolledSource.has_hung_up`: nobody can tell, other than by reading."""
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
                data = await loop.run_in_executor(self._threads, os.read, descriptor, _PIECE)
            except OSError:
                data = b""
            loop.call_soon(self._receive, data)  # not here, since what it starts may be a task's first step


class _Sink:
    """What sinks share. `pending` bytes wait, and `written` bytes went out since the start."""

    def __init__(self, descriptor: int, written: Callable[[], None], broken: Callable[[], None]) -> None:
        self.pending = self.written = 0
        self._descriptor = descriptor
        self._when_written = written
        self._when_broken = broken
        self._loop = asyncio.get_running_loop()


class PolledSink(_Sink):
    """A pipe or a socket."""

    def __init__(self, descriptor: int, written: Callable[[], None], broken: Callable[[], None]) -> None:
        super().__init__(descriptor, written, broken)
        self._loop.add_writer(descriptor, written)  # to see whether it can be polled
        self._loop.remove_writer(descriptor)
        self._rest = memoryview(b"")
        self._write_some, self._release = _writer(descriptor)

    def write(self, data: bytes) -> None:
        """Write `data` now as far as it goes, and the rest when it can be."""
        waits = self.pending
        self._rest = memoryview(b"".join((self._rest, data)) if waits else data)
        self._push()
        if self.pending and not waits:
            self._loop.add_writer(self._descriptor, self._go_on)

    def close(self) -> None:
        """Write no more. The descriptor stays open."""
        self._loop.remove_writer(self._descriptor)
        self._release()

    def _go_on(self) -> None:
        self._push()
        if not self.pending:
            self._loop.remove_writer(self._descriptor)
            self._when_written()

    def _push(self) -> None:
        """Write what can be written."""
        rest = self._rest
        try:
            while rest and (count := self._write_some(rest)):
                rest = rest[count:]
                self.written += count
        except OSError:
            rest = rest[:0]
            self._when_broken()
        self._rest = rest
        self.pending = len(rest)


def _writer(descriptor: int) -> tuple[Callable[[memoryview], int], Callable[[], None]]:
    """How to write some bytes without blocking (0 where it would), and how to let go of what that needs."""
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        connection = socket.socket(fileno=os.dup(descriptor))
        return _unblocked(lambda data: connection.send(data, socket.MSG_DONTWAIT)), connection.close
    try:
        # Linux opens the same end of the pipe once more, and O_NONBLOCK is this opening's own.
        own = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return _polled(descriptor), lambda: None
    return _unblocked(lambda data: os.write(own, data)), lambda: os.close(own)


def _unblocked(write: Callable[[memoryview], int]) -> Callable[[memoryview], int]:
    def attempt(data: memoryview) -> int:
        try:
            return write(data)
        except (BlockingIOError, InterruptedError):
            return 0

    return attempt


def _polled(descriptor: int) -> Callable[[memoryview], int]:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return _unblocked(lambda data: os.write(descriptor, data[: select.PIPE_BUF]) if poll.poll(0) else 0)


class ThreadedSink(_Sink):
    """Anything else, written by a thread."""

    def __init__(self, descriptor: int, written: Callable[[], None], broken: Callable[[], None]) -> None:
        super().__init__(descriptor, written, broken)
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
            count = os.write(self._descriptor, rest[:_PIECE])
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

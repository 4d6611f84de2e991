"""File descriptors without blocking, and without changing them: what that needs of the operating system.

``O_NONBLOCK`` belongs to what is open and not to a descriptor: whoever sets it on a terminal sets it for the shell, and
on an output for the error output that shares it. So nothing is set here. A descriptor is read only when it is readable.
A socket can be told for each send not to block. A pipe can be opened a second time on Linux, and anywhere it takes
``PIPE_BUF`` bytes when it polls as writable.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from collections.abc import Callable
from functools import partial
from typing import Protocol

__all__ = ["PIECE", "HasDescriptor", "can_poll_writes", "descriptor_of", "has_hung_up", "write_piece", "writer"]

#: One read, or one write of a thread. A pipe holds no more; a larger buffer would be mapped and unmapped for each read.
PIECE = 64 * 2**10
#: POLLHUP needs no asking for; a socket of which the other half is still open says it by this, where it says it.
_HANGING_UP = getattr(select, "POLLRDHUP", 0)


class HasDescriptor(Protocol):
    """A binary file, a pipe's end, a socket: what the operating system knows by a number."""

    def fileno(self) -> int:
        """The number."""


def descriptor_of(stream: int | HasDescriptor) -> int:
    """The number of `stream`."""
    return stream if isinstance(stream, int) else stream.fileno()


def has_hung_up(descriptor: int) -> bool:
    """Whether nobody will write any more; the end itself may lie behind what is not read yet."""
    poll = select.poll()
    poll.register(descriptor, _HANGING_UP)
    return bool(poll.poll(0))


def can_poll_writes(descriptor: int) -> bool:
    """Whether it is a pipe or a socket: whatever else polls as writable may block all the same. Raises ``OSError``."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def write_piece(descriptor: int, data: memoryview) -> int:
    """Write some of `data`, however long that takes; how many bytes that were. For a thread."""
    return os.write(descriptor, data[:PIECE])


def writer(descriptor: int) -> tuple[Callable[[bytes | memoryview], int], Callable[[], None]]:
    """How to write some bytes without blocking, and how to let go of what that needs: see `now` of `TaskSink`."""
    if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        connection = socket.socket(fileno=os.dup(descriptor))
        return lambda data: connection.send(data, socket.MSG_DONTWAIT), connection.close
    try:
        # Linux opens the same end of the pipe once more, and O_NONBLOCK is this opening's own.
        own = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return _polled(descriptor), lambda: None
    return partial(os.write, own), lambda: os.close(own)


def _polled(descriptor: int) -> Callable[[bytes | memoryview], int]:
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return lambda data: os.write(descriptor, data[: select.PIPE_BUF]) if poll.poll(0) else 0

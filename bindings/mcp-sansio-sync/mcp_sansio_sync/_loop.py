"""What a server has in place of an event loop: the thread that calls it, which waits for descriptors, times and words.

That thread has the engine to itself and takes all steps. It waits in one system call: for what can be read, for the
next thing that is due, and for other threads, who leave what is to be done here and wake it. Where descriptors cannot
be polled (on Windows), threads read and write them.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import Any

from mcp_sansio import Runtime
from mcp_sansio.stepping import Agenda, Event, run_outside, run_sync
from mcp_sansio.stream_driver import Source
from mcp_sansio_stdio.means import PolledSource, WaitingLoop

from ._helpers import Helpers

#: Plain ``def`` handlers that run at once. More wait for their turn.
_THREADS = 64
_READABLE = getattr(select, "POLLIN", 0)


class Loop(Agenda, WaitingLoop):
    """What the thread does that makes it. `run` it there, and `close` it."""

    in_a_thread = staticmethod(run_outside)

    def __init__(self) -> None:
        self._due: deque[Callable[[], Any]] = deque()
        self._thread = get_ident()
        self._helpers = Helpers(self._soon, _THREADS)
        super().__init__(time.monotonic, self._soon, self._helpers.have_done)
        self._ear, self._mouth = socket.socketpair()
        self._mouth.setblocking(False)
        self._woken_before: int | None = None
        with suppress(ValueError):  # signals come to the main thread alone, and one may come just before this waits
            self._woken_before = signal.set_wakeup_fd(self._mouth.fileno(), warn_on_full_buffer=False)
        self._poll = select.poll() if hasattr(select, "poll") else _Select()
        self._readers: dict[int, Callable[[], object]] = {}
        self.add_reader(self._ear.fileno(), partial(self._ear.recv, 2**16))

    def runtime(self) -> Runtime:
        """What a server here lends to the core."""
        return Runtime(
            now=self.time,
            token_bytes=os.urandom,
            event=Event,
            run_sync=run_sync,
            run_in_loop=lambda do: do() if get_ident() == self._thread else self.call_from_anywhere(do),
            wall_clock=time.time,
            pause=self.pause,
        )

    def run(self, work: Awaitable[None]) -> None:
        """Do `work`, and all that is to be done meanwhile. Raises what it raises."""
        task = self.start(work)
        task.add_done_callback(lambda _: None)  # what it raises is raised here, and need not be logged
        ended, due, readers, poll = task.ended, self._due, self._readers, self._poll.poll
        while not ended.is_set:
            left = 0 if due else self.pass_time()
            for descriptor, _ in poll(left and left * 1000):
                readers[descriptor]()
            if due:
                self._do()
        if task.error is not None:
            raise task.error

    def close(self) -> None:
        """Run no more. What a handler left running is abandoned."""
        self._do()  # what was cancelled last lets go of what it has
        self._helpers.stop()
        if self._woken_before is not None:
            signal.set_wakeup_fd(self._woken_before)
        self._ear.close()
        self._mouth.close()

    def call_from_anywhere(self, callback: Callable[[], Any]) -> None:
        """Call back in the loop's thread. A signal handler may do this, and so may any thread, also after the end."""
        self._due.append(callback)
        with suppress(OSError):  # it was woken often enough, or is closed
            self._mouth.send(b"!")

    def _soon(self, callback: Callable[[], Any]) -> None:
        (self._due.append if get_ident() == self._thread else self.call_from_anywhere)(callback)

    def _do(self) -> None:
        """Do what was to be done by now."""
        for _ in range(len(self._due)):
            self._due.popleft()()

    # Descriptors

    def add_reader(self, descriptor: int, callback: Callable[[], object], /, ready_for: int = _READABLE) -> None:
        """Call back whenever it can be read, or is ready for something else."""
        self._poll.register(descriptor, ready_for)
        self._readers[descriptor] = callback

    def remove_reader(self, descriptor: int, /) -> None:
        """Call back no more."""
        if self._readers.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)

    def open_source(self, descriptor: int, receive: Callable[[bytes], None], /) -> Source:
        """See `Means.open_source`."""
        if isinstance(self._poll, _Select):
            return super().open_source(descriptor, receive)
        source = PolledSource(self, descriptor, receive)
        source.resume()
        return source

    async def readable(self, descriptor: int, /) -> None:
        """See `WaitingLoop.readable`. What can be waited for is polled."""
        raise OSError("descriptors cannot be polled here")

    async def writable(self, descriptor: int, /) -> None:
        """See `WaitingLoop.writable`."""
        ready, own = Event(), os.dup(descriptor)  # of its own, since a socket may be both source and sink
        try:
            self.add_reader(own, ready.set, select.POLLOUT)
            await ready.wait()
        finally:
            self.remove_reader(own)
            os.close(own)


class _Select(set[int]):
    """``select.poll`` where there is none: on Windows, and for sockets alone."""

    unregister = set.discard

    def register(self, descriptor: int, _: int) -> None:
        self.add(descriptor)

    def poll(self, milliseconds: float | None) -> list[tuple[int, int]]:
        return [(each, 0) for each in select.select(self, [], [], milliseconds and milliseconds / 1000)[0]]

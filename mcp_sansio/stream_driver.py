"""Drives an engine at the end of a stream of bytes: what arrives goes in, and what it says goes out.

How bytes are read and written is lent, and so is the loop: `StreamDriver` is for loops that call back. Newlines are the
framing, as for standard input and output (basic/transports, "stdio").
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import inf
from typing import Any, Protocol

from .driving import Alarm, Handle, Task
from .runtime import Event
from .wire.lines import DuplexEngine, LineChannel

__all__ = ["PATIENCE", "Loop", "Sink", "Source", "StreamDriver", "TaskSink", "TaskSource"]

#: Messages taken between two turns of the loop, so that the calls of one slice run before those of the next arrive.
_SLICE = 64
#: Seconds that a peer may read nothing before it counts as gone.
PATIENCE = 0.5
#: Seconds between two looks at whether a peer has hung up, while nothing is read from it.
_LOOK = 0.25


class Loop(Protocol):
    """What a driver needs of its event loop. asyncio's has all of it."""

    def time(self) -> float:
        """Seconds, as the engine's runtime has them."""

    def call_soon(self, callback: Callable[[], Any], /) -> Any:
        """Call back after what is going on now."""

    def call_at(self, when: float, callback: Callable[[], Any], /) -> Handle:
        """Call back at that time."""


class Source(Protocol):
    """Where bytes come from. What is read is for `StreamDriver.receive`."""

    def pause(self) -> None:
        """Read no more, until `resume`."""

    def resume(self) -> None:
        """Read from now on."""

    def has_hung_up(self) -> bool:
        """Whether nobody will write any more, where that can be seen without reading."""

    def close(self) -> None:
        """Read no more."""


class Sink(Protocol):
    """Where bytes go. `StreamDriver.feed` is to be called once everything is written that had to wait."""

    pending: int
    """How many bytes wait to be written."""
    written: int
    """How many were written since the start."""

    def write(self, data: bytes) -> None:
        """Write `data` now as far as it goes, and the rest when it can be."""

    def close(self) -> None:
        """Write no more."""


class StreamDriver:
    """Drives `engine` on `loop`, between `source` and `sink`, which a transport sets before anything comes in.

    `max_message` is the engine's limit on a message, in bytes. While more than that waits for the engine, nothing is
    read, so that memory is bounded whatever the peer does. `take_events` is called when the engine may have events, and
    acts on them. `event` makes something to wait for, as `Runtime.event` does.

    """

    #: Whether nothing goes to the engine while the peer does not read what it got. A server's replies would pile up.
    #: What a client gets makes next to nothing to send, and the two could wait for each other: it sets this to false.
    holds_back = True
    source: Source
    sink: Sink

    def __init__(
        self,
        engine: DuplexEngine,
        max_message: int,
        loop: Loop,
        *,
        take_events: Callable[[], None],
        event: Callable[[], Event],
    ) -> None:
        self.at_end = event()
        """Set once nothing more comes in, or nobody reads what goes out."""
        self.silent = event()
        """Set once nothing more comes in."""
        self.is_over = False
        """Nothing more goes to the engine, and nothing is taken from it."""
        self._engine = engine
        self._loop = loop
        self._take_events = take_events
        self._event = event
        self._lines = LineChannel(engine, max_message)
        self._alarm = Alarm(loop.call_at, self._pass_time)
        self._looking: Handle | None = None
        self._flush_is_due = False
        self._feed_is_due = False
        self._idle: Event | None = None
        self._stuck: tuple[int, int] | None = None

    # The end

    def ended(self) -> None:
        """Nothing more comes in than what has come."""
        self.at_end.set()
        self.silent.set()

    def broken(self) -> None:
        """Nobody reads what is written. For the transport to tell."""
        self.at_end.set()

    def stop(self) -> None:
        """Read no more, and forget what the engine has not had."""
        self.source.close()
        self._lines.drop()
        self._stop_looking()
        self.ended()

    async def taken_in(self, within: float = inf) -> None:
        """Wait until the engine has had everything that came in up to the end, for as long as the peer reads.

        `within` is how many seconds that may take whatever the peer does.
        """
        await self._while_it_moves(
            lambda: self._lines.held or not self._lines.at_eof, lambda: (self._lines.fed, self.sink.written), within
        )

    async def sent(self, within: float = inf) -> None:
        """Wait until everything is written, for as long as the peer reads. For `within` see `taken_in`."""
        fed = self._lines.fed  # what comes in meanwhile, maybe without end, is no sign that it reads
        await self._while_it_moves(lambda: self.sink.pending, lambda: (fed, self.sink.written), within)

    async def _while_it_moves(
        self, left: Callable[[], int], place: Callable[[], tuple[int, int]], within: float
    ) -> None:
        until = self._loop.time() + within
        while left() and self._loop.time() < until:
            if place() == self._stuck:
                return
            self._stuck = place()
            self._idle = idle = self._event()
            # Whether anything moved meanwhile is what counts, and not which of the two it is.
            timer = self._loop.call_at(min(self._loop.time() + PATIENCE, until), idle.set)
            try:
                await idle.wait()
            finally:
                timer.cancel()

    def finish(self, last: Callable[[], None]) -> None:
        """Take what the engine has to say, tell it the `last` fact, and do what that has brought about."""
        self._take_events()
        if not self.is_over:
            self._send()
        last()
        self._take_events()
        self.is_over = True
        self._alarm.stop()

    # In

    def receive(self, data: bytes) -> None:
        """Bytes have come in, or their end, which is ``b""``."""
        if not (self._feed_is_due or self.is_over or self.sink.pending):
            message = self._lines.alone(data)
            if message is not None:
                self._flush_is_due = True  # it comes at the end of this
                self._take_in(message)
                return
        self._lines.receive_data(data)
        if not data:
            self.ended()
        if not self._feed_is_due:  # otherwise it is for the next slice, which waits for the calls of the last
            self.feed()
        if not self._lines.wants_data and self._looking is None:
            self.source.pause()
            self._look_later()

    def _take_in(self, message: bytes) -> None:
        """Give the engine a message that came alone."""
        self._engine.receive_message(message)
        self.flush()

    def feed(self) -> None:
        """Give the engine the next slice of messages."""
        self._feed_is_due = False
        if not (self.is_over or (self.holds_back and self.sink.pending)):
            self._flush_is_due = True  # it comes at the end of this function
            if self._lines.feed(_SLICE):
                self._feed_is_due = True
                self._loop.call_soon(self.feed)
            elif self._looking is not None:
                self._stop_looking()
                self.source.resume()
        self.flush()

    def _look_later(self) -> None:
        self._looking = self._loop.call_at(self._loop.time() + _LOOK, self._look)

    def _look(self) -> None:
        """A peer that reads nothing may still hang up, behind more than is read from it."""
        if self.source.has_hung_up():
            self.ended()
        else:
            self._look_later()

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._looking = None

    # Out

    def wake(self) -> None:
        """The engine has something to take. Work that runs in a thread comes here from there."""
        if not (self._flush_is_due or self.is_over):
            self._flush_is_due = True
            self.soon(self.flush)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back on the loop's thread. A transport whose engine works in other threads too comes here from those."""
        self._loop.call_soon(callback)

    def flush(self) -> None:
        """Take everything from the engine, except messages that the peer does not read yet."""
        self._flush_is_due = True
        if not self.is_over:
            self._take_events()
        self._flush_is_due = False
        if not self.is_over:
            if not self.sink.pending:
                self._send()
            self._alarm.set(self._engine.next_deadline())
        if self._idle is not None and not (self._lines.held or self.sink.pending):
            self._idle.set()

    def _send(self) -> None:
        """One write, however many messages."""
        data = self._lines.data_to_send()
        if data:
            self.sink.write(data)

    def _pass_time(self) -> None:
        self._engine.handle_timeout(self._loop.time())
        self.flush()


class TaskSource:
    """A `Source` that a task reads: ``await read()`` gives the next bytes, none at the end, or raises ``OSError``.

    `start` runs a coroutine in a task, and `event` makes something to wait for. `hung_up` is ``has_hung_up``, and
    `release` lets go of what `read` needs.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[bytes]],
        receive: Callable[[bytes], object],
        *,
        start: Callable[[Awaitable[None]], Task],
        event: Callable[[], Event],
        hung_up: Callable[[], bool] = lambda: False,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self.has_hung_up = hung_up
        self._next, self._release = read, release
        self._receive = receive
        self._event = event
        self._paused: Event | None = None
        self._task = start(self._read())

    def resume(self) -> None:
        """See `Source.resume`."""
        if self._paused is not None:
            self._paused.set()
        self._paused = None

    def pause(self) -> None:
        """See `Source.pause`. What is being read still arrives."""
        self._paused = self._paused or self._event()

    def close(self) -> None:
        """See `Source.close`."""
        self._task.cancel()
        self._release()

    async def _read(self) -> None:
        data = b"the first of it"
        while data:
            if self._paused is not None:
                await self._paused.wait()
            try:
                data = await self._next()
            except OSError:
                data = b""  # nothing more will come
            self._receive(data)


class TaskSink:
    """A `Sink` of which a task writes what cannot be written at once.

    ``now(data)`` writes as much as goes without waiting and gives how many bytes that were, and ``await later(data)``
    waits for more to go first. Both may raise ``OSError``, of which ``BlockingIOError`` says that nothing went.
    `written` is called when what had to wait is written, and `broken` when nobody can read it, which may be within
    `write`; `release` lets go of what `now` needs.
    """

    def __init__(
        self,
        later: Callable[[memoryview], Awaitable[int]],
        written: Callable[[], object],
        broken: Callable[[], object],
        *,
        start: Callable[[Awaitable[None]], Task],
        now: Callable[[bytes | memoryview], int] = lambda data: 0,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self.pending = self.written = 0
        self._rest = memoryview(b"")
        self._now, self._later, self._release = now, later, release
        self._when_written, self._when_broken = written, broken
        self._start = start
        self._task: Task | None = None

    def write(self, data: bytes) -> None:
        """See `Sink.write`."""
        if self.pending:
            self._wait_with(b"".join((self._rest, data)))
            return
        try:
            count = self._now(data)
        except BlockingIOError:
            count = 0
        except OSError:
            self._break()
            return
        self.written += count
        if count < len(data):
            self._wait_with(memoryview(data)[count:])
            self._task = self._start(self._go_on())

    def close(self) -> None:
        """See `Sink.close`."""
        if self._task is not None:
            self._task.cancel()
        self._release()

    async def _go_on(self) -> None:
        try:
            while self.pending:
                # Never at once: who is told of the end takes more in, and what was taken in before has to have begun.
                with suppress(BlockingIOError):
                    count = await self._later(self._rest)
                    self.written += count
                    self._wait_with(self._rest[count:])
        except OSError:
            self._break()
        else:
            self._when_written()

    def _wait_with(self, rest: bytes | memoryview) -> None:
        self._rest, self.pending = memoryview(rest), len(rest)

    def _break(self) -> None:
        self._wait_with(b"")
        self._when_broken()

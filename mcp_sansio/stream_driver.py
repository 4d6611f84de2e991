"""Drives an engine at the end of a stream of bytes: what arrives goes in, and what it says goes out.

How bytes are read and written is lent, and so is the loop: `StreamDriver` is for loops that call back. Newlines are the
framing, as for standard input and output (basic/transports, "stdio").
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .driving import Alarm, Handle
from .wire.lines import DuplexEngine, LineChannel

__all__ = ["Loop", "Sink", "Source", "StreamDriver"]

#: Messages taken between two turns of the loop, so that the calls of one slice run before those of the next arrive.
_SLICE = 64
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
    """Drives `engine` on `loop`. A transport subclasses it, and supplies what is under "What a transport supplies".

    `max_message` is the engine's limit on a message, in bytes. While more than that waits for the engine, nothing is
    read, so that memory is bounded whatever the peer does.
    """

    #: Whether nothing goes to the engine while the peer does not read what it got. A server's replies would pile up.
    #: What a client gets makes nothing that would be sent, and the two could wait for each other.
    holds_back = True

    def __init__(self, engine: DuplexEngine, max_message: int, loop: Loop) -> None:
        self.is_over = False
        """Nothing more goes to the engine, and nothing is taken from it."""
        self.lines = LineChannel(engine, max_message)
        self._engine = engine
        self._loop = loop
        self._alarm = Alarm(loop.call_at, self._pass_time)
        self._looking: Handle | None = None
        self._flush_is_due = False

    # What a transport supplies

    source: Source
    sink: Sink

    def handle(self, event: Any) -> None:
        """Do what `event` of the engine says."""
        raise NotImplementedError

    def ended(self) -> None:
        """The peer has hung up: nothing more comes in than what has come."""
        raise NotImplementedError

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back on the loop's thread. Only an engine whose work runs in other threads comes here from those."""
        self._loop.call_soon(callback)

    def idle(self) -> None:
        """Nothing waits, neither for the engine nor to be written."""

    # In

    def receive(self, data: bytes) -> None:
        """Bytes have come in, or their end, which is ``b""``."""
        self.lines.receive_data(data)
        if not data:
            self.ended()
        self.feed()
        if not self.lines.wants_data and self._looking is None:
            self.source.pause()
            self._look_later()

    def feed(self) -> None:
        """Give the engine the next slice of messages."""
        if not (self.is_over or (self.holds_back and self.sink.pending)):
            self._flush_is_due = True  # it comes at the end of this function
            if self.lines.feed(_SLICE):
                self._loop.call_soon(self.feed)
            elif self._looking is not None:
                self._stop_looking()
                self.source.resume()
        self.flush()

    def drop_input(self) -> None:
        """Forget what the engine has not had; the transport reads no more."""
        self.lines.drop()
        self._stop_looking()

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
        if not (self.lines.held or self.sink.pending):
            self.idle()

    def finish(self, last: Callable[[], None]) -> None:
        """Take what the engine has to say, tell it the `last` fact, and do what that has brought about."""
        self._take_events()
        self._send()
        last()
        self._take_events()
        self.is_over = True
        self._alarm.stop()

    def _take_events(self) -> None:
        for event in self._engine.events():
            self.handle(event)

    def _send(self) -> None:
        """One write, however many messages."""
        data = self.lines.data_to_send()
        if data and not self.is_over:
            self.sink.write(data)

    def _pass_time(self) -> None:
        self._engine.handle_timeout(self._loop.time())
        self.flush()

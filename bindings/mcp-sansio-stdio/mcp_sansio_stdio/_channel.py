"""One engine between two streams of bytes: what arrives goes in, what it asks for is done, what it says goes out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from mcp_sansio.driving import Alarm
from mcp_sansio.wire.lines import DuplexEngine, LineChannel

from ._streams import open_sink, open_source

#: Messages taken between two turns of the loop, so that the calls of one slice run before those of the next arrive.
_SLICE = 64
#: Seconds that calls have to finish once the end has come, and that a peer may read nothing before it counts as gone.
GRACE = 0.5
#: Seconds between two looks at whether a peer has hung up, while nothing is read from it.
_LOOK = 0.25


class Engine(DuplexEngine, Protocol):
    """The end of a channel, of either role."""

    def events(self) -> Iterable[Any]:
        """What has happened, taken out."""

    def next_deadline(self) -> float | None:
        """When `handle_timeout` is due."""

    def handle_timeout(self, now: float) -> None:
        """That time has come."""


class Channel:
    """Connects `engine` with its peer at the other end of `source` and `sink`, which are file descriptors.

    `handle` is called with each event. `max_message` is the engine's limit on a message, in bytes.
    """

    #: Whether nothing goes to the engine while the peer does not read what it got: what it asks for then makes no more.
    #: What a client gets makes nothing, and two that wait for each other would do so for ever.
    holds_back = True

    def __init__(
        self, engine: Engine, handle: Callable[[Any], object], max_message: int, source: int, sink: int
    ) -> None:
        self.ended = asyncio.Event()  # nothing more comes in, or nobody reads what goes out
        self.at_eof = asyncio.Event()  # nothing more comes in
        self.is_over = False  # nothing more goes to the engine, and nothing is taken from it
        self._engine = engine
        self._handle = handle
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._lines = LineChannel(engine, max_message)
        self._alarm = Alarm(self._loop.call_at, self._pass_time)
        self._looking: asyncio.TimerHandle | None = None
        self._stuck: tuple[int, int] | None = None
        self._flush_is_due = False
        self._idle = asyncio.Event()
        self._sink = open_sink(sink, self.feed, self.broken)
        self._source = open_source(source, self._receive)

    async def taken_in(self) -> None:
        """Wait until the engine has had everything that came in up to the end, for as long as the peer reads."""
        await self._while_it_moves(lambda: self._lines.held or not self.at_eof.is_set())

    async def sent(self) -> None:
        """Wait until everything is written, for as long as the peer reads."""
        await self._while_it_moves(lambda: self._sink.pending)

    async def _while_it_moves(self, left: Callable[[], int]) -> None:
        while left():
            now = (self._lines.fed, self._sink.written)
            if now == self._stuck:
                return
            self._stuck = now
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), GRACE)
            except TimeoutError:
                pass  # whether anything moved meanwhile is what counts

    def stop(self) -> None:
        """Read no more, and forget what the engine has not had."""
        self._source.close()
        self._lines.drop()
        self._stop_looking()
        self.at_eof.set()
        self.ended.set()

    def broken(self) -> None:
        """Nobody reads the output."""
        self.ended.set()

    def finish(self, last: Callable[[], None]) -> None:
        """Take what the engine has to say, tell it the `last` fact, and do what that has brought about."""
        self._take_events()
        self._send()
        last()
        self._take_events()
        self.is_over = True
        self._alarm.stop()

    def close_output(self) -> None:
        """Write no more. The descriptor stays open."""
        self._sink.close()

    # In

    def _receive(self, data: bytes) -> None:
        self._lines.receive_data(data)
        if not data:
            self.at_eof.set()
            self.ended.set()
        self.feed()
        if not self._lines.wants_data and self._looking is None:
            self._source.pause()
            self._looking = self._loop.call_later(_LOOK, self._look)

    def feed(self) -> None:
        """Give the engine the next slice of messages."""
        if not (self.is_over or (self.holds_back and self._sink.pending)):
            self._flush_is_due = True  # it comes at the end of this function
            if self._lines.feed(_SLICE):
                self._loop.call_soon(self.feed)
            elif self._looking is not None:
                self._stop_looking()
                self._source.resume()
        self.flush()

    def _look(self) -> None:
        """A peer that reads nothing may still hang up, behind more than is read from it."""
        if self._source.has_hung_up():
            self.ended.set()
        else:
            self._looking = self._loop.call_later(_LOOK, self._look)

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        self._looking = None

    # Out

    def wake(self) -> None:
        """The engine has something to take. Handlers that run in a thread come here from there."""
        if self._flush_is_due or self.is_over:
            return
        self._flush_is_due = True
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self.flush)
            return
        try:
            self._loop.call_soon_threadsafe(self.flush)
        except RuntimeError:
            pass  # the loop was closed in this very moment

    def flush(self) -> None:
        """Take everything from the engine, except messages that the peer does not read yet."""
        self._flush_is_due = True
        if not self.is_over:
            self._take_events()
        self._flush_is_due = False
        if not self.is_over:
            if not self._sink.pending:
                self._send()
            self._alarm.set(self._engine.next_deadline())
        if not (self._lines.held or self._sink.pending):
            self._idle.set()

    def _take_events(self) -> None:
        for event in self._engine.events():
            self._handle(event)

    def _send(self) -> None:
        """One write, however many messages."""
        data = self._lines.data_to_send()
        if data and not self.is_over:
            self._sink.write(data)

    def _pass_time(self) -> None:
        self._engine.handle_timeout(self._loop.time())
        self.flush()

"""One engine between two streams of bytes: what arrives goes in, what it asks for is done, what it says goes out."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from itertools import islice
from math import inf

from mcp_sansio import Call, CallCancelled, CallReceived, Event, PeerFaulted, Server
from mcp_sansio.wire.lines import LineDecoder, Overlong, encode_line

from ._eager import start
from ._streams import open_sink, open_source

logger = logging.getLogger("mcp_sansio_stdio")

#: Messages taken between two turns of the loop, so that the calls of one slice run before those of the next arrive.
_SLICE = 64
#: Seconds that calls have to finish once the end has come, and that a client may read nothing before it counts as gone.
GRACE = 0.5
#: Seconds between two looks at whether a client has hung up, while nothing is read from it.
_LOOK = 0.25
#: Seconds that a cancelled task has to clean up.
UNWINDING = 0.25


class Channel:
    """Serves `server` to the client at the other end of `source` and `sink`, which are file descriptors."""

    def __init__(self, server: Server, source: int, sink: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._max_message = server.config.max_message
        self._connection = server.connection(wake=self._wake)
        self._lines = LineDecoder(self._max_message)
        self._tasks: dict[Call, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = inf
        self._looking: asyncio.TimerHandle | None = None
        self._backlog = 0  # bytes that came in and hold messages which the engine has not seen
        self._fed = 0  # messages that the engine has seen
        self._stuck: tuple[int, int] | None = None
        self._is_paused = False
        self._has_ended = False  # nothing more comes in: the end was read, or is not read for
        self._is_over = False
        self._flush_is_due = False
        self._ended = asyncio.Event()
        self._idle = asyncio.Event()
        self._sink = open_sink(sink, self._feed, self._break)
        self._source = open_source(source, self._receive)

    async def serve(self) -> None:
        """Serve until the input ends, nobody reads the output, or `stop`.

        Calls in flight then have a moment to finish; cancelling this coroutine leaves that out.
        """
        try:
            await self._ended.wait()
            await self._while_it_moves(lambda: self._backlog or not self._has_ended)
            if not self._is_over:
                await self._wait_for_tasks(GRACE)
        finally:
            self._give_up()
            try:
                await self._wait_for_tasks(UNWINDING)
                await self._while_it_moves(lambda: self._sink.pending)
            finally:
                self._sink.close()

    def stop(self) -> None:
        """Read no more, and end as at the end of the input."""
        self._drop_input()
        self._ended.set()

    def _drop_input(self) -> None:
        self._source.close()
        self._has_ended = True
        self._lines = LineDecoder(self._max_message)
        self._backlog = 0
        self._stop_looking()

    async def _wait_for_tasks(self, seconds: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks.values(), timeout=seconds)

    async def _while_it_moves(self, left: Callable[[], int]) -> None:
        """Wait until nothing is left, for as long as the client reads what it gets."""
        while left():
            now = (self._fed, self._sink.written)
            if now == self._stuck:
                return
            self._stuck = now
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), GRACE)
            except TimeoutError:
                pass  # whether anything moved meanwhile is what counts

    def _give_up(self) -> None:
        """Take what the engine has to say, and cancel what it has not finished."""
        self._drop_input()
        self._handle_events()
        self._send()
        self._connection.receive_eof()
        self._handle_events()
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    # In

    def _receive(self, data: bytes) -> None:
        if data:
            self._lines.receive_data(data)
        else:
            self._lines.receive_eof()
            self._has_ended = True
            self._ended.set()
        self._backlog += len(data) or 1  # the end may complete a line as well
        self._feed()
        if self._backlog > self._max_message and not self._is_paused:
            self._is_paused = True
            self._source.pause()
            self._looking = self._loop.call_later(_LOOK, self._look)

    def _feed(self) -> None:
        """Give the engine the next slice of messages, unless the client does not read what it got."""
        if self._sink.pending or self._is_over:
            self._flush()
            return
        self._flush_is_due = True  # it comes at the end of this function
        count = 0
        for line in islice(self._lines.lines(), _SLICE):
            count += 1
            if isinstance(line, Overlong):
                self._connection.receive_overlong(line.size)
            else:
                self._connection.receive_message(line)
        self._fed += count
        if count == _SLICE:
            self._loop.call_soon(self._feed)
        else:
            self._backlog = 0
            self._resume()
        self._flush()

    def _look(self) -> None:
        """A client that reads nothing may still hang up, behind more than is read from it."""
        if self._source.has_hung_up():
            self._ended.set()
        else:
            self._looking = self._loop.call_later(_LOOK, self._look)

    def _resume(self) -> None:
        if self._is_paused:
            self._stop_looking()
            self._source.resume()

    def _stop_looking(self) -> None:
        self._is_paused = False
        if self._looking is not None:
            self._looking.cancel()

    def _break(self) -> None:
        """Nobody reads the output: there is no one to serve."""
        self._is_over = True
        self.stop()

    # Out

    def _wake(self) -> None:
        """The engine has something to take. Handlers that run in a thread come here from there."""
        if self._flush_is_due or self._is_over:
            return
        self._flush_is_due = True
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._flush)
            return
        try:
            self._loop.call_soon_threadsafe(self._flush)
        except RuntimeError:
            pass  # the loop was closed in this very moment

    def _flush(self) -> None:
        """Take everything from the engine, unless the client does not read what it got."""
        self._flush_is_due = True
        if not self._is_over:
            self._handle_events()
        self._flush_is_due = False
        if not self._is_over:
            if not self._sink.pending:
                self._send()
            self._arm()
        if not (self._backlog or self._sink.pending):
            self._idle.set()

    def _send(self) -> None:
        """One write, however many messages."""
        messages = self._connection.data_to_send()
        if messages and not self._is_over:
            self._sink.write(b"".join(map(encode_line, messages)))

    def _handle_events(self) -> None:
        for event in self._connection.events():
            self._handle(event)

    def _handle(self, event: Event) -> None:
        if isinstance(event, CallReceived):
            task = start(self._loop, event.run())
            if not task.done():
                self._tasks[event.call] = task
                task.add_done_callback(lambda _: self._tasks.pop(event.call))
        elif isinstance(event, CallCancelled):
            running = self._tasks.get(event.call)
            if running is not None:
                running.cancel()
        elif isinstance(event, PeerFaulted):
            logger.debug("the client is at fault: %s", event.failure.message)

    # Time

    def _arm(self) -> None:
        """Have one timer, which is never late: one that turns out to be early looks again."""
        deadline = self._connection.next_deadline()
        if deadline is None or deadline >= self._armed_for:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = deadline
        self._timer = self._loop.call_at(deadline, self._pass_time)

    def _pass_time(self) -> None:
        self._timer, self._armed_for = None, inf
        self._connection.handle_timeout(self._loop.time())
        self._flush()

"""Responses that are there at once: for a request like one before, whose call waits for nothing, no engine is made.

Most calls are such. What is given here is what a `StreamableTransaction` would give: all that is decided of such a
request was decided by one, and is remembered (`heads`, `familiar`). As soon as anything else is wanted (a call waits,
asks or reports), a transaction takes over, from where the request is by then. Without this, a call costs twice as much
over HTTP; see docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcp_sansio.call import Call
from mcp_sansio.events import Whole
from mcp_sansio.outcome import Failure

from .calls import RunningCall, encoded
from .sessions import HttpSession, InSession, session_key

if TYPE_CHECKING:
    from mcp_sansio.storage import SessionRecord

    from .heads import RequestHead
    from .server import Server
    from .streamable import StreamableTransaction

#: Starts a call: its coroutine may have run to its first wait, or to its end, when this returns.
Start = Callable[[Call, Awaitable[None]], object]


class Asked(Struct, InSession, eq=False):
    """A request like one before, and the `Outlet` of the `call` in it until that wants more than to reply.

    All but `server`, `head` and `call` are as in `HttpTransaction`.
    """

    server: Server
    head: RequestHead
    call: Call
    principal: str | None
    loopback: bool
    request: Any
    wake_driver: Callable[[], None]
    held: HttpSession | None = None
    _running: RunningCall | None = None
    _engine: StreamableTransaction | None = None
    _message: bytes | None = None
    _failure: Failure | None = None

    def respond(self, start: Start) -> Whole | StreamableTransaction | None:
        """The response, or what has taken over; ``None`` where nothing was done yet, and a transaction has to."""
        call, session_id, record = self.call, self.head.session_id, None
        if session_id is not None and call.adapter.has_handshake:
            record = self._find(session_id)
            if record is None:
                return None
        tool = call.tool
        if tool is not None and (tool.streaming or tool.poll_after is not None):
            return None
        outcome = self.server.dispatcher.at_once(call)
        if outcome is None or isinstance(outcome, BaseException):
            if record is not None:
                self._join(session_id, record)
            return self._run(start, outcome)
        return self._whole(*encoded(call, self.server.registry, outcome))

    def _find(self, session_id: str) -> SessionRecord | None:
        """The record of that session, if it is there and has room for another call."""
        server = self.server
        if not server.asks_store_at_once:
            return None
        try:
            record = server.look_up(session_key(session_id, self.principal), server.config.session_ttl)
        except Exception:
            return None  # a transaction asks again, and tells of it
        if record is not None:
            live = server.session_used(session_id)
            if live is not None and len(live.calls) >= server.config.max_calls:
                return None
        return record

    def _join(self, session_id: str, record: SessionRecord) -> None:
        """Have the call in that session, of which a handler may want to know."""
        server = self.server
        opened = server.opened.of(session_key(session_id, self.principal), record)
        self.call.client, self.call.log_level = opened.client, opened.log_level
        self.held = HttpSession(session_id, opened, server, record)

    def _run(self, start: Start, raised: BaseException | None) -> Whole | StreamableTransaction:
        server, call = self.server, self.call
        running = self._running = RunningCall(server, call, self, server.runtime.now() + server.config.call_timeout)
        running.raised = raised
        start(call, running.run())
        if self._engine is not None or self._message is None:
            return self._taken_over()
        self._running = None  # which points here
        return self._whole(self._message, self._failure)

    def _whole(self, message: bytes, failure: Failure | None) -> Whole:
        status = 200 if failure is None else self.call.adapter.http_status(failure)
        return Whole(status, self.head.headers_of_json(message), message)

    def _taken_over(self) -> StreamableTransaction:
        """The transaction that goes on with the call instead of this."""
        if self._engine is None:
            assert self._running is not None
            self._engine = self.server.http_transaction(
                principal=self.principal, loopback=self.loopback, request=self.request, wake=self.wake_driver
            )
            self._engine.take_over(self.head, self._running, self.held)
            self._running = None
        return self._engine

    # The call's side: see `Outlet`

    @property
    def can_stream(self) -> bool:
        """See `Outlet.can_stream`."""
        return self.head.accepts_stream

    def wake(self) -> None:
        """See `Outlet.wake`: nobody waits yet."""

    def send(self, message: bytes) -> None:
        """See `Outlet.send`."""
        self._taken_over().send(message)

    def reply(self, running: RunningCall, message: bytes, failure: Failure | None) -> None:
        """See `Outlet.reply`."""
        self._message, self._failure = message, failure

    def gone(self, running: RunningCall) -> None:
        """See `Outlet.gone`."""
        self._taken_over().gone(running)

    async def drained(self) -> None:
        """See `Outlet.drained`."""
        await self._taken_over().drained()

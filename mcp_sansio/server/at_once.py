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
from mcp_sansio.dispatcher import RUN, Peer
from mcp_sansio.events import Whole
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import Failure
from mcp_sansio.runtime import given_now
from mcp_sansio.storage import Session

from . import gate
from .calls import RunningCall
from .heads import RequestHead
from .sessions import NO_PEER, HttpSession, session_key

if TYPE_CHECKING:
    from .server import Server
    from .streamable import StreamableTransaction

_CALL_TOOL = Operation.CALL_TOOL
#: Starts a call: its coroutine may have run to its first wait, or to its end, when this returns.
Start = Callable[[Call, Awaitable[None]], object]


def response_at_once(asked: Asked, call: Call, start: Start) -> Whole | StreamableTransaction | None:
    """The response to `call`, or what has taken over; ``None`` where nothing was done yet, and a transaction has to."""
    session_id, adapter, server = asked.head.session_id, call.adapter, asked.server
    if session_id is not None and adapter.has_handshake:
        asked.held = _session_of(server, session_id, asked.principal)
        if asked.held is None:
            return None
        opened = asked.held.opened
        call.client, call.log_level = opened.client, opened.log_level
    if call.operation in RUN:
        return None if _streams_at_once(server, call) else asked.run(call, start)
    outcome = server.dispatcher.immediate(call)
    assert outcome is not None
    failure = outcome if isinstance(outcome, Failure) else None
    return asked.whole(call, adapter.encode(call, server.registry, outcome), failure)


def _session_of(server: Server, session_id: str, principal: str | None) -> HttpSession | None:
    """That session, if it is there and there is room in it for another call."""
    if not server.asks_store_at_once:
        return None
    key = session_key(session_id, principal)
    try:
        record = given_now(server.store.get(key, ttl=server.config.session_ttl))
    except Exception:
        return None  # a transaction asks again, and tells of it
    if record is None:
        return None
    live = server.session_used(session_id)
    if live is not None and len(live.calls) >= server.config.max_calls:
        return None
    return HttpSession(session_id, server.opened.of(key, record), server, record)


def _streams_at_once(server: Server, call: Call) -> bool:
    spec = server.registry.tools.get(call.target or "") if call.operation is _CALL_TOOL else None
    return spec is not None and (spec.streaming or spec.poll_after is not None)


class Asked(Struct, eq=False):
    """A request, and the `Outlet` of the call in it until that wants more than to reply.

    All but `server` and `head` are as in `HttpTransaction`.
    """

    server: Server
    head: RequestHead
    principal: str | None
    loopback: bool
    request: Any
    wake_driver: Callable[[], None]
    held: HttpSession | None = None
    _running: RunningCall | None = None
    _engine: StreamableTransaction | None = None
    _message: bytes | None = None
    _failure: Failure | None = None

    def run(self, call: Call, start: Start) -> Whole | StreamableTransaction:
        """Start `call`."""
        server = self.server
        deadline = server.runtime.now() + server.config.call_timeout
        running = self._running = RunningCall(server, call, self, deadline)
        start(call, running.run())
        if self._engine is not None or self._message is None:
            return self._taken_over()
        self._running = None  # which points here
        return self.whole(call, self._message, self._failure)

    def whole(self, call: Call, message: bytes, failure: Failure | None) -> Whole:
        """The response whose body is `message`, and which is about a `failure` if there is one."""
        headers = (gate.JSON_HEADER, ("Content-Length", str(len(message))), *self.head.cors)
        return Whole(200 if failure is None else call.adapter.http_status(failure), headers, message)

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
    def owner(self) -> object:
        """See `Outlet`: a session with its principal."""
        return None if self.held is None else self.held.owner

    @property
    def peer(self) -> Peer:
        """See `Outlet`."""
        return self.held or NO_PEER

    @property
    def session(self) -> Session | None:
        """See `Outlet`."""
        return None if self.held is None else self.held.values

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

"""Responses that are there at once: for a request like one before, whose call waits for nothing, no engine is made.

Most calls are such. What is given here is what a `StreamableTransaction` would give: all that is decided of such a
request was decided by one, and is remembered (`heads`, `familiar`). As soon as anything else is wanted (a call waits,
asks or reports), a transaction takes over, from where the request is by then. Without this, a call costs twice as much
over HTTP; see docs/performance.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import attrs
from msgspec import Struct

from mcp_sansio.call import Call
from mcp_sansio.errors import LocalProtocolError
from mcp_sansio.events import Whole
from mcp_sansio.outcome import Failure
from mcp_sansio.wire.headers import json_headers
from mcp_sansio.wire.jsonrpc import encode_result

from .calls import RunningCall, encoded
from .sessions import HttpSession, InSession, session_key

if TYPE_CHECKING:
    from mcp_sansio.storage import SessionRecord

    from .heads import RequestHead
    from .http import HttpTransaction
    from .server import Server
    from .streamable import StreamableTransaction

#: Starts a call: its coroutine may have run to its first wait, or to its end, when this returns.
Start = Callable[[Call, Awaitable[None]], object]


class Recalled(Struct, eq=False):
    """A request like one before, as far as it came at once: to the `record` of its session, if it is in one.

    Its handler may have `raised` something already, which is for the dispatcher to judge.
    """

    call: Call
    record: SessionRecord | None = None
    raised: BaseException | None = None


def answer(server: Server, head: RequestHead, call: Call, principal: str | None) -> Whole | Recalled | None:
    """The response to a request like one before, or what it came to; ``None`` where nothing was done yet."""
    record = None
    if head.session_id is not None and call.adapter.has_handshake:
        record = _find(server, head, principal)
        if record is None:
            return None
    if call.text is not None:
        assert call.id is not None
        return _whole(head, call, encode_result(call.id, call.text), None)
    outcome = server.dispatcher.at_once(call)
    if outcome is None or isinstance(outcome, BaseException):
        begins_as_stream = call.tool is not None and call.tool.begins_as_stream
        recalled = None if begins_as_stream else Recalled(call, record, outcome)
        del outcome  # or it and this frame keep each other
        return recalled
    message, failure = encoded(call, server.registry, outcome)
    return _whole(head, call, message, failure)


def _find(server: Server, head: RequestHead, principal: str | None) -> SessionRecord | None:
    """The record of the session that `head` names, if it is there and has room for another call."""
    if not server.asks_store_at_once:
        return None
    assert head.session_id is not None
    key = head.session_key if principal is None else session_key(head.session_id, principal)
    try:
        record = server.look_up(key, server.config.session_ttl)
    except Exception:
        return None  # a transaction asks again, and tells of it
    if record is not None:
        live = server.session_used(head.session_id)
        if live is not None and len(live.calls) >= server.config.max_calls:
            return None
    return record


def _whole(head: RequestHead, call: Call, message: bytes, failure: Failure | None) -> Whole:
    status = 200 if failure is None else call.adapter.http_status(failure)
    return Whole(status, json_headers(len(message)) + head.cors, message)


@attrs.define(eq=False, repr=False)  # no msgspec record, which would have ``help`` look for names that are no imports
class Pending:
    """A POST to the Streamable HTTP endpoint that `Server.respond` had no response to: `begin` it, once."""

    server: Server
    head: RequestHead
    body: bytes
    principal: str | None
    request: Any
    recalled: Recalled | None = None
    _has_begun: bool = attrs.field(default=False, init=False)

    def begin(self, start: Start, wake: Callable[[], None]) -> Whole | HttpTransaction:
        """The response, if it is there once a call has taken its first step; otherwise the engine that makes it.

        `start` is handed a call and its coroutine: it runs that as a driver runs `CallReceived.run`, and keeps what has
        not ended with its first step, to cancel it where the engine says `CallCancelled`. `wake` is that of an
        `HttpTransaction`. The engine has had the request.

        Raises `LocalProtocolError` the second time.
        """
        if self._has_begun:
            raise LocalProtocolError("this request has begun already")
        self._has_begun = True
        head = self.head
        if self.recalled is not None:
            return Asked(self.server, head, self.recalled, self.principal, self.request, wake).run(start)
        engine = self.server.http_transaction(
            principal=self.principal, loopback=head.loopback, request=self.request, wake=wake
        )
        engine.receive_head("POST", head)
        engine.receive_end(self.body)
        return engine


class Asked(Struct, InSession, eq=False):
    """The `Outlet` of the call in a request like one before, until that wants more than to reply.

    `principal`, `request` and `wake_driver` are as in `HttpTransaction`.
    """

    server: Server
    head: RequestHead
    recalled: Recalled
    principal: str | None
    request: Any
    wake_driver: Callable[[], None]
    held: HttpSession | None = None
    _running: RunningCall | None = None
    _engine: StreamableTransaction | None = None
    _message: bytes | None = None
    _failure: Failure | None = None

    def run(self, start: Start) -> Whole | StreamableTransaction:
        """The response, or what has taken over."""
        server, call = self.server, self.recalled.call
        self._join_session()
        running = self._running = RunningCall(server, call, self, server.runtime.now() + server.config.call_timeout)
        running.raised, self.recalled.raised = self.recalled.raised, None
        start(call, running.run())
        if self._engine is not None or self._message is None:
            return self._taken_over()
        self._running = None  # which points here
        return _whole(self.head, call, self._message, self._failure)

    def _join_session(self) -> None:
        """Have the call in its session, of which a handler may want to know."""
        session_id, call, record = self.head.session_id, self.recalled.call, self.recalled.record
        if record is None or session_id is None:
            return
        opened = self.server.opened.of(session_key(session_id, self.principal), record)
        call.client, call.log_level = opened.client, opened.log_level
        self.held = HttpSession(session_id, opened, self.server, record)

    def _taken_over(self) -> StreamableTransaction:
        """The transaction that goes on with the call instead of this."""
        if self._engine is None:
            assert self._running is not None
            self._engine = self.server.http_transaction(
                principal=self.principal, loopback=self.head.loopback, request=self.request, wake=self.wake_driver
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

"""One HTTP request and its response, whatever the endpoint: the part of HTTP that all of MCP's endpoints share.

Facts in: `receive_request`, `receive_body`, `receive_end`, `receive_disconnect`, `handle_timeout`. After each of them
take everything: `events`, `data_to_send` and `next_deadline`. The same when `wake` was called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from mcp_sansio import wire_log
from mcp_sansio.events import Body, CallCancelled, CallReceived, End, Event, Head, Part, PeerFaulted
from mcp_sansio.outcome import Failure, FailureKind, Rejected
from mcp_sansio.pieces import Pieces
from mcp_sansio.types import RequestId
from mcp_sansio.wire.headers import STREAM_TYPE, Headers, json_headers
from mcp_sansio.wire.sse import encode_comment

from . import gate
from ._state import RESPONSE, ResponseInput, ResponseState
from .calls import RunningCall
from .queues import Backlog, taken

if TYPE_CHECKING:
    from mcp_sansio.adapters.base import Adapter

    from .heads import RequestHead
    from .server import Server

logger = logging.getLogger("mcp_sansio")

# What every request passes through, named once: see `mcp_sansio.operation`.
_RECEIVING, _STREAMING, _ENDED = ResponseState.RECEIVING, ResponseState.STREAMING, ResponseState.ENDED
_REQUEST, _RECEIVED, _COMPLETE = ResponseInput.REQUEST, ResponseInput.RECEIVED, ResponseInput.END

_END = End()
_CLOSING = Failure(FailureKind.UNAVAILABLE, "this server is shutting down")
_STREAM_HEADERS = (
    ("Content-Type", STREAM_TYPE),
    ("Cache-Control", "no-cache, no-transform"),
    ("X-Accel-Buffering", "no"),
)


class HttpTransaction:
    """An HTTP request and its response. Made by `Server.http_transaction` and `Server.pair_transaction`.

    `principal` is who the request is from, as the operator's own authentication found, or ``None``. `loopback` says
    that it came in on a loopback address. `request` is handed to handlers as ``ex.request``. `wake` is called when
    there is something to take that no fact of this transaction brought about. `paced` says that what a handler sends
    waits until it was taken, for a driver whose handlers run in the thread that sends.
    """

    #: The handlers of the endpoint's methods, of which POST is one. A method that is not here is answered with 405.
    methods: ClassVar[Mapping[str, str]] = {}

    # Defaults stand here, since most requests change none of them.
    state = ResponseState.IDLE
    method = ""
    connected = True
    #: The request's head, and what was made of it.
    head: RequestHead
    #: Further headers of a response that is not a refusal.
    extra_headers: gate.Pairs = ()
    _receive_by: float | None = None
    #: What of the body has come in, where it does not come with the head.
    _body: Pieces | None = None
    _keep_alive: float | None = None
    #: What waits for the client to read it. A response that is no stream is there at once, and nothing waits.
    _backlog: Backlog | None = None

    def __init__(
        self,
        server: Server,
        *,
        principal: str | None = None,
        loopback: bool = False,
        request: Any = None,
        wake: Callable[[], None] = lambda: None,
        paced: bool = False,
    ) -> None:
        self.server = server
        self.config = server.config
        self.principal = principal
        self.request = request
        self.wake = wake
        self._loopback = loopback
        self._paced = paced
        self._parts: list[Part] = []
        self._events: list[Event] = []
        self._running: dict[RunningCall, None] = {}

    # Facts in

    def receive_request(self, method: str, target: str, headers: Iterable[tuple[str, str]] | Mapping[str, str]) -> None:
        """The request line and the header section. `target` is the path with its query, as it was sent."""
        self.receive_head(method, self.server.heads.judged(target, Headers.of(headers), self._loopback))

    def receive_head(self, method: str, head: RequestHead) -> None:
        """`receive_request`, of a `head` that was judged before."""
        self.state = RESPONSE[self.state][_REQUEST]
        self.method = method
        self.head = head
        server = self.server
        if server.logs_wire:
            wire_log.head_received(f"{method} {head.target}", head.headers)
        fault = head.fault_of_post if method == "POST" else head.fault
        if server.closing:
            fault = _CLOSING
        if fault is not None:
            self.refuse(fault)
        elif method == "POST":
            self._receive_by = server.runtime.now() + self.config.receive_timeout
        else:
            self._receive_bodiless()

    def _receive_bodiless(self) -> None:
        """A request whose body, if it has one, is of no interest."""
        if self.method == "OPTIONS":
            self.respond(204, gate.preflight_headers(self.head.headers, self.allowed_methods()))
        elif self.method not in self.methods:
            self.refuse_method()
        else:
            self.state = RESPONSE[self.state][_RECEIVED]
            self._handle(b"")

    def receive_body(self, data: bytes) -> None:
        """A piece of the request's body. More than `Config.max_message` bytes are refused as soon as they are seen."""
        if self.state is not _RECEIVING:
            return
        if self._body is None:
            self._body = Pieces()
        if self._body.size + len(data) > self.config.max_message:
            self._body = None
            self.refuse(gate.too_large(self.config.max_message))
        else:
            self._body.add(data)

    def receive_end(self, data: bytes = b"") -> None:
        """The request is complete, with `data` as the last piece of its body, or all of it."""
        if self._body is not None:
            self.receive_body(data)
            data = self._gathered()
        if self.state is not _RECEIVING:
            return
        if len(data) > self.config.max_message:
            self.refuse(gate.too_large(self.config.max_message))
            return
        self.state = RESPONSE[self.state][_RECEIVED]
        if self.server.logs_wire:
            wire_log.received(data)
        self._handle(data)

    def _gathered(self) -> bytes:
        body, self._body = self._body, None
        return b"" if body is None else body.whole()

    def receive_disconnect(self) -> None:
        """The connection has gone. Whether that gives calls up is their revision's to say."""
        if not self.connected:
            return
        self.connected = False
        was, self.state = self.state, RESPONSE[self.state][ResponseInput.DISCONNECT]
        self._parts.clear()
        if self._backlog is not None:
            self._backlog.clear()
        if was is not _ENDED:
            self.on_disconnect()
        if not self._running:
            self._over()

    def handle_timeout(self, now: float) -> None:
        """The time of `next_deadline` has come; `now` is in the runtime's seconds."""
        if self.receiving:
            self._check_arrival(now)
        if self._keep_alive is not None and self._keep_alive <= now:
            self._keep_alive = now + self.config.keep_alive
            self.on_silence()
        for running in tuple(self._running):
            if running.handle_timeout(now):
                self._events.append(CallCancelled(running.call))

    # Things to take

    def events(self) -> list[Event]:
        """What happened since the last time."""
        return taken(self._events) if self._events else []

    def data_to_send(self) -> list[Part]:
        """The parts of the response that are ready, in order."""
        parts = taken(self._parts)
        if self._backlog is not None:
            self._backlog.clear()
        if self.server.logs_wire:
            for part in parts:
                wire_log.part_sent(part)
        return parts

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`, in the runtime's seconds, or ``None``."""
        if self.receiving:
            return self._receive_by
        if not self._running:
            return self._keep_alive
        deadlines = [running.next_deadline() for running in self._running]
        due = [deadline for deadline in (self._keep_alive, *deadlines) if deadline is not None]
        return min(due) if due else None

    # Getters

    @property
    def ended(self) -> bool:
        """Whether the response is complete, or can no longer be sent."""
        return self.state is _ENDED

    @property
    def receiving(self) -> bool:
        """Whether the rest of the request is waited for. Where it is not, a driver need not read it."""
        return self.state is _RECEIVING

    @property
    def is_congested(self) -> bool:
        """Whether more waits for the client to read it than `Config.max_unsent`."""
        return self._backlog is not None and self._backlog.is_too_large

    # For the endpoints: what they are asked

    def allowed_methods(self) -> str:
        """The value of ``Allow``."""
        return ", ".join([*self.methods, "OPTIONS"])

    def on_disconnect(self) -> None:
        """The client went away before the response was complete."""

    def on_over(self) -> None:
        """The response has ended, and so has every call that it was for."""

    def on_silence(self) -> None:
        """Nothing was sent for `Config.keep_alive` seconds: say something, so that no proxy cuts the connection."""
        self.write_comment()

    # For the endpoints: what they may do

    def respond(self, status: int, headers: Iterable[tuple[str, str]] = (), body: bytes = b"") -> None:
        """Send a whole response."""
        if self.state is _ENDED:
            return
        length = () if status in (202, 204) and not body else (("Content-Length", str(len(body))),)
        head = Head(status, (*headers, *self.extra_headers, *length, *self.head.cors))
        self._complete(*((head, Body(body), _END) if body else (head, _END)))

    def respond_json(self, status: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> None:
        """Send a whole response of JSON."""
        if self.state is not _ENDED:
            kind, length = json_headers(len(body))
            head = Head(status, (kind, *headers, *self.extra_headers, length, *self.head.cors))
            self._complete(head, Body(body), _END)

    @property
    def rendering(self) -> Adapter:
        """The revision that a refusal is written in."""
        return self.server.adapters.fallback

    def message_id(self) -> RequestId | None:
        """The id of the message that the request carries, for a refusal to quote."""
        return None

    def refuse(self, failure: Failure, headers: Iterable[tuple[str, str]] = ()) -> None:
        """Answer the request as a whole with `failure`."""
        self._events.append(PeerFaulted(failure))
        shown = failure
        if failure.kind in _LOGGED:
            self.server.log_refused(failure)
            shown = Failure(failure.kind, failure.message)
        adapter = self.rendering
        self.respond_json(adapter.http_status(failure), adapter.encode_failure(self.message_id(), shown), headers)

    def refuse_method(self, reason: str | None = None) -> None:
        """Answer 405, naming what is possible."""
        failure = Failure(FailureKind.METHOD_NOT_ALLOWED, reason or f"{self.method[:20]} is not possible here")
        self.refuse(failure, headers=(("Allow", self.allowed_methods()),))

    def start_stream(self) -> None:
        """The response is a stream of events from now on."""
        if self.state is not ResponseState.WAITING:
            return
        self.state = RESPONSE[self.state][ResponseInput.STREAM]
        self._backlog = Backlog(self.config.max_unsent, self.server.runtime.event, paced=self._paced)
        self._send(Head(200, (*_STREAM_HEADERS, *self.extra_headers, *self.head.cors)))
        self.start_silence()

    def start_silence(self) -> None:
        """Count the silence from now on."""
        self._keep_alive = self.server.runtime.now() + self.config.keep_alive

    def write(self, event: bytes) -> None:
        """Send an event of the stream, if there is still somebody to read it."""
        if self.state is _STREAMING:
            assert self._backlog is not None
            self._backlog.size += len(event)
            self._send(Body(event))

    def write_comment(self) -> None:
        """Send a sign of life, unless there is something to read anyway."""
        if self._backlog is None or not self._backlog.size:
            self.write(encode_comment())

    def end(self) -> None:
        """The response is complete."""
        if self.state is not _ENDED:
            self._complete(_END)

    def _complete(self, *parts: Part) -> None:
        self.state = RESPONSE[self.state][_COMPLETE]
        if self.connected:
            self._parts += parts
        if not self._running:
            self._over()

    def emit(self, event: Event) -> None:
        """Tell the driver of `event`."""
        self._events.append(event)

    def start_call(self, running: RunningCall, now: float) -> None:
        """Have the driver run `running`, which begins `now`, and mind its deadlines."""
        self.hold_call(running, now)
        self._events.append(CallReceived(running.call, running.run))

    def hold_call(self, running: RunningCall, now: float) -> None:
        """Mind the deadlines of `running`."""
        self._running[running] = None
        self._keep_alive = now + self.config.keep_alive

    def settle_call(self, running: RunningCall) -> None:
        """`running` is over."""
        self._running.pop(running, None)
        if self.state is _ENDED and not self._running:
            self._over()

    def _over(self) -> None:
        self._keep_alive = None
        self.on_over()

    async def drained(self) -> None:
        """See `Outlet.drained`."""
        if not self.connected:
            await self.server.runtime.pause()
        elif self._backlog is not None:
            await self._backlog.drained()

    def _send(self, part: Part) -> None:
        if self.connected:
            self._parts.append(part)

    def _check_arrival(self, now: float) -> None:
        """A body that comes byte by byte would hold its connection, and what it sent, for as long as it likes."""
        if self._receive_by is not None and self._receive_by <= now:
            self._body = None
            seconds = self.config.receive_timeout
            self.refuse(Failure(FailureKind.TOO_SLOW, f"the body took longer than {seconds:g} seconds to come in"))

    def _handle(self, body: bytes) -> None:
        try:
            getattr(self, self.methods[self.method])(body)
        except Rejected as rejected:
            self.refuse(rejected.failure)


#: Refusals that an operator probably wants to know of, since a setting would change them.
_LOGGED = frozenset({FailureKind.MISDIRECTED, FailureKind.FORBIDDEN})

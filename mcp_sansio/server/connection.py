"""A duplex channel of whole messages — stdio, a WebSocket, a socket — with one client at its other end.

Facts in: `receive_message`, `receive_overlong`, `receive_eof`, `handle_timeout`. After each of them, and when `wake`
was called, take everything: `events`, `data_to_send` and `next_deadline`. A stream of bytes needs framing on top
(`mcp_sansio.wire.lines`); a channel that frames messages itself needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Any

from mcp_sansio import wire_log
from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.preamble import Preamble
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.call import NOBODY, Call, Decoded, Reply
from mcp_sansio.changes import Change, ChangeKind
from mcp_sansio.dispatcher import RUN, Peer
from mcp_sansio.events import CallCancelled, CallReceived, Event, PeerFaulted
from mcp_sansio.immediate import Listening
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import Failure, FailureKind, Outcome, Rejected, Value
from mcp_sansio.types import RequestId

from ._state import CHANNEL, ChannelInput, ChannelState
from .batch import Batch
from .calls import RunningCall, encoded
from .listening import ListenStream
from .queues import Backlog, taken
from .replies import Replies, expects_reply, quoted_id, usable_id
from .topics import Frame

if TYPE_CHECKING:
    from .server import Server

#: What a client may send before its handshake (basic/lifecycle, "Initialization").
_BEFORE_HANDSHAKE = frozenset({Operation.DESCRIBE, Operation.HANDSHAKE_COMPLETE, Operation.PING, Operation.CANCEL})
_CLOSED, _SET_LOG_LEVEL, _DESCRIBE = ChannelState.CLOSED, Operation.SET_LOG_LEVEL, Operation.DESCRIBE
_LISTS = (Change(ChangeKind.TOOLS), Change(ChangeKind.PROMPTS), Change(ChangeKind.RESOURCES))


class ServerConnection:
    """The server's end of a channel. Made by `Server.connection`.

    One client is at the other end. With a handshake it is remembered here what was negotiated; messages of revisions
    without one may come in between, and describe themselves. `principal`, `request` and `wake` are as for
    `HttpTransaction`. With `runs_at_once`, a tool that waits for nothing is run where its call comes in, mostly, and no
    event tells of it.

    It is the `Outlet` of its calls, but for those of a batch.
    """

    can_stream = True
    session = None

    def __init__(
        self,
        server: Server,
        *,
        adapters: AdapterSet | None = None,
        principal: str | None = None,
        request: Any = None,
        wake: Callable[[], None] = lambda: None,
        runs_at_once: bool = False,
    ) -> None:
        self.server = server
        self.adapters = server.adapters if adapters is None else adapters
        self.principal = principal
        self.request = request
        self.state = ChannelState.NEW
        self.wake = wake
        self._runs_at_once = runs_at_once
        self._negotiated: Adapter | None = None
        #: All that has a say in how a message is read, beside the message: see `familiar`.
        self._place: Hashable = (self.adapters, None)
        self._client = NOBODY
        self._log_level: str | None = None
        self._watched: dict[Change, None] = {}
        self._calls: dict[RequestId | None, RunningCall | ListenStream] = {}
        self._messages: list[bytes] = []
        self._announced: set[bytes] = set()
        self._events: list[Event] = []
        self._backlog = Backlog(server.config.max_unsent, server.runtime.event)

    # Facts in

    def receive_message(self, data: bytes) -> None:
        """One whole message, or batch of them."""
        reply = self.respond(data)
        if reply is not None:
            self.send(reply)

    def respond(self, data: bytes) -> bytes | None:
        """`receive_message`, but a reply that is there at once, and all there is, is given here, to be sent as it is.

        Then there is nothing to take; otherwise take everything.
        """
        if self.state is _CLOSED:
            return None
        server = self.server
        if server.logs_wire:
            wire_log.received(data)
        if len(data) > server.config.max_message:
            self.receive_overlong(len(data))
            return None
        call = server.familiar.recall(self._place, data)
        if call is None:
            self._receive_unfamiliar(data)
            return None
        if call.adapter.has_handshake:
            call.client, call.log_level = self._client, self._log_level
        reply = self._called(call, self)
        if reply is not None and (self.has_something or server.logs_wire):
            self.send(reply)
            return None
        return reply

    def _receive_unfamiliar(self, data: bytes) -> None:
        config = self.server.config
        preamble = Preamble.of(data, max_depth=config.max_depth)
        negotiated = self._negotiated
        adapter = negotiated or self.adapters.fallback
        is_batch = isinstance(preamble.body, list)
        try:
            adapter = self.adapters.select(preamble, negotiated.version if negotiated else None)
            if is_batch and len(preamble.body) > config.max_batch:
                text = f"a batch may hold {config.max_batch} messages at most"
                raise Rejected(Failure(FailureKind.TOO_LARGE, text))
            decoded = adapter.decode(preamble, client=self._client, log_level=self._log_level)
        except Rejected as rejected:
            self._refuse(adapter, preamble, rejected.failure)
            return
        outlet = Batch(self, Replies(sum(map(expects_reply, decoded)))) if is_batch else self
        for item in decoded:
            if isinstance(item, Call) and item.id is not None:
                if not is_batch:
                    self.server.familiar.remember(self._place, data, item)
                reply = self._called(item, outlet)
                if reply is not None:
                    outlet.add(reply)
            else:
                self._receive(item, adapter, outlet)

    def receive_overlong(self, size: int) -> None:
        """A message of more than `Config.max_message` bytes was skipped; `size` is what it had."""
        most = self.server.config.max_message
        failure = Failure(FailureKind.TOO_LARGE, f"the message of {size} bytes is larger than {most} bytes")
        self._events.append(PeerFaulted(failure))
        self.send(self._rendering.encode_failure(None, failure))

    def receive_eof(self) -> None:
        """The channel has ended: what is in flight is given up, and nothing is sent any more."""
        if self.state is _CLOSED:
            return
        self.state = CHANNEL[self.state][ChannelInput.CLOSE]
        self.server.topics.unsubscribe(self, self._watched)
        self.server.stream_closed(self)
        for held in tuple(self._calls.values()):
            self._give_up(held)
        self._messages.clear()
        self._backlog.clear()

    def handle_timeout(self, now: float) -> None:
        """The time of `next_deadline` has come; `now` is in the runtime's seconds."""
        for held in tuple(self._calls.values()):
            if isinstance(held, RunningCall) and held.handle_timeout(now):
                self._events.append(CallCancelled(held.call))

    # Things to take

    def events(self) -> list[Event]:
        """What happened since the last time."""
        return taken(self._events) if self._events else []

    def data_to_send(self) -> list[bytes]:
        """The messages to send, in order."""
        messages = taken(self._messages)
        self._announced.clear()
        self._backlog.clear()
        if self.server.logs_wire:
            for message in messages:
                wire_log.sent(message)
        return messages

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`, in the runtime's seconds, or ``None``."""
        if not self._calls:
            return None
        running = (held.next_deadline() for held in self._calls.values() if isinstance(held, RunningCall))
        return min((deadline for deadline in running if deadline is not None), default=None)

    # Getters

    @property
    def has_something(self) -> bool:
        """Whether there is an event or a message to take."""
        return bool(self._messages or self._events)

    @property
    def unsent(self) -> int:
        """How many bytes wait to be taken."""
        return self._backlog.size

    # Receiving

    @property
    def _rendering(self) -> Adapter:
        return self._negotiated or self.adapters.fallback

    def _refuse(self, adapter: Adapter, preamble: Preamble, failure: Failure) -> None:
        self._events.append(PeerFaulted(failure))
        body = preamble.body
        if isinstance(body, dict) and "id" not in body and preamble.method is not None:
            return
        message_id = quoted_id(body)
        self.send(adapter.encode_failure(message_id, failure))

    def _receive(self, item: Decoded, adapter: Adapter, outlet: ServerConnection | Batch) -> None:
        if isinstance(item, Call):
            self._notified(item)
        elif isinstance(item, Reply):
            if not self.server.questions.answer(self, item):
                self._events.append(PeerFaulted(Failure(FailureKind.INVALID_PARAMS, "a response to no open question")))
        else:
            self._events.append(PeerFaulted(item.failure))
            if item.replies:
                outlet.add(adapter.encode_failure(item.id, item.failure))

    def _notified(self, call: Call) -> None:
        if call.operation is Operation.HANDSHAKE_COMPLETE and self._negotiated is not None:
            self.watch(_LISTS)
        elif call.operation is Operation.CANCEL:
            request_id = usable_id(call.params.get("requestId"))
            held = None if request_id is None else self._calls.get(request_id)
            if held is not None:
                self._give_up(held)

    def _give_up(self, held: RunningCall | ListenStream) -> None:
        if isinstance(held, RunningCall):
            held.cancel()
        else:
            held.end()
            self.forget(held.call)

    def _called(self, call: Call, outlet: ServerConnection | Batch) -> bytes | None:
        """The reply, if it is there at once; otherwise it goes to `outlet`."""
        server, operation = self.server, call.operation
        outcome: Outcome | None = self._fault_of(call)
        if outcome is None and operation in RUN:
            given = server.dispatcher.at_once(call) if self._runs_at_once else None
            if given is None or isinstance(given, BaseException):
                self._run(call, outlet, given)
                del given  # or it and this frame keep each other
                return None
            return encoded(call, server.registry, given)[0]
        if outcome is None:
            if operation is _DESCRIBE and call.adapter.has_handshake:
                self._initialize(call)
            outcome = server.dispatcher.immediate(call)
        assert outcome is not None
        if isinstance(outcome, Value) and isinstance(outcome.result, Listening):
            self._listen(call, outcome.result, outlet)
            return None
        reply: bytes = call.adapter.encode(call, server.registry, outcome)
        return reply

    def _run(self, call: Call, outlet: ServerConnection | Batch, raised: BaseException | None) -> None:
        """Have the call run, whose handler may have `raised` something already."""
        server = self.server
        if call.operation is _SET_LOG_LEVEL:
            self._log_level = call.params["level"]  # now: it holds for the very next message
        running = RunningCall(server, call, outlet, server.runtime.now() + server.config.call_timeout)
        running.raised = raised
        self._calls[call.id] = running
        self._events.append(CallReceived(call, running.run))

    def _fault_of(self, call: Call) -> Failure | None:
        server, calls = self.server, self._calls
        if server.closing and call.operation is not Operation.PING:
            return Failure(FailureKind.UNAVAILABLE, "this server is shutting down")
        if self._negotiated is None and call.adapter.has_handshake and call.operation not in _BEFORE_HANDSHAKE:
            return Failure(FailureKind.HANDSHAKE_MISSING, "the handshake is missing: send initialize first")
        if call.id in calls:
            return Failure(FailureKind.MALFORMED, "the id of a request that is still in flight was used again")
        if len(calls) >= server.config.max_calls:
            return Failure(FailureKind.TOO_MANY, f"at most {server.config.max_calls} calls may be in flight")
        return None

    def _initialize(self, call: Call) -> None:
        adapter = self.adapters.negotiate(call.params["protocolVersion"])
        self.state = CHANNEL[self.state][ChannelInput.INITIALIZE]
        self._negotiated = call.adapter = adapter
        self._place = (self.adapters, adapter)
        self._client = adapter.client_info_for(call.params)

    def _listen(self, call: Call, listening: Listening, outlet: ServerConnection | Batch) -> None:
        fault = self.server.fault_of_listening(listening)
        if fault is not None:
            outlet.add(call.adapter.encode(call, self.server.registry, fault))
            return

        def finish(message: bytes) -> None:
            self.forget(call)
            self._send_woken(message)

        stream = ListenStream(self.server, call, listening, self._announce, finish)
        self._calls[call.id] = stream
        # What waits from before is not this subscription's, even where it has the same id.
        self._announced.clear()
        stream.start()

    # What is remembered of the client, on revisions with a handshake

    @property
    def adapter(self) -> Adapter:
        """See `Listener.adapter`: the revision of what is announced here."""
        return self._rendering

    def deliver(self, frame: Frame) -> None:
        """See `Listener.deliver`."""
        self._announce(frame[0])

    def watch(self, changes: Iterable[Change]) -> None:
        """Announce `changes` on this channel from now on."""
        self._watched.update(dict.fromkeys(changes))
        self.server.topics.subscribe(self, self._watched)

    async def set_log_level(self, level: str) -> None:
        """See `Peer.set_log_level`. It was set when the request came in."""

    async def subscribe(self, uri: str) -> None:
        """See `Peer.subscribe`."""
        most = self.server.config.max_subscriptions
        change = Change(ChangeKind.RESOURCE_UPDATED, uri)
        if change not in self._watched and len(self._watched) >= most + len(_LISTS):
            raise Rejected(Failure(FailureKind.TOO_MANY, f"a client may subscribe to {most} resources at most"))
        self.watch([change])

    async def unsubscribe(self, uri: str) -> None:
        """See `Peer.unsubscribe`."""
        change = Change(ChangeKind.RESOURCE_UPDATED, uri)
        self._watched.pop(change, None)
        self.server.topics.unsubscribe(self, [change])

    # Sending: see `Outlet`

    @property
    def owner(self) -> object:
        """See `Outlet`."""
        return self

    @property
    def peer(self) -> Peer:
        """See `Outlet`."""
        return self

    def send(self, message: bytes) -> None:
        """See `Outlet.send`."""
        if self.state is not _CLOSED:
            self._messages.append(message)
            self._backlog.size += len(message)

    add = send

    def reply(self, running: RunningCall, message: bytes, failure: Failure | None) -> None:
        """See `Outlet.reply`."""
        self._calls.pop(running.call.id, None)
        self.send(message)

    def gone(self, running: RunningCall) -> None:
        """See `Outlet.gone`."""
        self.forget(running.call)
        self.emit(CallCancelled(running.call))

    async def drained(self) -> None:
        """See `Outlet.drained`."""
        if self.state is not _CLOSED:
            await self._backlog.drained()

    def forget(self, call: Call) -> None:
        """`call` is over."""
        self._calls.pop(call.id, None)

    def emit(self, event: Event) -> None:
        """Tell the driver of `event`."""
        self._events.append(event)

    def _send_woken(self, message: bytes) -> None:
        self.send(message)
        self.wake()

    def _announce(self, message: bytes) -> None:
        # An announcement that still waits to be sent says what this one would: a slow client costs no more than that.
        if message not in self._announced:
            self._announced.add(message)
            self._send_woken(message)

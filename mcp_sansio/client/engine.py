"""What both engines of the client role share: calls and their outcomes, whatever carries them.

A transport subclasses it, supplies the methods under "What a transport supplies", and reports what it hears by those
under "What a transport reports".
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Mapping
from typing import Any

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.params import fault_of_params
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.errors import (
    CallAbandoned,
    CallTimeout,
    ConnectionLost,
    McpError,
    ServerError,
    UnusableReply,
)
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import FailureKind, Rejected
from mcp_sansio.runtime import Runtime
from mcp_sansio.types import JSON, Implementation, LogLevel, RequestId, ServerDescription
from mcp_sansio.wire.json import fault_of
from mcp_sansio.wire.jsonrpc import Envelope, Shape, classify, encode_notification, encode_request

from ._state import CallInput, CallState, NegotiationState
from .calls import Answered, Failed, OutgoingCall, OutgoingRequest, Purpose, Question
from .config import ClientConfig
from .events import CallEnded, ClientEvent, ConnectionEnded, ServerFaulted
from .hearing import noticed
from .known import Known
from .listening import Listeners
from .lists import LISTS, Lists
from .negotiation import Negotiation, assumed_in_vain, modern_kind, named_versions
from .questions import Questions

UNKNOWN_CLIENT = Implementation(name="mcp-sansio", version="0")


class ClientEngine:
    """The client's end of a connection. See `ClientConnection` and `HttpClientSession` for the two kinds.

    `runtime` lends time and randomness. `adapters` says which revisions may be spoken: one, a window of them, or all
    (``None``). `client_info` and `capabilities` are declared to the server; without `capabilities` that is whatever
    can be answered. `can_answer` says that something answers questions (see `QuestionReceived`); without it a question
    that rides in a result is the call's result. `log_level` is the least severe log message wanted. `known` is what an
    earlier client found out, and `wants_changes` asks for the announcements that concern every client.
    """

    #: Whether the server has only the two endpoints of the first HTTP transport.
    is_pair = False
    #: Whether arguments are mirrored into headers, where the revision has that.
    has_headers = False

    def __init__(
        self,
        *,
        runtime: Runtime,
        adapters: Adapter | AdapterSet | None = None,
        client_info: Implementation | None = None,
        capabilities: Mapping[str, JSON] | None = None,
        can_answer: bool = False,
        log_level: LogLevel | None = None,
        config: ClientConfig | None = None,
        known: Known | None = None,
        wants_changes: bool = False,
    ) -> None:
        self.runtime = runtime
        self.adapters = _window(adapters)
        self.client_info = client_info or UNKNOWN_CLIENT
        self.can_answer = can_answer
        self.log_level = log_level
        self.config = config or ClientConfig()
        self.wants_changes = wants_changes
        #: The calls that wait for the negotiation.
        self.waiting: dict[OutgoingCall, None] = {}
        self._capabilities = capabilities
        self._calls: dict[OutgoingCall, None] = {}
        self._requests: dict[RequestId, OutgoingRequest] = {}
        self._ids = itertools.count(1)
        self._last_id = 0
        self._events: deque[ClientEvent] = deque()
        self._over: ConnectionLost | None = None
        self.negotiation = Negotiation(self, known)
        self.questions = Questions(self)
        self.lists = Lists(self)
        self.listeners = Listeners(self)

    # Facts in

    def handle_timeout(self, now: float) -> None:
        """The time of `next_deadline` has come; `now` is in the runtime's seconds."""
        self.negotiation.handle_timeout(now)
        self.questions.handle_timeout(now)
        self.listeners.handle_timeout(now)
        for call in tuple(self._calls):
            due = call.due()
            if due is not None and due <= now:
                self._time_out(call, now)

    # Commands

    def call(
        self,
        operation: Operation,
        params: Mapping[str, JSON] | None = None,
        *,
        timeout: float | None = None,
        max_timeout: float | None = None,
        wants_progress: bool = False,
        headers: Mapping[str, str] | None = None,
        input_responses: Mapping[str, JSON] | None = None,
        request_state: str | None = None,
    ) -> OutgoingCall:
        """Ask the server for `operation`. What comes of it is told by `CallEnded`.

        `timeout` and `max_timeout` are in seconds and replace those of the config; progress, where `wants_progress`
        asks for it, extends the first up to the second. `headers` go with its HTTP requests. `input_responses` are the
        answers, by key, to questions that an earlier call came back with, and `request_state` what came with those.

        A list is read to its last page. Where the connection is over, the call ends at once, with `ConnectionLost`.

        Raises ``ValueError`` for params that cannot be sent.
        """
        params = {} if params is None else params
        fault = fault_of_params(operation, params) or fault_of(params) or fault_of(input_responses)
        if fault is not None:
            raise ValueError(f"{operation}: {fault}")
        call = self._new_call(operation, params, timeout, max_timeout)
        call.wants_progress, call.headers = wants_progress, headers
        call.answers, call.request_state = dict(input_responses or {}), request_state
        self.start(call)
        return call

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: tuple[str, ...] = ()
    ) -> OutgoingCall:
        """Be told when lists change, and when the resources named by `uris` are updated.

        `ListenStarted` says that it has begun, `ChangeReceived` what changed, and `CallEnded` that it is over; end it
        with `cancel`. Where the revision has no such request, its own means are used.
        """
        call = self.listeners.new_call(tools=tools, prompts=prompts, resources=resources, uris=uris)
        self.start(call)
        return call

    def cancel(self, call: OutgoingCall, reason: str | None = None) -> None:
        """Give `call` up. Its late answer will be dropped. Nothing happens where it has ended."""
        self._give_up(call, CallAbandoned(reason or "the call was given up"), reason)

    def answer(self, question: Question, reply: Mapping[str, JSON]) -> None:
        """Answer `question` with the raw `reply`, made by `elicit_accept` and its siblings, say.

        Raises ``ValueError`` for one that is no JSON object. Nothing happens where nobody waits for it any more.
        """
        if not isinstance(reply, Mapping):
            raise ValueError(f"the answer to {question.request['method']} must be a mapping, not {reply!r}")
        fault = fault_of(dict(reply))
        if fault is not None:
            raise ValueError(f"the answer to {question.request['method']}: {fault}")
        self.questions.answer(question, dict(reply))

    def fail(self, question: Question, message: str, cause: BaseException | None = None) -> None:
        """Nothing answers `question`. `message` is what the server gets to read, where it waits for an answer."""
        self.questions.fail(question, message, cause)

    def close(self) -> None:
        """The caller is done: whatever is in flight ends with `ConnectionLost`."""
        self.lost("the client was closed")

    # Things to take

    def events(self) -> list[ClientEvent]:
        """What happened since the last time."""
        events = list(self._events)
        self._events.clear()
        return events

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`, in the runtime's seconds, or ``None``."""
        parts = (self.negotiation, self.questions, self.listeners)
        deadlines = [part.next_deadline() for part in parts]
        deadlines += [call.due() for call in self._calls]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    # Getters

    @property
    def adapter(self) -> Adapter | None:
        """The revision that is spoken, or ``None`` while that is not settled."""
        return self.negotiation.adapter if self.negotiation.state is NegotiationState.READY else None

    @property
    def server(self) -> ServerDescription | None:
        """What the server says of itself, or ``None`` where it has not been asked."""
        return self.negotiation.server

    @property
    def known(self) -> Known | None:
        """What was found out so far, to be kept for the next client of this server."""
        return self.negotiation.known

    def listens(self, call: OutgoingCall) -> bool:
        """Whether the listening that `call` asked for has begun and not ended."""
        return self.listeners.listens(call)

    @property
    def closed(self) -> bool:
        """Whether the connection is over."""
        return self._over is not None

    # What a transport supplies

    def transmit(self, request: OutgoingRequest) -> None:
        """Send `request`, and report its reply."""
        raise NotImplementedError

    def notify(self, message: bytes, adapter: Adapter) -> None:
        """Send a notification."""
        raise NotImplementedError

    def respond(self, message: bytes, adapter: Adapter, origin: OutgoingRequest | None) -> None:
        """Send the response to a request of the server's, which came on the reply to `origin` where that is known."""
        raise NotImplementedError

    def release(self, request: OutgoingRequest, *, cancelled: bool, reason: str | None = None) -> None:
        """Nobody waits for the reply to `request` any more. `cancelled` says that the server should stop as well."""
        raise NotImplementedError

    def want_announcements(self) -> None:
        """Announcements are wanted now, on a revision that sends them unasked: open what they come on."""

    def other_way(self, error: McpError) -> bool:
        """The handshake was refused with `error`. True where the transport knows another way to try it.

        It calls ``negotiation.retry_handshake()`` then, or ``negotiation.failed_elsewhere(error)``.
        """
        return False

    def disagreed(self, error: McpError) -> None:
        """The handshake settled on a revision that this client does not speak: the connection is of no use."""
        self.negotiation.abandon()
        self.not_settled(error)

    # What a transport reports

    def received(self, message: JSON, origin: OutgoingRequest | None = None, size: int = 0) -> None:
        """A message has come, of `size` bytes: one, or a batch. `origin` is the request on whose reply it came.

        It never raises for what a server sent.
        """
        if not isinstance(message, list):
            self._accept(message, origin, size)
            return
        adapter = self._reading(origin)
        if adapter is None or not adapter.allows_batch or not 0 < len(message) <= self.config.max_batch:
            self.fault(f"a batch of {len(message)} messages, where none may be")
            return
        for one in message:
            self._accept(one, origin, size)

    def failed(self, request: OutgoingRequest, error: McpError) -> None:
        """`request` has no reply, and will have none. Nothing happens where it was answered or given up."""
        if self._requests.pop(request.id, None) is None:
            return
        if request.purpose is not Purpose.CALL:
            self.negotiation.failed(request, error)
            return
        assert request.call is not None
        self._call_failed(request.call, request, error)

    def park(self, call: OutgoingCall) -> None:
        """Have `call` wait for the negotiation, to be sent anew once that is done."""
        request, call.request = call.request, None
        if request is not None:
            self._requests.pop(request.id, None)
        call.advance(CallInput.PARK)
        self.waiting[call] = None

    def lost(self, reason: str) -> None:
        """The connection is over."""
        if self._over is not None:
            return
        self._over = ConnectionLost(reason)
        self.negotiation.close()
        self.questions.close()
        self.listeners.close()
        self._requests.clear()
        self.waiting.clear()
        for call in tuple(self._calls):
            self.end(call, Failed(ConnectionLost(reason)))
        self.emit(ConnectionEnded(self._over))

    # For the parts of the engine: what happens

    def emit(self, event: ClientEvent) -> None:
        """Tell the driver of `event`."""
        self._events.append(event)

    def fault(self, text: str) -> None:
        """The server sent something wrong that is passed over."""
        self._events.append(ServerFaulted(text))

    def settled(self) -> None:
        """It is known what is spoken."""
        self._apply_log_level()
        self.listeners.settled()
        waiting, self.waiting = self.waiting, {}
        for call in waiting:
            held, call.held = call.held, None
            adapter = self.negotiation.adapter
            if held is not None and adapter is not None and not adapter.has_handshake:
                self.end(call, Failed(held))
            elif not call.ended:
                self.send(call)

    def not_settled(self, error: McpError) -> None:
        """It cannot be found out what is spoken."""
        waiting, self.waiting = self.waiting, {}
        for call in waiting:
            self.end(call, Failed(call.held or error))

    # For the parts of the engine: calls

    def internal_call(self, operation: Operation, params: Mapping[str, JSON], then: Any) -> OutgoingCall:
        """A call of the engine's own. `then` takes it once it has ended, and nobody is told."""
        call = self._new_call(operation, params, None, None)
        call.then = then
        self.start(call)
        return call

    def _new_call(
        self, operation: Operation, params: Mapping[str, JSON], timeout: float | None, max_timeout: float | None
    ) -> OutgoingCall:
        timeout = self.config.timeout if timeout is None else timeout
        return OutgoingCall(
            operation=operation,
            params=params,
            timeout=timeout,
            max_timeout=max(timeout, self.config.max_timeout) if max_timeout is None else max_timeout,
        )

    def start(self, call: OutgoingCall) -> None:
        """Begin with `call`."""
        self._calls[call] = None
        if self._over is not None:
            self.end(call, Failed(ConnectionLost(str(self._over))))
            return
        call.start_clock(self.runtime.now())
        if self.negotiation.state is NegotiationState.READY:
            self.send(call)
        else:
            self.waiting[call] = None
            self.negotiation.start()

    def send(self, call: OutgoingCall) -> None:
        """Send the next request of `call`: its first, a page, or a round."""
        adapter = self.negotiation.adapter
        assert adapter is not None
        at_hand = self._at_hand(call, adapter)
        if at_hand is not None:
            self.end(call, at_hand)
            return
        if call.operation is Operation.LISTEN and self.listeners.begin(call, adapter):
            return
        operation = call.operation
        if operation is Operation.PING and adapter.method_for(operation) is None:
            operation = Operation.DESCRIBE  # any answer will do, and every server has this one
        if adapter.method_for(operation) is None:
            self.end(call, Failed(McpError(f"the revision that the server speaks has no {call.operation}")))
            return
        call.tried.add(adapter.version)
        call.advance(CallInput.SEND)
        call.request = self.make_request(Purpose.CALL, operation, adapter, self._params_of(call, adapter), call)
        self.transmit(call.request)

    def _params_of(self, call: OutgoingCall, adapter: Adapter) -> Mapping[str, JSON]:
        params = self.lists.params_of(call) if call.operation in LISTS else call.params
        if call.answers or call.request_state is not None:
            params = adapter.client_answered_params(
                params, call.answers, call.request_state, in_arguments=call.in_arguments
            )
        return params

    def _at_hand(self, call: OutgoingCall, adapter: Adapter) -> Answered | None:
        """The outcome of what needs no request."""
        if call.operation is Operation.DESCRIBE and self.negotiation.description is not None:
            return Answered(self.negotiation.description)
        if call.operation is Operation.SET_LOG_LEVEL:
            self.log_level = call.params["level"]
            return Answered({}) if adapter.method_for(call.operation) is None else None
        if call.operation in LISTS and call.request is None:
            kept = self.lists.kept(call)
            return None if kept is None else Answered(kept)
        return None

    def make_request(
        self,
        purpose: Purpose,
        operation: Operation,
        adapter: Adapter,
        params: Mapping[str, JSON],
        call: OutgoingCall | None = None,
    ) -> OutgoingRequest:
        """A request with an id that was never used before."""
        self._last_id = request_id = next(self._ids)
        method = adapter.method_for(operation)
        assert method is not None
        if purpose is not Purpose.HANDSHAKE:
            params = adapter.client_decorate_params(
                params,
                self.client_info,
                self.capabilities_for(adapter),
                progress_token=request_id if call is not None and call.wants_progress else None,
                log_level=self.log_level,
            )
        message = encode_request(request_id, method, params or None)
        request = OutgoingRequest(
            id=request_id,
            purpose=purpose,
            operation=operation,
            method=method,
            params=params,
            message=message,
            adapter=adapter,
            call=call,
        )
        self._requests[request_id] = request
        return request

    def notify_of(self, adapter: Adapter, operation: Operation) -> None:
        """Send the notification that `operation` is."""
        method = adapter.method_for(operation)
        assert method is not None
        self.notify(encode_notification(method, None), adapter)

    def calls_in_flight(self) -> list[OutgoingCall]:
        """The calls whose reply the server owes."""
        return [call for call in self._calls if call.state is CallState.SENT]

    def capabilities_for(self, adapter: Adapter) -> Mapping[str, JSON]:
        """What this client declares on a revision."""
        return adapter.client_capabilities(self.can_answer) if self._capabilities is None else self._capabilities

    def request_of(self, request_id: RequestId) -> OutgoingRequest | None:
        """The request in flight with that id."""
        return self._requests.get(request_id)

    def drop(self, request: OutgoingRequest, *, cancelled: bool = False, reason: str | None = None) -> None:
        """Wait for the reply to `request` no longer."""
        if self._requests.pop(request.id, None) is not None:
            self.release(request, cancelled=cancelled, reason=reason)

    def end(self, call: OutgoingCall, outcome: Answered | Failed) -> None:
        """`call` is over."""
        if call.ended:
            return
        call.advance(CallInput.END)
        call.outcome = outcome
        self._calls.pop(call, None)
        self.waiting.pop(call, None)
        self.questions.call_ended(call)
        self.lists.call_ended(call)
        self.listeners.call_ended(call)
        if call.then is not None:
            call.then(call)
        else:
            self.emit(CallEnded(call))

    def _give_up(self, call: OutgoingCall, error: McpError, reason: str | None) -> None:
        if call.ended:
            return
        request, call.request = call.request, None
        self.end(call, Failed(error))
        if request is not None:
            self.drop(request, cancelled=True, reason=reason)
        if not self.waiting:
            self.negotiation.abandon()

    def _time_out(self, call: OutgoingCall, now: float) -> None:
        if not self.negotiation.confirmed and call.request is not None:
            # Nothing at all came from a server that is only assumed to be what it was: ask it next time.
            self.negotiation.doubt()
        seconds = now - call.started
        self._give_up(call, CallTimeout(f"no answer to {call.operation} within {seconds:g} seconds"), "timeout")

    def _apply_log_level(self) -> None:
        adapter = self.negotiation.adapter
        assert adapter is not None
        if self.log_level is not None and adapter.method_for(Operation.SET_LOG_LEVEL) is not None:
            self.internal_call(Operation.SET_LOG_LEVEL, {"level": self.log_level}, self._log_level_set)

    def _log_level_set(self, call: OutgoingCall) -> None:
        if isinstance(call.outcome, Failed):
            self.fault(f"the log level was not taken: {call.outcome.error}")

    # Receiving

    def _reading(self, origin: OutgoingRequest | None) -> Adapter | None:
        if origin is not None:
            return origin.adapter
        return self.negotiation.adapter or self.negotiation.trying

    def _accept(self, message: JSON, origin: OutgoingRequest | None, size: int) -> None:
        envelope = classify(message)
        if envelope.shape is Shape.RESPONSE:
            self._replied(envelope, origin, size)
        elif envelope.shape is Shape.INVALID:
            self._unusable(envelope, origin)
        elif envelope.shape is Shape.REQUEST:
            self.questions.received(envelope, origin, self._reading(origin))
        else:
            noticed(self, envelope, self._reading(origin), origin)

    def _unusable(self, envelope: Envelope, origin: OutgoingRequest | None) -> None:
        text = f"no usable message: {envelope.fault}"
        request = None if envelope.id is None or envelope.method is not None else self._requests.get(envelope.id)
        if request is None or (origin is not None and request is not origin):
            self.fault(text)
            return
        self.failed(request, UnusableReply(text))

    def _replied(self, envelope: Envelope, origin: OutgoingRequest | None, size: int) -> None:
        if envelope.id is None and origin is not None and envelope.error is not None:
            request = origin if origin.id in self._requests else None
        else:
            request = None if envelope.id is None else self._requests.get(envelope.id)
        if request is None or (origin is not None and request is not origin):
            self._stray(envelope)
            return
        if envelope.error is not None:
            error = envelope.error
            self.failed(
                request, ServerError(error["code"], error["message"], error.get("data"), self.status_of(request))
            )
            return
        del self._requests[request.id]
        if request.purpose is not Purpose.CALL:
            self.negotiation.answered(request, envelope.result)
            return
        assert request.call is not None
        self.negotiation.confirmed = True
        self._result(request.call, request, envelope.result, size)

    def status_of(self, request: OutgoingRequest) -> int | None:
        """The HTTP status that the reply to `request` has."""
        return None

    def _stray(self, envelope: Envelope) -> None:
        issued = isinstance(envelope.id, int) and 0 < envelope.id <= self._last_id
        self.fault("an answer that comes too late, or again" if issued else "an answer to no request")

    def _result(self, call: OutgoingCall, request: OutgoingRequest, result: JSON, size: int) -> None:
        if not isinstance(result, dict):
            self.end(call, Failed(UnusableReply("the result must be an object")))
            return
        try:
            asked = request.adapter.client_asked(request.operation, result)
        except Rejected as rejected:
            self.end(call, Failed(UnusableReply(f"the result cannot be used: {rejected}")))
            return
        if asked is not None:
            self.questions.asked(call, asked, result)
        elif call.operation in LISTS:
            self.lists.page(call, request, result, size)
        else:
            if request.operation is Operation.DESCRIBE:
                self.negotiation.describe(result)
            self.end(call, Answered(result))

    def _call_failed(self, call: OutgoingCall, request: OutgoingRequest, error: McpError) -> None:
        kind = modern_kind(request.adapter, error)
        if kind is FailureKind.UNSUPPORTED_VERSION and self._change_revision(call, error):
            return
        if kind is FailureKind.HEADER_MISMATCH and self.has_headers and self.lists.refresh_for(call, error):
            return
        if not self.negotiation.confirmed and assumed_in_vain(call, request, error):
            call.held = error
            self.park(call)
            self.negotiation.recheck()
            return
        self.end(call, Failed(error))

    def _change_revision(self, call: OutgoingCall, error: McpError) -> bool:
        """The server has been replaced by one of other revisions, say. Whether the call goes on in one of them."""
        self.park(call)
        if self.negotiation.settle_on(named_versions(error), call.tried):
            return True
        if self.negotiation.state is NegotiationState.HANDSHAKING:
            return True
        del self.waiting[call]
        return False


def _window(adapters: Adapter | AdapterSet | None) -> AdapterSet:
    if adapters is None:
        return AdapterSet.default()
    return adapters if isinstance(adapters, AdapterSet) else AdapterSet([adapters])

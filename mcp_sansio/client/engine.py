"""What both engines of the client role share: calls and their outcomes, whatever carries them.

A transport subclasses it, supplies the methods under "What a transport supplies", and reports what it hears by those
under "What a transport reports".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from operator import itemgetter

from mcp_sansio import wire_log
from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.params import fault_of_params
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.catalogue import ServerDescription
from mcp_sansio.errors import CallAbandoned, ConnectionLost, McpError
from mcp_sansio.operation import Operation
from mcp_sansio.runtime import Runtime
from mcp_sansio.types import JSON, LOG_LEVELS, Implementation, LogLevel
from mcp_sansio.wire.headers import check_headers
from mcp_sansio.wire.json import fault_of
from mcp_sansio.wire.jsonrpc import encode_notification

from ._state import NegotiationState
from .calls import Failed, OutgoingCall, OutgoingRequest, Question
from .config import ClientConfig
from .events import ClientEvent, ConnectionEnded, ServerFaulted
from .in_flight import InFlight
from .known import Known
from .listening import Listeners
from .lists import Lists
from .negotiation import Negotiation
from .questions import Questions
from .receiving import receive
from .timers import Timed, Timers

#: The first of a pair in `ClientEngine._timed`: mostly one of them is not empty, and it is asked twice for each call.
_PENDING = itemgetter(0)
_UNKNOWN_CLIENT = Implementation(name="mcp-sansio", version="0")
#: What is said of a fault may quote what the server said, which may be long.
_LONGEST_FAULT = 1_000


def checked_reply(question: Question, reply: object) -> dict[str, JSON]:
    """`reply`, if it can be an answer to `question`: see `ClientEngine.answer`."""
    about = f"the answer to {question.request['method']}"
    if not isinstance(reply, Mapping):
        raise ValueError(f"{about} must be a mapping, such as elicit_accept() gives, not {reply!r}")
    fault = fault_of(dict(reply))
    if fault is not None:
        raise ValueError(f"{about}: {fault}")
    return dict(reply)


class ClientEngine:
    """The client's end of a connection. See `ClientConnection` and `HttpClientSession` for the two kinds.

    `runtime` lends time and randomness. `adapters` says which revisions may be spoken: one, a window of them, or all
    (``None``). `client_info` and `capabilities` are declared to the server; without `capabilities` that is whatever
    can be answered. `can_answer` says that something answers questions (see `QuestionReceived`); without it a question
    that rides in a result is the call's result. `log_level` is the least severe log message wanted. `known` is what an
    earlier client found out, and `wants_changes` asks for the announcements that concern every client.

    Raises ``ValueError`` for a `log_level` that is none.
    """

    #: Whether the server has only the two endpoints of the first HTTP transport.
    is_pair = False
    #: Whether messages travel with headers, into which arguments are mirrored where the revision has that.
    has_headers = False
    #: Whether a negotiation that nobody waits for is dropped. Where it costs nothing to wait it is not: a server that
    #: takes long to start answers in the end what it was asked first.
    drops_negotiation = True

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
        if log_level is not None and log_level not in LOG_LEVELS:
            raise ValueError(f"log_level: {log_level!r} is none of {', '.join(LOG_LEVELS)}")
        self.runtime = runtime
        self.adapters = _window(adapters)
        self.client_info = client_info or _UNKNOWN_CLIENT
        self.can_answer = can_answer
        self.log_level = log_level
        self.config = config or ClientConfig()
        self.wants_changes = wants_changes
        self.logs_wire = wire_log.is_wanted()
        self._capabilities = capabilities
        self._events: list[ClientEvent] = []
        #: Why the connection is over.
        self.over: ConnectionLost | None = None
        self.timers = Timers()
        self.flight = InFlight(self)
        self.negotiation = Negotiation(self, known)
        self.questions = Questions(self)
        self.lists = Lists(self)
        self.listeners = Listeners(self)
        #: Everything with deadlines, in the order in which time passes for it, and what is empty where nothing is due.
        self._timed: list[tuple[Collection[object], Timed]] = []
        for part in (self.negotiation, self.questions, self.timers, self.flight):
            self.mind(part)

    # Facts in

    def handle_timeout(self, now: float) -> None:
        """The time of `next_deadline` has come; `now` is in the runtime's seconds."""
        for _, part in self._timed:
            part.handle_timeout(now)

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

        Raises ``ValueError`` for params that cannot be sent, and over HTTP for what cannot be a header.
        """
        params = {} if params is None else params
        fault = _fault_of_call(operation, params, input_responses, (timeout, max_timeout))
        if fault is not None:
            raise ValueError(f"{operation}: {fault}")
        if headers and self.has_headers:
            check_headers(headers)
        call = self.flight.new_call(operation, params, timeout, max_timeout)
        call.wants_progress, call.headers = wants_progress, headers
        if input_responses or request_state is not None:
            call.answers, call.request_state = dict(input_responses or {}), request_state
        self.flight.start(call)
        return call

    def listen(
        self, *, tools: bool = False, prompts: bool = False, resources: bool = False, uris: tuple[str, ...] = ()
    ) -> OutgoingCall:
        """Be told when lists change, and when the resources named by `uris` are updated.

        `ListenStarted` says that it has begun, `ChangeReceived` what changed, and `CallEnded` that it is over; end it
        with `cancel`. Where the revision has no such request, its own means are used.
        """
        call = self.listeners.new_call(tools=tools, prompts=prompts, resources=resources, uris=uris)
        self.flight.start(call)
        return call

    def cancel(self, call: OutgoingCall, reason: str | None = None) -> None:
        """Give `call` up. Its late answer will be dropped. Nothing happens where it has ended."""
        self.flight.give_up(call, CallAbandoned(reason or "the call was given up"), reason)

    def answer(self, question: Question, reply: Mapping[str, JSON]) -> None:
        """Answer `question` with the raw `reply`, made by `elicit_accept` and its siblings, say.

        Raises ``ValueError`` for one that is no JSON object. Nothing happens where nobody waits for it any more.
        """
        self.questions.answer(question, checked_reply(question, reply))

    def fail(self, question: Question, message: str, cause: BaseException | None = None) -> None:
        """Nothing answers `question`. `message` is what the server gets to read, where it waits for an answer."""
        self.questions.fail(question, message, cause)

    def close(self) -> None:
        """The caller is done: whatever is in flight ends with `ConnectionLost`."""
        self.lost("the client was closed")

    # Things to take

    def events(self) -> list[ClientEvent]:
        """What happened since the last time."""
        events, self._events = self._events, []
        return events

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`, in the runtime's seconds, or ``None``.

        It is never later than the next deadline, and may be sooner where a call has ended long before its own.
        """
        earliest: float | None = None
        for _, part in filter(_PENDING, self._timed):
            due = part.next_deadline()
            if due is not None and (earliest is None or due < earliest):
                earliest = due
        return earliest

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
        return self.over is not None

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
        """The handshake was refused with `error`. True where the transport goes on in another way that it knows."""
        return False

    def status_of(self, request: OutgoingRequest) -> int | None:
        """The HTTP status that the reply to `request` has."""
        return None

    def disagreed(self, error: McpError) -> None:
        """The handshake settled on a revision that this client does not speak: the connection is of no use."""
        self.negotiation.abandon()
        self.flight.fail_waiting(error)

    # What a transport reports

    def received(self, message: JSON, origin: OutgoingRequest | None = None, size: int = 0) -> None:
        """A message has come, of `size` bytes: one, or a batch. `origin` is the request on whose reply it came.

        It never raises for what a server sent.
        """
        if self.over is not None:
            return
        if self.logs_wire:
            wire_log.received(message)
        if not isinstance(message, list):
            receive(self, message, origin, size)
            return
        adapter = self.reading(origin)
        if adapter is None or not adapter.allows_batch or not 0 < len(message) <= self.config.max_batch:
            self.fault(f"a batch of {len(message)} messages, where none may be")
            return
        for one in message:
            receive(self, one, origin, size)

    def failed(self, request: OutgoingRequest, error: McpError) -> None:
        """`request` has no reply, and will have none. Nothing happens where it was answered or given up."""
        if not self.flight.take(request):
            return
        if request.call is not None:
            self.flight.failed(request, error)
        else:
            self.negotiation.failed(request, error)

    def park(self, call: OutgoingCall) -> None:
        """Have `call` wait for the negotiation, to be sent anew once that is done."""
        self.flight.park(call)

    def lost(self, reason: str) -> None:
        """The connection is over."""
        if self.over is not None:
            return
        self.over = ConnectionLost(reason)
        self.negotiation.close()
        self.questions.close()
        self.listeners.close()
        self.flight.close(reason)
        self.emit(ConnectionEnded(self.over))

    # For the parts of the engine

    def mind(self, part: Timed) -> None:
        """Pass time for `part` as well."""
        self._timed.append((part.pending, part))

    def emit(self, event: ClientEvent) -> None:
        """Tell the driver of `event`."""
        self._events.append(event)

    def fault(self, text: str, matters: bool = False) -> None:
        """The server sent something wrong that is passed over. See `ServerFaulted`."""
        self._events.append(ServerFaulted(text[:_LONGEST_FAULT], matters))

    def settled(self) -> None:
        """It is known what is spoken. A log level goes first: the calls that wait are to be logged by it."""
        adapter, server = self.negotiation.adapter, self.negotiation.server
        assert adapter is not None
        has_logs = server is not None and "logging" in server.capabilities
        if self.log_level is None or not has_logs or adapter.method_for(Operation.SET_LOG_LEVEL) is None:
            self._go_on()
            return
        params = {"level": self.log_level}
        self.flight.internal_call(Operation.SET_LOG_LEVEL, params, self._log_level_set, self.config.probe_timeout)

    def _log_level_set(self, call: OutgoingCall) -> None:
        if isinstance(call.outcome, Failed):
            self.fault(f"the log level was not taken: {call.outcome.error}", matters=True)
        if self.negotiation.state is NegotiationState.READY:
            self._go_on()

    def _go_on(self) -> None:
        self.listeners.settled()
        self.flight.send_waiting()

    def notify_of(self, adapter: Adapter, operation: Operation) -> None:
        """Send the notification that `operation` is."""
        method = adapter.method_for(operation)
        assert method is not None
        self.notify(encode_notification(method, None), adapter)

    def capabilities_for(self, adapter: Adapter) -> Mapping[str, JSON]:
        """What this client declares on a revision."""
        return adapter.client_capabilities(self.can_answer) if self._capabilities is None else self._capabilities

    def reading(self, origin: OutgoingRequest | None) -> Adapter | None:
        """The revision to read a message in that came on the reply to `origin`, or on none in particular."""
        if origin is not None:
            return origin.adapter
        return self.negotiation.adapter or self.negotiation.trying


_NO_TIMES = (None, None)
_NOTIFICATIONS = frozenset({Operation.HANDSHAKE_COMPLETE, Operation.CANCEL})


def _fault_of_call(
    operation: object,
    params: Mapping[str, JSON],
    input_responses: Mapping[str, JSON] | None,
    times: tuple[float | None, ...],
) -> str | None:
    """What is wrong with what a caller gave, or ``None``."""
    if not isinstance(operation, Operation):
        return "must be an Operation"
    if operation in _NOTIFICATIONS:
        return "is a notification, which the engine sends by itself"
    if "_meta" in params and not isinstance(params["_meta"], Mapping):
        return "params._meta must be a mapping"
    if times != _NO_TIMES and not all(map(_is_time, times)):
        return "a timeout must be a finite number of seconds above zero"
    fault = fault_of_params(operation, params) or fault_of(params)
    return fault if input_responses is None else fault or fault_of(input_responses)


def _is_time(seconds: object) -> bool:
    return seconds is None or (isinstance(seconds, int | float) and 0 < seconds < inf)


def _window(adapters: Adapter | AdapterSet | None) -> AdapterSet:
    if adapters is None:
        return AdapterSet.default()
    if isinstance(adapters, str):  # the type checker sees that, and not everybody has one
        raise TypeError(f"a revision is chosen by an adapter: AdapterSet.default().by_version[{adapters!r}]")
    if not isinstance(adapters, Adapter | AdapterSet):
        raise TypeError(f"what may be spoken is an Adapter or an AdapterSet, not {adapters!r}")
    return adapters if isinstance(adapters, AdapterSet) else AdapterSet([adapters])

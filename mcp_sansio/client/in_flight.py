"""The calls in flight, each with its requests: how one begins, goes on and ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import TYPE_CHECKING

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.errors import CallTimeout, ConnectionLost, McpError, UnusableReply
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import FailureKind, Rejected
from mcp_sansio.types import JSON, LogLevel, ProgressToken, RequestId
from mcp_sansio.wire.jsonrpc import encode_request

from ._state import CALL, CallInput, CallState, NegotiationState
from .calls import Answered, Failed, OutgoingCall, OutgoingRequest
from .events import CallEnded
from .lists import LISTS
from .negotiation import assumed_in_vain, modern_kind, named_versions

if TYPE_CHECKING:
    from .engine import ClientEngine


class InFlight:
    """Every call that has not ended, and every request whose reply is due.

    `waiting` are the calls that wait for the negotiation. Ids are counted, so none is ever used again, and an answer
    that comes late is known for one without keeping anything.
    """

    def __init__(self, engine: ClientEngine) -> None:
        self.waiting: dict[OutgoingCall, None] = {}
        self._engine = engine
        self._calls: dict[OutgoingCall, None] = {}
        self.pending: Collection[object] = self._calls
        self._requests: dict[RequestId, OutgoingRequest] = {}
        self._ids = itertools.count(1)
        self._last_id = 0
        #: No call is due before this time. It may be too soon: a call that ends, as most do long before they are due,
        #: leaves it as it is.
        self._earliest = inf
        self._decoration: tuple[Adapter, LogLevel | None, dict[str, JSON]] | None = None

    # Getters

    def request_of(self, request_id: RequestId | None) -> OutgoingRequest | None:
        """The request in flight with that id."""
        return None if request_id is None else self._requests.get(request_id)

    def requests(self) -> list[OutgoingRequest]:
        """The requests whose reply is due."""
        return list(self._requests.values())

    def sole_negotiation(self) -> OutgoingRequest | None:
        """The one request in flight, where it is about what is spoken."""
        requests = self.requests()
        return requests[0] if len(requests) == 1 and requests[0].call is None else None

    def was_issued(self, request_id: RequestId | None) -> bool:
        """Whether a request ever had that id."""
        return isinstance(request_id, int) and 0 < request_id <= self._last_id

    def unanswered(self) -> list[OutgoingCall]:
        """The calls whose reply the server owes."""
        return [call for call in self._calls if call.state is CallState.SENT]

    # Beginning

    def new_call(
        self,
        operation: Operation,
        params: Mapping[str, JSON],
        timeout: float | None = None,
        max_timeout: float | None = None,
    ) -> OutgoingCall:
        """A call that is still to be started."""
        config = self._engine.config
        timeout = config.timeout if timeout is None else timeout
        return OutgoingCall(
            operation=operation,
            params=params,
            timeout=timeout,
            max_timeout=max(timeout, config.max_timeout) if max_timeout is None else max_timeout,
            pause_left=config.ask_timeout * config.max_rounds,
        )

    def internal_call(
        self,
        operation: Operation,
        params: Mapping[str, JSON],
        then: Callable[[OutgoingCall], None],
        timeout: float | None = None,
    ) -> None:
        """A call of the engine's own. `then` takes it once it has ended, and nobody is told."""
        call = self.new_call(operation, params, timeout, timeout)
        call.then = then
        self.start(call)

    def start(self, call: OutgoingCall) -> None:
        """Begin with `call`."""
        if not self._calls:
            self._earliest = inf
        self._calls[call] = None
        over = self._engine.over
        if over is not None:
            self.end(call, Failed(ConnectionLost(str(over))))
            return
        due = call.start_clock(self._engine.runtime.now())
        if due < self._earliest:
            self._earliest = due
        self.send(call)

    # Requests

    def send(self, call: OutgoingCall) -> None:
        """Send the next request of `call` (its first, a page, or a round), once it is known in which revision."""
        negotiation = self._engine.negotiation
        if negotiation.state is not _READY:
            self.park(call)
            negotiation.start(call)
            return
        adapter = negotiation.adapter
        assert adapter is not None
        begin = _BEGUN_OTHERWISE.get(call.operation)
        if begin is None or not begin(self._engine, call, adapter):
            self._request(call, adapter)

    def at_hand(self, call: OutgoingCall, result: Mapping[str, JSON] | None) -> bool:
        """End `call` with its `result`, where that is known without a request. Whether it is."""
        if result is not None:
            self.end(call, Answered(result))
        return result is not None

    def _request(self, call: OutgoingCall, adapter: Adapter) -> None:
        operation = call.operation
        if adapter.method_for(operation) is None:
            if operation is not Operation.PING:
                self.end(call, Failed(McpError(f"the revision that the server speaks has no {call.operation}")))
                return
            operation = Operation.DESCRIBE  # any answer will do, and every server has this one
        call.tried.append(adapter.version)
        call.state = CALL[call.state][_SEND]
        call.request = request = self.make_request(operation, adapter, self._params_of(call, adapter), call)
        self._engine.transmit(request)

    def _params_of(self, call: OutgoingCall, adapter: Adapter) -> Mapping[str, JSON]:
        params = self._engine.lists.params_of(call) if call.operation in LISTS else call.params
        if not call.answers and call.request_state is None:
            return params
        return adapter.client_answered_params(params, call.answers, call.request_state, in_arguments=call.in_arguments)

    def make_request(
        self,
        operation: Operation,
        adapter: Adapter,
        params: Mapping[str, JSON],
        call: OutgoingCall | None = None,
        *,
        is_handshake: bool = False,
    ) -> OutgoingRequest:
        """A request with an id that was never used before. Progress is reported by that id too."""
        self._last_id = request_id = next(self._ids)
        method = adapter.method_for(operation)
        assert method is not None
        if not is_handshake:
            token = request_id if call is not None and call.wants_progress else None
            params = self._decorated(adapter, params, token)
        request = OutgoingRequest(
            id=request_id,
            operation=operation,
            method=method,
            params=params,
            message=encode_request(request_id, method, params or None),
            adapter=adapter,
            call=call,
            is_handshake=is_handshake,
        )
        self._requests[request_id] = request
        return request

    def _decorated(
        self, adapter: Adapter, params: Mapping[str, JSON], token: ProgressToken | None
    ) -> Mapping[str, JSON]:
        """`params` with what a request says of its client. Where that is all, it was said the last time as well."""
        engine, level = self._engine, self._engine.log_level
        if token is not None or "_meta" in params:
            capabilities = engine.capabilities_for(adapter)
            return adapter.client_decorate_params(
                params, engine.client_info, capabilities, progress_token=token, log_level=level
            )
        if self._decoration is None or self._decoration[:2] != (adapter, level):
            capabilities = engine.capabilities_for(adapter)
            said = adapter.client_decorate_params({}, engine.client_info, capabilities, log_level=level)
            self._decoration = adapter, level, said
        return {**params, **self._decoration[2]}

    def take(self, request: OutgoingRequest) -> bool:
        """The reply to `request` is here. False where none is due."""
        return self._requests.pop(request.id, None) is not None

    def drop(self, request: OutgoingRequest, *, cancelled: bool = False, reason: str | None = None) -> None:
        """Wait for the reply to `request` no longer."""
        if self.take(request):
            self._engine.release(request, cancelled=cancelled, reason=reason)

    # Waiting

    def park(self, call: OutgoingCall) -> None:
        """Have `call` wait for the negotiation, to be sent anew once that is done."""
        if call.request is not None:
            self.take(call.request)
        call.state = CALL[call.state][CallInput.PARK]
        self.waiting[call] = None

    def send_waiting(self) -> None:
        """It is settled what is spoken."""
        adapter = self._engine.negotiation.adapter
        assert adapter is not None
        waiting, self.waiting = self.waiting, {}
        for call in waiting:
            held, call.held = call.held, None
            if held is not None and not adapter.has_handshake:
                self.end(call, Failed(held))
            elif not call.ended:
                self.send(call)

    def fail_waiting(self, error: McpError) -> None:
        """It cannot be found out what is spoken."""
        waiting, self.waiting = self.waiting, {}
        for call in waiting:
            self.end(call, Failed(call.held or error))

    # Replies

    def answered(self, request: OutgoingRequest, result: JSON, size: int) -> None:
        """The reply to a call's `request` is a result, in a message of `size` bytes."""
        call = request.call
        assert call is not None
        self._engine.negotiation.confirmed = True
        if not isinstance(result, dict):
            self.end(call, Failed(UnusableReply("the result must be an object")))
            return
        try:
            asked = request.adapter.client_asked(request.operation, result)
        except Rejected as rejected:
            self.end(call, Failed(UnusableReply(f"the result cannot be used: {rejected}")))
            return
        if asked is not None:
            self._engine.questions.asked(call, asked, result)
        elif request.operation in LISTS:
            self._engine.lists.page(call, request, result, size)
        elif request.operation in _DESCRIBING:
            self._engine.negotiation.described(call, request, result)
        else:
            self.end(call, Answered(result))

    def failed(self, request: OutgoingRequest, error: McpError) -> None:
        """The reply to a call's `request` is an error, or there will be none."""
        call = request.call
        assert call is not None
        kind = modern_kind(request.adapter, error)
        if kind is FailureKind.UNSUPPORTED_VERSION and self._change_revision(call, error):
            return
        if kind is FailureKind.HEADER_MISMATCH and self._engine.lists.refresh_for(call, error):
            return
        if not self._engine.negotiation.confirmed and assumed_in_vain(call, request, error):
            call.held = error
            self.park(call)
            self._engine.negotiation.recheck()
            return
        self.end(call, Failed(error))

    def _change_revision(self, call: OutgoingCall, error: McpError) -> bool:
        """The server was replaced by one of other revisions, say. Whether the call goes on in one of them."""
        self.park(call)
        return self._engine.negotiation.settle_on(named_versions(error), call.tried)

    # The end

    def end(self, call: OutgoingCall, outcome: Answered | Failed) -> None:
        """`call` is over."""
        if call.outcome is not None:
            return
        engine = self._engine
        call.state = CALL[call.state][_END]
        call.outcome = outcome
        request, call.request = call.request, None  # the two hold each other: nothing is left to the garbage collector
        if request is not None and request.id in self._requests:
            self.drop(request)
        self._calls.pop(call, None)
        self.waiting.pop(call, None)
        if call.questions or engine.questions.pending:
            engine.questions.call_ended(call)
        if call.operation in LISTS:
            engine.lists.call_ended(call)
        elif call.operation in _LISTENING:
            engine.listeners.call_ended(call)
        if call.then is not None:
            call.then(call)
        else:
            engine.emit(CallEnded(call))

    def give_up(self, call: OutgoingCall, error: McpError, reason: str | None) -> None:
        """This side does not wait for `call` any more, which fails with `error`. `reason` is told to the server."""
        if call.ended:
            return
        if call.request is not None:
            self.drop(call.request, cancelled=True, reason=reason)
        self.end(call, Failed(error))
        if self._engine.drops_negotiation and not self.waiting:
            self._engine.negotiation.abandon()

    def close(self, reason: str) -> None:
        """The connection is over."""
        self._requests.clear()
        self.waiting.clear()
        for call in tuple(self._calls):
            self.end(call, Failed(ConnectionLost(reason)))

    # Time

    def look_at_times(self) -> None:
        """Find the earliest deadline again."""
        self._earliest = inf
        for call in self._calls:
            self.timed(call)

    def timed(self, call: OutgoingCall) -> None:
        """`call` has a deadline that may be sooner than all others."""
        due = call.due()
        if due is not None and due < self._earliest:
            self._earliest = due

    def resume(self, call: OutgoingCall) -> None:
        """The server does not wait for this side any more."""
        call.resume(self._engine.runtime.now())
        self.timed(call)

    def next_deadline(self) -> float | None:
        """When a call may have to be given up, if nothing comes."""
        return self._earliest if self._earliest != inf else None

    def handle_timeout(self, now: float) -> None:
        """See `ClientEngine.handle_timeout`."""
        if now < self._earliest:
            return
        self._give_up_late(now)
        self.look_at_times()

    def _give_up_late(self, now: float) -> None:
        for call in tuple(self._calls):
            due = call.due()
            if due is None or due > now:
                continue
            if not self._engine.negotiation.confirmed and call.state is CallState.SENT:
                # Nothing at all came from a server that is only assumed to be what it was: ask it next time.
                self._engine.negotiation.doubt()
            # Callers know that one by the name that their method has.
            asked = "initialize" if call.operation is Operation.DESCRIBE else call.operation
            self.give_up(call, CallTimeout(f"no answer to {asked} within {due - call.started:g} seconds"), "timeout")


Begin = Callable[["ClientEngine", OutgoingCall, Adapter], bool]
"""Begins a call that may need no request of its own. Whether it needs none."""


def _described(engine: ClientEngine, call: OutgoingCall, adapter: Adapter) -> bool:
    return engine.flight.at_hand(call, engine.negotiation.description)


def _log_level_set(engine: ClientEngine, call: OutgoingCall, adapter: Adapter) -> bool:
    engine.log_level = call.params["level"]
    return engine.flight.at_hand(call, {} if adapter.method_for(call.operation) is None else None)


def _listed(engine: ClientEngine, call: OutgoingCall, adapter: Adapter) -> bool:
    return engine.flight.at_hand(call, engine.lists.kept(call))


def _listened(engine: ClientEngine, call: OutgoingCall, adapter: Adapter) -> bool:
    return engine.listeners.begin(call, adapter)


_BEGUN_OTHERWISE: Mapping[Operation, Begin] = {
    Operation.DESCRIBE: _described,
    Operation.SET_LOG_LEVEL: _log_level_set,
    Operation.LISTEN: _listened,
    **dict.fromkeys(LISTS, _listed),
}
# Named once, and sets of several or one: see `mcp_sansio.operation`.
_LISTENING = frozenset({Operation.LISTEN})
_DESCRIBING = frozenset({Operation.DESCRIBE})
_READY, _SEND, _END = NegotiationState.READY, CallInput.SEND, CallInput.END

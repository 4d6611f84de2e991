"""Listening for changes, on each kind of revision by its own means.

Where there is a listen request, each listening is one of those, and what it brings names it. Where there is none, a
server announces changed lists unasked and updates of the resources that were subscribed to; each listening is then a
filter over that, and subscribes to its resources unless another one has.

Source: basic/patterns/subscriptions; server/resources, "Subscriptions".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import attrs

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.changes import Change, ChangeKind
from mcp_sansio.errors import McpError, ServerError
from mcp_sansio.notices import Acknowledged, Changed
from mcp_sansio.operation import Operation
from mcp_sansio.types import RequestId

from ._state import CALL, CallInput, NegotiationState
from .calls import Answered, Failed, OutgoingCall, OutgoingRequest
from .events import ChangeReceived, ListenStarted
from .timers import doubled

if TYPE_CHECKING:
    from .engine import ClientEngine

_LISTS = frozenset({ChangeKind.TOOLS, ChangeKind.PROMPTS, ChangeKind.RESOURCES})


@attrs.define(eq=False)
class _Listening:
    """What one listening wants. `unconfirmed` are the subscriptions that it still waits for."""

    kinds: frozenset[ChangeKind]
    uris: tuple[str, ...]
    started: bool = False
    by_request: bool = False
    unconfirmed: set[str] = attrs.field(factory=set)

    def wants(self, change: Change) -> bool:
        """Whether it is told of `change`. What lies below a resource belongs to it (schema, resources/updated)."""
        if change.uri is None:
            return change.kind in self.kinds
        return any(change.uri == uri or change.uri.startswith(uri.rstrip("/") + "/") for uri in self.uris)


class Listeners:
    """The listenings that are open: those of the caller, and one of the engine's own for what concerns everybody."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine
        self._open: dict[OutgoingCall, _Listening] = {}
        self._subscribed: dict[str, int] = {}
        self._own: OutgoingCall | None = None
        self._own_since = 0.0
        self._failures = 0

    # Beginning

    def new_call(self, *, tools: bool, prompts: bool, resources: bool, uris: Iterable[str]) -> OutgoingCall:
        """See `ClientEngine.listen`."""
        wanted = {ChangeKind.TOOLS: tools, ChangeKind.PROMPTS: prompts, ChangeKind.RESOURCES: resources}
        return self._new_call(frozenset(kind for kind, held in wanted.items() if held), tuple(dict.fromkeys(uris)))

    def _new_call(self, kinds: frozenset[ChangeKind], uris: tuple[str, ...]) -> OutgoingCall:
        call = self._engine.flight.new_call(Operation.LISTEN, {}, max_timeout=self._engine.config.timeout)
        self._open[call] = _Listening(kinds, uris)
        return call

    def begin(self, call: OutgoingCall, adapter: Adapter) -> bool:
        """Begin to listen. False where that takes a request, whose params `call` has now."""
        listening = self._open[call]
        params = adapter.client_listen_params(listening.kinds, listening.uris)
        if params is not None:
            call.params = params
            listening.by_request = True
            return False
        if self._refused(call, self._announced(), listening.uris):
            return True
        call.state = CALL[call.state][CallInput.SEND]
        listening.unconfirmed = set(listening.uris)
        for uri in listening.uris:
            self._subscribe(uri)
        self._engine.want_announcements()
        self._start_where_confirmed(call, listening)
        return True

    def _announced(self) -> frozenset[ChangeKind]:
        """The lists whose changes the server announces, as its handshake said (server/tools, "Capabilities")."""
        server = self._engine.negotiation.server
        declared = {} if server is None else server.capabilities
        held = ((kind, declared.get(kind)) for kind in _LISTS)
        return frozenset(kind for kind, said in held if isinstance(said, dict) and said.get("listChanged") is True)

    def _refused(self, call: OutgoingCall, kinds: Collection[ChangeKind], uris: Collection[str]) -> bool:
        """End a listening that would hear nothing, since the server announces only these `kinds` and `uris`.

        Where a part of it is heard, the rest is told of (basic/patterns/subscriptions, "Acknowledgment": check the
        filter). Whoever did not ask for anything in particular misses nothing.
        """
        listening = self._open[call]
        missing = [f"{kind}.listChanged" for kind in sorted(listening.kinds.difference(kinds))]
        if listening.uris and not uris:
            missing.append("resources.subscribe")
        if not missing or call is self._own:
            return False
        said = f"the server announces no such changes: it does not offer {', '.join(missing)}"
        if uris or not listening.kinds.isdisjoint(kinds):
            self._engine.fault(said, matters=True)
            return False
        self._engine.flight.give_up(call, McpError(said), None)
        return True

    def _subscribe(self, uri: str) -> None:
        held = self._subscribed.get(uri, 0)
        self._subscribed[uri] = held + 1
        self._engine.flight.internal_call(Operation.SUBSCRIBE, {"uri": uri}, self._subscription_answered)

    def _subscription_answered(self, asked: OutgoingCall) -> None:
        uri = asked.params["uri"]
        concerned = [(call, listening) for call, listening in self._open.items() if uri in listening.uris]
        if isinstance(asked.outcome, Failed):
            self._subscribed.pop(uri, None)
            for call, _ in concerned:
                self._engine.flight.end(call, asked.outcome)
            return
        for call, listening in concerned:
            listening.unconfirmed.discard(uri)
            self._start_where_confirmed(call, listening)

    def _start_where_confirmed(self, call: OutgoingCall, listening: _Listening) -> None:
        if not listening.unconfirmed and not listening.started and not call.ended:
            self._started(call, listening)

    def _started(self, call: OutgoingCall, listening: _Listening) -> None:
        listening.started = True
        call.deadline = None
        self._engine.flight.look_at_times()
        if call is self._own:
            self._own_since = self._engine.runtime.now()
            self._engine.lists.forget()
        else:
            self._engine.emit(ListenStarted(call))

    def listens(self, call: OutgoingCall) -> bool:
        """See `ClientEngine.listens`."""
        listening = self._open.get(call)
        return listening is not None and listening.started

    # Hearing

    def acknowledged(self, notice: Acknowledged, origin: OutgoingRequest | None) -> None:
        """A listen request was taken on."""
        call = self._call_of(notice.subscription, origin)
        if call is None or self._open[call].started:
            self._engine.fault("an acknowledgement of no subscription")
        elif not self._refused(call, notice.kinds, notice.uris):
            self._started(call, self._open[call])

    def changed(self, notice: Changed, origin: OutgoingRequest | None, adapter: Adapter) -> None:
        """The server announced a change."""
        change = notice.change
        self._engine.lists.changed(change.kind)
        if not adapter.has_handshake:
            call = self._call_of(notice.subscription, origin)
            if call is None:
                self._engine.fault("a change for no subscription that is open")
            else:
                self._engine.emit(ChangeReceived(change, None if call is self._own else call))
            return
        if self._engine.wants_changes and change.kind in _LISTS:
            self._engine.emit(ChangeReceived(change, None))
        for call, listening in self._open.items():
            if listening.started and listening.wants(change):
                self._engine.emit(ChangeReceived(change, call))

    def withdrawn(self, request_id: RequestId) -> bool:
        """The server ends a subscription. False where it has none of that id."""
        call = self._call_of(request_id, None)
        if call is not None:
            self._engine.flight.end(call, Answered({}))
        return call is not None

    def _call_of(self, subscription: RequestId | None, origin: OutgoingRequest | None) -> OutgoingCall | None:
        request = origin if subscription is None else self._engine.flight.request_of(subscription)
        call = None if request is None or (origin is not None and request is not origin) else request.call
        return call if call in self._open else None

    # The end, and a new beginning

    def settled(self) -> None:
        """What is spoken is settled, perhaps anew: a new session knows nothing of what the old one subscribed to."""
        adapter = self._engine.negotiation.adapter
        assert adapter is not None
        if not adapter.has_handshake:
            self._listen_for_all()
            return
        for uri in tuple(self._subscribed):
            self._engine.flight.internal_call(Operation.SUBSCRIBE, {"uri": uri}, self._subscription_answered)
        if self._engine.wants_changes or self._open:
            self._engine.want_announcements()

    def _listen_for_all(self) -> None:
        if self._own is None and self._engine.wants_changes and not self._engine.closed:
            self._own = self._new_call(_LISTS, ())
            self._own.then = self._own_ended
            self._engine.timers.drop(self)
            self._engine.flight.start(self._own)

    def _own_ended(self, call: OutgoingCall) -> None:
        self._own = None
        outcome = call.outcome
        if self._engine.closed:
            return
        self._engine.fault(
            f"announcements have ended: {outcome.error if isinstance(outcome, Failed) else 'by the server'}"
        )
        if isinstance(outcome, Failed) and isinstance(outcome.error, ServerError):
            return  # it does not announce anything
        now, config = self._engine.runtime.now(), self._engine.config
        lived = call.deadline is None and now - self._own_since >= config.max_reconnect_delay
        self._failures = 0 if lived else self._failures + 1
        if self._failures <= config.max_reconnects:
            times = max(0, self._failures - 1)
            delay = doubled(config.reconnect_delay, times, config.max_reconnect_delay)
            self._engine.timers.set(self, now + delay, self._listen_for_all)

    def call_ended(self, call: OutgoingCall) -> None:
        """`call` does not listen any more."""
        listening = self._open.pop(call, None)
        if listening is None or listening.by_request:
            return
        for uri in listening.uris:
            self._unsubscribe(uri)

    def _unsubscribe(self, uri: str) -> None:
        held = self._subscribed.pop(uri, 0) - 1
        if held > 0:
            self._subscribed[uri] = held
        elif held == 0 and self._engine.negotiation.state is NegotiationState.READY:
            self._engine.flight.internal_call(Operation.UNSUBSCRIBE, {"uri": uri}, lambda call: None)

    def close(self) -> None:
        """The connection is over."""
        self._engine.timers.drop(self)
        self._subscribed.clear()

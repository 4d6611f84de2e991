"""Finding out what a server speaks, once for all calls that wait for it.

A client of revisions with and without a handshake asks the server to describe itself, in the newest revision that has
none, and reads what comes. A description, or an error that only such a revision has, says that the server knows them.
Anything else, whatever its code, says that it does not, and so does silence: then the handshake is tried. An outage or
a missing permission says nothing, and fails the calls that wait.

Source: basic/versioning, "Backward Compatibility with Initialization-Based Versions"; the same heading of
basic/transports/stdio and basic/transports/streamable-http; basic/lifecycle, "Version Negotiation".
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.catalogue import ServerDescription
from mcp_sansio.errors import CallTimeout, McpError, NegotiationFailed, ServerError, UnusableReply
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import FailureKind
from mcp_sansio.types import JSON

from ._state import NEGOTIATION, NegotiationInput, NegotiationState
from .calls import Answered, Failed, OutgoingCall, OutgoingRequest
from .events import Negotiated
from .known import Known

if TYPE_CHECKING:
    from .engine import ClientEngine

#: The failures of which each revision without a handshake has a code of its own: they tell its server from others.
_MODERN = frozenset({FailureKind.HEADER_MISMATCH, FailureKind.UNSUPPORTED_VERSION, FailureKind.MISSING_CAPABILITY})
#: The HTTP statuses of refusals that say nothing of what a server speaks. Every other one of 4xx does.
_NOT_ABOUT_REVISIONS = frozenset(
    {
        *(401, 402, 403, 407, 451),  # who asks may not
        *(408, 425, 429),  # not now
        421,  # not here: the request came to somebody who does not answer for that host
    }
)
#: From here on something is out of order, on the server or before it. But a server that knows no POST says so with the
#: one status of these that means what it says.
_SERVER_AT_FAULT, _NOT_IMPLEMENTED = 500, 501
_NOT_FOUND = 404


class _Step(Enum):
    DISCOVER = auto()
    HANDSHAKE = auto()


class Negotiation:
    """What is known of the server, and how it is found out. `known` is what an earlier client found out."""

    def __init__(self, engine: ClientEngine, known: Known | None) -> None:
        self.state = NegotiationState.NEW
        self.adapter: Adapter | None = None
        self.known = known
        self.server: ServerDescription | None = None
        #: The raw result that the description was read from.
        self.description: Mapping[str, JSON] | None = None
        #: Whether the server has shown that what is assumed of it is so.
        self.confirmed = False
        self._engine = engine
        self._steps: deque[_Step] = deque()
        self._tried: Counter[str] = Counter()
        self._pending: list[OutgoingRequest] = []
        self.pending: Collection[object] = self._pending
        held = engine.adapters.adapters
        self._modern = next((adapter for adapter in held if not adapter.has_handshake), None)
        self._legacy = next((adapter for adapter in held if adapter.has_handshake), None)

    @property
    def trying(self) -> Adapter | None:
        """The revision of the request that is out, where nothing is settled yet."""
        return self._pending[-1].adapter if self._pending else None

    # Commands

    def start(self, call: OutgoingCall) -> None:
        """Find out, since `call` waits for it, unless that goes on already or is done."""
        if self.state is not NegotiationState.NEW:
            self._hurry(call)
            return
        known = self._engine.adapters.by_version.get(self.known.revision) if self.known is not None else None
        if known is not None and not known.has_handshake:
            self._settle(known, None, confirmed=False)
            return
        self._begin(handshake_first=known is not None)

    def recheck(self) -> None:
        """What was assumed seems to be stale: find out, unless that goes on already."""
        if self.state is NegotiationState.READY:
            self._begin(handshake_first=False)

    def handshake(self) -> None:
        """What the handshake opened is gone: open it anew, in the revision that was agreed on."""
        assert self.adapter is not None
        self._tried.clear()
        self._steps.clear()
        self._drop_pending()
        self._initialize(self.adapter)

    def start_over(self) -> None:
        """Nothing of what an earlier client found out is so."""
        self.known = None
        self._begin(handshake_first=False)

    def retry_handshake(self) -> None:
        """The transport has found another way to the server: try the handshake there."""
        assert self._legacy is not None
        self._steps.clear()
        self._drop_pending()
        self._initialize(self._legacy)

    def doubt(self) -> None:
        """Nothing came from a server that was only assumed to be what it was: the next call finds out."""
        if self.state is NegotiationState.READY and self._legacy is not None:
            self.known = None
            self.state = NEGOTIATION[self.state][NegotiationInput.FAIL]

    def lapse(self) -> None:
        """What the handshake opened is gone, and nobody waits for it to come back: the next call opens it anew."""
        if self.state is NegotiationState.READY:
            self.state = NEGOTIATION[self.state][NegotiationInput.FAIL]

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        if self.state in (NegotiationState.PROBING, NegotiationState.HANDSHAKING):
            self.state = NEGOTIATION[self.state][NegotiationInput.FAIL]
            self._drop_pending()

    def close(self) -> None:
        """The connection is over."""
        self.state = NEGOTIATION[self.state][NegotiationInput.CLOSE]
        self._pending.clear()

    def next_deadline(self) -> float | None:
        """When the silence of a probe says enough."""
        return min((asked.deadline for asked in self._pending if asked.deadline is not None), default=None)

    def handle_timeout(self, now: float) -> None:
        """See `ClientEngine.handle_timeout`."""
        for asked in tuple(self._pending):
            if asked.deadline is not None and asked.deadline <= now:
                # Its answer is still welcome: a server that takes long to start gets to read it first.
                asked.deadline = None
                if self._steps and self.state is NegotiationState.PROBING:
                    self._go_on(CallTimeout("the server kept silent about what it speaks"))

    # Steps

    def _begin(self, *, handshake_first: bool) -> None:
        self._tried.clear()
        self._drop_pending()
        steps = [_Step.DISCOVER] if self._modern is not None else []
        if self._legacy is not None:
            steps.insert(0 if handshake_first else len(steps), _Step.HANDSHAKE)
        self._steps = deque(steps)
        self._go_on(None)

    def _go_on(self, error: McpError | None) -> None:
        if not self._steps:
            assert error is not None
            self._refused(error)
        elif self._steps.popleft() is _Step.DISCOVER:
            assert self._modern is not None
            self._discover(self._modern)
        else:
            assert self._legacy is not None
            self._initialize(self._legacy)

    def _discover(self, adapter: Adapter) -> None:
        self.state = NEGOTIATION[self.state][NegotiationInput.PROBE]
        self._tried[adapter.version] += 1
        asked = self._engine.flight.make_request(Operation.DESCRIBE, adapter, {})
        if self._steps:
            waiting = self._engine.flight.waiting
            shortest = min((call.timeout for call in waiting), default=self._engine.config.timeout)
            asked.deadline = self._silent_until(shortest)
        self._send(asked)

    def _hurry(self, call: OutgoingCall) -> None:
        """One more waits, perhaps with less time than the others: the handshake must still come in time for it."""
        for asked in self._pending:
            if asked.deadline is not None:
                asked.deadline = min(asked.deadline, self._silent_until(call.timeout))

    def _silent_until(self, timeout: float) -> float:
        """How long the server may keep silent where a call of that timeout waits."""
        return self._engine.runtime.now() + min(self._engine.config.probe_timeout, timeout / 2)

    def _initialize(self, adapter: Adapter) -> None:
        self.state = NEGOTIATION[self.state][NegotiationInput.HANDSHAKE]
        self._tried[adapter.version] += 1
        params = adapter.client_handshake_params(self._engine.client_info, self._engine.capabilities_for(adapter))
        assert params is not None
        self._send(self._engine.flight.make_request(Operation.DESCRIBE, adapter, params, is_handshake=True))

    def _send(self, asked: OutgoingRequest) -> None:
        self._pending.append(asked)
        self._engine.transmit(asked)

    def _drop_pending(self) -> None:
        pending = tuple(self._pending)
        self._pending.clear()
        for asked in pending:
            self._engine.flight.drop(asked)

    # Replies

    def answered(self, asked: OutgoingRequest, result: JSON) -> None:
        """The reply to `asked` is a result."""
        self._pending.remove(asked)
        versions = asked.adapter.client_offered(result) if isinstance(result, dict) else None
        if asked.is_handshake:
            self._shaken(result, versions)
        elif versions is None:
            self._not_modern(_no_description())
        else:
            self._described(result, versions)

    def failed(self, asked: OutgoingRequest, error: McpError) -> None:
        """The reply to `asked` is an error, or there is none."""
        self._pending.remove(asked)
        if asked.is_handshake:
            self._handshake_failed(error)
            return
        kind = modern_kind(asked.adapter, error)
        if kind is FailureKind.UNSUPPORTED_VERSION:
            self._pick(named_versions(error), error)
        elif kind is not None:
            self._settle(asked.adapter, None)
        else:
            self._not_modern(error)

    def _described(self, result: Mapping[str, JSON], versions: list[str]) -> None:
        chosen = self._common(versions, has_handshake=False)
        if chosen is not None:
            self._settle(chosen, result)
        else:
            self._pick(versions, None)

    def _pick(self, versions: list[str], error: McpError | None) -> None:
        """The server speaks `versions`: go on with the best that may be tried, or give up."""
        modern = self._modern_again(versions, self._tried)
        legacy = self._common(versions, has_handshake=True, but=self._tried)
        if modern is not None:
            self._discover(modern)
        elif legacy is not None and self.state is not NegotiationState.HANDSHAKING:
            self._steps.clear()
            self._initialize(legacy)
        elif self.state is not NegotiationState.HANDSHAKING:
            self._fail(self._nothing_in_common(versions), error)

    def _not_modern(self, error: McpError) -> None:
        # Where the handshake has begun meanwhile, the silence before it has been understood already.
        if self.state is NegotiationState.PROBING:
            self._go_on_after(error)

    def _shaken(self, result: JSON, versions: list[str] | None) -> None:
        if not isinstance(result, dict) or versions is None:
            self._fail(UnusableReply("the reply to the handshake has no protocolVersion"))
            return
        chosen = self._common(versions, has_handshake=True)
        if chosen is None:
            self._engine.disagreed(self._nothing_in_common(versions))
            return
        self._engine.notify_of(chosen, Operation.HANDSHAKE_COMPLETE)
        self._settle(chosen, result)

    def _handshake_failed(self, error: McpError) -> None:
        versions = named_versions(error)
        other = self._common(versions, has_handshake=True, but=self._tried)
        if other is not None:
            self._initialize(other)
        elif not self._engine.other_way(error):
            self._go_on_after(error)

    def _go_on_after(self, error: McpError) -> None:
        if says_legacy(error):
            self._go_on(error)
        else:
            self._fail(error)

    def _common(self, versions: Collection[str], *, has_handshake: bool, but: Collection[str] = ()) -> Adapter | None:
        held = (one for one in self._engine.adapters.adapters if one.has_handshake is has_handshake)
        return next((one for one in held if one.version in versions and one.version not in but), None)

    def _modern_again(self, versions: Collection[str], tried: Mapping[str, int]) -> Adapter | None:
        """The best without a handshake that was not `tried`, or was tried once.

        A server that refuses a revision and names it in the same breath, while it is updated say, is taken at its word
        once (basic/versioning, "Protocol Version Negotiation": select from the list, and retry).
        """
        untried = self._common(versions, has_handshake=False, but=tried)
        twice = [version for version, times in tried.items() if times > 1]
        return untried or self._common(versions, has_handshake=False, but=twice)

    # Outcomes

    def settle_on(self, versions: list[str], tried: list[str]) -> bool:
        """The server says of a sudden that it speaks `versions`: go on in the best that may still be tried, if any."""
        chosen = self._modern_again(versions, Counter(tried))
        legacy = self._common(versions, has_handshake=True)
        if chosen is not None:
            self._settle(chosen, self.description)
        elif legacy is not None:
            self._tried.clear()
            self._steps.clear()
            self._initialize(legacy)
        return chosen is not None or legacy is not None

    def _settle(self, adapter: Adapter, result: Mapping[str, JSON] | None, *, confirmed: bool = True) -> None:
        self.state = NEGOTIATION[self.state][NegotiationInput.SETTLE]
        self._drop_pending()
        self.adapter = adapter
        self.confirmed = confirmed
        self.known = Known(adapter.version, self._engine.is_pair)
        self._describe(adapter, result)
        self._engine.emit(Negotiated(self.known, self.server))
        self._engine.settled()

    def described(self, call: OutgoingCall, asked: OutgoingRequest, result: Mapping[str, JSON]) -> None:
        """A call asked the server to describe itself, or whether it is there."""
        if asked.adapter.client_offered(result) is None:
            self._engine.flight.end(call, Failed(_no_description()))
            return
        self._describe(asked.adapter, result)
        self._engine.flight.end(call, Answered(result))

    def _describe(self, adapter: Adapter, result: Mapping[str, JSON] | None) -> None:
        self.description = result
        self.server = None if result is None else adapter.client_description(result)

    def _nothing_in_common(self, versions: Collection[str]) -> NegotiationFailed:
        ours = ", ".join(self._engine.adapters.versions)
        text = f"no protocol revision in common: the server speaks {_quoted(versions)}, and this client {ours}"
        return NegotiationFailed(text, list(versions))

    def _refused(self, error: McpError) -> None:
        ours, theirs = ", ".join(self._engine.adapters.versions), named_versions(error)
        named = f", but {_quoted(theirs)}" if theirs else ""
        said = "; ".join([str(error), *getattr(error, "__notes__", ())])
        astray = isinstance(error, ServerError) and (error.code, error.status) == (None, _NOT_FOUND)
        who = "nothing is found at this URL, whose path may be wrong; or the server" if astray else "the server"
        self._fail(NegotiationFailed(f"{who} speaks none of {ours}{named}: {said}", theirs), error)

    def _fail(self, error: McpError, cause: McpError | None = None) -> None:
        error.__cause__ = cause or error.__cause__
        self.state = NEGOTIATION[self.state][NegotiationInput.FAIL]
        self._drop_pending()
        self._engine.flight.fail_waiting(error)


def _quoted(versions: Collection[str]) -> str:
    return ", ".join(version[:100] for version in list(versions)[:20]) or "none"


def _no_description() -> UnusableReply:
    return UnusableReply("the server's description of itself names no revisions")


def modern_kind(adapter: Adapter, error: McpError) -> FailureKind | None:
    """What an error means that only servers of a revision without a handshake give, or ``None`` for any other."""
    if not isinstance(error, ServerError) or error.code is None:
        return None
    kind = adapter.client_failure(error.code)
    return kind if kind in _MODERN else None


def named_versions(error: McpError) -> list[str]:
    """The revisions that a refusal names, whatever its code (basic/lifecycle, "Error Handling")."""
    data = error.data if isinstance(error, ServerError) else None
    supported = data.get("supported") if isinstance(data, dict) else None
    return [version for version in supported if isinstance(version, str)] if isinstance(supported, list) else []


def says_legacy(error: McpError) -> bool:
    """Whether an error is a server's that does not know what it was asked. An outage is not."""
    if isinstance(error, ServerError):
        status = error.status
        if status is None or status == _NOT_IMPLEMENTED:
            return True
        return status < _SERVER_AT_FAULT and status not in _NOT_ABOUT_REVISIONS
    return isinstance(error, CallTimeout | UnusableReply)


def assumed_in_vain(call: OutgoingCall, request: OutgoingRequest, error: McpError) -> bool:
    """Whether `error` may come of a server that is not what was assumed."""
    return call.held is None and modern_kind(request.adapter, error) is None and says_legacy(error)

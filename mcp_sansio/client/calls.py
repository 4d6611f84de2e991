"""The records of the client role: a call and its requests, a question of the server and its answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from msgspec import Struct

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.errors import LocalProtocolError, McpError
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import InputRequest
from mcp_sansio.types import JSON, RequestId

from ._state import QUESTION, CallState, QuestionInput, QuestionState


class Answered(Struct, frozen=True):
    """The server gave a result: the raw JSON object. `asks` says that it is a question, which nobody answers here."""

    result: Mapping[str, JSON]
    asks: bool = False


class Failed(Struct, frozen=True):
    """There is no result, and `error` says why."""

    error: McpError


class OutgoingCall(Struct, eq=False, kw_only=True):
    """What a caller wants of the server. It may take several requests: pages of a list, rounds of questions.

    Read `operation`, `params` and `outcome`; everything else is the engine's.
    """

    operation: Operation
    params: Mapping[str, JSON]
    timeout: float
    max_timeout: float
    wants_progress: bool = False
    headers: Mapping[str, str] | None = None
    outcome: Answered | Failed | None = None
    state: CallState = CallState.WAITING

    #: The request in flight, and the revision of the last one.
    request: OutgoingRequest | None = None
    #: Takes the outcome in place of the caller, for the calls that the engine makes itself.
    then: Callable[[OutgoingCall], None] | None = None
    #: Times, in the runtime's seconds. While `pauses` are open the deadline stands still, for `pause_left` in all.
    started: float = 0.0
    deadline: float | None = None
    pauses: int = 0
    paused_at: float = 0.0
    pause_left: float = 0.0
    #: What its rounds have gathered.
    rounds: int = 0
    questions: dict[str, Question] = {}
    answers: dict[str, JSON] = {}
    request_state: str | None = None
    in_arguments: bool | None = None
    #: What it may do once.
    refreshed: bool = False
    restarted: bool = False
    #: The revision of each request so far.
    tried: list[str] = []
    held: McpError | None = None

    def __repr__(self) -> str:
        return f"<OutgoingCall {self.operation} {self.state.name}>"

    @property
    def ended(self) -> bool:
        """Whether there is an outcome."""
        return self.outcome is not None

    @property
    def asks(self) -> bool:
        """Whether the outcome is a question that nobody answers here: the result says what to call again with."""
        return isinstance(self.outcome, Answered) and self.outcome.asks

    def result(self) -> Mapping[str, JSON]:
        """The raw result. Raises the call's error, and `LocalProtocolError` before its end."""
        if self.outcome is None:
            raise LocalProtocolError("the call has not ended")
        if isinstance(self.outcome, Failed):
            raise self.outcome.error
        return self.outcome.result

    # Time

    def start_clock(self, now: float) -> float:
        """The call begins. When it is to be given up, if nothing comes."""
        self.started = now
        self.deadline = now + min(self.timeout, self.max_timeout)
        return self.deadline

    def extend(self, now: float) -> None:
        """The server showed that it works on it."""
        if self.deadline is not None:
            self.deadline = min(now + self.timeout, self.started + self.max_timeout)

    def pause(self, now: float) -> None:
        """The server waits for this side."""
        if self.pauses == 0:
            self.paused_at = now
        self.pauses += 1

    def resume(self, now: float) -> None:
        """It does no more: what was waited for does not count, and the server has its full time again."""
        self.pauses -= 1
        if self.pauses == 0:
            paused = min(now - self.paused_at, self.pause_left)
            self.pause_left -= paused
            self.started += paused
            self.extend(now)

    def due(self) -> float | None:
        """When it is to be given up, if nothing comes."""
        return self.deadline + self.pause_left if self.pauses and self.deadline is not None else self.deadline


class OutgoingRequest(Struct, eq=False, kw_only=True):
    """One JSON-RPC request, from its sending to its reply.

    One without a `call` is about what is spoken: the handshake, where it `is_handshake`, or a probe. `params` are as
    they are sent, and `message` is the request's bytes. `extra` is the transport's own.
    """

    id: int
    operation: Operation
    method: str
    params: Mapping[str, JSON]
    message: bytes
    adapter: Adapter
    call: OutgoingCall | None = None
    is_handshake: bool = False
    deadline: float | None = None
    extra: Any = None

    def __repr__(self) -> str:
        return f"<OutgoingRequest {self.id!r} {self.method}>"


@attrs.define(eq=False, kw_only=True)
class Question:
    """Something that the server asks this client's user, model or settings.

    `request` is ``{"method": …, "params": {…}}``. `call` is the call that it is asked for, where that is known, and
    `key` what the server calls the question there.
    """

    request: InputRequest
    call: OutgoingCall | None = None
    key: str | None = None
    #: For one that the server pushed: the id of its request, and the request of ours whose stream it came on.
    id: RequestId | None = None
    origin: OutgoingRequest | None = attrs.field(default=None, repr=False)
    adapter: Adapter
    deadline: float
    state: QuestionState = QuestionState.OPEN

    def advance(self, given: QuestionInput) -> bool:
        """One step of its state machine; whether anything changed."""
        before, self.state = self.state, QUESTION[self.state][given]
        return self.state is not before

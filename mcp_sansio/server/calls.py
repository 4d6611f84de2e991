"""A call in flight: the engine's half of an Exchange, and the one place where its reply is made, once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from math import isfinite
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from mcp_sansio.asker import Asker, Stop
from mcp_sansio.call import Call
from mcp_sansio.dependencies import Scope
from mcp_sansio.dispatcher import Peer
from mcp_sansio.exchange import Exchange
from mcp_sansio.outcome import Failure, FailureKind, InputRequest, Outcome
from mcp_sansio.raised import HANDLER_ERRORS, HANDLER_FAULT, outcome_of
from mcp_sansio.runtime import Event
from mcp_sansio.storage import Session
from mcp_sansio.types import JSON
from mcp_sansio.wire.json import fault_of

from ._state import CALL, CallInput, CallState
from .questions import Question

if TYPE_CHECKING:
    from mcp_sansio.registry import Registry

    from .server import Server

logger = logging.getLogger("mcp_sansio")

# From any other state nothing leads on.
_RUNNING = CallState.RUNNING
_ANSWERED, _CANCELLED = CALL[_RUNNING][CallInput.FINISH], CALL[_RUNNING][CallInput.CANCEL]


class Outlet(Protocol):
    """Where a call came from and its messages go: an HTTP request, or a channel.

    `owner` is whose answers to its questions count, `session` what the handshake opened, and `request` what handlers
    are handed as ``ex.request``. `wake` tells the driver that there is something to take.
    """

    @property
    def owner(self) -> object: ...
    @property
    def peer(self) -> Peer: ...
    @property
    def principal(self) -> str | None: ...
    @property
    def session(self) -> Session | None: ...
    @property
    def request(self) -> Any: ...
    @property
    def wake(self) -> Callable[[], None]: ...

    @property
    def can_stream(self) -> bool:
        """Whether anything may be sent before the reply. An HTTP client that accepts no stream gets the reply alone."""

    def send(self, message: bytes) -> None:
        """Send a message that goes before the reply."""

    def reply(self, running: RunningCall, message: bytes, failure: Failure | None) -> None:
        """Send the reply. `failure` is set where it is an error."""

    def gone(self, running: RunningCall) -> None:
        """The call was given up: there will be no reply."""

    async def drained(self) -> None:
        """Return once the client keeps up with what was sent."""


class RunningCall(Struct, eq=False):
    """One call that a handler runs; see `mcp_sansio.dispatcher.Run` for what its handler may need."""

    server: Server
    call: Call
    outlet: Outlet
    #: When it has run for too long, in the runtime's seconds.
    deadline: float
    state: CallState = _RUNNING
    scope: Scope | None = None
    raised: BaseException | None = None
    _asker: Asker | None = None
    _exchange: Exchange | None = None
    _cancelled: Event | None = None
    _questions: tuple[Question, ...] = ()
    _progress: float | None = None

    # What a handler may need

    @property
    def asker(self) -> Asker:
        """See `Run.asker`."""
        if self._asker is None:
            in_arguments = self.server.dispatcher.asks_in_arguments(self.call)
            self._asker = Asker(self.call, self, in_arguments=in_arguments)
        return self._asker

    @property
    def exchange(self) -> Exchange:
        """See `Run.exchange`."""
        if self._exchange is None:
            server, outlet = self.server, self.outlet
            self._exchange = Exchange(
                self.call,
                self,
                self.asker,
                sessions=lambda: server.session_access(outlet.principal),
                session=outlet.session,
                request=outlet.request,
            )
        return self._exchange

    @property
    def peer(self) -> Peer:
        """See `Run.peer`."""
        return self.outlet.peer

    @property
    def principal(self) -> str | None:
        """See `Run.principal`."""
        return self.outlet.principal

    @property
    def cancelled(self) -> Event:
        """Raised when the call is given up."""
        if self._cancelled is None:
            self._cancelled = self.server.runtime.event()
            if self.state is CallState.CANCELLED:
                self._cancelled.set()
        return self._cancelled

    # Running

    async def run(self) -> None:
        """Run the handler and reply. Nothing is raised but what cancels the task, and then the call is settled too."""
        try:
            outcome = await self.server.dispatcher.run(self)
        except HANDLER_ERRORS as error:
            outcome = outcome_of(self.call, error)
        except BaseException:
            self.finish(Failure(FailureKind.INTERNAL, "the call was interrupted"))
            raise
        finally:
            if self._asker is not None:
                # They point back here: without the way there, all are freed when the call is over.
                self._asker = self._exchange = self.scope = None
        self.finish(outcome)

    def finish(self, outcome: Outcome) -> None:
        """Reply with `outcome`, unless the call is over."""
        if self.state is not _RUNNING:
            return
        self.state = _ANSWERED
        if self._questions:
            self._withdraw(self._questions, "the call that asked is over")
        call = self.call
        message, failure = encoded(call, self.server.registry, outcome)
        self.outlet.reply(self, message, failure)
        self.outlet.wake()

    def cancel(self) -> None:
        """Give the call up: no reply, what it asked is withdrawn, its task to be cancelled."""
        if self.state is not _RUNNING:
            return
        self.state = _CANCELLED
        self._withdraw(self._questions, "the call that asked was cancelled")
        if self._cancelled is not None:
            self._cancelled.set()
        self.outlet.gone(self)
        self.outlet.wake()

    def _withdraw(self, questions: Iterable[Question], reason: str) -> None:
        """Nobody waits for the answers any more: the user need not go on (basic/utilities/cancellation)."""
        for question in questions:
            self._forget(question)
            self.outlet.send(self.call.adapter.encode_withdrawal(question.id, reason))
            self.server.questions.close(question)
            question.event.set()

    # What a handler sends while it runs

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """See `Side.progress`. The value must grow (basic/patterns/progress, "Progress Flow").

        Raises ``ValueError`` for a number that is not finite.
        """
        numbers = (done,) if total is None else (done, total)
        # A plain number needs no walk to be found sound, which would take a third of the time of a report.
        fault = None if all(map(_is_plain, numbers)) else fault_of({"progress": done, "total": total})
        if fault is not None:
            raise ValueError(f"progress is not JSON: {fault}")
        if self._progress is not None and done <= self._progress:
            return
        self._progress = done
        await self._notify(lambda: self.call.adapter.encode_progress(self.call, done, total, message))

    async def log(self, level: str, data: JSON, logger: str | None) -> None:
        """See `Side.log`. Raises ``ValueError`` for data that is not JSON."""
        fault = fault_of(data)
        if fault is not None:
            raise ValueError(f"log data is not JSON: {fault}")
        await self._notify(lambda: self.call.adapter.encode_log(level, data, logger))

    async def _notify(self, encode: Callable[[], bytes]) -> None:
        if self.state is not _RUNNING or not self.outlet.can_stream:
            await self.server.runtime.pause()
            return
        self.outlet.send(encode())
        self.outlet.wake()
        await self.outlet.drained()

    async def push(self, key: str, request: InputRequest) -> JSON:
        """See `Side.push`. After `Config.ask_timeout` seconds the question counts as unanswered."""
        owner = self.outlet.owner
        if not self.outlet.can_stream or owner is None:
            text = "the client cannot be asked here: it has no session, or accepts no event stream"
            raise Stop(Failure(FailureKind.MISSING_CAPABILITY, text))
        await self.server.workers.ready()
        question = self.server.questions.open(owner, self.server.config.ask_timeout)
        self._questions += (question,)
        try:
            self.outlet.send(self.call.adapter.encode_question(question.id, request))
            self.outlet.wake()
            await question.event.wait()
        finally:
            self.server.questions.close(question)
            self._forget(question)
        if question.reply is None:
            raise Stop(Failure(FailureKind.TIMED_OUT, f"the client did not answer the question {key!r} in time"))
        if question.reply.error is not None:
            raise Stop(Failure(FailureKind.INTERNAL, f"the client refused the question {key!r}"))
        return question.reply.result

    def _forget(self, question: Question) -> None:
        self._questions = tuple(held for held in self._questions if held is not question)

    # Time

    def next_deadline(self) -> float | None:
        """When `handle_timeout` has something to do, in the runtime's seconds."""
        if self.state is not _RUNNING:
            return None
        return min([self.deadline, *(question.deadline for question in self._questions)])

    def handle_timeout(self, now: float) -> bool:
        """Do what is due. True where the call itself ran out of time, so that its task should be cancelled."""
        if self.state is not _RUNNING:
            return False
        if self.deadline <= now:
            seconds = self.server.config.call_timeout
            self.finish(Failure(FailureKind.TIMED_OUT, f"the call took longer than {seconds:g} seconds"))
            return True
        late = [question for question in self._questions if question.deadline <= now]
        self._withdraw(late, "nobody answered in time")
        return False


def encoded(call: Call, registry: Registry, outcome: Outcome) -> tuple[bytes, Failure | None]:
    """The reply to `call`, and the failure that it tells of, if it does."""
    try:
        return call.adapter.encode(call, registry, outcome), outcome.failure
    except (TypeError, ValueError, RecursionError):
        # What a handler put in a result (a `meta`, say) may not be JSON; only encoding can tell.
        logger.exception("the result of %s %r cannot be encoded", call.operation, call.target)
        failure = Failure(FailureKind.INTERNAL, HANDLER_FAULT)
        return call.adapter.encode(call, registry, failure), failure


def _is_plain(number: float) -> bool:
    return (type(number) is int and abs(number) < 2**53) or (type(number) is float and isfinite(number))

"""The questions of a server: pushed as requests of its own, or as the result of a call, which is then made again.

A call that asks is made again with *every* answer so far, not only with those to its last questions. The specification
asks for the latter and has servers ignore what they do not need; a server that leaves nothing in its ``requestState``
would otherwise never get past its first question (basic/patterns/mrtr, "Basic Workflow" and "Error Handling").
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.client_role import Asked
from mcp_sansio.asking import CAPABILITY_OF, ELICIT, elicit_cancel
from mcp_sansio.errors import AnswerFailed, CallTimeout, UnusableReply
from mcp_sansio.operation import Operation
from mcp_sansio.outcome import Failure, FailureKind, InputRequest
from mcp_sansio.types import JSON, RequestId
from mcp_sansio.wire.json import encode
from mcp_sansio.wire.jsonrpc import Envelope, encode_result

from ._state import CALL, CallInput, QuestionInput
from .calls import Answered, Failed, OutgoingCall, OutgoingRequest, Question
from .events import QuestionReceived, QuestionWithdrawn

if TYPE_CHECKING:
    from .engine import ClientEngine


class Questions:
    """The questions that are open, and the calls whose time stands still for each."""

    def __init__(self, engine: ClientEngine) -> None:
        self._engine = engine
        self._open: dict[Question, list[OutgoingCall]] = {}
        self.pending: Collection[object] = self._open
        self._pushed: dict[RequestId, Question] = {}

    # Received

    def received(self, envelope: Envelope, origin: OutgoingRequest | None, adapter: Adapter | None) -> None:
        """The server sent a request. Those that it may not send are refused, and never looked at again."""
        method = envelope.method or ""
        assert envelope.id is not None
        if adapter is None or not adapter.has_handshake:
            # There is no such thing as a response from a client here (basic/transports/stdio, "Sending Messages").
            self._engine.fault(f"the request {method[:100]!r}, where servers send none")
            return
        if adapter.methods.get(method) is Operation.PING:
            self._engine.respond(encode_result(envelope.id, b"{}"), adapter, origin)
            return
        failure = self._fault_of(method, envelope, adapter)
        if failure is not None:
            self._engine.fault(f"the request {method[:100]!r} was refused: {failure.message}")
            self._engine.respond(adapter.encode_failure(envelope.id, failure), adapter, origin)
            return
        question = Question(
            request={"method": method, "params": envelope.params},
            call=None if origin is None else origin.call,
            id=envelope.id,
            origin=origin,
            adapter=adapter,
            deadline=self._engine.runtime.now() + self._engine.config.ask_timeout,
        )
        self._pushed[envelope.id] = question
        self._put(question, [question.call] if question.call is not None else self._engine.flight.unanswered())

    def _fault_of(self, method: str, envelope: Envelope, adapter: Adapter) -> Failure | None:
        capability = CAPABILITY_OF.get(method)
        declared = self._engine.capabilities_for(adapter)
        if capability is None or not self._engine.can_answer or capability not in declared:
            return Failure(FailureKind.UNKNOWN_METHOD, f"this client has no {method[:100]}")
        fault = _fault_of_mode(method, envelope.params, declared[capability])
        if fault is not None:
            return Failure(FailureKind.INVALID_PARAMS, fault)
        if envelope.id in self._pushed:
            return Failure(FailureKind.MALFORMED, "the id of a request that is still open was used again")
        if len(self._open) >= self._engine.config.max_questions:
            return Failure(FailureKind.TOO_MANY, f"at most {self._engine.config.max_questions} questions may be open")
        return None

    def asked(self, call: OutgoingCall, asked: Asked, result: Mapping[str, JSON]) -> None:
        """A result of `call` asks. Where nothing answers, it is the outcome."""
        if asked.requests and not self._engine.can_answer:
            self._engine.flight.end(call, Answered(result, asks=True))
            return
        fault = self._fault_of_round(call, asked)
        if fault is not None:
            self._engine.flight.end(call, Failed(UnusableReply(fault)))
            return
        call.rounds += 1
        call.request_state, call.in_arguments = asked.state, asked.in_arguments
        if not asked.requests:
            self._engine.flight.send(call)
            return
        call.state = CALL[call.state][CallInput.ASK]
        now = self._engine.runtime.now()
        call.pause(now)
        assert call.request is not None
        for key, request in asked.requests.items():
            call.questions[key] = Question(
                request=request,
                call=call,
                key=key,
                adapter=call.request.adapter,
                deadline=now + self._engine.config.ask_timeout,
            )
        for question in tuple(call.questions.values()):
            self._put(question, [])

    def _fault_of_round(self, call: OutgoingCall, asked: Asked) -> str | None:
        config = self._engine.config
        if call.rounds >= config.max_rounds:
            return f"the call was answered with questions more than {config.max_rounds} times"
        if len(asked.requests) > config.max_questions:
            return f"{len(asked.requests)} questions at once, where {config.max_questions} may be"
        if asked.in_arguments:
            return None  # no revision defines these, so no capability is declared for them
        assert call.request is not None
        declared = self._engine.capabilities_for(call.request.adapter)
        for key, request in asked.requests.items():
            fault = _fault_of_request(request, declared)
            if fault is not None:
                return f"the question {key[:100]!r}: {fault}"
        return None

    def _put(self, question: Question, paused: list[OutgoingCall]) -> None:
        now = self._engine.runtime.now()
        for call in paused:
            call.pause(now)
        self._open[question] = paused
        self._engine.emit(QuestionReceived(question))

    # Answered

    def answer(self, question: Question, reply: dict[str, JSON]) -> None:
        """See `ClientEngine.answer`."""
        if not self._close(question, QuestionInput.ANSWER):
            return
        if question.id is not None:
            self._engine.respond(encode_result(question.id, encode(reply)), question.adapter, question.origin)
            return
        call = question.call
        assert call is not None
        assert question.key is not None
        call.answers[question.key] = reply
        del call.questions[question.key]
        if not call.questions:
            self._engine.flight.resume(call)
            self._engine.flight.send(call)

    def fail(self, question: Question, message: str, cause: BaseException | None) -> None:
        """See `ClientEngine.fail`."""
        if not self._close(question, QuestionInput.ANSWER):
            return
        if question.id is not None:
            self._refuse(question, Failure(FailureKind.INTERNAL, message))
            return
        assert question.call is not None
        error = AnswerFailed(message)
        error.__cause__ = cause
        self._engine.flight.end(question.call, Failed(error))

    def _refuse(self, question: Question, failure: Failure) -> None:
        assert question.id is not None
        message = question.adapter.encode_failure(question.id, failure)
        self._engine.respond(message, question.adapter, question.origin)

    def _close(self, question: Question, given: QuestionInput) -> bool:
        """One step of the question's state machine. False where nobody waits for it any more."""
        if not question.advance(given):
            return False
        for call in self._open.pop(question):
            self._engine.flight.resume(call)
        if question.id is not None:
            del self._pushed[question.id]
        return True

    # Withdrawn

    def withdraw(self, request_id: RequestId) -> bool:
        """The server gave its request up. False where it has none of that id."""
        question = self._pushed.get(request_id)
        if question is not None:
            self._withdraw(question)
        return question is not None

    def call_ended(self, call: OutgoingCall) -> None:
        """Nothing that was asked for `call` matters any more."""
        for question in tuple(self._open):
            if question.call is call:
                self._withdraw(question)
        call.questions.clear()

    def stream_ended(self) -> None:
        """The stream is over on which a session says what is about no request of ours, and with it the session.

        Its ids are unique in it alone (basic, "Requests"): in the next, an answer would be one to something else.
        """
        for question in tuple(self._open):
            if question.id is not None and question.origin is None:
                self._withdraw(question)

    def close(self) -> None:
        """The connection is over."""
        for question in tuple(self._open):
            self._withdraw(question)

    def _withdraw(self, question: Question) -> None:
        if self._close(question, QuestionInput.WITHDRAW):
            self._engine.emit(QuestionWithdrawn(question))

    # Time

    def next_deadline(self) -> float | None:
        """When a question has waited long enough."""
        return min((question.deadline for question in self._open), default=None)

    def handle_timeout(self, now: float) -> None:
        """See `ClientEngine.handle_timeout`."""
        for question in tuple(self._open):
            if question.deadline <= now and question in self._open:
                self._expire(question)

    def _expire(self, question: Question) -> None:
        self._withdraw(question)
        if question.id is None:
            assert question.call is not None
            error = CallTimeout(f"nobody answered the question {question.key!r} in time")
            self._engine.flight.end(question.call, Failed(error))
        elif question.request["method"] == ELICIT:
            # Nobody said no: that is what "cancel" is for (client/elicitation, "Response Actions").
            reply = encode_result(question.id, encode(elicit_cancel()))
            self._engine.respond(reply, question.adapter, question.origin)
        else:
            self._refuse(question, Failure(FailureKind.TIMED_OUT, "nobody answered in time"))


def _fault_of_request(request: InputRequest, declared: Mapping[str, JSON]) -> str | None:
    method = request["method"]
    capability = CAPABILITY_OF.get(method)
    if capability is None:
        return f"there is no {method[:100]!r}"
    if capability not in declared:
        return f"this client did not declare {capability}"
    return _fault_of_mode(method, request.get("params", {}), declared[capability])


def _fault_of_mode(method: str, params: Mapping[str, JSON], declared: JSON) -> str | None:
    """A mode of elicitation that was not declared; none at all is the form (client/elicitation, "Capabilities")."""
    if method != ELICIT:
        return None
    mode = params.get("mode", "form")
    modes = [name for name in ("form", "url") if isinstance(declared, Mapping) and name in declared]
    return None if mode in (modes or ["form"]) else f"this client did not declare the mode {str(mode)[:100]!r}"

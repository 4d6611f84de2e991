"""How one call puts its questions to the client, and what it takes for an answer.

There are three ways (see ``docs/design.md``), and which one a question takes is decided here, by the flags of the
call's revision, by what the client declared, and by whether the tool may ask in its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .asking import (
    CAPABILITY_OF,
    ELICIT,
    SAMPLE,
    Answer,
    AnswerAction,
    answer_of,
    default_answer,
    fault_of_answer,
    question_of,
)
from .call import Call
from .errors import LocalProtocolError
from .operation import HANDLED
from .outcome import Failure, FailureKind, InputRequest, NeedInput
from .runtime import Event
from .types import JSON, UNSET
from .wire.json import fault_of


class Side(Protocol):
    """The engine's half of a call."""

    @property
    def cancelled(self) -> Event:
        """Raised when the call is given up."""

    async def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Send a progress notification, unless the call is over."""

    async def log(self, level: str, data: JSON, logger: str | None) -> None:
        """Send a log message, unless the call is over."""

    async def push(self, key: str, request: InputRequest) -> JSON:
        """Put a question on the call's stream and wait: the client's raw result. Raises `Stop` where there is none."""

    def cancel(self) -> None:
        """Give the call up as if the client had."""


class Stop(BaseException):
    """Ends a handler with a failure that is not the handler's to catch, for the reason that `NeedInput` has."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Asker:
    """The questions of `call`.

    `in_arguments` says that the call may put them in its result and take the answers as arguments.
    """

    def __init__(self, call: Call, side: Side, *, in_arguments: bool) -> None:
        self.in_arguments = in_arguments
        self._call = call
        self._side = side
        #: What this run of the handler has asked, by key.
        self._asked: dict[str, InputRequest] = {}
        #: The keys whose answers are the handler's own.
        self._defaulted: set[str] = set()

    async def ask(self, key: str, request: InputRequest, default: Mapping[str, JSON] = UNSET) -> Answer:
        """See `Exchange.ask`."""
        if self._call.operation not in HANDLED:
            raise LocalProtocolError("only tools, resources and prompts may ask the client something")
        fault = fault_of(request)
        if fault is not None:
            raise ValueError(f"the question {key!r} is not JSON: {fault}")
        made: Any = request  # handlers are not always type-checked
        if not isinstance(made, Mapping) or made.get("method") not in CAPABILITY_OF:
            raise TypeError("a question is made by elicit(), sample() or list_roots()")
        if self._asked.setdefault(key, request) != request:
            # It would get the answer to the other one, which may be a yes to something else.
            text = f"the key {key!r} names another question already: give each question a key of its own"
            raise ValueError(f'{text}, as f"{key}-{{name}}" is one for each name')
        given = None if default is UNSET else default_answer(request, default)
        if key in self._call.answers:
            return self._checked(key, request)
        missing = self.missing_capability(request)
        if missing is not None:
            if given is None:
                raise Stop(missing)
            return given
        if not self._pushes(request):
            raise NeedInput({key: request}, state=self._call.state)
        reply = await self._push(key, request, default)
        self._call.answers = {**self._call.answers, key: reply}
        return self._checked(key, request)

    def action(self, key: str) -> AnswerAction | None:
        """See `Exchange.action`."""
        if key not in self._call.answers:
            return None
        return self._checked(key, question_of(self._call.answers[key])).action

    def missing_capability(self, request: InputRequest) -> Failure | None:
        """Why `request` cannot be put to this client, or ``None`` where it can."""
        if self._in_arguments(request):
            return None
        adapter = self._call.adapter
        if not (adapter.can_ask or adapter.can_push_ask) or not adapter.can_carry(request):
            text = "this needs an answer from the client, which its protocol revision has no way to ask for"
            return Failure(FailureKind.MISSING_CAPABILITY, text)
        needed = _required_capability(request, self._call.client.capabilities)
        if not needed:
            return None
        message = f"this needs the client capability {next(iter(needed))!r}, which the client did not declare"
        return Failure(FailureKind.MISSING_CAPABILITY, message, {"requiredCapabilities": needed})

    async def push_all(self, requests: Mapping[str, InputRequest]) -> None:
        """Put several questions, where questions are pushed, one after the other, answered before or not.

        The handler is then run anew.
        """
        self._call.answers = {key: answer for key, answer in self._call.answers.items() if key not in requests}
        self._asked.clear()
        for key, request in requests.items():
            await self.ask(key, request)
        self._asked.clear()

    def pushes(self, requests: Mapping[str, InputRequest]) -> bool:
        """Whether `requests` go out on the call's stream rather than in its result."""
        return bool(self._call.adapter.can_push_ask) and all(map(self._pushes, requests.values()))

    def rides_in_arguments(self, requests: Mapping[str, InputRequest]) -> bool:
        """Whether `requests` ride in an ordinary result and their answers in the next call's arguments."""
        return any(self._in_arguments(request) for request in requests.values())

    def _pushes(self, request: InputRequest) -> bool:
        return bool(self._call.adapter.can_push_ask) and not self._in_arguments(request)

    def _in_arguments(self, request: InputRequest) -> bool:
        if not self.in_arguments:
            return False
        adapter = self._call.adapter
        possible = adapter.can_carry(request) and not _required_capability(request, self._call.client.capabilities)
        return bool(adapter.asks_in_arguments) or not possible

    def _checked(self, key: str, request: InputRequest) -> Answer:
        reply = self._call.answers[key]
        if key in self._defaulted:
            return default_answer(request, reply)
        fault = fault_of_answer(request, reply)
        if fault is not None:
            in_arguments = self._in_arguments(request)
            kind = FailureKind.INVALID_ARGUMENTS if in_arguments else FailureKind.INVALID_PARAMS
            raise Stop(Failure(kind, f"the answer to {key!r} is malformed: {fault}"))
        return answer_of(request, reply)

    async def _push(self, key: str, request: InputRequest, default: Mapping[str, JSON]) -> JSON:
        try:
            return await self._side.push(key, request)
        except Stop:
            if default is UNSET:
                raise
            self._defaulted.add(key)
            return default


def _required_capability(request: InputRequest, declared: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """The capability that `request` needs and `declared` lacks, as ClientCapabilities would spell it; empty if none."""
    method, params = request["method"], request.get("params", {})
    name = CAPABILITY_OF[method]
    held = declared.get(name)
    needed: dict[str, JSON] = {}
    if method == ELICIT:
        mode = params.get("mode", "form")
        # An empty capability means form mode alone (client/elicitation, "Capabilities").
        supported = isinstance(held, Mapping) and (mode in held or (mode == "form" and "url" not in held))
        needed = {} if mode == "form" and not isinstance(held, Mapping) else {mode: {}}
    elif method == SAMPLE and "tools" in params:
        supported = isinstance(held, Mapping) and "tools" in held
        needed = {"tools": {}}
    else:
        supported = isinstance(held, Mapping)
    return {} if supported else {name: needed}

"""One call's worth of everything that a handler may need. It arrives by annotation.

What it cannot do itself — put bytes on the call's stream, wait for an answer — its `Side` does, which is the engine's
half of the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .asking import CAPABILITY_OF, ELICIT, SAMPLE, Answer, AnswerAction, answer_of, elicit_accept, fault_of_answer
from .call import Call, ClientInfo
from .errors import LocalProtocolError
from .operation import HANDLED
from .outcome import Failure, FailureKind, InputRequest, NeedInput
from .runtime import Event
from .storage import Session, SessionAccess
from .types import JSON, LOG_LEVELS, UNSET, LogLevel
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


class Exchange:
    """What a handler may know and do about its call.

    `request` is the transport's own request object, for what a middleware decided (``None`` without one). `session` is
    the session that the handshake opened, or ``None``; `sessions` opens and reaches sessions by handle on any revision.
    """

    def __init__(
        self,
        call: Call,
        side: Side,
        *,
        sessions: Callable[[], SessionAccess],
        session: Session | None = None,
        request: Any = None,
        ask_in_arguments: bool = False,
    ) -> None:
        self.session = session
        self.request = request
        self._call = call
        self._side = side
        self._open_sessions = sessions
        self._sessions: SessionAccess | None = None
        self.ask_in_arguments = ask_in_arguments

    @property
    def sessions(self) -> SessionAccess:
        """Sessions by handle, on any revision."""
        if self._sessions is None:
            self._sessions = self._open_sessions()
        return self._sessions

    @property
    def client_info(self) -> ClientInfo:
        """Who is calling and what they declared."""
        return self._call.client

    @property
    def state(self) -> Any:
        """What the previous attempt left (``NeedInput(state=…)``), or ``None`` on the first."""
        return self._call.state

    # Asking

    async def ask(self, key: str, request: InputRequest, *, default: Mapping[str, JSON] = UNSET) -> Answer:
        """Put a question to the client, however this revision can, and give the answer.

        `key` names the question within the call; asking again with the same key gives the same answer. `request` comes
        from `elicit`, `sample` or `list_roots`. Where the client cannot be asked, `default` (``elicit_decline()``, say)
        is the answer; without one the call fails with what its revision has for a missing capability.

        The handler may be run again from its beginning to get past this line, so do what cannot be undone after the
        last question. Raises `LocalProtocolError` in a completion, which may not ask (basic/patterns/mrtr), and
        ``ValueError`` for a `request` that is not JSON.
        """
        if self._call.operation not in HANDLED:
            raise LocalProtocolError("only tools, resources and prompts may ask the client something")
        fault = fault_of(request)
        if fault is not None:
            raise ValueError(f"the question {key!r} is not JSON: {fault}")
        made: Any = request  # handlers are not always type-checked
        if not isinstance(made, Mapping) or made.get("method") not in CAPABILITY_OF:
            raise TypeError("a question is made by elicit(), sample() or list_roots()")
        if key in self._call.answers:
            return self._checked(key, request)
        missing = self.missing_capability(request)
        if missing is not None:
            if default is not UNSET:
                return answer_of(default)
            raise Stop(missing)
        if not self._pushes(request):
            raise NeedInput({key: request}, state=self._call.state)
        reply = await self._push(key, request, default)
        self._call.answers = {**self._call.answers, key: reply}
        return answer_of(reply)

    def answered(self, key: str) -> bool:
        """Whether there is an answer for `key`, an agreement or not."""
        return key in self._call.answers

    def accepted(self, key: str) -> bool:
        """Whether the answer for `key` is an agreement."""
        return self.action(key) is AnswerAction.ACCEPT

    def action(self, key: str) -> AnswerAction | None:
        """How the question `key` ended, or ``None`` where it was not answered."""
        reply = self._call.answers.get(key)
        return answer_of(reply).action if isinstance(reply, Mapping) else None

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
        """Put several questions one after the other, where questions are pushed. For the dispatcher."""
        for key, request in requests.items():
            await self.ask(key, request)

    def pushes(self, requests: Mapping[str, InputRequest]) -> bool:
        """Whether `requests` go out on the call's stream rather than in its result."""
        return bool(self._call.adapter.can_push_ask) and all(map(self._pushes, requests.values()))

    def in_arguments(self, requests: Mapping[str, InputRequest]) -> bool:
        """Whether `requests` ride in an ordinary result and their answers in the next call's arguments."""
        return any(self._in_arguments(request) for request in requests.values())

    def _pushes(self, request: InputRequest) -> bool:
        return bool(self._call.adapter.can_push_ask) and not self._in_arguments(request)

    def _in_arguments(self, request: InputRequest) -> bool:
        if not self.ask_in_arguments:
            return False
        adapter = self._call.adapter
        possible = adapter.can_carry(request) and not _required_capability(request, self._call.client.capabilities)
        return bool(adapter.asks_in_arguments) or not possible

    def _checked(self, key: str, request: InputRequest) -> Answer:
        reply = self._call.answers[key]
        if self._is_content_alone(request, reply):
            reply = elicit_accept(reply)
        fault = fault_of_answer(request, reply)
        if fault is not None:
            in_arguments = self._in_arguments(request)
            kind = FailureKind.INVALID_ARGUMENTS if in_arguments else FailureKind.INVALID_PARAMS
            raise Stop(Failure(kind, f"the answer to {key!r} is malformed: {fault}"))
        return answer_of(reply)

    def _is_content_alone(self, request: InputRequest, reply: JSON) -> bool:
        # Whoever fills in arguments by hand may well give what was asked for and nothing around it.
        if request["method"] != ELICIT or not isinstance(reply, Mapping):
            return False
        return "action" not in reply and self._in_arguments(request)

    async def _push(self, key: str, request: InputRequest, default: Mapping[str, JSON]) -> Mapping[str, JSON]:
        try:
            reply = await self._side.push(key, request)
        except Stop:
            if default is UNSET:
                raise
            return default
        fault = fault_of_answer(request, reply)
        if fault is not None:
            raise Stop(Failure(FailureKind.INVALID_PARAMS, f"the answer to {key!r} is malformed: {fault}"))
        answer: Mapping[str, JSON] = reply
        return answer

    # Reporting

    async def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the client asked for it. `done` must grow; a report that does not is left out."""
        if self._call.progress_token is not None:
            await self._side.progress(done, total, message)

    async def log(self, level: LogLevel, data: JSON, *, logger: str | None = None) -> None:
        """Send a log message, if the client asked for that severity. `data` is any JSON value.

        Raises ``ValueError`` for a level that the protocol does not have.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"{level!r} is no level of the protocol's; they are {', '.join(LOG_LEVELS)}")
        wanted = self._call.log_level
        if wanted is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(wanted):
            await self._side.log(level, data, logger)

    # Giving up

    def cancel(self) -> None:
        """Give this call up as if the client had: it is not answered any more."""
        self._side.cancel()

    async def wait_cancelled(self) -> None:
        """Return once the call was given up."""
        await self._side.cancelled.wait()


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

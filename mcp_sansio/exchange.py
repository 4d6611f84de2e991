"""One call's worth of everything that a handler may need. It arrives by annotation.

What it cannot do itself — put bytes on the call's stream, wait for an answer — its `Side` does, which is the engine's
half of the same call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, NoReturn

from .asker import Asker, Side
from .asking import Answer, AnswerAction
from .call import Call, ClientInfo
from .outcome import InputRequest
from .storage import Session, SessionAccess
from .types import JSON, LOG_LEVELS, UNSET, LogLevel


class Exchange:
    """What a handler may know and do about its call.

    `request` is the transport's own request object, for what a middleware decided (``None`` without one). `session` is
    the session that the handshake opened, or ``None``; `sessions` opens and reaches sessions by handle on any revision.
    """

    _client_info: ClientInfo | None = None

    def __init__(
        self,
        call: Call,
        side: Side,
        asker: Asker,
        *,
        sessions: Callable[[], SessionAccess],
        session: Session | None = None,
        request: Any = None,
    ) -> None:
        self.session = session
        self.request = request
        self._call = call
        self._side = side
        self._asker = asker
        self._open_sessions = sessions
        self._sessions: SessionAccess | None = None

    @property
    def sessions(self) -> SessionAccess:
        """Sessions by handle, on any revision."""
        if self._sessions is None:
            self._sessions = self._open_sessions()
        return self._sessions

    @property
    def client_info(self) -> ClientInfo:
        """Who is calling and what they declared: a copy, which is the handler's own."""
        if self._client_info is None:  # a session's calls share one, and so do calls that are alike
            self._client_info = copy.deepcopy(self._call.client)
        return self._client_info

    @property
    def state(self) -> Any:
        """What the previous attempt left (``NeedInput(state=…)``), or ``None`` on the first."""
        return self._call.state

    # Asking

    def ask(
        self, key: str, request: InputRequest, *, default: Mapping[str, JSON] = UNSET
    ) -> Coroutine[Any, Any, Answer]:
        """Put a question to the client, however this revision can; to be awaited for the answer.

        `key` names the question within the call; asking the same again gives the same answer. `request` comes
        from `elicit`, `sample` or `list_roots`. Where the client cannot be asked, `default` (``elicit_decline()``, say)
        is the answer; without one the call fails with what its revision has for a missing capability.

        The handler may be run again from its beginning to get past this line, so do what cannot be undone after the
        last question. Raises `LocalProtocolError` in a completion, which may not ask (basic/patterns/mrtr), and
        ``ValueError`` for a `request` that is not JSON, for a `key` that named another question in the same run of the
        handler, and for a `default` that is no answer to the question.
        """
        return NotAwaited(self._asker.ask(key, request, default))

    def answered(self, key: str) -> bool:
        """Whether there is an answer for `key`, an agreement or not."""
        return key in self._call.answers

    def accepted(self, key: str) -> bool:
        """Whether the answer for `key` is an agreement. A malformed one ends the call, as for `action`."""
        return self.action(key) is AnswerAction.ACCEPT

    def action(self, key: str) -> AnswerAction | None:
        """How the question `key` ended, or ``None`` where it was not answered.

        An answer that answers no question is the client's error, and ends the call with it.
        """
        return self._asker.action(key)

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


class NotAwaited(Coroutine[Any, Any, Answer]):
    """A question that waits for its ``await``, and says so where it is taken for its answer.

    It is for ``if ex.ask(…):``, which would be true without anybody having been asked.
    """

    def __init__(self, asking: Coroutine[Any, Any, Answer]) -> None:
        self._asking = asking

    def __await__(self) -> Generator[Any, Any, Answer]:
        return self._asking.__await__()

    def send(self, value: Any, /) -> Any:
        """See `Coroutine`."""
        return self._asking.send(value)

    def throw(self, *error: Any) -> Any:
        """See `Coroutine`."""
        return self._asking.throw(*error)

    def close(self) -> None:
        """See `Coroutine`."""
        self._asking.close()

    def __bool__(self) -> NoReturn:
        raise TypeError(_NOT_AWAITED)

    def __getitem__(self, key: str) -> NoReturn:
        raise TypeError(_NOT_AWAITED)

    def __getattr__(self, name: str) -> NoReturn:
        # Of this kind, since event loops look for attributes that a coroutine need not have.
        raise AttributeError(_NOT_AWAITED)


_NOT_AWAITED = "nobody was asked yet: write `await ex.ask(…)`, in a handler that is an `async def`"

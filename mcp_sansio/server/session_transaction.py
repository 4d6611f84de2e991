"""A request that may be about a session: finding it, and waiting for the store and for the other workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from mcp_sansio.events import StoreNeeded
from mcp_sansio.outcome import Failure, FailureKind, Rejected
from mcp_sansio.runtime import finish_now
from mcp_sansio.storage import STORE_FAULT, SessionRecord, StoreFull, StoreUnavailable

from .calls import logger
from .http import HttpTransaction
from .sessions import HttpSession, LiveSession, no_such_session, session_key

T = TypeVar("T")


class SessionTransaction(HttpTransaction):
    """What an HTTP request does with its session, whatever else it is about."""

    # None of these is there before the session is; a class has them so that making one costs nothing.
    _session: HttpSession | None = None
    _live: LiveSession | None = None
    _touched: float = 0.0

    def _load(self, session_id: str, then: Callable[[], None]) -> None:
        """Find the session and go on with `then`; refuse the request where there is none of this principal."""
        store, key, ttl = self.server.store, session_key(session_id, self.principal), self.config.session_ttl

        def found(record: SessionRecord | None) -> None:
            if record is None:
                raise no_such_session()
            self._session = HttpSession(self.server, session_id, record)
            self._live = self.server.session_used(session_id)
            self._touched = self.server.runtime.now()
            then()

        self._await_store(lambda: store.get(key, ttl=ttl), found)

    # What takes time

    def _await_store(self, ask: Callable[[], Awaitable[T]], then: Callable[[T], None]) -> None:
        """Have the store asked, then go on with `then`, which gets the answer."""
        self._await(ask, then, at_once=self.server.asks_store_at_once)

    def _once_told(self, then: Callable[[None], None]) -> None:
        """Go on with `then` once the other workers will hear what they were told, which a reply promises."""
        workers = self.server.workers
        self._await(workers.said, then, at_once=workers.has_said_all)

    def _await(self, ask: Callable[[], Awaitable[T]], then: Callable[[T], None], *, at_once: bool) -> None:
        if at_once:
            finish_now(self._ask(ask, then))
        else:
            self.emit(StoreNeeded(partial(self._ask_and_wake, ask, then)))

    async def _ask_and_wake(self, ask: Callable[[], Awaitable[T]], then: Callable[[T], None]) -> None:
        await self._ask(ask, then)
        self.wake()

    async def _ask(self, ask: Callable[[], Awaitable[T]], then: Callable[[T], None]) -> None:
        """Await what `ask` gives, then go on with `then`. A store that fails is the server's fault."""
        try:
            answer = await ask()
        except StoreFull as error:
            self.refuse(Failure(FailureKind.UNAVAILABLE, str(error)))
        except StoreUnavailable as error:
            logger.error("%s", error)  # its text says it all
            self.refuse(Failure(FailureKind.UNAVAILABLE, STORE_FAULT))
        except Exception:
            logger.exception("the session store failed")
            self.refuse(Failure(FailureKind.UNAVAILABLE, STORE_FAULT))
        else:
            if self.connected:
                self._proceed(then, answer)

    def _proceed(self, then: Callable[[T], None], answer: T) -> None:
        try:
            then(answer)
        except Rejected as rejected:
            self.refuse(rejected.failure)

    def _touch(self) -> None:
        """A session with something in flight does not expire."""
        session, now = self._session, self.server.runtime.now()
        if session is None or now - self._touched < self.config.session_ttl / 4:
            return
        self._touched = now
        key = session_key(session.id, self.principal)
        if self._live is not None:
            self.server.touch(self._live)

        async def touch() -> None:
            try:
                await self.server.store.touch(key, ttl=self.config.session_ttl)
            except Exception:
                logger.exception("the session store failed")

        self.emit(StoreNeeded(touch))

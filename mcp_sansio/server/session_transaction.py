"""A request that may be about a session: finding it, and waiting for the store and for the other workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from mcp_sansio.events import StoreNeeded
from mcp_sansio.outcome import Failure, FailureKind, Rejected
from mcp_sansio.runtime import given_now
from mcp_sansio.storage import STORE_FAULT, SessionRecord, StoreFull, StoreUnavailable

from .calls import logger
from .http import HttpTransaction
from .sessions import HttpSession, LiveSession, no_such_session, session_key

T = TypeVar("T")


class SessionTransaction(HttpTransaction):
    """What an HTTP request does with its session, whatever else it is about."""

    # None of these is there before the session is; a class has them so that making one costs nothing.
    held: HttpSession | None = None
    _live: LiveSession | None = None
    _touched: float = 0.0

    def _load(self, session_id: str, then: Callable[[], None]) -> None:
        """Find the session and go on with `then`; refuse the request where there is none of this principal."""
        server, key = self.server, session_key(session_id, self.principal)

        def found(record: SessionRecord | None) -> None:
            if record is None:
                raise no_such_session()
            self.held = HttpSession(session_id, server.opened.of(key, record), server, record)
            self._live = server.session_used(session_id)
            self._touched = server.runtime.now()
            then()

        self._await_store(partial(server.store.get, key, ttl=self.config.session_ttl), found)

    # What takes time

    def _await_store(self, ask: Callable[[], Awaitable[T]], then: Callable[[T], None]) -> None:
        """Have the store asked, then go on with `then`, which gets the answer."""
        self._await(ask, then, at_once=self.server.asks_store_at_once)

    def _once_told(self, then: Callable[[None], None]) -> None:
        """Go on with `then` once the other workers will hear what they were told, which a reply promises."""
        workers = self.server.workers
        self._await(workers.said, then, at_once=workers.has_said_all)

    def _await(self, ask: Callable[[], Awaitable[T]], then: Callable[[T], None], *, at_once: bool) -> None:
        if not at_once:
            self.emit(StoreNeeded(partial(self._ask, ask, then)))
            return
        try:
            answer = given_now(ask())
        except Exception as error:
            self._store_failed(error)
        else:
            self._proceed(then, answer)

    async def _ask(self, ask: Callable[[], Awaitable[T]], then: Callable[[T], None]) -> None:
        try:
            answer = await ask()
        except Exception as error:
            self._store_failed(error)
        else:
            self._proceed(then, answer)
        self.wake()

    def _store_failed(self, error: Exception) -> None:
        """Refuse the request: a store that fails is the server's fault."""
        text = STORE_FAULT
        if isinstance(error, StoreFull):
            text = str(error)
        elif isinstance(error, StoreUnavailable):
            logger.error("%s", error)  # its text says it all
        else:
            logger.error("the session store failed", exc_info=error)
        self.refuse(Failure(FailureKind.UNAVAILABLE, text))

    def _proceed(self, then: Callable[[T], None], answer: T) -> None:
        if not self.connected:
            return
        try:
            then(answer)
        except Rejected as rejected:
            self.refuse(rejected.failure)

    def _touch(self) -> None:
        """A session with something in flight does not expire."""
        session, now = self.held, self.server.runtime.now()
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

"""A request that may be about a session: finding it, and waiting for the store and for the other workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from mcp_sansio.events import StoreNeeded
from mcp_sansio.outcome import Failure, FailureKind, Rejected
from mcp_sansio.runtime import finish_now
from mcp_sansio.storage import STORE_FAULT, SessionRecord, StoreFull, StoreUnavailable

from .calls import logger
from .http import HttpTransaction
from .sessions import HttpSession, LiveSession, no_such_session, session_key


class SessionTransaction(HttpTransaction):
    """What an HTTP request does with its session, whatever else it is about."""

    # None of these is there before the session is; a class has them so that making one costs nothing.
    _session: HttpSession | None = None
    _live: LiveSession | None = None
    _touched: float = 0.0

    def _load(self, session_id: str, then: Callable[[], None]) -> None:
        """Find the session and go on with `then`; refuse the request where there is none of this principal."""
        store, key = self.server.store, session_key(session_id)
        found: SessionRecord | None = None

        async def get() -> None:
            nonlocal found
            record = await store.get(key, ttl=self.config.session_ttl)
            if record is not None and record.data["principal"] == self.principal:
                found = record

        def proceed() -> None:
            if found is None:
                raise no_such_session()
            self._session = HttpSession(self.server, session_id, found)
            self._live = live = self.server.live_session(session_id)
            self._touched = live.used
            try:
                then()
            finally:
                self.server.release(live)

        self._await_store(get, proceed)

    # What takes time

    def _await_store(self, work: Callable[[], Awaitable[None]], then: Callable[[], None]) -> None:
        """Have `work` awaited, which asks the store, then go on with `then`."""
        self._await(work, then, at_once=self.server.asks_store_at_once)

    def _once_told(self, then: Callable[[], None]) -> None:
        """Go on with `then` once the other workers will hear what they were told, which a reply promises."""
        workers = self.server.workers
        self._await(workers.said, then, at_once=workers.has_said_all)

    def _await(self, work: Callable[[], Awaitable[None]], then: Callable[[], None], *, at_once: bool) -> None:
        """Have `work` awaited, then go on with `then`. A store that fails is the server's fault."""

        async def run() -> None:
            try:
                await work()
            except StoreFull as error:
                self.refuse(Failure(FailureKind.UNAVAILABLE, str(error)))
            except StoreUnavailable as error:
                logger.error("%s", error)  # its text says it all
                self.refuse(Failure(FailureKind.UNAVAILABLE, STORE_FAULT))
            except Exception:
                logger.exception("the session store failed")
                self.refuse(Failure(FailureKind.UNAVAILABLE, STORE_FAULT))
            else:
                self._proceed(then)

        if at_once:
            finish_now(run())
        else:
            self.emit(StoreNeeded(partial(self._then_wake, run)))

    async def _then_wake(self, run: Callable[[], Awaitable[None]]) -> None:
        await run()
        self.wake()

    def _proceed(self, then: Callable[[], None]) -> None:
        if not self.connected:
            return
        try:
            then()
        except Rejected as rejected:
            self.refuse(rejected.failure)

    def _touch(self) -> None:
        """A session with something in flight does not expire."""
        session, now = self._session, self.server.runtime.now()
        if session is None or now - self._touched < self.config.session_ttl / 4:
            return
        self._touched = now
        if self._live is not None:
            self.server.touch(self._live)

        async def touch() -> None:
            try:
                await self.server.store.touch(session_key(session.id), ttl=self.config.session_ttl)
            except Exception:
                logger.exception("the session store failed")

        self.emit(StoreNeeded(touch))

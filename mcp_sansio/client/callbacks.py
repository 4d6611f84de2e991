"""Running the callbacks of a caller, plain and asynchronous ones, without a loop of one's own."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_sansio.runtime import Event

logger = logging.getLogger("mcp_sansio.client")

Work = Callable[[], Awaitable[None]]


class Callbacks:
    """Calls callbacks in order and one at a time.

    `spawn` runs work in a task of its own; one task serves all that waits. No more than `limit` wait: the oldest are
    dropped first. ``call(callback, *given)`` calls one; what it raises is logged and touches nothing else.
    """

    def __init__(self, spawn: Callable[[Work], Callable[[], None]], limit: int, call: Callable[..., Any]) -> None:
        self._spawn = spawn
        self._call = call
        self._waiting: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque(maxlen=limit)
        self._at_work = False
        self._idle: Event | None = None

    def run(self, callback: Callable[..., Any], *given: Any) -> None:
        """Call `callback`, at once unless an earlier one is still at work."""
        if self._at_work:
            self._waiting.append((callback, given))
            return
        made = self._called(callback, given)
        if inspect.isawaitable(made):
            self._at_work = True
            self._spawn(lambda: self._work(made))

    async def idle(self, event: Callable[[], Event]) -> None:
        """Return once nothing is at work and nothing waits. `event` makes a flag to wait for."""
        if self._at_work:
            self._idle = self._idle or event()
            await self._idle.wait()

    async def _work(self, made: Awaitable[Any]) -> None:
        try:
            await _awaited(made)
            while self._waiting:
                callback, given = self._waiting.popleft()
                following = self._called(callback, given)
                if inspect.isawaitable(following):
                    await _awaited(following)
        finally:
            self._at_work = False
            if self._idle is not None:
                self._idle.set()
                self._idle = None

    def _called(self, callback: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        try:
            return self._call(callback, *given)
        except Exception:
            logger.exception("a callback of the caller's failed")
            return None


async def _awaited(made: Awaitable[Any]) -> None:
    try:
        await made
    except Exception:
        logger.exception("a callback of the caller's failed")

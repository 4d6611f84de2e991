"""A flag that a handler waits for on any event loop, or on none, and that a test's thread sets and sees."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from mcp_sansio.stepping import run_outside

#: Longer than any machine needs; a test that waits this long has failed.
PATIENCE = 30.0
#: Limits for what is to take too long, but not before it has begun: each is tried, until one was long enough for that.
EVER_LONGER = (0.05, 0.5, 5.0)


class Flag:
    """Down at first. Any thread and any task may raise it, wait for it, and take it down."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._raised = threading.Event()
        self._wakers: set[Callable[[], None]] = set()

    def set(self) -> None:
        """Raise it."""
        with self._lock:
            self._raised.set()
            wakers, self._wakers = self._wakers, set()
        for wake in wakers:
            wake()

    def clear(self) -> None:
        """Take it down."""
        self._raised.clear()

    @property
    def is_set(self) -> bool:
        """Whether it is up."""
        return self._raised.is_set()

    def seen(self, seconds: float = PATIENCE) -> None:
        """Block this thread until it is up; fails where that takes too long."""
        assert self._raised.wait(seconds), "the flag was not raised"

    async def wait(self) -> None:
        """Wait until it is up: on the loop that runs, or by a job where none does."""
        event, wake = _event_of_loop()
        with self._lock:
            if self._raised.is_set():
                return
            self._wakers.add(wake)
        try:
            await event.wait()
        finally:
            self._wakers.discard(wake)
            wake()  # the thread of a job

    async def wait_in_cleanup(self) -> None:
        """`wait`, in a handler that is being cancelled: on trio that takes a shield."""
        if _trio_token() is None:
            await self.wait()
            return
        with sys.modules["trio"].CancelScope(shield=True):
            await self.wait()


def _event_of_loop() -> tuple[Any, Callable[[], None]]:
    """An event of the loop that runs here, and what sets it from any thread."""
    if (token := _trio_token()) is not None:
        event = sys.modules["trio"].Event()
        return event, lambda: _call_soon(token.run_sync_soon, event.set)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        blocking = _Blocking()
        return blocking, blocking.raised.set
    flag = asyncio.Event()
    return flag, lambda: _call_soon(loop.call_soon_threadsafe, flag.set)


class _Blocking:
    """Something to wait for by a `Job`: who takes the steps of the coroutine has it done, in whatever thread."""

    def __init__(self) -> None:
        self.raised = threading.Event()

    async def wait(self) -> None:
        assert await run_outside(partial(self.raised.wait, PATIENCE)), "the flag was not raised"


def _trio_token() -> Any:
    trio = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        return None


def _call_soon(call: Callable[..., Any], set_event: Callable[[], None]) -> None:
    try:
        call(set_event)
    except RuntimeError:
        pass  # the loop has ended, and with it whoever waited


async def turn() -> None:
    """Let everything else on the loop have a turn; nothing where there is no loop."""
    if _trio_token() is not None:
        await sys.modules["trio"].lowlevel.checkpoint()
    elif not isinstance(_event_of_loop()[0], _Blocking):
        await asyncio.sleep(0)

"""trio's loop, for servers that run on it.

What a request starts may outlive it, so it runs in trio's own nursery of system tasks, which end with the run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from threading import get_ident
from typing import Any, TypeVar

import trio

from mcp_sansio.driving import guarded

T = TypeVar("T")
logger = logging.getLogger("mcp_sansio_asgi")


class Task:
    """A coroutine that runs beside others. See `mcp_sansio.driving.Task`."""

    def __init__(self, work: Awaitable[None]) -> None:
        self._scope = trio.CancelScope()
        self._callbacks: list[Callable[[Any], object]] = []
        self._is_done = False
        trio.lowlevel.spawn_system_task(self._run, work, context=copy_context())

    def done(self) -> bool:
        """See there."""
        return self._is_done

    def cancel(self) -> None:
        """See there."""
        self._scope.cancel()

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """See there."""
        if self._is_done:
            callback(self)
        else:
            self._callbacks.append(callback)

    async def _run(self, work: Awaitable[None]) -> None:
        try:
            with self._scope:
                await guarded(work, trio.Cancelled, logger)  # an error is the end of everything, in a system task
        finally:
            self._is_done = True
            for callback in self._callbacks:
                callback(self)


class TrioLoop:
    """The running loop. See `mcp_sansio_asgi.loops.Loop`."""

    event = trio.Event
    start = Task
    sleep = staticmethod(trio.sleep)

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._thread = get_ident()
        self.now = time.monotonic

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on it."""
        return trio.lowlevel.in_trio_run() and trio.lowlevel.current_trio_token() is self._token

    async def first_steps(self) -> None:
        """See `Loop.first_steps`. trio shuffles those whose turn it is, so the second turn comes after all of them."""
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    def call_soon(self, callback: Callable[[], Any], /) -> None:
        """See `ServingLoop.call_soon`. Nothing happens where the run is over."""
        try:
            self._token.run_sync_soon(callback)
        except trio.RunFinishedError:
            pass  # nobody is left to be told

    def call_at(self, when: float, callback: Callable[[], Any], /) -> Task:
        """See `ServingLoop.call_at`."""
        return Task(self._call_later(when - self.now(), callback))

    def run_in_loop(self, callback: Callable[[], None], /) -> None:
        """See `Runtime.run_in_loop`."""
        if self._thread == get_ident():
            callback()
        else:
            self.call_soon(callback)

    def run_sync(self, function: Callable[[], T], /) -> Awaitable[T]:
        """See `Runtime.run_sync`. A call that is given up is let go of at once, although its thread goes on."""
        return trio.to_thread.run_sync(function, abandon_on_cancel=True)

    def begun(self, work: Awaitable[T]) -> tuple[None, Awaitable[T]]:
        """See `Loop.begun`. It is not begun: what it opens would not lie within the scope of `within`."""
        return None, work

    async def within(self, due: float, work: Awaitable[None]) -> bool:
        """See `Loop.within`."""
        with trio.move_on_after(max(0.0, due - self.now())) as scope:
            await work
        return not scope.cancelled_caught

    async def _call_later(self, seconds: float, callback: Callable[[], Any]) -> None:
        await trio.sleep(max(0.0, seconds))
        callback()

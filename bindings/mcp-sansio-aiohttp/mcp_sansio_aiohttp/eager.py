"""Tasks whose first step runs at once: a call that waits for nothing costs no turn of the event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from typing import Any


def start_task(loop: asyncio.AbstractEventLoop, work: Awaitable[None]) -> asyncio.Task[None]:
    """A task for the coroutine `work`, which has run up to its first wait."""
    coroutine: Any = work
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    task = asyncio.Task(coroutine, loop=loop)
    _step_now(loop)
    return task


def step_if_alone(loop: asyncio.AbstractEventLoop) -> None:
    """Run the step that was just scheduled, as `_step_now` does, where nothing else waits for a turn of the loop."""
    if len(getattr(loop, "_ready", ())) == 1:
        _step_now(loop)


def _step_now(loop: asyncio.AbstractEventLoop) -> None:
    """Run the step that was just scheduled, in the middle of another task's: asyncio has the means since 3.12.

    It is taken out of the loop's queue, where the loop has one of this name; elsewhere it has its turn as always. What
    another thread schedules in between is run in its place, which does no harm.
    """
    ready = getattr(loop, "_ready", None)
    if not ready:
        return
    current = asyncio.current_task(loop)
    if current is None:
        ready.pop()._run()
        return
    asyncio.tasks._leave_task(loop, current)
    try:
        ready.pop()._run()
    finally:
        asyncio.tasks._enter_task(loop, current)

"""Tasks whose first step runs at once: a handler that waits for nothing costs no turn of the loop."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any


def starter(loop: asyncio.AbstractEventLoop) -> Callable[[Any], asyncio.Task[Any]]:
    """What makes a task on `loop` of a coroutine, run up to where it first waits.

    asyncio has the means since 3.12. Before, the step that is scheduled is taken out of the loop's queue, where the
    loop has one of this name; elsewhere it has its turn as always.
    """
    if sys.version_info >= (3, 12):
        return partial(asyncio.Task, loop=loop, eager_start=True)
    ready: deque[Any] | None = getattr(loop, "_ready", None)
    return partial(asyncio.Task, loop=loop) if ready is None else partial(_begun, loop, ready)


def _begun(loop: asyncio.AbstractEventLoop, ready: deque[Any], work: Any) -> asyncio.Task[Any]:
    """A task whose first step runs now, in the middle of another task's.

    What another thread schedules in between is run in its place, which does no harm.
    """
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop)
    within(None, loop, ready.pop()._run)
    return task


def within(task: asyncio.Task[Any] | None, loop: Any, step: Callable[..., object], *given: Any) -> None:
    """Do `step` as if it were one of `task`, or outside of any, whichever task this is called from."""
    current = asyncio.current_task(loop)
    if current is not None:
        asyncio.tasks._leave_task(loop, current)
    if task is not None:
        asyncio.tasks._enter_task(loop, task)
    try:
        step(*given)
    finally:
        if task is not None:
            asyncio.tasks._leave_task(loop, task)
        if current is not None:
            asyncio.tasks._enter_task(loop, current)

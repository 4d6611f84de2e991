"""Tasks whose first step runs at once: a call that waits for nothing costs no turn of the event loop.

asyncio has the means since 3.12. Before, the step that is scheduled is taken out of the loop's queue, where the loop
has one of this name; elsewhere it has its turn as always.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

Start = Callable[[Any], "asyncio.Task[None]"]


def starter(loop: asyncio.AbstractEventLoop) -> Start:
    """What makes a task on `loop` of a coroutine, which has run up to its first wait."""
    if sys.version_info >= (3, 12):
        return partial(asyncio.Task, loop=loop, eager_start=True)
    ready: deque[Any] | None = getattr(loop, "_ready", None)
    return partial(asyncio.Task, loop=loop) if ready is None else partial(_begun, loop, ready)


def step_if_alone(loop: asyncio.AbstractEventLoop) -> None:
    """Run the step that was just scheduled, where nothing else waits for a turn of the loop."""
    ready: deque[Any] | None = getattr(loop, "_ready", None)
    if ready is not None and len(ready) == 1:
        _step(loop, ready)


def _begun(loop: asyncio.AbstractEventLoop, ready: deque[Any], work: Any) -> asyncio.Task[None]:
    task: asyncio.Task[None] = asyncio.Task(work, loop=loop)
    _step(loop, ready)
    return task


def _step(loop: asyncio.AbstractEventLoop, ready: deque[Any]) -> None:
    """Run the step that was just scheduled, in the middle of another task's.

    What another thread schedules in between is run in its place, which does no harm.
    """
    current = asyncio.current_task(loop)
    if current is None:
        ready.pop()._run()
        return
    asyncio.tasks._leave_task(loop, current)
    try:
        ready.pop()._run()
    finally:
        asyncio.tasks._enter_task(loop, current)

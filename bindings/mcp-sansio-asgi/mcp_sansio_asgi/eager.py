"""Tasks whose first step runs at once: a call that waits for nothing costs no turn of the event loop."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

Start = Callable[[Any], "asyncio.Task[None]"]


def starter(loop: asyncio.AbstractEventLoop) -> tuple[Start, bool]:
    """What makes a task on `loop` of a coroutine, and whether that has run up to its first wait by then.

    asyncio has the means since 3.12. Before, the step that is scheduled is taken out of the loop's queue, where the
    loop has one of this name; elsewhere it has its turn as always.
    """
    if sys.version_info >= (3, 12):
        return partial(asyncio.Task, loop=loop, eager_start=True), True
    ready: deque[Any] | None = getattr(loop, "_ready", None)
    if ready is None:
        return partial(asyncio.Task, loop=loop), False
    return partial(_begun, loop, ready), True


def _begun(loop: asyncio.AbstractEventLoop, ready: deque[Any], work: Any) -> asyncio.Task[None]:
    """A task whose first step runs now, in the middle of another task's.

    What another thread schedules in between is run in its place, which does no harm.
    """
    task: asyncio.Task[None] = asyncio.Task(work, loop=loop)
    current = asyncio.current_task(loop)
    if current is None:
        ready.pop()._run()
        return task
    asyncio.tasks._leave_task(loop, current)
    try:
        ready.pop()._run()
    finally:
        asyncio.tasks._enter_task(loop, current)
    return task

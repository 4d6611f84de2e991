"""Tasks whose first step runs at once: a handler that waits for nothing costs no turn of the loop."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

Start = Callable[[Any], "asyncio.Task[None]"]


def starter(loop: asyncio.AbstractEventLoop) -> Start:
    """What makes a task on `loop` of a coroutine, run up to where it first waits. Not to be called from within a task.

    asyncio has the means since 3.12. Before, the step that is scheduled is taken out of the loop's queue, where the
    loop has one of this name; elsewhere it has its turn as always.
    """
    if sys.version_info >= (3, 12):
        return partial(asyncio.Task, loop=loop, eager_start=True)
    ready: deque[Any] | None = getattr(loop, "_ready", None)
    return partial(asyncio.Task, loop=loop) if ready is None else partial(_begun, loop, ready)


def _begun(loop: asyncio.AbstractEventLoop, ready: deque[Any], work: Any) -> asyncio.Task[None]:
    """A task whose first step runs now. What another thread schedules in between is run in its place, which does no
    harm."""
    task: asyncio.Task[None] = asyncio.Task(work, loop=loop)
    ready.pop()._run()
    return task

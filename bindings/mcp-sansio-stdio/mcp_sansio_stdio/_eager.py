"""Tasks whose first step runs at once: a handler that waits for nothing costs no turn of the loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from typing import Any


def start(loop: asyncio.AbstractEventLoop, work: Awaitable[None]) -> asyncio.Task[None]:
    """A task for the coroutine `work`, run up to where it first waits. Not to be called from within a task."""
    coroutine: Any = work
    if sys.version_info >= (3, 12):
        return asyncio.Task(coroutine, loop=loop, eager_start=True)
    # asyncio has the means since 3.12. Before, the step just scheduled is taken out of the queue of the loop, if it has
    # one of that name; otherwise the step runs in its turn.
    task = asyncio.Task(coroutine, loop=loop)
    ready = getattr(loop, "_ready", None)
    if ready and getattr(ready[-1]._callback, "__self__", None) is task:
        ready.pop()._run()
    return task

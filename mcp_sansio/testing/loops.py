"""The event loop that runs a test, asyncio's or trio's, as far as a simulation needs one: tasks, and flags to wait for.

Nothing is imported here: a loop that is running has been imported by whoever runs it. A test without one loads none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import Any

import attrs

from mcp_sansio.runtime import Event

#: How often the loop turns before everything that could happen counts as having happened.
_TURNS = 50


@attrs.define(eq=False)
class LoopTask:
    """A coroutine that runs on the loop. `cancel` ends it, and `ended` is raised when it has."""

    ended: Event
    cancel: Callable[[], object] = lambda: None


class LoopScheduler:
    """See `Scheduler`, of which this is the counterpart where an event loop runs. Tasks are the loop's."""

    #: The loop goes on by itself.
    ready = False

    def __init__(self) -> None:
        self.tasks: dict[LoopTask, None] = {}
        #: Called when a task has ended.
        self.on_end: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self.tasks)

    def run(self) -> None:
        """See `Scheduler.run`: the loop does."""

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> LoopTask:
        """Run `coroutine` in a task of its own."""
        task = LoopTask(self.event())
        self.tasks[task] = None
        task.cancel = self.begin(coroutine, lambda: self._ended(task))
        return task

    def _ended(self, task: LoopTask) -> None:
        del self.tasks[task]
        task.ended.set()
        self.on_end()

    def cancel(self, task: LoopTask) -> None:
        """End `task`, unless it has ended."""
        if task in self.tasks:
            task.cancel()

    async def close(self) -> None:
        """End every task, and return when they have."""
        while self.tasks:
            task = next(iter(self.tasks))
            task.cancel()
            await task.ended.wait()

    async def settle(self) -> None:
        """Return when the loop's tasks have gone as far as they can without time."""
        for _ in range(_TURNS):
            await self.turn()

    # What the loop does its own way

    def event(self) -> Event:
        """Something to wait for."""
        raise NotImplementedError

    def begin(self, coroutine: Coroutine[Any, Any, None], ended: Callable[[], None]) -> Callable[[], object]:
        """Start a task, and call `ended` when it is over; what is given cancels it."""
        raise NotImplementedError

    def soon(self, function: Callable[[], None]) -> None:
        """Call `function` in a moment."""
        raise NotImplementedError

    async def turn(self) -> None:
        """Let others run."""
        raise NotImplementedError


class AsyncioScheduler(LoopScheduler):
    """On asyncio's running loop."""

    def __init__(self, asyncio: Any) -> None:
        super().__init__()
        self._asyncio = asyncio
        self._loop = asyncio.get_running_loop()

    def event(self) -> Event:
        """See `LoopScheduler.event`."""
        event: Event = self._asyncio.Event()
        return event

    def begin(self, coroutine: Coroutine[Any, Any, None], ended: Callable[[], None]) -> Callable[[], object]:
        """See `LoopScheduler.begin`."""
        task = self._loop.create_task(coroutine)
        task.add_done_callback(lambda _: ended())
        return task.cancel  # type: ignore[no-any-return]

    def soon(self, function: Callable[[], None]) -> None:
        """See `LoopScheduler.soon`."""
        self._loop.call_soon(function)

    async def turn(self) -> None:
        """See `LoopScheduler.turn`."""
        await self._asyncio.sleep(0)


class TrioScheduler(LoopScheduler):
    """Within trio's run. Tasks are trio's system tasks, so that no nursery wraps what a test raises."""

    def __init__(self, trio: Any) -> None:
        super().__init__()
        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()

    def event(self) -> Event:
        """See `LoopScheduler.event`."""
        event: Event = self._trio.Event()
        return event

    def begin(self, coroutine: Coroutine[Any, Any, None], ended: Callable[[], None]) -> Callable[[], object]:
        """See `LoopScheduler.begin`."""
        scope = self._trio.CancelScope()

        async def run() -> None:
            try:
                with scope:
                    await coroutine
            finally:
                ended()

        self._trio.lowlevel.spawn_system_task(run)
        return scope.cancel  # type: ignore[no-any-return]

    def soon(self, function: Callable[[], None]) -> None:
        """See `LoopScheduler.soon`."""
        self._token.run_sync_soon(function)

    async def turn(self) -> None:
        """See `LoopScheduler.turn`."""
        await self._trio.lowlevel.checkpoint()


def running_scheduler() -> LoopScheduler:
    """What runs tasks on the loop that runs now. Raises ``RuntimeError`` where none of the two does."""
    trio, asyncio = sys.modules.get("trio"), sys.modules.get("asyncio")
    if trio is not None and trio.lowlevel.in_trio_run():
        return TrioScheduler(trio)
    if asyncio is not None:
        return AsyncioScheduler(asyncio)
    raise RuntimeError("neither asyncio nor trio runs here")

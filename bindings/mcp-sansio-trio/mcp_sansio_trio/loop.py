"""What the core's drivers need of an event loop, on trio: tasks, timers and callbacks, in a nursery of their own.

The drivers call back and start tasks from wherever they are. Here all of that has one scope, which nothing outlives.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Self

import trio

from mcp_sansio import LocalProtocolError
from mcp_sansio.driving import Timer, Timers, leaves, plain_errors


class Task:
    """A coroutine that runs in a nursery. It hears of no cancellation but its own (see `Loop`)."""

    def __init__(self, nursery: trio.Nursery, work: Awaitable[None]) -> None:
        self.ended = trio.Event()
        self._scope = trio.CancelScope(shield=True)
        self._callbacks: list[Callable[[Any], object]] = []
        self.task: trio.lowlevel.Task | None = None
        nursery.start_soon(self._run, work, name=getattr(work, "__qualname__", None))

    def done(self) -> bool:
        """See `mcp_sansio.driving.Task`."""
        return self.ended.is_set()

    def cancel(self) -> None:
        """See `mcp_sansio.driving.Task`."""
        self._scope.cancel()

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        """See `mcp_sansio.driving.Task`."""
        self._callbacks.append(callback)

    async def _run(self, work: Awaitable[None]) -> None:
        self.task = trio.lowlevel.current_task()
        try:
            with self._scope:
                await work
        finally:
            self.ended.set()
            for callback in self._callbacks:
                callback(self)


class Here:
    """Work that is done in the caller's own task, and can be ended without ending that."""

    def __init__(self) -> None:
        self._scope = trio.CancelScope()

    def cancel(self) -> None:
        """End the work soon."""
        self._scope.cancel()

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the `work`, to its end or until it is cancelled."""
        with self._scope:
            await work


class Loop:
    """An asynchronous context manager, in which tasks can be started and functions be called later.

    A cancellation from outside reaches the block alone, and none of the tasks: what is to be said to a peer is said by
    them. Leaving the block ends those that are left. What the block raises comes out of it as it was raised.
    """

    _clock: trio.abc.Clock | None = None
    _nursery: trio.Nursery | None = None
    _wakes_at: float | None = None

    def __init__(self) -> None:
        self._tasks: set[Task] = set()
        self._timers = Timers()
        self._earlier = trio.Event()

    async def __aenter__(self) -> Self:
        self._thread = threading.get_ident()
        self._clock = trio.lowlevel.current_clock()
        self._token = trio.lowlevel.current_trio_token()
        self._manager = trio.open_nursery()
        self._nursery = await self._manager.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._nursery = None
        for task in self._tasks:
            task.cancel()
        # The nursery puts what the block raised into a group of its own, and may take it apart.
        with plain_errors(trio.Cancelled, () if error is None else tuple(leaves(error))):
            await self._manager.__aexit__(kind, error, trace)

    @property
    def opened(self) -> Self:
        """The loop itself. Raises `LocalProtocolError` outside of its block."""
        if self._nursery is None:
            raise LocalProtocolError("it is not open: on trio it is used as `async with`")
        return self

    def current_task(self) -> Task | None:
        """The task that calls this, if it is one of the loop's."""
        return next((task for task in self._tasks if task.task is trio.lowlevel.current_task()), None)

    def start(self, work: Awaitable[None]) -> Task:
        """Run the coroutine `work`. Raises `LocalProtocolError` outside of the block."""
        if self._nursery is None:
            if isinstance(work, Coroutine):
                work.close()
            raise LocalProtocolError("it is not open: on trio it is used as `async with`")
        task = Task(self._nursery, work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def time(self) -> float:
        """trio's time, in any thread; 0 before there is one."""
        return 0.0 if self._clock is None else self._clock.current_time()

    def call_at(self, when: float, callback: Callable[[], Any]) -> Timer:
        """See `mcp_sansio.stream_driver.Loop`. One task minds all of them: most never come."""
        if self._wakes_at is None:
            self._wakes_at = when
            self.start(self._mind_the_time())
        elif when < self._wakes_at:
            self._earlier.set()
        return self._timers.add(when, callback)

    async def _mind_the_time(self) -> None:
        while True:
            self._earlier, self._wakes_at = trio.Event(), self._timers.next
            with trio.move_on_at(self._wakes_at):
                await self._earlier.wait()
            # What is called soon comes after what goes on now: the first steps of tasks that were started before it.
            # Those may have been started in this very turn, and trio shuffles whose turn is next.
            now = trio.current_time()
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            self._timers.ring(now)

    def call_soon(self, callback: Callable[[], Any], /) -> None:
        """See `mcp_sansio.stream_driver.Loop`. Any thread may do this."""
        if threading.get_ident() != self._thread:
            self.call_from_anywhere(partial(self.call_soon, callback))
        elif self._nursery is not None:
            self.call_at(trio.current_time(), callback)

    def call_from_anywhere(self, callback: Callable[[], Any]) -> None:
        """Call back in the thread of the loop. Threads and signal handlers may do this."""
        try:
            self._token.run_sync_soon(callback)
        except trio.RunFinishedError:
            pass  # in this very moment

    def run_in_loop(self, function: Callable[[], None], /) -> None:
        """See `Runtime.run_in_loop`."""
        if self._clock is None or threading.get_ident() == self._thread:
            function()
        else:
            self.call_from_anywhere(function)

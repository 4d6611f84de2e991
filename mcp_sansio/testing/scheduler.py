"""Coroutines without an event loop: tasks that run in order, and the one thing that they may wait for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

import attrs

T = TypeVar("T")


class Cancelled(BaseException):
    """Thrown into a task of the `Scheduler` that is cancelled, as an event loop would throw its own."""


class FakeEvent:
    """An `mcp_sansio.runtime.Event` of the `Scheduler`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False
        self._waiting: list[Task] = []

    def set(self) -> None:
        """See `mcp_sansio.runtime.Event.set`."""
        self._set = True
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            self._scheduler.wake(task)

    async def wait(self) -> None:
        """See `mcp_sansio.runtime.Event.wait`."""
        if not self._set:
            await _Parked(self)

    def park(self, task: Task) -> None:
        """`task` waits here."""
        self._waiting.append(task)

    def forget(self, task: Task) -> None:
        """`task` does not wait here any more."""
        if task in self._waiting:
            self._waiting.remove(task)


@attrs.frozen
class _Parked:
    event: FakeEvent

    def __await__(self) -> Generator[FakeEvent, None, None]:
        yield self.event


@attrs.define(eq=False)
class Task:
    """A coroutine that was spawned, and what it waits for."""

    coroutine: Coroutine[Any, Any, None]
    parked: FakeEvent | None = None


class Scheduler:
    """Runs coroutines that wait for nothing but a `FakeEvent`, one after the other, in the order they became ready."""

    def __init__(self) -> None:
        self._ready: deque[Task] = deque()
        self._tasks: dict[Task, None] = {}

    def __len__(self) -> int:
        """How many tasks have not ended."""
        return len(self._tasks)

    @property
    def ready(self) -> bool:
        """Whether a task could go on."""
        return bool(self._ready)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> Task:
        """Start `coroutine` the next time that `run` is called."""
        task = Task(coroutine)
        self._tasks[task] = None
        self._ready.append(task)
        return task

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Pending[T]:
        """Start `coroutine` the next time that `run` is called; what is given has its result once it has ended."""
        return Pending(self, coroutine)

    def complete(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` to its end: what it returns, or raises.

        Raises ``RuntimeError`` where it waits for what nothing here brings about.
        """
        pending = self.start(coroutine)
        self.run()
        if not pending.done:
            pending.cancel()
            raise RuntimeError("this waits for something that nothing brings about")
        return pending.result()

    def event(self) -> FakeEvent:
        """Something to wait for."""
        return FakeEvent(self)

    def wake(self, task: Task) -> None:
        """`task` may go on."""
        task.parked = None
        self._ready.append(task)

    def cancel(self, task: Task) -> None:
        """End `task` where it stands, unless it has ended."""
        if task not in self._tasks:
            return
        if task.parked is not None:
            task.parked.forget(task)
        if task in self._ready:
            self._ready.remove(task)
        self._step(task, lambda: task.coroutine.throw(Cancelled()))

    def close(self) -> None:
        """End every task."""
        for task in tuple(self._tasks):
            self.cancel(task)

    def run(self) -> None:
        """Go on until every task waits or has ended."""
        while self._ready:
            task = self._ready.popleft()
            self._step(task, lambda task=task: task.coroutine.send(None))  # type: ignore[misc]

    def _step(self, task: Task, resume: Callable[[], Any]) -> None:
        try:
            event = resume()
        except (StopIteration, Cancelled):
            self._tasks.pop(task, None)
            return
        except BaseException:
            self._tasks.pop(task, None)
            raise
        if not isinstance(event, FakeEvent):
            raise TypeError(f"without an event loop there is nothing to wait for but the Exchange, not {event!r}")
        task.parked = event
        event.park(task)


class Pending(Generic[T]):
    """A coroutine that was started, and what comes of it."""

    def __init__(self, scheduler: Scheduler, coroutine: Coroutine[Any, Any, T]) -> None:
        self.done = False
        self._scheduler = scheduler
        self._coroutine = coroutine
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._task = scheduler.spawn(self._run())

    async def _run(self) -> None:
        try:
            self._value.append(await self._coroutine)
        except BaseException as error:  # it is the caller's, whatever it is
            self._error = error
        finally:
            self.done = True

    def result(self) -> T:
        """What it returned. Raises what it raised, and ``RuntimeError`` before its end."""
        if not self.done:
            raise RuntimeError("it has not ended")
        if self._error is not None:
            raise self._error
        return self._value[0]

    def cancel(self) -> None:
        """End it where it stands, unless it has ended."""
        self._scheduler.cancel(self._task)
        if not self.done:  # it had not begun
            self._coroutine.close()
            self._error, self.done = Cancelled(), True

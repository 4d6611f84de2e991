"""What every driver of an engine does alike, whatever its event loop: one timer, and one task for each call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from .call import Call
from .events import CallCancelled, CallReceived

__all__ = ["Alarm", "CallTasks"]


class Handle(Protocol):
    """Something set for later, as ``loop.call_at`` gives it."""

    def cancel(self) -> Any:
        """Let it not happen."""


class Task(Protocol):
    """A coroutine that runs beside others: ``asyncio.Task``, or any other with these three."""

    def done(self) -> bool:
        """Whether it has ended."""

    def cancel(self) -> Any:
        """Have it end soon."""

    def add_done_callback(self, callback: Callable[[Any], object], /) -> Any:
        """Have `callback` called with the task, once it has ended."""


T = TypeVar("T", bound=Task)


class Alarm:
    """One timer for an engine's deadlines. It is never late; where it would be early, it is set again.

    `call_at` runs a function at a time in the runtime's seconds, as ``loop.call_at`` does, and `ring` is run once a
    deadline has come.
    """

    def __init__(self, call_at: Callable[[float, Callable[[], None]], Handle], ring: Callable[[], None]) -> None:
        self._call_at = call_at
        self._ring = ring
        self._due = inf
        self._handle: Handle | None = None

    def set(self, deadline: float | None) -> None:
        """Ring at `deadline`, as ``next_deadline()`` gave it. Call this after every turn of the engine.

        A deadline that is later than the one before changes nothing: the ring for that comes, finds nothing due, and
        the turn after it sets the next. Most deadlines are of calls that end long before them.
        """
        if deadline is None or deadline >= self._due:
            return
        self.stop()
        self._due = deadline
        self._handle = self._call_at(deadline, self._come)

    def stop(self) -> None:
        """Ring no more, until it is set again."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle, self._due = None, inf

    def _come(self) -> None:
        self._handle, self._due = None, inf
        self._ring()


class CallTasks(Generic[T]):
    """The tasks of a server's calls. `start` makes a task of a coroutine."""

    def __init__(self, start: Callable[[Awaitable[None]], T]) -> None:
        self.running: dict[Call, T] = {}
        self._start = start

    def start(self, event: CallReceived) -> None:
        """Run the call, and forget it once it has ended."""
        task = self._start(event.run())
        if not task.done():
            self.running[event.call] = task
            task.add_done_callback(lambda _: self.running.pop(event.call))

    def cancel(self, event: CallCancelled) -> None:
        """End the call's task, if it has not ended already."""
        if event.call in self.running:
            self.running[event.call].cancel()

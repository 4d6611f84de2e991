"""What every driver of an engine does alike, whatever its event loop: one timer, and a task for each thing it does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from logging import Logger
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from .runtime import Event

__all__ = [
    "Alarm",
    "Here",
    "Orphans",
    "Task",
    "Tasks",
    "Timer",
    "Timers",
    "guarded",
    "leaves",
    "plain_errors",
    "run_for_another",
    "words_of",
]


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


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Task)
R = TypeVar("R")


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


class Timer:
    """A function that is to be called at a time: the `Handle` of `Timers`."""

    def __init__(self, timers: Timers, function: Callable[[], object]) -> None:
        self.function = function
        self._timers = timers

    def cancel(self) -> None:
        """Let it not happen."""
        self._timers.drop(self)


class Timers:
    """Functions that are to be called at their times, for loops that cannot do so by themselves.

    Such a loop waits until `next`, or until something earlier was added, and then calls `ring`. Most are cancelled long
    before, which costs it nothing.
    """

    def __init__(self) -> None:
        self.due: dict[Timer, float] = {}
        """When each of them is."""

    @property
    def next(self) -> float:
        """When the first of them is due; ``math.inf`` where there is none."""
        return min(self.due.values(), default=inf)

    def add(self, when: float, function: Callable[[], object]) -> Timer:
        """Have `function` called at that time."""
        timer = Timer(self, function)
        self.due[timer] = when
        return timer

    def drop(self, timer: Timer) -> None:
        """Forget it, if it is still to come."""
        self.due.pop(timer, None)

    def ring(self, now: float) -> None:
        """Call what is due, in order."""
        due = [timer for timer, when in self.due.items() if when <= now]
        for timer in sorted(due, key=self.due.__getitem__):
            if self.due.pop(timer, None) is not None:  # one may cancel another
                timer.function()


class Tasks(Generic[K, T]):
    """The tasks of a driver, each under a key of its own: a server's call, a client's request.

    `start` makes a task of a coroutine, which may have run to its first wait, or to its end, by then.
    """

    __slots__ = ("_start", "running", "spared")

    def __init__(self, start: Callable[[Awaitable[None]], T]) -> None:
        self.running: dict[K, T] = {}
        #: The task that ends the others, and is not to end itself by it.
        self.spared: object = None
        self._start = start

    def start(self, key: K, work: Awaitable[None]) -> None:
        """Run `work`, and forget it once it has ended."""
        task = self._start(work)
        if not task.done():
            self.hold(key, task)

    def hold(self, key: K, task: T) -> None:
        """Have `task`, which has not ended, among them until it has."""
        self.running[key] = task
        task.add_done_callback(lambda _: self.running.pop(key, None))

    def spawn(self: Tasks[Any, T], work: Awaitable[None]) -> Callable[[], None]:
        """Run `work` under a key that nobody else has; what is returned ends it."""
        key = object()
        self.start(key, work)
        return partial(self.cancel, key)

    def cancel(self, key: K) -> None:
        """End that task, if it has not ended already and is not spared."""
        task = self.running.get(key)
        if task is not None and task is not self.spared:
            task.cancel()

    def cancel_all(self, *, but: object = None) -> None:
        """End every task, `but` that one."""
        for task in tuple(self.running.values()):
            if task is not but:
                task.cancel()

    async def ended(self, event: Callable[[], Event], *, but: object = None) -> None:
        """Wait until every task has ended, `but` that one, by what `event` makes.

        What somebody does in a task of his own (see `Place`) is his to wait for.
        """
        while tasks := [each for each in self.running.values() if each is not but and hasattr(each, "done")]:
            over = event()
            tasks[0].add_done_callback(partial(_set, over))
            await over.wait()


class Orphans:
    """The tasks of a server that belong to no request: calls that go on although their clients have gone."""

    def __init__(self) -> None:
        self._tasks: set[Task] = set()
        self._closed = False

    def adopt(self, task: Task) -> None:
        """Keep `task` until it is done, or until `close`."""
        if task.done() or task in self._tasks:
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._closed:
            task.cancel()

    async def ended(self, event: Callable[[], Event]) -> None:
        """Wait until all of them have ended, by what `event` makes."""
        while self._tasks:
            over = event()
            next(iter(self._tasks)).add_done_callback(partial(_set, over))
            await over.wait()

    async def close(self, event: Callable[[], Event]) -> None:
        """End them all, and wait for that by what `event` makes. Who comes later ends at once."""
        self._closed = True
        for task in tuple(self._tasks):
            task.cancel()
        await self.ended(event)


def _set(event: Event, _: Task) -> None:
    event.set()


class Place(Protocol):
    """The running task as a place for work that can be ended without ending the task: `Here` is one."""

    def cancel(self) -> Any:
        """End the work soon."""

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the `work`, to its end or until it is cancelled."""


class RunningTask(Protocol):
    """The task that is running, as ``asyncio.current_task`` gives it."""

    def cancel(self) -> Any:
        """Raise the loop's cancellation where it waits next."""

    def cancelling(self) -> int:
        """How many cancellations were not taken back."""

    def uncancel(self) -> int:
        """Take one back; how many are left."""


class Here(Struct, eq=False):
    """Work that is done in the running `task`, and can be ended without ending that. `Tasks` may hold it like a task.

    ``asyncio.timeout`` goes about it in the same way. `cancelled` is the exception that a cancellation raises, and
    ``pause()`` a wait that lets a cancellation arrive.
    """

    task: RunningTask
    cancelled: type[BaseException]
    pause: Callable[[], Awaitable[object]]
    _is_cancelled: bool = False

    def cancel(self) -> None:
        """End the work soon."""
        if not self._is_cancelled:
            self._is_cancelled = True
            self.task.cancel()

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the `work`, to its end or until it is cancelled. A cancellation of the task itself comes out of here."""
        before = self.task.cancelling()
        try:
            await work
            if self._is_cancelled:
                await self.pause()  # one that did not find the task waiting arrives at its next wait
        except self.cancelled:
            if not self._is_cancelled or self.task.uncancel() > before:
                raise


def run_for_another(function: Callable[[], R], /) -> R:
    """What `function` gives, to a task that waits for it while it runs in a thread of its own.

    Raises what it raises, and ``RuntimeError`` in place of what would mean something else to that task.
    """
    try:
        return function()
    except (GeneratorExit, KeyboardInterrupt) as error:
        raise RuntimeError(f"{type(error).__name__} was raised in a thread") from error


def words_of(error: BaseException) -> str:
    """What went wrong, in the words of an exception and of its causes, of which some libraries put several in a group.

    Without any, it is the name of what was raised.
    """
    said = []
    cause: BaseException | None = error
    while cause is not None:
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        said.append(str(cause))
        cause = cause.__cause__
    return ": ".join(filter(None, said)) or type(error).__name__


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group and in the groups in it; an error that is no group is its only one."""
    if isinstance(error, BaseExceptionGroup):
        for held in error.exceptions:
            yield from leaves(held)
    else:
        yield error


def split_failed(
    error: BaseException, cancelled: type[BaseException]
) -> tuple[BaseException | None, BaseException | None]:
    """What of `error` a handler failed with, and what is for others: what ends the process, and a cancellation.

    That is what the loop raises as `cancelled`. All else that is no ``Exception`` is a failure, too: an extension
    module may raise such a thing for a fault of its own.
    """
    others = (cancelled, GeneratorExit, KeyboardInterrupt, SystemExit)
    if isinstance(error, BaseExceptionGroup):
        for_others, failed = error.split(others)
        return failed, for_others
    return (None, error) if isinstance(error, others) else (error, None)


async def guarded(work: Awaitable[None], cancelled: type[BaseException], logger: Logger) -> None:
    """Do `work`, of a handler. What that fails with ends here, on a loop where it would end others with it.

    The core takes what a handler raises, but in a group with its cancellation, which the loop raises as `cancelled`, or
    where it is no ``Exception``.
    """
    try:
        await work
    except BaseException as error:
        failed, others = split_failed(error, cancelled)
        if failed is not None:
            logger.error("a call did not end as it should", exc_info=failed)
        if others is not None:
            raise others  # noqa: B904 - it is what is left of `error`


@contextmanager
def plain_errors(cancelled: type[BaseException], known: Sequence[BaseException] = ()) -> Iterator[None]:
    """An error that is alone comes out of the block as it was raised, and not in the groups of nurseries.

    `cancelled` is what the loop raises for a cancellation, which counts for nothing beside an error. Those that are
    `known` do not come out of it where they are all that there is, nor beside others.
    """
    failed: list[BaseException] = []
    try:
        yield
    except BaseExceptionGroup as group:
        failed = [error for error in leaves(group) if not (isinstance(error, cancelled) or error in known)]
        if len(failed) > 1 or not (failed or known):
            raise
    for error in failed:
        context = error.__context__
        try:
            raise error
        finally:
            error.__context__ = context  # and not the group

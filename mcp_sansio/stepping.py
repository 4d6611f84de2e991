"""Coroutines without an event loop: whoever has a thread takes them on, step by step.

What a coroutine waits for is an `Event`, and who sets that has it go on; or a `Job`, which somebody does meanwhile. An
`Agenda` adds what is to be done later.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from functools import partial
from typing import Any, Generic, TypeVar

from .driving import Timer, Timers

__all__ = ["Agenda", "Cancelled", "Event", "Guarded", "Job", "Soon", "Task", "run_outside", "run_sync"]

T = TypeVar("T")

logger = logging.getLogger("mcp_sansio")

#: What a coroutine is told that waits for something else.
_NO_LOOP = (
    "this waits for what an event loop brings about, and there is none here: make it a plain function that blocks, or "
    "lend a loop, where the server can be lent one"
)


#: Means something to the interpreter or to one thread, and cannot be passed on as what a function raised.
_NOT_FOR_OTHERS = (StopIteration, GeneratorExit, SystemExit, KeyboardInterrupt)


class Cancelled(BaseException):
    """Raised where a task waits that is cancelled."""


class Event:
    """An `mcp_sansio.runtime.Event`: a flag that tasks wait for."""

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: list[Callable[[], object]] = []

    def set(self) -> None:
        """Raise the flag; everybody who waits goes on."""
        self.is_set = True
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    async def wait(self) -> None:
        """Return once the flag is raised, at once if it already is."""
        if not self.is_set:
            await _Waiting(self)

    def then(self, go_on: Callable[[], object]) -> None:
        """Call `go_on` once the flag is raised."""
        if self.is_set:
            go_on()
        else:
            self._waiting.append(go_on)

    def forget(self, go_on: Callable[[], object]) -> None:
        """Do not call that any more."""
        if go_on in self._waiting:
            self._waiting.remove(go_on)


class Job(Generic[T]):
    """A function, which may block, that a coroutine waits for. Set `done` after `run`, where steps are taken."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.done = Event()
        self.is_wanted = True
        self._function = function
        self._value: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the function, in whatever thread, if it is still wanted. Raises an interrupt of that thread alone."""
        try:
            if self.is_wanted:
                self._value.append(self._function())
        except _NOT_FOR_OTHERS as error:
            self._error = RuntimeError(f"{type(error).__name__} was raised in a thread")
            if isinstance(error, KeyboardInterrupt):
                raise
        except BaseException as error:  # the core ends handlers by some of its own
            self._error = error

    def result(self) -> T:
        """What it returned. Raises what it raised, once."""
        error, self._error = self._error, None
        if error is None:
            return self._value[0]
        try:
            raise error
        finally:
            del error  # or it and this frame keep each other, and what the function held, until garbage is collected


async def run_outside(function: Callable[[], T], /) -> T:
    """An `mcp_sansio.runtime.RunSync` for the coroutine of a `Task`: it waits while `function` runs somewhere else."""
    job = Job(function)
    try:
        await _Waiting(job)
    finally:
        job.is_wanted = False
    return job.result()


def run_sync(function: Callable[[], T], /) -> Awaitable[T]:
    """`run_outside` for handlers: in the context of who asks, where what `function` sets in it is its own."""
    return run_outside(partial(copy_context().run, function))


class _Waiting:
    def __init__(self, what: Event | Job[Any]) -> None:
        self._what = what

    def __await__(self) -> Generator[Event | Job[Any], None, None]:
        yield self._what


Soon = Callable[[Callable[[], Any]], object]
Outside = Callable[[Job[Any]], object]


class Task:
    """A coroutine that runs beside others: an `mcp_sansio.driving.Task`.

    `soon` runs a function a little later; each step is taken by it, and in `context` where one is given. `at_once` has
    the first step taken here and now. `outside` has a job done. What the coroutine raised is logged where nobody asked
    to be called back.
    """

    value: Any = None
    """What the coroutine returned; ``None`` until then."""
    error: BaseException | None = None
    """What it raised: `Cancelled` where it was cancelled, and ``None`` where it returned, or still runs."""

    # Most tasks end with their first step, and these are as good for them as their own would be.
    _ended: Event | None = None
    _waits_for: Event | None = None
    _thrown: BaseException | None = None
    _is_due = _is_over = False
    _callbacks: Sequence[Callable[[Task], object]] = ()

    def __init__(
        self,
        work: Awaitable[Any],
        soon: Soon,
        outside: Outside,
        *,
        context: Context | None = None,
        at_once: bool = False,
    ) -> None:
        self._steps: Generator[Any, None, Any] = work.__await__()
        self._take: Callable[..., Any] = _taken if context is None else context.run
        self._soon = soon
        self._outside = outside
        if at_once:
            self._step()
        else:
            self._go_on()

    @property
    def ended(self) -> Event:
        """Set once it has ended."""
        if self._ended is None:
            self._ended = Event()
            if self._is_over:
                self._ended.set()
        return self._ended

    def done(self) -> bool:
        """Whether it has ended."""
        return self._is_over

    def cancel(self) -> None:
        """Have `Cancelled` raised where it waits, or will wait next."""
        if not self.done():
            self._throw(Cancelled())

    def add_done_callback(self, callback: Callable[[Task], object], /) -> None:
        """Have `callback` called with the task, once it has ended."""
        if self.done():
            callback(self)
        else:
            self._callbacks = (*self._callbacks, callback)

    def _throw(self, error: BaseException) -> None:
        self._thrown = error
        if self._waits_for is not None:
            self._waits_for.forget(self._go_on)
        self._go_on()

    def _go_on(self) -> None:
        self._waits_for = None
        if not self._is_due:
            self._is_due = True
            self._soon(self._step)

    def _step(self) -> None:
        self._is_due = False
        if self._is_over:
            return
        thrown, self._thrown = self._thrown, None
        try:
            step: Callable[[Any], Any] = self._steps.send if thrown is None else self._steps.throw
            waits_for = self._take(step, thrown)
        except StopIteration as returned:
            self._end(returned.value, None)
        except BaseException as error:  # whatever it is, whoever waits for the task is to know of it
            self._end(None, error)
            if isinstance(error, KeyboardInterrupt):
                raise  # it is meant for whoever takes the steps, and came in the midst of one
        else:
            self._wait(waits_for)

    def _wait(self, waits_for: object) -> None:
        if self._thrown is not None:
            return  # it was cancelled meanwhile, and its next step is due already
        if isinstance(waits_for, Job):
            try:
                self._outside(waits_for)
            except Exception as error:  # as where no further thread can be started: it would wait for ever
                self._throw(error)
                return
            waits_for = waits_for.done
        if isinstance(waits_for, Event):
            self._waits_for = waits_for
            waits_for.then(self._go_on)
        else:
            self._throw(RuntimeError(_NO_LOOP))

    def _end(self, value: Any, error: BaseException | None) -> None:
        self.value, self.error, self._is_over = value, error, True
        if not (self._callbacks or error is None or isinstance(error, Cancelled | KeyboardInterrupt)):
            logger.error("a task failed", exc_info=error)
        if self._ended is not None:
            self._ended.set()
        callbacks, self._callbacks = self._callbacks, ()
        for callback in callbacks:
            callback(self)


def _taken(step: Callable[[Any], Any], given: Any) -> Any:
    return step(given)


class Agenda:
    """What is to be done, and when: an `mcp_sansio.stream_driver.Loop` for whoever runs what `soon` was given.

    `now` gives seconds. `soon` takes a function that is to be run after what is going on now; any thread may call it
    that the one who lends it allows. `outside` has a job done. `pass_time` is to be called by who runs those functions,
    and by nobody else.
    """

    #: What makes something to wait for.
    event = Event

    def __init__(self, now: Callable[[], float], soon: Soon, outside: Outside) -> None:
        self.time = now
        self.call_soon = soon
        self._outside = outside
        self._timers = Timers()

    def call_at(self, when: float, callback: Callable[[], Any], /) -> Timer:
        """Call back at that time."""
        return self._timers.add(when, partial(self.call_soon, callback))

    def start(self, work: Awaitable[Any]) -> Task:
        """Run `work` beside what else there is."""
        return Task(work, self.call_soon, self._outside)

    def begin(self, work: Awaitable[Any]) -> Task:
        """Start `work` in a context of its own, with its first step taken now."""
        return Task(work, self.call_soon, self._outside, context=copy_context(), at_once=True)

    async def pause(self) -> None:
        """Let everything else have its turn: see `mcp_sansio.runtime.Runtime`."""
        had_theirs = Event()
        self.call_soon(had_theirs.set)
        await had_theirs.wait()

    async def within(self, seconds: float, wait: Callable[[], Awaitable[object]], /) -> None:
        """Await ``wait()`` for so many seconds at most."""
        waiting = self.start(wait())
        timer = self.call_at(self.time() + seconds, waiting.cancel)
        try:
            await waiting.ended.wait()
        finally:
            timer.cancel()
            waiting.cancel()

    def pass_time(self) -> float | None:
        """Have done what is due. How many seconds are left until something is: ``None`` where there is nothing."""
        if not self._timers.due:
            return None
        due, now = self._timers.next, self.time()
        if now < due:
            return due - now
        self._timers.ring(now)
        return 0.0


class Guarded:
    """`work`, to be awaited on an event loop that somebody lends: each of its steps is taken with `lock` held.

    `outside` has a job done, and ``wait(event)`` waits for an `Event` as that loop does; neither has the lock.
    """

    def __init__(
        self,
        work: Awaitable[Any],
        lock: AbstractContextManager[Any],
        outside: Outside,
        wait: Callable[[Event], Awaitable[object]],
    ) -> None:
        self._work = work
        self._lock = lock
        self._outside = outside
        self._wait = wait

    def __await__(self) -> Generator[Any, Any, Any]:
        steps: Generator[Any, Any, Any] = self._work.__await__()
        thrown: BaseException | None = None
        while True:
            with self._lock:
                try:
                    waits_for = steps.send(None) if thrown is None else steps.throw(thrown)
                except StopIteration as returned:
                    return returned.value
            thrown = None
            try:
                if isinstance(waits_for, Job):
                    self._outside(waits_for)
                    waits_for = waits_for.done
                if isinstance(waits_for, Event):
                    yield from self._wait(waits_for).__await__()
                else:
                    yield waits_for
            except BaseException as error:  # a cancellation, too, is for the work to see
                thrown = error

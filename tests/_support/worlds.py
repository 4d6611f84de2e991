"""What asynchronous tests are written in, once for every kind of client: on asyncio, on trio, and without a loop.

A test's body awaits its client's methods and what a `World` has, and nothing else. `Blocking` runs such a body as the
plain code that it then is: nothing in it ever suspends, and tasks are threads.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, Protocol

import support
from flags import PATIENCE, Flag
from mcp_sansio.stepping import Job

Work = Callable[[], Awaitable[Any]]
#: What became of a task that was cancelled.
CANCELLED = "cancelled"


class Task(Protocol):
    """Work that was started beside the body of a test."""

    def cancel(self) -> None:
        """Cancel it."""

    async def outcome(self) -> Any:
        """What it gave, once it has ended: a value, an exception that it raised (as a value), or `CANCELLED`."""


class Tasks(Protocol):
    """The tasks of a block."""

    def start(self, work: Callable[..., Awaitable[Any]], *args: Any) -> Task:
        """Start ``work(*args)``."""


class World(Protocol):
    """An event loop, or none."""

    def run(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """Run a whole test, which must leave nothing behind."""

    def tasks(self) -> Any:
        """``async with world.tasks() as tasks``: the block ends when its tasks have."""

    async def gather(self, *works: Work) -> list[Any]:
        """Do all of `works` at once; their outcomes, each as of `Task.outcome`."""

    def limit(self, seconds: float) -> Any:
        """``async with world.limit(0.1)`` ends the block with ``TimeoutError`` when that time is over."""


async def gathered(world: World, *works: Work) -> list[Any]:
    """See `World.gather`."""
    async with world.tasks() as tasks:
        started = [tasks.start(work) for work in works]
        return [await task.outcome() for task in started]


class Asyncio:
    """asyncio."""

    def run(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """See `World.run`."""
        return asyncio.run(self._whole(body))

    async def _whole(self, body: Callable[[], Awaitable[Any]]) -> Any:
        mine = asyncio.current_task()
        async with asyncio.timeout(PATIENCE):
            result = await body()
        async with asyncio.timeout(PATIENCE):
            # What ends in its own time must: tasks that are left are waited for.
            while left := asyncio.all_tasks() - {mine}:
                await asyncio.wait(left)
        return result

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator[Tasks]:
        """See `World.tasks`."""
        held: list[asyncio.Task[Any]] = []

        class Started:
            def start(self, work: Callable[..., Awaitable[Any]], *args: Any) -> Task:
                held.append(asyncio.ensure_future(work(*args)))  # type: ignore[arg-type]
                return _AsyncioTask(held[-1])

        try:
            yield Started()
        except BaseException:
            for task in held:
                task.cancel()
            raise
        finally:
            if held:
                await asyncio.wait(held)

    async def gather(self, *works: Work) -> list[Any]:
        """See `World.gather`."""
        return await gathered(self, *works)

    def limit(self, seconds: float) -> Any:
        """See `World.limit`."""
        return asyncio.timeout(seconds)


class _AsyncioTask:
    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def cancel(self) -> None:
        self._task.cancel()

    async def outcome(self) -> Any:
        await asyncio.wait([self._task])
        if self._task.cancelled():
            return CANCELLED
        return self._task.exception() or self._task.result()


class Trio:
    """trio."""

    def __init__(self) -> None:
        self._trio = support.need("trio")

    def run(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """See `World.run`. Nothing can be left behind: a nursery waits for what is in it."""

        async def whole() -> Any:
            with self._trio.fail_after(PATIENCE):
                return await body()

        return self._trio.run(whole)

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator[Tasks]:
        """See `World.tasks`."""
        trio = self._trio
        failed: list[BaseException] = []

        async with trio.open_nursery() as nursery:

            class Started:
                def start(self, work: Callable[..., Awaitable[Any]], *args: Any) -> Task:
                    task = _TrioTask(trio)
                    nursery.start_soon(task.run, work, args)
                    return task

            try:
                yield Started()
            except BaseException as error:
                # Raised again below: a nursery would bury it in a group.
                nursery.cancel_scope.cancel()
                if isinstance(error, trio.Cancelled):
                    raise
                failed.append(error)
        if failed:
            raise failed[0]

    async def gather(self, *works: Work) -> list[Any]:
        """See `World.gather`."""
        return await gathered(self, *works)

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncIterator[None]:
        """See `World.limit`."""
        with self._trio.move_on_after(seconds) as scope:
            yield
        if scope.cancelled_caught:
            raise TimeoutError


class _TrioTask:
    def __init__(self, trio: Any) -> None:
        self._trio = trio
        self._scope = trio.CancelScope()
        self._ended = trio.Event()
        self._outcome: Any = CANCELLED

    async def run(self, work: Callable[..., Awaitable[Any]], args: Any) -> None:
        try:
            with self._scope:
                try:
                    self._outcome = await work(*args)
                except Exception as error:
                    self._outcome = error
        finally:
            self._ended.set()

    def cancel(self) -> None:
        self._scope.cancel()

    async def outcome(self) -> Any:
        await self._ended.wait()
        return self._outcome


class Blocking:
    """No event loop: what is awaited has happened when it was called."""

    def run(self, body: Callable[[], Awaitable[Any]]) -> Any:
        """See `World.run`. A thread that is left behind is waited for."""
        before = set(threading.enumerate())
        result = at_once(body())
        for thread in set(threading.enumerate()) - before:
            if not thread.name.startswith("mcp_sansio"):
                continue  # a server's, which ends after its clients
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread} was left behind"
        return result

    @asynccontextmanager
    async def tasks(self) -> AsyncIterator[Tasks]:
        """See `World.tasks`."""
        held: list[_Thread] = []

        class Started:
            def start(self, work: Callable[..., Awaitable[Any]], *args: Any) -> Task:
                held.append(_Thread(work, args))
                return held[-1]

        try:
            yield Started()
        finally:
            for task in held:
                await task.outcome()

    async def gather(self, *works: Work) -> list[Any]:
        """See `World.gather`."""
        return await gathered(self, *works)

    def limit(self, seconds: float) -> Any:
        """A thread cannot be told from outside to stop what it does."""
        raise AssertionError("a test that limits a block wants the trait 'cancel'")


class _Thread:
    def __init__(self, work: Callable[..., Awaitable[Any]], args: Any) -> None:
        self._outcome: Any = None

        def run() -> None:
            try:
                self._outcome = at_once(work(*args))
            except BaseException as error:
                self._outcome = error

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def cancel(self) -> None:
        raise AssertionError("a test that cancels a task wants the trait 'cancel'")

    async def outcome(self) -> Any:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "a task has not ended"
        return self._outcome


def at_once(work: Awaitable[Any]) -> Any:
    """What `work` comes to, which may wait for nothing but for jobs: they are done here, and block."""
    steps = work.__await__()
    try:
        while isinstance(job := next(steps), Job):
            job.run()
    except StopIteration as ended:
        return ended.value
    if isinstance(work, Coroutine):
        work.close()
    raise AssertionError("this was to wait for nothing")


class Facade:
    """A blocking client as the body of a test sees it: each method can be awaited, and so can its context managers."""

    def __init__(self, blocking: Any) -> None:
        self.blocking = blocking

    @classmethod
    def of(cls, make: Callable[..., Any], *args: Any, **options: Any) -> Facade:
        """The client that `make` makes. Callbacks that are ``async`` run to their end at once."""
        return cls(make(*args, **{name: plainly(value) for name, value in options.items()}))

    def __getattr__(self, name: str) -> Any:
        held = getattr(self.blocking, name)
        if not callable(held):
            return held

        def call(*args: Any, **options: Any) -> Any:
            given = {key: plainly(value) for key, value in options.items()}
            return _Called(lambda: self._seen(held(*args, **given)))

        return call

    def _seen(self, value: Any) -> Any:
        return self if value is self.blocking else value

    async def __aenter__(self) -> Any:
        return self._seen(self.blocking.__enter__())

    async def __aexit__(self, *exc: Any) -> Any:
        return self.blocking.__exit__(*exc)

    def __aiter__(self) -> Facade:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self.blocking)
        except StopIteration:
            raise StopAsyncIteration from None


class _Called:
    """A call that happens when it is awaited, or entered: a context manager's function was not called before."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._manager: AbstractContextManager[Any] | None = None

    def __await__(self) -> Iterator[Any]:
        return self._now().__await__()

    async def _now(self) -> Any:
        return self._call()

    async def __aenter__(self) -> Any:
        self._manager = self._call()
        entered = self._manager.__enter__()
        return Facade(entered) if hasattr(entered, "__next__") else entered

    async def __aexit__(self, *exc: Any) -> Any:
        assert self._manager is not None
        return self._manager.__exit__(*exc)


def plainly(given: Any) -> Any:
    """A callback as a blocking client takes it: one that is ``async`` runs to its end at once."""
    if not inspect.iscoroutinefunction(given):
        return given
    return lambda *args: at_once(given(*args))


@contextmanager
def in_a_thread(world: World, serve: Callable[[Callable[[Any], None], Flag], Awaitable[None]]) -> Iterator[Any]:
    """Run ``serve(ready, stop)`` in a thread with a loop of its own; gives what it calls `ready` with.

    At the end `stop` is raised, `serve` has to return, and what it raises is raised here.
    """
    outcome: list[Any] = []
    failed: list[BaseException] = []
    begun, stop = Flag(), Flag()

    def ready(value: Any) -> None:
        outcome.append(value)
        begun.set()

    def run() -> None:
        try:
            world.run(lambda: serve(ready, stop))
        except BaseException as error:
            failed.append(error)
        finally:
            begun.set()

    thread = threading.Thread(target=run, name="serving")
    thread.start()
    try:
        begun.seen()
        if not outcome:
            raise failed[0] if failed else AssertionError("it ended before it was ready")
        yield outcome[0]
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not thread.is_alive(), "serving has not ended"
    if failed:
        raise failed[0]

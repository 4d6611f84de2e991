"""The event loop that an application runs on, whichever it is: asyncio's, or trio's where there is none of asyncio."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from threading import get_ident
from typing import Any, Generic, Protocol, TypeVar

from mcp_sansio import Runtime
from mcp_sansio.response_driver import LentLoop, ServingLoop

from .eager import starter

T = TypeVar("T")


class Loop(ServingLoop, Protocol):
    """A loop that serves, with what this binding needs besides."""

    def sleep(self, seconds: float, /) -> Awaitable[object]:
        """Wait so many seconds."""

    async def first_steps(self) -> None:
        """Wait until the tasks that were started have taken their first steps, where `start` left that to the loop."""

    def run_sync(self, function: Callable[[], T], /) -> Awaitable[T]:
        """See `Runtime.run_sync`."""

    def begun(self, work: Awaitable[T]) -> tuple[T | None, Awaitable[T] | None]:
        """What `work` gives, if it does with its first step; else ``None``, and what is left of it to await."""

    async def within(self, due: float, work: Awaitable[None]) -> bool:
        """Do `work` until `due`, and say whether it came to its end."""


class AsyncioLoop(LentLoop):
    """The running loop of asyncio, or one with the same interface."""

    sleep = staticmethod(asyncio.sleep)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        start, self._is_eager = starter(loop)
        super().__init__(loop, now=time.monotonic, event=asyncio.Event, start=start, thread=get_ident)

    async def first_steps(self) -> None:
        """See `Loop.first_steps`."""
        if not self._is_eager:
            await asyncio.sleep(0)

    def run_sync(self, function: Callable[[], T], /) -> Awaitable[T]:
        """See `Runtime.run_sync`."""
        return asyncio.to_thread(function)

    def begun(self, work: Awaitable[T]) -> tuple[T | None, Awaitable[T] | None]:
        """See `Loop.begun`. Most work is done at its first step, which spares a timer for each request."""
        steps = work.__await__()
        try:
            return None, _Begun(steps, next(steps))
        except StopIteration as ended:
            return ended.value, None

    async def within(self, due: float, work: Awaitable[None]) -> bool:
        """See `Loop.within`."""
        limit = asyncio.timeout(due - self.now())
        try:
            async with limit:
                await work
        except TimeoutError:
            if not limit.expired():
                raise
            return False
        return True


class _Begun(Generic[T]):
    """Work whose first step is taken; the rest of it is to be awaited in the same task, before anything else."""

    def __init__(self, steps: Generator[Any, None, T], waits_for: Any) -> None:
        self._steps = steps
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, None, T]:
        try:
            yield self._waits_for
        except BaseException as error:  # a cancellation, which is for the work
            try:
                self._waits_for = self._steps.throw(error)
            except StopIteration as ended:
                given: T = ended.value
                return given
            return (yield from self.__await__())
        return (yield from self._steps)


class Loops:
    """The loop that serves, once one does: applications are made before there is one."""

    def __init__(self) -> None:
        self._loop: Loop | None = None

    def here(self) -> Loop:
        """The running loop, on which it serves from now on."""
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return self._here_on_trio()  # which then is installed
        if not (isinstance(self._loop, AsyncioLoop) and self._loop.loop is running):
            self._loop = AsyncioLoop(running)
        return self._loop

    def _here_on_trio(self) -> Loop:
        from .on_trio import TrioLoop

        if not (isinstance(self._loop, TrioLoop) and self._loop.is_current):
            self._loop = TrioLoop()
        return self._loop

    def runtime(self) -> Runtime:
        """The core's runtime on this loop. Its clock can be read in any thread."""
        return Runtime(
            now=time.monotonic,
            token_bytes=secrets.token_bytes,
            event=partial(Flag, self),
            run_sync=self._run_sync,
            run_in_loop=self._run_in_loop,
            wall_clock=time.time,
            pause=lambda: self.here().sleep(0),
        )

    async def _run_sync(self, function: Callable[[], T], /) -> T:
        return await self.here().run_sync(function)

    def _run_in_loop(self, function: Callable[[], None], /) -> None:
        """See `Runtime.run_in_loop`. While nothing is served, any thread will do."""
        if self._loop is None:
            function()
        else:
            self._loop.run_in_loop(function)


class Flag:
    """An event for whichever loop waits for it. The core makes some before there is one."""

    def __init__(self, loops: Loops) -> None:
        self._loops = loops
        self._is_set = False
        self._event: Any = None

    def set(self) -> None:
        """See `mcp_sansio.runtime.Event`."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """See `mcp_sansio.runtime.Event`."""
        if self._is_set:
            return
        if self._event is None:
            self._event = self._loops.here().event()
        await self._event.wait()

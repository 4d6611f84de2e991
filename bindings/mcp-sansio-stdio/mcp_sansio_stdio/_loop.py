"""asyncio's loop for the core's drivers, and their streams and processes on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from threading import get_ident
from typing import Any, TypeVar

from ._streams import open_sink, open_source
from ._threads import DaemonThreads

T = TypeVar("T")


class Loop:
    """The running loop, with a `call_soon` for every thread. See `means.Means`."""

    event = asyncio.Event
    open_source = staticmethod(open_source)
    open_sink = staticmethod(open_sink)

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self.time = self._loop.time
        self.call_at = self._loop.call_at

    def start(self, work: Awaitable[None], /) -> asyncio.Future[None]:
        """See `means.Means`."""
        return asyncio.ensure_future(work)

    def call_soon(self, callback: Callable[[], Any], /) -> None:
        """Call back on the loop's thread, from whichever."""
        try:
            (self._loop.call_soon if get_ident() == self._thread else self._loop.call_soon_threadsafe)(callback)
        except RuntimeError:
            pass  # the loop was closed in this very moment

    def in_a_thread(self, function: Callable[[], T], /) -> Awaitable[T]:
        """See `means.Means`."""
        threads = DaemonThreads(1)
        result = self._loop.run_in_executor(threads, function)
        threads.shutdown()
        return result

    async def within(self, seconds: float, wait: Callable[[], Awaitable[object]], /) -> None:
        """See `means.Means`."""
        try:
            async with asyncio.timeout(seconds):
                await wait()
        except TimeoutError:
            pass

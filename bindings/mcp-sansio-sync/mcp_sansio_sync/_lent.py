"""An asyncio loop that somebody lends: what waits runs there, a step at a time, each with the lock."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from mcp_sansio import Server
from mcp_sansio.hosting import keep_up
from mcp_sansio.stepping import Event, Guarded, Job

logger = logging.getLogger("mcp_sansio_sync")


class LentLoop:
    """Runs coroutines of the core on `loop`, with `lock` while they run and without it while they wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lock: threading.RLock) -> None:
        self._loop = loop
        self._lock = lock

    async def pause(self) -> None:
        """Let everything else there have its turn."""
        await asyncio.sleep(0)

    def start(self, work: Awaitable[None], outside: Callable[[Job[Any]], object]) -> Future[None]:
        """Run `work` there. `outside` has its jobs done."""

        async def run() -> None:
            await Guarded(work, self._lock, outside, self._wait)

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def call_at(self, when: float, callback: Callable[[], object]) -> Future[None]:
        """Call back there at that time, with the lock. Whoever calls, or cancels what this gives, has it."""
        ringing: Future[None] = Future()

        def ring() -> None:
            with self._lock:
                if ringing.set_running_or_notify_cancel():  # it may have been cancelled while this waited for the lock
                    callback()

        def begin() -> None:
            handle = self._loop.call_later(when - time.monotonic(), ring)
            ringing.add_done_callback(lambda _: self.call_soon(handle.cancel))

        self.call_soon(begin)
        return ringing

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call `function` there. Nothing happens where the loop is closed: nobody is left to be told."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def run(self, function: Callable[[], object]) -> None:
        """Run `function` in a thread of the loop's."""
        self.call_soon(lambda: self._loop.run_in_executor(None, function))

    def keep_up(self, server: Server) -> None:
        """Keep in touch with the other workers, for as long as the loop runs."""
        for line in (server.follow, server.relay):
            self.start(keep_up(line, asyncio.sleep, logger), lambda job: None)

    async def _wait(self, event: Event) -> None:
        """Wait for `event` as the loop does. It may be raised in any thread."""
        raised = asyncio.Event()

        def go_on() -> None:
            self._loop.call_soon_threadsafe(raised.set)

        with self._lock:
            event.then(go_on)
        try:
            await raised.wait()
        finally:
            with self._lock:
                event.forget(go_on)

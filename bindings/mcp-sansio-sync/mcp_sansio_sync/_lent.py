"""An asyncio loop that somebody lends: what waits runs there, a step at a time, each with the lock."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
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

    def start(self, work: Awaitable[None], outside: Callable[[Job[Any]], object]) -> Future[None]:
        """Run `work` there. `outside` has its jobs done."""

        async def run() -> None:
            await Guarded(work, self._lock, outside, self._wait)

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

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

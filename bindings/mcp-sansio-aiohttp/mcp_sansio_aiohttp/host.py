"""What the endpoints of one server share: the core's server role on asyncio, and what outlives its requests."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from threading import get_ident
from typing import Any

from aiohttp import web

from mcp_sansio import Runtime, Server
from mcp_sansio.hosting import keep_up

logger = logging.getLogger("mcp_sansio_aiohttp")

Principal = Callable[[web.Request], str | None]


class ServingLoop:
    """The event loop that serves, once it does: endpoints may be made before there is one."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: int | None = None

    def here(self) -> tuple[asyncio.AbstractEventLoop, int]:
        """The running loop and its thread, on which it serves from now on."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop or self._thread is None:
            self._loop, self._thread = loop, get_ident()
        return loop, self._thread

    def run(self, function: Callable[[], None], /) -> None:
        """See `Runtime.run_in_loop`. While nothing is served, any thread will do."""
        if self._loop is None or self._thread == get_ident():
            function()
        else:
            call_from_thread(self._loop, function)

    def runtime(self) -> Runtime:
        """The core's runtime on this loop. Its clock can be read in any thread."""
        return Runtime(
            now=time.monotonic,
            token_bytes=secrets.token_bytes,
            event=asyncio.Event,
            run_sync=asyncio.to_thread,
            run_in_loop=self.run,
            wall_clock=time.time,
        )


def call_from_thread(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any], *args: Any) -> None:
    """Have `loop` call `callback` soon. Nothing happens where the loop is closed: nobody is left to be told."""
    try:
        loop.call_soon_threadsafe(callback, *args)
    except RuntimeError:
        if not loop.is_closed():
            raise


class Host:
    """A server, how to find out who a request is from, and the tasks that belong to no request.

    Those are the calls whose clients have gone but which go on, and with `has_hub` the line to the other workers.
    """

    def __init__(self, server: Server, loop: ServingLoop, principal: Principal, *, has_hub: bool) -> None:
        self.server = server
        self.loop = loop
        self.principal = principal
        self._lines = (server.follow, server.relay) if has_hub else ()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def adopt(self, task: asyncio.Task[None]) -> None:
        """Keep `task` until it is done, or until `close`."""
        if task.done() or task in self._tasks:
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._closed:
            task.cancel()

    async def on_startup(self, app: web.Application | None = None) -> None:
        """Serve on the running loop, and keep in touch with the other workers."""
        loop, _ = self.loop.here()
        lines, self._lines = self._lines, ()
        for line in lines:
            self.adopt(loop.create_task(keep_up(line, asyncio.sleep, logger)))

    async def on_shutdown(self, app: web.Application | None = None) -> None:
        """End the open streams, and refuse what comes from now on. Calls are left to finish."""
        self.server.shutdown()

    async def close(self, app: web.Application | None = None) -> None:
        """`on_shutdown`, and give up what belongs to no request."""
        self.server.shutdown()
        self._closed = True
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

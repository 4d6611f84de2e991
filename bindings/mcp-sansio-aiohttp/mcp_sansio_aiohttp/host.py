"""What the endpoints of one server share: the core's server role on asyncio, and what outlives its requests."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from functools import partial
from threading import get_ident

from aiohttp import web

from mcp_sansio import Runtime, Server
from mcp_sansio.driving import Orphans
from mcp_sansio.hosting import keep_up
from mcp_sansio.response_driver import LentLoop

from .eager import starter

logger = logging.getLogger("mcp_sansio_aiohttp")

Principal = Callable[[web.Request], str | None]


def running_loop() -> LentLoop:
    """The running event loop and its thread."""
    loop = asyncio.get_running_loop()
    return LentLoop(loop, now=time.monotonic, event=asyncio.Event, start=starter(loop), thread=get_ident)


class ServingLoop:
    """The event loop that serves, once it does: endpoints may be made before there is one."""

    def __init__(self) -> None:
        self._loop: LentLoop | None = None

    def here(self) -> LentLoop:
        """The running loop, on which it serves from now on."""
        if self._loop is None or self._loop.loop is not asyncio.get_running_loop():
            self._loop = running_loop()
        return self._loop

    def run(self, function: Callable[[], None], /) -> None:
        """See `Runtime.run_in_loop`. While nothing is served, any thread will do."""
        if self._loop is None:
            function()
        else:
            self._loop.run_in_loop(function)

    def runtime(self) -> Runtime:
        """The core's runtime on this loop. Its clock can be read in any thread."""
        return Runtime(
            now=time.monotonic,
            token_bytes=secrets.token_bytes,
            event=asyncio.Event,
            run_sync=asyncio.to_thread,
            run_in_loop=self.run,
            wall_clock=time.time,
            pause=partial(asyncio.sleep, 0),
        )


class Host:
    """A server, how to find out who a request is from, and the tasks that belong to no request.

    Those are the calls whose clients have gone but which go on, and with `has_hub` the line to the other workers.
    """

    def __init__(self, server: Server, loop: ServingLoop, principal: Principal, *, has_hub: bool) -> None:
        self.server = server
        self.loop = loop
        self.principal = principal
        self.orphans = Orphans()
        self._lines = (server.follow, server.relay) if has_hub else ()

    async def on_startup(self, app: web.Application | None = None) -> None:
        """Serve on the running loop, and keep in touch with the other workers."""
        here = self.loop.here()
        lines, self._lines = self._lines, ()
        for line in lines:
            self.orphans.adopt(here.loop.create_task(keep_up(line, asyncio.sleep, logger)))

    async def on_shutdown(self, app: web.Application | None = None) -> None:
        """End the open streams, and refuse what comes from now on. Calls are left to finish."""
        self.server.shutdown()

    async def close(self, app: web.Application | None = None) -> None:
        """`on_shutdown`, and give up what belongs to no request."""
        self.server.shutdown()
        await self.server.farewell()
        await self.orphans.close(asyncio.Event)

"""The server's end of a channel: its calls are tasks, which have a moment to finish at its end."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from mcp_sansio import Call, CallCancelled, CallReceived, PeerFaulted, Server
from mcp_sansio.driving import Tasks

from ._channel import Channel
from ._eager import start

logger = logging.getLogger("mcp_sansio_stdio")

#: Seconds that calls have to finish once the end has come.
GRACE = 0.5
#: Seconds that a cancelled task has to clean up.
UNWINDING = 0.25


class Serving(Channel):
    """Serves `server` to the client at the other end of `source` and `sink`."""

    def __init__(self, server: Server, source: int, sink: int) -> None:
        self._connection = server.connection(wake=self.wake)
        self._calls: Tasks[Call, asyncio.Task[None]] = Tasks(partial(start, asyncio.get_running_loop()))
        super().__init__(self._connection, server.config.max_message, source, sink, self._act)

    async def serve(self) -> None:
        """Serve until the input ends, nobody reads the output, or `stop`.

        Calls in flight then have a moment to finish; cancelling this coroutine leaves that out.
        """
        try:
            await self.at_end.wait()
            await self.taken_in()
            if not self.is_over:
                await self._wait_for_tasks(GRACE)
        finally:
            self.stop()
            self.finish(self._connection.receive_eof)
            try:
                await self._wait_for_tasks(UNWINDING)
                await self.sent()
            finally:
                self.sink.close()

    def broken(self) -> None:
        """Nobody reads the output: there is no one to serve."""
        self.is_over = True
        self.stop()

    async def _wait_for_tasks(self, seconds: float) -> None:
        if self._calls.running:
            await asyncio.wait(self._calls.running.values(), timeout=seconds)

    def _act(self) -> None:
        for event in self._connection.events():
            if isinstance(event, CallReceived):
                self._calls.start(event.call, event.run())
            elif isinstance(event, CallCancelled):
                self._calls.cancel(event.call)
            elif isinstance(event, PeerFaulted):
                logger.debug("the client is at fault: %s", event.failure.message)

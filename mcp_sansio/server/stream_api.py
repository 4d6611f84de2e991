"""The server's end of a stream of bytes, on any event loop: its calls are tasks, which have a moment at its end."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from mcp_sansio.call import Call
from mcp_sansio.driving import Task, Tasks
from mcp_sansio.events import CallCancelled, CallReceived, PeerFaulted
from mcp_sansio.registry import Registry
from mcp_sansio.runtime import Runtime
from mcp_sansio.stream_driver import Loop, StreamDriver

from .server import Server, ServerOptions

#: Seconds that calls have to finish once the end has come.
_GRACE = 0.5
#: Seconds that a cancelled task has to clean up.
_UNWINDING = 0.25


class StreamServing(StreamDriver):
    """Serves `server` to the client at the other end of a stream. A binding sets `source` and `sink`, and awaits
    `serve`; after that, however it ended, it awaits `leave`, which may not be cancelled.

    `loop` and `start` (see `Tasks`) are lent by the event loop. `logger` is told what a client does wrong.
    """

    def __init__(
        self, server: Server, loop: Loop, *, start: Callable[[Awaitable[None]], Task], logger: logging.Logger
    ) -> None:
        self._server, self._logger = server, logger
        self._connection = server.connection(wake=self.wake, runs_at_once=True)
        self._calls: Tasks[Call, Task] = Tasks(start)
        super().__init__(
            self._connection, server.config.max_message, loop, take_events=self._act, event=server.runtime.event
        )

    @staticmethod
    def server_of(served: Registry | Server, runtime: Callable[[], Runtime], options: ServerOptions) -> Server:
        """`served`, if it is a server, or else one of that registry. Raises ``TypeError`` for options beside a server.

        `runtime` makes what is lent to a server of a registry.
        """
        if not isinstance(served, Server):
            return Server(served, runtime=runtime(), **options)
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise TypeError(f"a Server has its options already; {given[0]} cannot be given beside one")
        return served

    async def serve(self) -> None:
        """Serve until the input ends, nobody reads the output, or `stop`. Calls in flight then have a moment."""
        await self.at_end.wait()
        await self.taken_in()
        if not self.is_over:
            await self._calls_ended(_GRACE)

    async def leave(self) -> None:
        """Cancel what still runs, and write what is there for as long as the client reads."""
        self.stop()
        self.finish(self._connection.receive_eof)
        try:
            await self._calls_ended(_UNWINDING)
            await self.sent()
        finally:
            self.sink.close()

    def shut_down(self) -> None:
        """End all that `server` does, and this with it."""
        self._server.shutdown()
        self.stop()

    def broken(self) -> None:
        """Nobody reads the output: there is no one to serve."""
        self.is_over = True
        self.stop()

    def _take_in(self, message: bytes) -> None:
        """Most of those are calls that are answered at once, and then there is nothing else to be done."""
        reply = self._connection.respond(message)
        self._flush_is_due = False
        if reply is not None:
            self.sink.write(reply + b"\n")
        # In this order: a thread that has something to say now is either seen here, or has its own `wake` heard.
        if reply is None or self._connection.has_something:
            self.flush()

    async def _calls_ended(self, within: float) -> None:
        tasks = self._calls.running
        if tasks:
            ended = self._event()
            for task in tuple(tasks.values()):
                task.add_done_callback(lambda _: None if tasks else ended.set())
            timer = self._loop.call_at(self._loop.time() + within, ended.set)
            try:
                await ended.wait()
            finally:
                timer.cancel()

    def _act(self) -> None:
        for event in self._connection.events():
            if isinstance(event, CallReceived):
                self._calls.start(event.call, event.run())
            elif isinstance(event, CallCancelled):
                self._calls.cancel(event.call)
            elif isinstance(event, PeerFaulted):
                self._logger.debug("the client is at fault: %s", event.failure.message)

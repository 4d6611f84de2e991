"""Drives one engine of the core with one request: facts in, parts of the response out, calls run meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import attrs
import trio

from mcp_sansio import HttpTransaction
from mcp_sansio.response_driver import ResponseDriver
from mcp_sansio.wire.headers import Headers

from .http_server import HttpConnection
from .loop import Task
from .runtime import ServingLoop


@attrs.frozen(eq=False)
class Request:
    """A request as it came in: what `principal` is asked about, and what handlers have as ``ex.request``.

    `target` is the path with its query as it was sent, `headers` are looked up without regard to case, and `stream` is
    what it came in on: a ``trio.SocketStream``, or a ``trio.SSLStream``.
    """

    method: str
    target: str
    headers: Headers
    stream: trio.abc.Stream


class Driver(ResponseDriver):
    """One request on its way through the core, whose engine `open_engine` makes.

    The caller of `run` writes the response. Calls are tasks of `loop`, since they may outlive the request.
    """

    #: A client that has ended its half of the connection behind its request gets what is there within that time.
    patience = 0.02
    engine: HttpTransaction
    _loop: ServingLoop
    _eyes: Task | None = None

    def __init__(
        self, connection: HttpConnection, loop: ServingLoop, open_engine: Callable[..., HttpTransaction]
    ) -> None:
        super().__init__(loop, loop.orphans)
        self._connection = connection
        self.engine = open_engine(wake=self.wake)

    async def run(self, request: Request) -> None:
        """Serve `request`. Raises ``trio.BrokenResourceError`` when the client has left."""
        try:
            self.engine.receive_request(request.method, request.target, request.headers)
            await self._receive()
            with trio.CancelScope() as self._responding:
                await self.respond(self._connection.send)
            if self._responding.cancelled_caught:
                raise trio.BrokenResourceError("the client left")
        except BaseException:
            self.disconnect()
            raise
        finally:
            self.leave()
            if self._eyes is not None:
                self._eyes.cancel()
                await self._eyes.ended.wait()

    async def _receive(self) -> None:
        """Read the body, for as long as the engine waits for it."""
        engine, due = self.engine, self.engine.next_deadline()
        with trio.move_on_at(inf if due is None else due) as limit:
            while engine.receiving:
                data = await self._connection.body()
                if data is None:
                    engine.receive_end()
                else:
                    engine.receive_body(data)
        if limit.cancelled_caught:
            engine.handle_timeout(limit.deadline)
            self._connection.linger = 0.0  # it has had its time

    def watch(self) -> None:
        """See `ResponseDriver.watch`."""
        self._eyes = self._loop.start(self._watch())

    async def _watch(self) -> None:
        await self._connection.left()
        self._responding.cancel()

"""Drives one engine of the core with one aiohttp request: facts in, parts of the response out, calls run meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import cast

from aiohttp import web
from multidict import CIMultiDict

from mcp_sansio import Body, Call, CallCancelled, CallReceived, End, Head, HttpTransaction, Part, StoreNeeded
from mcp_sansio.driving import Tasks
from mcp_sansio.hosting import checked_principal

from .eager import start_task
from .facts import is_on_loopback
from .host import Host, call_from_thread
from .watch import Watch

logger = logging.getLogger("mcp_sansio_aiohttp")

#: A client that is refused before it has sent everything often reads its answer only afterwards. So much more is
#: read and dropped, within this time, before the connection is cut.
_LINGER_BYTES = 8 * 2**20
_LINGER_SECONDS = 5.0
#: For the access log alone: the client left before there was a response.
_CLIENT_LEFT = 499


class Driver:
    """One request on its way through the core, whose engine `open_engine` makes.

    The request's own coroutine alone writes the response. What happens elsewhere (a call has something to say, a
    deadline has come, the connection has ended) wakes it. Calls are tasks of their own, since they may outlive it.

    When the connection ends, calls go on where their revision does not give them up for that. Nobody writes then, and
    the driver goes on from callback to callback until the last of them is over.
    """

    # Defaults stand here, since most requests change none of them.
    _response: web.StreamResponse | None = None
    _waiter: asyncio.Future[None] | None = None
    _watch: Watch | None = None
    _timer: asyncio.TimerHandle | None = None
    _due: float | None = None
    _woken = False
    _blocked = False
    _lost = False
    _alone = False
    _linger = _LINGER_SECONDS

    def __init__(self, host: Host, request: web.Request, open_engine: Callable[..., HttpTransaction]) -> None:
        self._host = host
        self._request = request
        self._loop, self._thread = host.loop.here()
        self._tasks: Tasks[Call, asyncio.Task[None]] = Tasks(partial(start_task, self._loop))
        self._engine = open_engine(
            principal=checked_principal(host.principal(request)),
            loopback=is_on_loopback(request),
            request=request,
            wake=self._wake,
        )

    async def run(self) -> web.StreamResponse:
        """Serve the request. What is returned is for aiohttp to finish, if it is not finished yet."""
        engine, request = self._engine, self._request
        content = request.content
        try:
            engine.receive_request(request.method, request.raw_path, request.headers)
            if content.is_eof() and content.exception() is None:
                engine.receive_body(content.read_nowait())  # mostly this is all of it
                engine.receive_end()
            else:
                refused = await self._receive()
                if refused is not None:
                    return refused
            return await self._respond()
        except ConnectionError:
            return self._left()
        except BaseException:
            # Cancelled: the server stops, or the operator has aiohttp cancel the handlers of lost connections.
            self._left()
            raise
        finally:
            self._leave()

    # The request

    async def _receive(self) -> web.StreamResponse | None:
        """Hand the body to the engine. A response is given where it is not HTTP, which the core never sees."""
        engine, request = self._engine, self._request
        try:
            await self._receive_rest()
        except web.RequestPayloadError as error:
            if request.transport is None:
                raise ConnectionResetError("the client left") from error
            engine.receive_disconnect()
            return await self._cut(web.Response(status=400, text="400: the body cannot be read"))
        except (OSError, RuntimeError) as error:
            # What ended the connection, and what aiohttp has for a body that was still to come then.
            if request.transport is None:
                raise ConnectionResetError("the client left") from error
            raise
        engine.receive_end()
        return None

    async def _receive_rest(self) -> None:
        """Read the body, for as long as the engine waits for it."""
        engine, content = self._engine, self._request.content
        due = engine.next_deadline()
        limit = asyncio.timeout(None if due is None else due - self._host.server.runtime.now())
        try:
            async with limit:
                while engine.receiving and not content.at_eof():
                    engine.receive_body(await content.readany())
        except TimeoutError:
            if due is None or not limit.expired():
                raise
            engine.handle_timeout(max(due, self._host.server.runtime.now()))
            self._linger = 0.0  # it has had its time

    # The response

    async def _respond(self) -> web.StreamResponse:
        """Write the response to its end. Raises ``ConnectionError`` when the client has left."""
        engine = self._engine
        while not self._lost:
            while stores := self._turn():
                for store in stores:
                    await store.run()
            self._woken = False
            parts = engine.data_to_send()
            if parts:
                if self._response is None and isinstance(parts[-1], End):
                    whole = _whole(parts)
                    return whole if self._request.content.is_eof() else await self._cut(whole)
                response = await self._send(parts)
                if response is not None:
                    return response
            if not self._woken:
                await self._wait()
        raise ConnectionResetError("the client left")

    async def _send(self, parts: list[Part]) -> web.StreamResponse | None:
        """Write `parts` of a stream. The response is given once it is complete."""
        data = b"".join([part.data for part in parts if isinstance(part, Body)])
        response = self._response
        if response is None:
            head = cast("Head", parts[0])
            response = self._response = web.StreamResponse(status=head.status, headers=CIMultiDict(head.headers))
            await response.prepare(self._request)
        if data:
            self._arm()
            self._blocked = True
            await response.write(data)
            self._blocked = False
        if not isinstance(parts[-1], End):
            return None
        await response.write_eof()
        return response

    async def _cut(self, response: web.Response) -> web.StreamResponse:
        """Send `response` to a request that is still coming in, and end the connection without reading all of it."""
        response.force_close()
        await response.prepare(self._request)
        await response.write_eof()
        transport = self._request.transport
        if transport is not None and transport.can_write_eof():
            transport.write_eof()
        content, left = self._request.content, _LINGER_BYTES
        try:
            async with asyncio.timeout(self._linger):
                while left > 0 and not content.at_eof():
                    left -= len(await content.readany())
        except (OSError, RuntimeError, web.RequestPayloadError):
            pass  # out of time, or gone, or no HTTP: the connection is cut in any case
        if not content.is_eof():
            self._request.protocol.force_close()
        return response

    async def _wait(self) -> None:
        """Return when there is something to do."""
        self._arm()
        if self._watch is None:
            transport = self._request.transport
            if transport is None:
                raise ConnectionResetError("the client left")
            self._watch = Watch(transport, self._on_lost)
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    # What the engine asks for

    def _turn(self) -> list[StoreNeeded]:
        """Start and cancel calls. What the engine wants of its store is given, to be awaited."""
        stores: list[StoreNeeded] = []
        while events := self._engine.events():
            for event in events:
                if isinstance(event, CallReceived):
                    self._tasks.start(event.call, event.run())
                elif isinstance(event, StoreNeeded):
                    stores.append(event)
                elif isinstance(event, CallCancelled):
                    self._tasks.cancel(event.call)
                else:
                    logger.debug("%s", event.failure)
        return stores

    # The end of the connection, and of the coroutine

    def _left(self) -> web.StreamResponse:
        """The client has left. What is given was sent, or never can be."""
        self._engine.receive_disconnect()
        self._go_alone()
        return self._response or web.Response(status=_CLIENT_LEFT)

    def _leave(self) -> None:
        """The request's coroutine ends. Calls that do not end with it go on without."""
        if self._watch is not None:
            self._watch.stop()
        if self._alone:
            return
        running = self._tasks.running
        if running and not all(task.done() for task in running.values()):
            self._go_alone()
            return
        if self._timer is not None:
            self._timer.cancel()
        # The engine and the watch hold this driver. Without the ways back all are freed now, and not by the collector.
        del self._engine
        self._watch = None

    def _go_alone(self) -> None:
        self._alone = True
        self._turn_alone()

    def _turn_alone(self) -> None:
        """A turn without the coroutine that writes, which is busy or gone."""
        for store in self._turn():
            self._host.adopt(start_task(self._loop, store.run()))
        if self._alone:
            for task in self._tasks.running.values():
                self._host.adopt(task)
        self._arm()

    # What wakes the coroutine that writes

    def _wake(self) -> None:
        """There is something to take. Called by the engine, from any thread."""
        if get_ident() == self._thread:
            self._signal()
        else:
            call_from_thread(self._loop, self._signal)

    def _signal(self) -> None:
        self._woken = True
        if self._waiter is not None:
            if not self._waiter.done():
                self._waiter.set_result(None)
        elif self._alone or self._blocked:
            # Soon and not now: the engine may be in the middle of what it wakes for.
            self._loop.call_soon(self._attend)

    def _attend(self) -> None:
        """A turn, unless the coroutine that writes has come to it meanwhile."""
        if self._alone or self._blocked:
            self._turn_alone()

    def _on_lost(self) -> None:
        self._lost = True
        self._signal()

    def _arm(self) -> None:
        """Have one timer, for the engine's next deadline."""
        due = self._engine.next_deadline()
        if due == self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = None
        if due is not None:
            self._timer = self._loop.call_later(due - self._host.server.runtime.now(), self._on_due, due)

    def _on_due(self, due: float) -> None:
        self._timer = self._due = None
        # The loop may be early, by the resolution of its clock.
        self._engine.handle_timeout(max(due, self._host.server.runtime.now()))
        self._turn_alone()
        self._signal()


def _whole(parts: list[Part]) -> web.Response:
    """The response of which `parts` are all."""
    head = cast("Head", parts[0])
    data = b"".join([part.data for part in parts if isinstance(part, Body)])
    return web.Response(status=head.status, headers=head.headers, body=data or None)

"""Drives one engine of the core with one aiohttp request: facts in, parts of the response out, calls run meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from threading import get_ident
from typing import Any, cast

from aiohttp import web
from multidict import CIMultiDict

from mcp_sansio import (
    Body,
    Call,
    CallCancelled,
    CallReceived,
    End,
    Head,
    HttpTransaction,
    Part,
    PeerFaulted,
    StoreNeeded,
)

from .facts import checked_principal, is_cancelled_when_lost, is_loopback
from .host import Host, call_from_thread
from .watch import Watch

logger = logging.getLogger("mcp_sansio_aiohttp")

Work = CallReceived | StoreNeeded

#: A client that is refused before it has sent everything often reads its answer only afterwards. So much more is
#: read and dropped, within this time, before the connection is cut.
_LINGER_BYTES = 8 * 2**20
_LINGER_SECONDS = 5.0
#: For the access log alone: the client left before there was a response.
_CLIENT_LEFT = 499


class Driver:
    """One request on its way through the core, whose engine `open_engine` makes.

    Only one coroutine writes the response. What happens elsewhere (a call has something to say, a deadline has come,
    the connection has ended) wakes it. At first it is the request's own. A call that comes alone is run by that too,
    since most calls never wait, and cost no task then; when this one does wait, a task takes over the writing. Other
    calls have tasks of their own.

    When the connection ends, calls go on where their revision does not give them up for that. Nobody writes then, and
    the driver goes on from callback to callback until the last of them is over.
    """

    # Defaults stand here, since most requests change none of them.
    _own: asyncio.Task[Any] | None = None
    _is_recalled = False
    _writer: asyncio.Task[web.StreamResponse] | None = None
    _response: web.StreamResponse | None = None
    _waiter: asyncio.Future[None] | None = None
    _watch: Watch | None = None
    _timer: asyncio.TimerHandle | None = None
    _due: float | None = None
    _woken = False
    _lost = False
    _alone = False

    def __init__(self, host: Host, request: web.Request, open_engine: Callable[..., HttpTransaction]) -> None:
        self._host = host
        self._request = request
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        host.server.bind(self._loop, self._thread)
        self._tasks: dict[Call, asyncio.Task[Any]] = {}
        self._engine = open_engine(
            principal=checked_principal(host.principal(request)),
            loopback=is_loopback(request),
            request=request,
            wake=self._wake,
        )

    async def run(self) -> web.StreamResponse:
        """Serve the request. What is returned is for aiohttp to finish, if it is not finished yet."""
        try:
            return await self._receive() or await self._answer()
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
        """Hand the request to the engine. A response is given where the body is not HTTP, which the core never sees."""
        engine, request = self._engine, self._request
        engine.receive_request(request.method, request.raw_path, request.headers)
        content = request.content
        try:
            while engine.receiving and not content.at_eof():
                engine.receive_body(await content.readany())
        except web.RequestPayloadError as error:
            if request.transport is None:
                raise ConnectionResetError("the client left") from error
            engine.receive_disconnect()
            return await self._cut(web.Response(status=400, text="400: the body cannot be read"))
        except RuntimeError as error:
            # aiohttp has this for a body that was still to come when the connection ended.
            if request.transport is None:
                raise ConnectionResetError("the client left") from error
            raise
        engine.receive_end()
        return None

    # The response

    async def _answer(self) -> web.StreamResponse:
        """Do what the request brought, and write the response to its end."""
        while works := self._turn():
            first = works[0]
            if len(works) == 1 and isinstance(first, CallReceived) and self._may_run_here(first):
                await self._run_here(first)
            else:
                await self._begin(works)
        return await self._write() if self._writer is None else await self._writer

    async def _write(self) -> web.StreamResponse:
        """Write the response to its end, after a turn. Raises ``ConnectionError`` when the client has left."""
        while not self._lost:
            self._woken = False
            parts = self._engine.data_to_send()
            if parts:
                response = await self._send(parts)
                if response is not None:
                    return response
            if not self._woken:
                await self._wait()
            while works := self._turn():
                await self._begin(works)
        raise ConnectionResetError("the client left")

    async def _write_beside(self) -> web.StreamResponse:
        """The same in a task, and all of it, while the request's own coroutine runs a call."""
        try:
            while works := self._turn():
                await self._begin(works)
            response = await self._write()
            await response.prepare(self._request)
            await response.write_eof()
        except ConnectionError:
            return self._left()
        if self._tasks and not self._is_recalled:
            # The client goes on with its stream elsewhere. The connection would not serve it before the call is over.
            self._go_alone()
            self._request.protocol.force_close()
        return response

    async def _send(self, parts: list[Part]) -> web.StreamResponse | None:
        """Write `parts`. The response is given once it is complete."""
        complete = isinstance(parts[-1], End)
        data = b"".join([part.data for part in parts if isinstance(part, Body)])
        response = self._response
        if response is None:
            head = cast("Head", parts[0])
            if complete:
                whole = web.Response(status=head.status, headers=head.headers, body=data or None)
                return whole if self._request.content.is_eof() else await self._cut(whole)
            response = self._response = web.StreamResponse(status=head.status, headers=CIMultiDict(head.headers))
            await response.prepare(self._request)
        if data:
            self._arm()
            await response.write(data)
        if not complete:
            return None
        await response.write_eof()
        return response

    async def _cut(self, response: web.Response) -> web.StreamResponse:
        """Send `response` to a request that is still coming in, and end the connection without reading all of it."""
        response.force_close()
        await response.prepare(self._request)
        await response.write_eof()
        content, left = self._request.content, _LINGER_BYTES
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while left > 0 and not content.at_eof():
                    left -= len(await content.readany())
        except (TimeoutError, web.RequestPayloadError):
            pass  # the connection is cut for it in any case
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

    def _turn(self) -> list[Work]:
        """Do at once what can be done at once. What has to be awaited is given."""
        works: list[Work] = []
        while events := self._engine.events():
            for event in events:
                if isinstance(event, CallCancelled):
                    self._cancel(event.call)
                elif isinstance(event, PeerFaulted):
                    logger.debug("%s", event.failure)
                else:
                    works.append(event)
        return works

    async def _begin(self, works: list[Work]) -> None:
        for work in works:
            if isinstance(work, StoreNeeded):
                await work.run()
            else:
                self._start(work)

    def _start(self, work: Work) -> asyncio.Task[None]:
        task = self._loop.create_task(cast("Coroutine[Any, Any, None]", work.run()))
        if isinstance(work, CallReceived):
            call = work.call
            self._tasks[call] = task
            task.add_done_callback(lambda _: self._tasks.pop(call))
        return task

    def _cancel(self, call: Call) -> None:
        task = self._tasks.get(call)
        if task is not None:
            self._is_recalled |= task is self._own
            task.cancel()

    def _may_run_here(self, event: CallReceived) -> bool:
        """Whether the request's own coroutine may run the call: where the one is cancelled, the other must end too."""
        if self._tasks or self._engine.streaming:
            return False
        return event.call.adapter.disconnect_cancels or not is_cancelled_when_lost(self._request)

    async def _run_here(self, event: CallReceived) -> None:
        own = self._own = asyncio.current_task()
        assert own is not None
        self._tasks[event.call] = own
        beside = self._loop.call_soon(self._start_writer)
        try:
            await event.run()
        except asyncio.CancelledError:
            # It is over with here where the call alone was meant, and not whoever runs it.
            if not self._is_recalled or own.cancelling() > 1:
                raise
        finally:
            beside.cancel()
            del self._tasks[event.call]
            if self._is_recalled:
                own.uncancel()

    def _start_writer(self) -> None:
        self._writer = self._loop.create_task(self._write_beside())

    # The end of the connection, and of the coroutine

    def _left(self) -> web.StreamResponse:
        """The client has left. What is given was sent, or never can be."""
        self._engine.receive_disconnect()
        self._go_alone()
        self._turn_alone()
        return self._response or web.Response(status=_CLIENT_LEFT)

    def _leave(self) -> None:
        """The request's coroutine ends. Calls that do not end with it go on without."""
        if self._watch is not None:
            self._watch.stop()
        if self._writer is not None:
            self._writer.cancel()
        if self._alone:
            return
        if not all(task.done() for task in self._tasks.values()):
            self._go_alone()
            return
        if self._timer is not None:
            self._timer.cancel()
        # The engine holds this driver by `_wake`. Without the way back both are freed now, and not by the collector.
        del self._engine

    def _go_alone(self) -> None:
        self._alone = True
        for task in self._tasks.values():
            if not task.done():
                self._host.adopt(task)

    def _turn_alone(self) -> None:
        """A turn without the coroutine that writes, which is busy or gone."""
        for work in self._turn():
            self._host.adopt(self._start(work))
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
        elif self._alone:
            # Soon and not now: the engine may be in the middle of what it wakes for.
            self._loop.call_soon(self._turn_alone)

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
        self._timer = None if due is None else self._loop.call_at(due, self._on_due, due)

    def _on_due(self, due: float) -> None:
        self._timer = self._due = None
        # The loop may be early, by the resolution of its clock.
        self._engine.handle_timeout(max(due, self._loop.time()))
        self._turn_alone()
        self._signal()

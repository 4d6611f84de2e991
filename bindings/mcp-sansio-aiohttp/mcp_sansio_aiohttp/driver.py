"""Drives one engine of the core with one aiohttp request: facts in, parts of the response out, calls run meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from aiohttp import web
from multidict import CIMultiDict

from mcp_sansio import End, Head, HttpTransaction, Part, Pending, Whole
from mcp_sansio.hosting import checked_principal
from mcp_sansio.response_driver import ResponseDriver, data_of
from mcp_sansio.wire.headers import Headers

from .facts import is_on_loopback
from .host import Host
from .watch import Watch

#: A client that is refused before it has sent everything often reads its answer only afterwards. So much more is
#: read and dropped, within this time, before the connection is cut.
_LINGER_BYTES = 8 * 2**20
_LINGER_SECONDS = 5.0
#: For the access log alone: the client left before there was a response.
_CLIENT_LEFT = 499


def at_once(host: Host, request: web.Request) -> web.Response | Pending | None:
    """The response to a request to the Streamable HTTP endpoint, if it is there at once, as mostly.

    Otherwise a `Driver` has to go on with what is given; ``None`` is for what is no POST, refused, or still coming in.
    """
    server, content = host.server, request.content
    if request.method != "POST" or not content.is_eof() or content.exception() is not None:
        return None
    head = server.admit(request.raw_path, request.raw_headers, loopback=is_on_loopback(request))
    if head is None:
        return None
    principal = checked_principal(host.principal(request))
    given = server.respond(head, content.read_nowait(), principal=principal, request=request)
    if isinstance(given, Whole):
        return web.Response(status=given.status, headers=given.headers, body=given.body)
    return given


class Driver(ResponseDriver):
    """One request on its way through the core.

    The request's own coroutine alone writes the response. Calls are tasks of their own, since they may outlive it.
    """

    # Defaults stand here, since most requests change none of them.
    engine: HttpTransaction
    _response: web.StreamResponse | None = None
    _eyes: Watch | None = None
    _linger = _LINGER_SECONDS

    def __init__(self, host: Host, request: web.Request) -> None:
        super().__init__(host.loop.here(), host.orphans)
        self._host = host
        self._request = request

    async def run(self, open_engine: Callable[..., HttpTransaction]) -> web.StreamResponse:
        """Serve the request, with an engine that `open_engine` makes. What is returned is for aiohttp to finish."""
        self.engine = open_engine(**self._facts())
        return await self._drive(self._receive())

    async def begin(self, pending: Pending) -> web.StreamResponse:
        """Serve a request that has come in."""
        given = pending.begin(self.start_call, self.wake)
        if isinstance(given, Whole):
            return web.Response(status=given.status, headers=given.headers, body=given.body)
        self.engine = given
        return await self._drive(None)

    async def _drive(self, coming_in: Awaitable[web.StreamResponse | None] | None) -> web.StreamResponse:
        try:
            refused = None if coming_in is None else await coming_in
            return await self._respond(self.take_now()) if refused is None else refused
        except ConnectionError:
            return self._left()
        except BaseException:
            # Cancelled: the server stops, or the operator has aiohttp cancel the handlers of lost connections.
            self._left()
            raise
        finally:
            if self._eyes is not None:
                self._eyes.stop()
                self._eyes = None
            self.leave()

    # The request

    def _facts(self) -> dict[str, Any]:
        """What an `HttpTransaction` is told of the request before it comes in."""
        return {
            "principal": checked_principal(self._host.principal(self._request)),
            "loopback": is_on_loopback(self._request),
            "request": self._request,
            "wake": self.wake,
        }

    async def _receive(self) -> web.StreamResponse | None:
        """Hand the request to the engine. A response is given where it is not HTTP, which the core never sees."""
        engine, request = self.engine, self._request
        engine.receive_request(request.method, request.raw_path, Headers.of_bytes(request.raw_headers))
        try:
            await self._receive_body()
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

    async def _receive_body(self) -> None:
        """Read the body, for as long as the engine waits for it."""
        engine, content = self.engine, self._request.content
        due = engine.next_deadline()
        limit = asyncio.timeout(None if due is None else due - self._loop.now())
        try:
            async with limit:
                while engine.receiving and not content.at_eof():
                    engine.receive_body(await content.readany())
        except TimeoutError:
            if due is None or not limit.expired():
                raise
            engine.handle_timeout(max(due, self._loop.now()))
            self._linger = 0.0  # it has had its time

    # The response

    async def _respond(self, parts: list[Part]) -> web.StreamResponse:
        """Write the response to its end; it begins with `parts`. Raises ``ConnectionError`` when the client left."""
        while True:
            parts = parts or await self.take()
            if self._response is None and isinstance(parts[-1], End):
                whole = _whole(parts)
                return whole if self._request.content.is_eof() else await self._cut(whole)
            response = await self._send(parts)
            if response is not None:
                return response
            parts = []

    async def _send(self, parts: list[Part]) -> web.StreamResponse | None:
        """Write `parts` of a stream. The response is given once it is complete."""
        data = data_of(parts)
        response = self._response
        if response is None:
            head = cast("Head", parts[0])
            response = self._response = web.StreamResponse(status=head.status, headers=CIMultiDict(head.headers))
            await response.prepare(self._request)
        if data:
            self.pause()
            await response.write(data)
            self.resume()
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

    # The end of the connection

    def watch(self) -> None:
        """See `ResponseDriver.watch`."""
        transport = self._request.transport
        if transport is None:
            raise ConnectionResetError("the client left")
        self._eyes = Watch(transport, self.lose)

    def _left(self) -> web.StreamResponse:
        """The client has left. What is given was sent, or never can be."""
        self.disconnect()
        return self._response or web.Response(status=_CLIENT_LEFT)


def _whole(parts: list[Part]) -> web.Response:
    """The response of which `parts` are all."""
    head: Any = parts[0]
    return web.Response(status=head.status, headers=head.headers, body=data_of(parts) or None)

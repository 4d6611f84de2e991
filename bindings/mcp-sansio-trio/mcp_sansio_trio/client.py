"""Calls a server over HTTP on trio, whichever revision and transport it has."""

from __future__ import annotations

import secrets
import ssl
from typing import Unpack

import h11
import trio

from mcp_sansio import Adapter, AdapterSet, ClientOptions, GivenHeaders, HttpClientApi, HttpRequest, Runtime
from mcp_sansio.driving import words_of
from mcp_sansio.wire.coding import ContentDecoder
from mcp_sansio.wire.headers import Headers
from mcp_sansio.wire.urls import target_of

from .connections import Connect, Connection, Connections
from .loop import Here, Loop
from .scoped import Scoped

#: What is sent at once, since a peer that does not read takes that much in all the same; more goes beside the reading.
_AT_ONCE = 64 * 2**10
#: Seconds for the last requests of a client that was cancelled.
_FAREWELL = 2.0


class Client(Scoped[Loop], HttpClientApi):
    """Calls the server at `url`, within ``async with``. Nothing is sent before the first call.

    `adapter` is the revision to speak, or an `AdapterSet` of those that may be; without it the client finds out what
    the server speaks. `options` are those of `ClientOptions`.

    `headers` go with every request. A function, plain or ``async``, is called for each of them, so that a token may
    change. `connect` opens a stream to a host and a port in place of ``trio.open_tcp_stream``: through a proxy, to a
    unix socket. `ssl_context` is for https, in place of ``ssl.create_default_context()``.

    Leaving the block ends everything in flight. Where the block is cancelled, that is still done, within a bounded
    time: the server is told that a call was given up, and that the session is over.

    Raises ``ValueError`` for what is no http or https URL, and for what cannot be a header.
    """

    def __init__(
        self,
        url: str,
        adapter: Adapter | AdapterSet | None = None,
        *,
        headers: GivenHeaders | None = None,
        connect: Connect | None = None,
        ssl_context: ssl.SSLContext | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._loop = loop = Loop()
        runtime = Runtime(now=loop.time, token_bytes=secrets.token_bytes, event=trio.Event)
        super().__init__(
            url, adapter, headers, options, runtime=runtime, call_at=loop.call_at, start=loop.start, here=Here
        )
        self._connections = Connections(connect, ssl_context, self._engine.config.max_headers)

    _words_of = staticmethod(words_of)

    async def close(self) -> None:
        """End everything in flight, with `ConnectionLost`, and the session, where the server has one."""
        mine, tasks = self._loop.current_task(), self._tasks
        self._begin_to_close(mine)
        try:
            await tasks.ended(trio.Event, but=mine)
        finally:
            with trio.move_on_after(_FAREWELL, shield=True):
                await tasks.ended(trio.Event, but=mine)
            tasks.cancel_all(but=mine)
            await self._connections.aclose()

    async def _exchange(self, request: HttpRequest) -> None:
        target = target_of(request.url)
        try:
            connection = await self._connections.take(target)
        except OSError as error:
            self._cannot_connect(request, error)
            return
        try:
            data = await connection.begin(request, target)
            if len(data) > _AT_ONCE:
                self._loop.start(connection.send(data))
            else:
                await connection.send(data)
            await self._read(connection, request)
        finally:
            await self._connections.give_back(target, connection)

    async def _read(self, connection: Connection, request: HttpRequest) -> None:
        engine, exchange = self._engine, request.exchange
        event, content = None, ContentDecoder("")
        while type(event) is not h11.EndOfMessage:
            event = connection.http.next_event()
            if event is h11.NEED_DATA:
                self._pump()
                await connection.receive()
            elif isinstance(event, h11.Data):
                for piece in content.receive_data(bytes(event.data)):
                    engine.receive_data(exchange, piece)
            elif isinstance(event, h11.Response):
                pairs = [(name.decode(), value.decode(errors="surrogateescape")) for name, value in event.headers]
                headers = Headers(pairs)
                engine.receive_response(exchange, event.status_code, headers)
                content = ContentDecoder(headers.get("content-encoding") or "")
        content.receive_end()
        engine.receive_end(exchange)

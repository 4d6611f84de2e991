"""Calls a server over HTTP with aiohttp, whichever revision and transport it has."""

from __future__ import annotations

import asyncio
import secrets
import sys
import time
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from io import BytesIO
from typing import Unpack

from aiohttp import (
    ClientConnectorError,
    ClientRequest,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    TCPConnector,
)
from aiohttp.connector import Connection
from yarl import URL

from mcp_sansio import Adapter, AdapterSet, ClientOptions, GivenHeaders, HttpClientApi, HttpRequest, Runtime
from mcp_sansio.driving import Here
from mcp_sansio.wire.headers import Headers

from .eager import starter, step_if_alone

#: The deadlines are the core's: a call has one of its own, and a stream may be quiet for as long as it likes.
_NO_TIMEOUT = ClientTimeout()
#: aiohttp warns of larger bodies that are not files.
_LARGE = 2**20
_UNCOMPRESSED = {"Accept-Encoding": "identity"}


class Client(HttpClientApi):
    """Calls the server at `url`. Nothing is sent before the first call.

    `adapter` is the revision to speak, or an `AdapterSet` of those that may be; without it the client finds out what
    the server speaks. `options` are those of `ClientOptions`.

    `headers` go with every request. A function, plain or ``async``, is called for each of them, so that a token may
    change. With a `session` of your own, its proxies, certificates, cookies and limits apply, and closing it is yours;
    a limit on its connections also counts those on which the server is listened to.

    Raises ``ValueError`` for what is no http or https URL, and for what cannot be a header.
    """

    def __init__(
        self,
        url: str,
        adapter: Adapter | AdapterSet | None = None,
        *,
        headers: GivenHeaders | None = None,
        session: ClientSession | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        runtime = Runtime(now=time.monotonic, token_bytes=secrets.token_bytes, event=asyncio.Event)
        super().__init__(url, adapter, headers, options, runtime=runtime, call_at=_call_at, start=_start, here=_here)
        self._session = session
        self._owns_session = session is None

    @staticmethod
    def _words_of(error: BaseException) -> str:
        return str(getattr(error, "os_error", error))  # the rest of a ClientConnectorError is where to, in other words

    async def close(self) -> None:
        """End everything in flight, with `ConnectionLost`, and the session, where the server has one."""
        mine = asyncio.current_task()
        self._begin_to_close(mine)
        try:
            await self._tasks.ended(asyncio.Event, but=mine)
        finally:
            self._tasks.cancel_all(but=mine)
            self._alarm.stop()
            if self._owns_session and self._session is not None:
                await self._session.close()

    async def _exchange(self, request: HttpRequest) -> None:
        session = self._session or self._open_session()
        headers = request.headers
        try:
            response = await session.request(
                request.method,
                _url(request.url),
                headers=headers if session.auto_decompress else {**_UNCOMPRESSED, **headers},
                data=_payload(request.body),
                allow_redirects=False,
                raise_for_status=False,
                timeout=_NO_TIMEOUT,
            )
        except ClientConnectorError as error:
            self._cannot_connect(request, error)
            return
        engine, exchange, content = self._engine, request.exchange, response.content
        try:
            engine.receive_response(exchange, response.status, Headers.of_bytes(response.raw_headers, "utf-8"))
            data = content.read_nowait()  # mostly this is all of it
            while not content.at_eof():
                if data:
                    engine.receive_data(exchange, data)
                    data = content.read_nowait()
                else:
                    self._pump()
                    data = await content.readany()
            engine.receive_end(exchange, data)
        except BaseException:
            response.close()  # the connection of one that was read to its end has gone back by itself
            raise

    def _open_session(self) -> ClientSession:
        # Were the number of connections limited, streams that are listened to could use them up.
        self._session = ClientSession(
            connector=TCPConnector(limit=0), cookie_jar=DummyCookieJar(), request_class=_REQUEST_CLASS
        )
        return self._session


class _PromptRequest(ClientRequest):
    """A request whose body is written at once.

    aiohttp writes it in a task, which has run to its first wait since Python 3.12, and before that has to wait for the
    next turn of the loop: 5 of the 200 µs that one call after the other takes this side. Other calls make use of that
    turn.
    """

    async def send(self, conn: Connection) -> ClientResponse:
        response = await super().send(conn)
        if self.body:
            step_if_alone(self.loop)
        return response


_REQUEST_CLASS = ClientRequest if sys.version_info >= (3, 12) else _PromptRequest
_pause = partial(asyncio.sleep, 0)
# The same few for as long as a client lives.
_url = lru_cache(maxsize=64)(URL)


def _payload(body: bytes) -> bytes | BytesIO | None:
    return BytesIO(body) if len(body) > _LARGE else body or None


def _call_at(when: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(when - time.monotonic(), callback)


def _start(work: Awaitable[None]) -> asyncio.Task[None]:
    return starter(asyncio.get_running_loop())(work)


def _here() -> Here:
    task = asyncio.current_task()
    assert task is not None
    return Here(task, asyncio.CancelledError, _pause)

"""An aiohttp application on a real socket, and clients of one revision in front of it.

`serving` asserts what every test of the binding wants: once the server has stopped, nothing that it started is left.
Whatever the server says is held against the schema of the client's revision (see `wire_schema`).

Tests take aiohttp and the binding from here: where those are not installed, importing this leaves a test module out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, cast

import attrs

import speak
import support
from heard import ACCEPT, JSON, Answer, Events, Speaker, address_in, text_of
from mcp_sansio.wire.json import encode
from mcp_sansio.wire.sse import ServerSentEvent

support.need("mcp_sansio_aiohttp")

from aiohttp import (  # noqa: E402
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    CookieJar,
    TCPConnector,
    UnixConnector,
    web,
)

from mcp_sansio_aiohttp import PRINCIPAL, Endpoint, SseEndpoint  # noqa: E402

__all__ = [
    "ACCEPT",
    "PRINCIPAL",
    "Answer",
    "Client",
    "ClientError",
    "ClientSession",
    "ClientTimeout",
    "CookieJar",
    "Endpoint",
    "PairClient",
    "Site",
    "SseEndpoint",
    "Stream",
    "TCPConnector",
    "UnixConnector",
    "serving",
    "serving_each",
    "text_of",
    "web",
]

#: Longer than any machine needs; a test that waits this long has failed.
PATIENCE = 30.0


@attrs.define(eq=False)
class Site:
    """An application that is being served at `url`. `http` is for its clients."""

    url: str
    http: ClientSession
    runner: web.AppRunner

    async def stop(self) -> None:
        """Stop serving, as ``web.run_app`` does at its end."""
        await self.runner.cleanup()

    @asynccontextmanager
    async def losing_a_connection(self) -> AsyncIterator[None]:
        """A block in which a client goes away; it ends when the server has seen that."""
        assert self.runner.server is not None
        before = set(self.runner.server.connections)
        yield
        while before <= set(self.runner.server.connections):
            await asyncio.sleep(0)


@asynccontextmanager
async def serving(app: web.Application, **options: Any) -> AsyncIterator[Site]:
    """Serve `app` on 127.0.0.1. `options` are those of ``web.AppRunner``."""
    async with serving_each(app, **options) as (site,):
        yield site


@asynccontextmanager
async def serving_each(*apps: web.Application, **options: Any) -> AsyncIterator[list[Site]]:
    """Serve several applications, each at a port of its own."""
    before = asyncio.all_tasks()
    async with asyncio.timeout(PATIENCE):
        async with ClientSession(connector=TCPConnector(limit=0)) as http:
            sites = [await _start(app, http, options) for app in apps]
            try:
                yield sites
            finally:
                for site in sites:
                    await site.stop()
        left = asyncio.all_tasks() - before
        if left:
            await asyncio.wait(left)


async def _start(app: web.Application, http: ClientSession, options: Mapping[str, Any]) -> Site:
    runner = web.AppRunner(app, access_log=None, **options)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    return Site(f"http://{host}:{port}", http, runner)


class Stream(Events):
    """A response that is read while it comes in."""

    def __init__(self, response: ClientResponse, version: str, methods: Mapping[JSON, str]) -> None:
        super().__init__(version, methods)
        self.response = response

    async def event(self) -> ServerSentEvent | None:
        """The next event, as soon as it is there, or ``None`` at the end."""
        while (event := self.heard()) is None:
            data = await self.response.content.readany()
            if not data:
                return None
            self.hear(data)
        return event

    async def message(self) -> JSON:
        """The next message, or ``None`` at the end."""
        while (event := await self.event()) is not None:
            if (message := self.message_of(event)) is not None:
                return message
        return None

    async def rest(self) -> list[JSON]:
        """The messages up to the end."""
        return [message async for message in self]

    async def __aiter__(self) -> AsyncIterator[JSON]:
        while (message := await self.message()) is not None:
            yield message

    def leave(self) -> None:
        """Cut the connection, as a client does that goes away."""
        self.response.close()


class Client(Speaker):
    """A client of Streamable HTTP of one revision, at `path` of `site`."""

    def __init__(self, version: str, site: Site, path: str = "/mcp", **options: Any) -> None:
        super().__init__(version, **options)
        self.site = site
        self.url = site.url + path

    async def open(self) -> Client:
        """Make the handshake, where the revision has one."""
        if self.adapter.has_handshake:
            opened = await self.post(self.initialize(), headers={"MCP-Protocol-Version": None})
            assert opened.status == 200, opened
            # A proxy in between may have spelt it in its own way.
            self.session = {name.lower(): value for name, value in opened.headers.items()}["mcp-session-id"]
            assert (await self.post(speak.notification("notifications/initialized"))).status == 202
        return self

    @asynccontextmanager
    async def streaming(
        self, message: JSON = None, *, method: str = "POST", headers: Mapping[str, str | None] = {}
    ) -> AsyncIterator[Stream]:
        """Send a message, and read what comes back as it comes."""
        given, data = self.written(message, headers)
        # As a file, since aiohttp warns of large bodies that are bytes.
        body = None if data is None else BytesIO(data)
        async with self.site.http.request(
            method, self.url, data=body, headers=given, allow_redirects=False
        ) as response:
            yield Stream(response, self.version, speak.methods_of(message))

    async def send(self, method: str, message: JSON = None, *, headers: Mapping[str, str | None] = {}) -> Answer:
        """Send a message, and read the whole response."""
        async with self.streaming(message, method=method, headers=headers) as stream:
            response = stream.response
            own = {name: value for name, value in response.headers.items() if name not in ("Date", "Server")}
            answer = Answer(response.status, own, await response.read())
        return self.checked(answer, message)

    async def post(self, message: JSON, *, headers: Mapping[str, str | None] = {}) -> Answer:
        """POST a message."""
        return await self.send("POST", message, headers=headers)

    async def call(self, name: str, *, id: JSON = 1, token: JSON = None, **arguments: JSON) -> JSON:
        """Call a tool: the message that answers it."""
        return (await self.post(self.calling(name, id=id, token=token, **arguments))).messages[-1]

    def listening(self) -> Any:
        """The session's standalone stream."""
        return self.streaming(method="GET")


class PairClient(speak.Speaker):
    """A client of the first HTTP transport: it reads the stream at `path`, and sends to the address that it is told."""

    #: What the server says, once it is open.
    stream: Stream

    def __init__(self, site: Site, path: str = "/sse", version: str = speak.VERSIONS[-1], **options: Any) -> None:
        super().__init__(version, cast("Any", None), **options)
        self.site = site
        self.path = path
        self.where = ""
        self._methods: dict[JSON, str] = {}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[PairClient]:
        """Open the stream, and make the handshake."""
        headers = {"Accept": "text/event-stream"}
        async with self.site.http.get(self.site.url + self.path, headers=headers, allow_redirects=False) as response:
            assert response.status == 200, await response.text()
            self.stream = Stream(response, self.version, self._methods)
            self.where = address_in(await self.stream.event())
            await self.request(self.initialize())
            await self.send(speak.notification("notifications/initialized"))
            yield self

    async def send(self, message: JSON) -> None:
        """Send a message."""
        self._methods |= speak.methods_of(message)
        url = self.site.url + self.where
        headers = {"Content-Type": "application/json"}
        async with self.site.http.post(url, data=encode(message), headers=headers, allow_redirects=False) as response:
            assert (response.status, await response.read()) == (202, b"")

    async def request(self, message: JSON) -> JSON:
        """Send a request: the next message that comes."""
        await self.send(message)
        return await self.stream.message()

    async def call(self, name: str, *, id: JSON = 1, token: JSON = None, **arguments: JSON) -> JSON:
        """Call a tool: the next message that comes."""
        message = self.message("tools/call", {"name": name, "arguments": arguments}, id=id, token=token)
        return await self.request(message)

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
from mcp_sansio.wire.json import decode, encode
from mcp_sansio.wire.sse import EventDecoder, ServerSentEvent

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

JSON = Any
#: Longer than any machine needs; a test that waits this long has failed.
PATIENCE = 30.0
ACCEPT = "application/json, text/event-stream"


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


@attrs.frozen
class Answer:
    """A whole response. `headers` lack what aiohttp adds to every response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> JSON:
        """The only message in it."""
        (message,) = self.messages
        return message

    @property
    def messages(self) -> list[JSON]:
        """The messages in it."""
        if self.headers.get("Content-Type") != "text/event-stream":
            return [decode(self.body)] if self.body else []
        return [decode(event.data) for event in events_of(self.body) if event.data]


def events_of(data: bytes) -> list[ServerSentEvent]:
    """The events in the body of a response."""
    decoder = EventDecoder(2**24)
    decoder.receive_data(data)
    decoder.receive_eof()
    return cast("list[ServerSentEvent]", list(decoder.events()))


class Stream:
    """A response that is read while it comes in."""

    def __init__(self, response: ClientResponse, version: str, methods: Mapping[JSON, str]) -> None:
        self.response = response
        self.last_id: str | None = None
        self._version = version
        self._methods = methods
        self._decoder = EventDecoder(2**24)
        self._events: list[ServerSentEvent] = []

    async def event(self) -> ServerSentEvent | None:
        """The next event, as soon as it is there, or ``None`` at the end."""
        while not self._events:
            data = await self.response.content.readany()
            if not data:
                return None
            self._decoder.receive_data(data)
            self._events += cast("list[ServerSentEvent]", list(self._decoder.events()))
        event = self._events.pop(0)
        self.last_id = event.id
        return event

    async def message(self) -> JSON:
        """The next message, or ``None`` at the end."""
        while (event := await self.event()) is not None:
            if event.data and event.event == "message":
                message = decode(event.data)
                speak.check_all(self._version, [message], self._methods)
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


class Client(speak.Speaker):
    """A client of Streamable HTTP of one revision, at `path` of `site`."""

    def __init__(self, version: str, site: Site, path: str = "/mcp", **options: Any) -> None:
        super().__init__(version, cast("Any", None), **options)
        self.site = site
        self.url = site.url + path
        self.session: str | None = None
        self.extra: Mapping[str, str] = {}

    async def open(self) -> Client:
        """Make the handshake, where the revision has one."""
        if self.adapter.has_handshake:
            opened = await self.post(self.initialize(), headers={"MCP-Protocol-Version": None})
            assert opened.status == 200, opened
            # A proxy in between may have spelt it in its own way.
            self.session = {name.lower(): value for name, value in opened.headers.items()}["mcp-session-id"]
            assert (await self.post(speak.notification("notifications/initialized"))).status == 202
        return self

    def headers(self, message: JSON = None) -> dict[str, str]:
        """What goes into the header section of a POST of `message`."""
        wanted = speak.Http.headers(cast("Any", self), message)
        return {"Accept": ACCEPT, "Content-Type": "application/json", **wanted, **self.extra}

    @asynccontextmanager
    async def streaming(
        self, message: JSON = None, *, method: str = "POST", headers: Mapping[str, str | None] = {}
    ) -> AsyncIterator[Stream]:
        """Send a message, and read what comes back as it comes."""
        held = {**self.headers(message), **headers}
        given = {name: value for name, value in held.items() if value is not None}
        data = message if isinstance(message, bytes) else encode(message)
        # As a file, since aiohttp warns of large bodies that are bytes.
        body = None if message is None else BytesIO(data)
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
        if own.get("Content-Type") in ("application/json", "text/event-stream"):
            speak.check_all(self.version, answer.messages, speak.methods_of(message))
        return answer

    async def post(self, message: JSON, *, headers: Mapping[str, str | None] = {}) -> Answer:
        """POST a message."""
        return await self.send("POST", message, headers=headers)

    async def call(self, name: str, *, id: JSON = 1, token: JSON = None, **arguments: JSON) -> JSON:
        """Call a tool: the message that answers it."""
        return (await self.post(self.calling(name, id=id, token=token, **arguments))).messages[-1]

    def calling(self, name: str, *, id: JSON = 1, token: JSON = None, **arguments: JSON) -> JSON:
        """The message that calls a tool."""
        return self.message("tools/call", {"name": name, "arguments": arguments}, id=id, token=token)

    def listening(self) -> Any:
        """The session's standalone stream."""
        return self.streaming(method="GET")


class PairClient(speak.Speaker):
    """A client of the first HTTP transport: it reads the stream at `path`, and sends to the address that it is told."""

    def __init__(self, site: Site, path: str = "/sse", version: str = speak.VERSIONS[-1], **options: Any) -> None:
        super().__init__(version, cast("Any", None), **options)
        self.site = site
        self.path = path
        self.where = ""
        self._stream: Stream | None = None
        self._methods: dict[JSON, str] = {}

    @property
    def stream(self) -> Stream:
        """What the server says."""
        assert self._stream is not None
        return self._stream

    @asynccontextmanager
    async def open(self) -> AsyncIterator[PairClient]:
        """Open the stream, and make the handshake."""
        headers = {"Accept": "text/event-stream"}
        async with self.site.http.get(self.site.url + self.path, headers=headers, allow_redirects=False) as response:
            assert response.status == 200, await response.text()
            self._stream = Stream(response, self.version, self._methods)
            event = await self._stream.event()
            assert event is not None
            assert event.event == "endpoint"
            self.where = event.data.decode()
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


def text_of(message: JSON) -> str:
    """The text of a tool's result."""
    assert not message["result"].get("isError"), message
    (content,) = message["result"]["content"]
    return str(content["text"])

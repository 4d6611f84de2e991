"""An endpoint of mcp_sansio_trio on streams in memory, and what a client says on them, byte for byte."""

from __future__ import annotations

import struct
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs

import speak
import support
from flags import PATIENCE
from foreign import Panic
from mcp_sansio import Exchange, Registry
from mcp_sansio.wire.json import decode, encode

trio = support.need("trio")
support.need("mcp_sansio_trio")

import h11  # noqa: E402
from trio.testing import memory_stream_pair, wait_all_tasks_blocked  # noqa: E402

from mcp_sansio_trio import Endpoint, serve_http  # noqa: E402

NEWEST = speak.VERSIONS[0]


class Peer(speak.Speaker):
    """Knows what a request has in it, and sends nothing."""

    session: str | None = None
    headers = speak.Http.headers

    def post(self, message: Any, *lines: str) -> bytes:
        """The bytes of a request that carries `message`, with more `lines` in its head."""
        body = message if isinstance(message, bytes) else encode(message)
        about = None if isinstance(message, bytes) else message
        own = [f"{name}: {value}" for name, value in self.headers(about).items()]
        return HEAD + "\r\n".join([*own, *lines, f"Content-Length: {len(body)}", "", ""]).encode() + body

    def calling(self, tool: str, *lines: str, token: Any = None, **arguments: Any) -> bytes:
        """The bytes of a request that calls a tool."""
        message = self.message("tools/call", {"name": tool, "arguments": arguments}, token=token)
        return self.post(message, *lines)


HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n"
    b"Content-Type: application/json\r\n"
)


def peer(version: str = NEWEST) -> Peer:
    """A client of that revision."""
    return Peer(version, Registry("a client", "1"))


async def _panic() -> None:
    raise Panic("later")


@attrs.define
class Kitchen:
    """A registry, and what its handlers have met with."""

    registry: Registry = attrs.Factory(lambda: Registry("kitchen", "1.0"))
    begun: Any = attrs.Factory(trio.Event)
    given_up: Any = attrs.Factory(trio.Event)
    done: Any = attrs.Factory(trio.Event)
    flooding: Any = attrs.Factory(trio.Event)


def kitchen() -> Kitchen:
    """Tools that answer at once, that wait, and that fail in every way."""
    made = Kitchen()
    registry = made.registry

    @registry.tool
    async def echo(text: str) -> str:
        """Give it back."""
        return text

    @registry.tool
    def shout(text: str) -> str:
        """Give it back from a thread."""
        return text.upper()

    @registry.tool
    async def wait(ex: Exchange) -> str:
        """Wait until the test is done with it, or it is given up."""
        made.begun.set()
        try:
            await ex.progress(0)
            await made.done.wait()
        except trio.Cancelled:
            made.given_up.set()
            raise
        return "served"

    @registry.tool
    async def flood(ex: Exchange) -> str:
        """Report without end, in long words."""
        number = 0
        made.flooding.set()
        while True:
            await ex.progress(number, None, "x" * 10_000)
            await trio.lowlevel.checkpoint()
            number += 1

    @registry.tool
    async def burn() -> str:
        """Fail with a group, while being cancelled as well."""
        made.begun.set()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_fail_at_the_end)
            await trio.sleep_forever()
        return "never"

    @registry.tool
    async def drop() -> str:
        """Fail in the ordinary way."""
        raise RuntimeError("it fell")

    @registry.tool
    async def leave() -> str:
        """Have had enough."""
        sys.exit("enough")

    @registry.tool
    async def panic() -> str:
        """Fail as an extension module does, in a task of its own as well."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_panic)
            raise Panic("at once")

    @registry.tool
    async def have_left() -> str:
        """Have a task of its own that has had enough."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_leave)
        return "never"

    @registry.tool
    async def interrupt() -> str:
        """Be where somebody presses Ctrl+C."""
        raise KeyboardInterrupt

    return made


async def _leave() -> None:
    sys.exit("enough")


async def _fail_at_the_end() -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise ValueError("while it was cancelled")


@attrs.define(eq=False)
class Wire:
    """A client's end of a connection."""

    stream: Any
    http: Any = attrs.Factory(lambda: h11.Connection(h11.CLIENT, max_incomplete_event_size=2**20))

    async def send(self, data: bytes) -> None:
        """Send all of it."""
        await self.stream.send_all(data)

    async def rest(self) -> bytes:
        """What comes until the server ends the connection."""
        read = bytearray()
        while data := await self.stream.receive_some():
            read += data
        return bytes(read)

    async def response(self, method: str = "POST") -> Response:
        """The next whole response. The connection can be used again."""
        self.http.send(h11.Request(method=method, target="/", headers=[("Host", "x"), ("Content-Length", "0")]))
        self.http.send(h11.EndOfMessage())
        body = b""
        while True:
            event = self.http.next_event()
            if event is h11.NEED_DATA:
                self.http.receive_data(await self.stream.receive_some())
            elif isinstance(event, h11.Response):
                status, fields = event.status_code, event.headers
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
        if self.http.our_state is h11.DONE and self.http.their_state is h11.DONE:
            self.http.start_next_cycle()
        return Response(status, {name.decode(): value.decode() for name, value in fields}, body)

    async def vanish(self, how: str) -> None:
        """Close the connection, reset it, or end the client's half of it and then close it."""
        if how == "reset":
            self.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half":
            try:
                await self.stream.send_eof()
                await trio.sleep(0.01)
            except trio.BrokenResourceError:
                pass  # the server has ended it already
        await trio.aclose_forcefully(self.stream)

    async def until(self, mark: bytes) -> bytes:
        """What comes until `mark` is in it."""
        read = b""
        while mark not in read:
            data = await self.stream.receive_some()
            assert data, read
            read += data
        return read


@attrs.frozen
class Response:
    """A whole response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The text of a tool's result."""
        (content,) = decode(self.body)["result"]["content"]
        return str(content["text"])


@asynccontextmanager
async def connected(endpoint: Endpoint) -> AsyncIterator[Wire]:
    """A connection to `endpoint` in memory. The block ends when the server has left nothing of it."""
    async with trio.open_nursery() as nursery:
        ours, theirs = memory_stream_pair()
        nursery.start_soon(endpoint.serve_stream, theirs)
        try:
            yield Wire(ours)
        finally:
            await trio.aclose_forcefully(ours)


@attrs.define(eq=False)
class Site:
    """An endpoint that is served at a socket."""

    nursery: Any
    address: Any
    #: How many tasks there are when nobody is connected.
    tasks: int = 0
    ended: Any = attrs.Factory(trio.Event)
    wires: list[Wire] = attrs.Factory(list)

    async def connect(self, *, context: Any = None, receive_buffer: int | None = None) -> Wire:
        """A connection to it, by TLS where there is a `context`."""
        socket = trio.socket.socket()
        if receive_buffer is not None:
            socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, receive_buffer)
        try:
            await socket.connect(self.address)
        except OSError:
            socket.close()
            raise
        stream: Any = trio.SocketStream(socket)
        if context is not None:
            stream = trio.SSLStream(stream, context, server_hostname="localhost", https_compatible=True)
        self.wires.append(Wire(stream))
        return self.wires[-1]

    async def gone(self) -> None:
        """Return when no task is left of any connection."""
        with trio.fail_after(PATIENCE):
            while trio.lowlevel.current_statistics().tasks_living > self.tasks:
                await trio.sleep(0.005)


@asynccontextmanager
async def serving(endpoint: Endpoint | Registry, **options: Any) -> AsyncIterator[Site]:
    """Serve `endpoint` for the time of the block, at whose end it and its clients are cancelled."""
    async with trio.open_nursery() as nursery:
        site = Site(nursery, None)

        async def serve(task_status: Any) -> None:
            await serve_http(endpoint, "127.0.0.1", 0, task_status=task_status, **options)
            site.ended.set()

        [site.address] = await nursery.start(serve)
        await wait_all_tasks_blocked()
        site.tasks = trio.lowlevel.current_statistics().tasks_living
        try:
            yield site
        finally:
            nursery.cancel_scope.cancel()
            for wire in site.wires:
                with trio.CancelScope(shield=True):
                    await trio.aclose_forcefully(wire.stream)

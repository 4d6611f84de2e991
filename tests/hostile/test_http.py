"""Peers of the aiohttp binding that lie, stop, trickle and vanish, on raw sockets.

Whatever they do, the next request works, nothing is logged that has a traceback, and no task and no connection is left
of them. `besieged` looks to all of that at its end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import re
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import speak
from mcp_sansio import Config, Exchange, Registry
from mcp_sansio.wire.json import encode
from sockets import ACCEPT, Client, ClientSession, Endpoint, Site, SseEndpoint, serving, text_of

NEWEST = speak.VERSIONS[0]
HEAD = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: {ACCEPT}\r\nContent-Type: application/json\r\n".encode()


class Peer(speak.Speaker):
    """Knows what a request has in it, and sends nothing."""

    session: str | None = None
    headers = speak.Http.headers


SPEAKER = Peer(NEWEST, Registry("a client", "1"))


def registry() -> Registry:
    made = Registry("besieged", "1.0")

    @made.tool
    async def echo(text: str) -> str:
        """Give it back."""
        return text

    @made.tool
    async def wait(ex: Exchange) -> str:
        """Wait to be given up."""
        await ex.progress(0)
        await ex.wait_cancelled()
        return "late"

    @made.tool
    async def flood(ex: Exchange, messages: int) -> str:
        """Report that often, in long words."""
        for number in range(messages):
            await ex.progress(number, None, "x" * 10_000)
        return "done"

    return made


def post(message: Any, *headers: str, framing: str | None = None) -> bytes:
    """The bytes of a request that carries `message`, with a length unless `framing` says otherwise.

    The headers fit it, or a call of echo where it is bytes.
    """
    body, about = (message, calling("echo")) if isinstance(message, bytes) else (encode(message), message)
    own = [f"{name}: {value}" for name, value in SPEAKER.headers(about).items()]
    own += [f"Content-Length: {len(body)}" if framing is None else framing, *headers]
    return HEAD + "\r\n".join([*own, "", ""]).encode() + body


def calling(name: str, *, token: Any = None, **arguments: Any) -> Any:
    return SPEAKER.message("tools/call", {"name": name, "arguments": arguments}, token=token)


ECHO = post(calling("echo", text="hello"))


@attrs.define(eq=False)
class Siege:
    """A served application, and raw connections to it."""

    site: Site
    endpoint: Endpoint

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection for the time of the block."""
        reader, writer = await asyncio.open_connection(*self.site.runner.addresses[0][:2])
        try:
            yield reader, writer
        finally:
            writer.close()

    async def tell(self, data: bytes, *, end: bool = False) -> bytes:
        """Write `data` on a connection of its own; what comes back until the server ends it.

        With `end`, the client says that nothing more will come.
        """
        async with self.connected() as (reader, writer):
            writer.write(data)
            if end:
                writer.write_eof()
            try:
                return await reader.read()
            except ConnectionError:
                return b""

    async def receiving(self) -> None:
        """Return once a handler waits for a body."""
        assert self.site.runner.server is not None
        await until(lambda: any(held._current_request for held in self.site.runner.server.connections))

    async def works(self) -> None:
        """The next request does."""
        answer = await Client(NEWEST, self.site).call("echo", text="still here")
        assert text_of(answer) == "still here"

    async def calm(self, connections: int = 0) -> None:
        """Return once so many connections are left; the test's timeout is the limit."""
        assert self.site.runner.server is not None
        while len(self.site.runner.server.connections) > connections:
            await asyncio.sleep(0.001)


@asynccontextmanager
async def besieged(caplog: pytest.LogCaptureFixture, **config: Any) -> AsyncIterator[Siege]:
    """A server for a test. At its end the server works, has nothing left of its clients, and logged no traceback."""
    caplog.set_level(logging.INFO)
    asyncio.get_running_loop().set_debug(False)
    endpoint = Endpoint(registry(), config=Config(**config))
    app = endpoint.app()
    if speak.HANDSHAKE:
        SseEndpoint(endpoint).setup(app)
    async with serving(app) as site:
        tasks = asyncio.all_tasks()
        siege = Siege(site, endpoint)
        yield siege
        await siege.works()
        await siege.calm(connections=1)  # the one that this was asked on is kept alive
        while len(asyncio.all_tasks() - tasks) > 1:
            await asyncio.sleep(0.001)
        server = endpoint.server
        assert (len(server.topics), server._streams, server._live, server.pairs) == (0, {}, {}, {})
    assert [record for record in caplog.records if is_ours_to_mind(record)] == []


def is_ours_to_mind(record: logging.LogRecord) -> bool:
    """Whether that should not have been logged. What aiohttp's parser rejects it logs by itself, no handler asked."""
    if record.exc_info and type(record.exc_info[1]).__module__ == "aiohttp.http_exceptions":
        return False
    return record.exc_info is not None or record.levelno >= logging.ERROR


def statuses(response: bytes) -> list[int]:
    """The statuses of the responses in it, in order."""
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3}) ", response)]


# Bodies that lie

CHUNKED = "Transfer-Encoding: chunked"
MESSAGE = encode(calling("echo", text="hello"))
CHUNK = b"%x\r\n%b\r\n" % (len(MESSAGE), MESSAGE)

#: What no handler is asked about, since the headers tell already.
HEADERS = {
    "a length and chunks": post(CHUNK + b"0\r\n\r\n", CHUNKED, framing="Content-Length: 5"),
    "a negative length": post(MESSAGE, framing="Content-Length: -1"),
    "a length with a sign": post(MESSAGE, framing=f"Content-Length: +{len(MESSAGE)}"),
    "a length that is no number": post(MESSAGE, framing="Content-Length: many"),
    "a length of a thousand digits": post(MESSAGE, framing="Content-Length: " + "9" * 1000),
    "two lengths": post(MESSAGE, "Content-Length: 5", framing=f"Content-Length: {len(MESSAGE)}"),
    "a length that is a list": post(MESSAGE, framing=f"Content-Length: {len(MESSAGE)}, 5"),
    "an unknown coding": post(MESSAGE, framing="Transfer-Encoding: rot13"),
    "chunks before another coding": post(CHUNK, framing="Transfer-Encoding: chunked, identity"),
    "no body at all": post(b"", "Connection: close", framing="X-Nothing: here"),
}

BODIES = {
    "a size that is no number": b"zz\r\n",
    "a size that is empty": b"\r\n" + CHUNK,
    "a negative size": b"-5\r\nhello\r\n",
    "a size with a sign": b"+5\r\nhello\r\n",
    "a size in another notation": b"0x5\r\nhello\r\n",
    "a size of a hundred digits": b"f" * 100 + b"\r\nhello\r\n",
    "a size too small": b"1\r\n" + MESSAGE + b"\r\n0\r\n\r\n",
    "no line end after the data": CHUNK[:-2] + b"XX0\r\n\r\n",
    "no line end after the last chunk": CHUNK + b"0XX\r\n\r\n",
    "a trailer that is none": CHUNK + b"0\r\n\x00\x00\r\n\r\n",
}


@pytest.mark.parametrize("lie", HEADERS)
async def test_headers_that_lie_about_the_body(lie: str, caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog) as siege:
        assert statuses(await siege.tell(HEADERS[lie])) == [400]


@pytest.mark.parametrize("lie", BODIES)
async def test_a_body_that_lies(lie: str, caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog) as siege:
        assert statuses(await siege.tell(post(BODIES[lie], framing=CHUNKED))) == [400]


@pytest.mark.parametrize("lie", BODIES)
async def test_a_body_that_lies_once_it_is_waited_for(lie: str, caplog: pytest.LogCaptureFixture) -> None:
    """aiohttp may keep to itself that its parser gave up, so that nothing comes any more: then the time tells."""
    async with besieged(caplog, receive_timeout=0.05) as siege, siege.connected() as (reader, writer):
        writer.write(post(b"", framing=CHUNKED))
        await siege.receiving()
        writer.write(BODIES[lie])
        assert statuses(await reader.read()) in ([400], [408])


async def test_a_length_that_is_too_small(caplog: pytest.LogCaptureFixture) -> None:
    """What is left over is no request, or the next one: either way it is not part of this."""
    async with besieged(caplog) as siege, siege.connected() as (reader, writer):
        writer.write(post(b"", framing=f"Content-Length: {len(MESSAGE) - 1}"))
        await siege.receiving()
        writer.write(MESSAGE[:-1])
        assert (await reader.readline()).split()[1] == b"400"
        writer.write(MESSAGE[-1:] + b"\r\n\r\n")
        assert statuses(await reader.read()) == [400]


#: Bodies that end too early: the client has gone, so nobody is answered.
SHORT = {
    "within a chunk": post(CHUNK[:20], framing=CHUNKED),
    "within a size": post(b"1", framing=CHUNKED),
    "before the last chunk": post(CHUNK, framing=CHUNKED),
    "within the trailer": post(CHUNK + b"0\r\n", framing=CHUNKED),
    "before its length": post(MESSAGE, framing=f"Content-Length: {len(MESSAGE) + 1}"),
    "before a huge length": post(MESSAGE, framing="Content-Length: 9000000000000000000"),
    "before its first byte": post(b"", framing="Content-Length: 5"),
    "within a compressed body": post(b"\x1f\x8b\x08", "Content-Encoding: gzip", framing="Content-Length: 500"),
}


@pytest.mark.parametrize("end", ["half closed", "reset"])
@pytest.mark.parametrize("where", SHORT)
async def test_a_body_that_ends_early(where: str, end: str, caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog) as siege:
        if end == "half closed":
            assert await siege.tell(SHORT[where], end=True) == b""
            return
        async with siege.connected() as (_, writer):
            writer.write(SHORT[where])
            await writer.drain()
            reset(writer)


def reset(writer: asyncio.StreamWriter) -> None:
    """End the connection at once, so that the server's next write fails."""
    linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def test_a_connection_that_ends_by_an_error_of_the_network(caplog: pytest.LogCaptureFixture) -> None:
    """A host that is gone is no ConnectionError to Python, and no fault of the server's."""
    async with besieged(caplog) as siege, siege.connected() as (_, writer):
        writer.write(post(b"{", framing="Content-Length: 500"))
        await siege.receiving()
        [connection] = siege.site.runner.server.connections
        connection.connection_lost(OSError(errno.EHOSTUNREACH, "No route to host"))


async def until(value: Callable[[], Any]) -> Any:
    """`value`, once there is one."""
    while not (held := value()):
        await asyncio.sleep(0.001)
    return held


# What is slow


async def test_a_body_that_trickles_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog, receive_timeout=0.2) as siege, siege.connected() as (reader, writer):
        writer.write(post(b"", framing="Content-Length: 5000"))
        reading = asyncio.create_task(reader.read())
        while not reading.done():
            writer.write(b" ")
            await asyncio.sleep(0.01)
        response = await reading
    assert statuses(response) == [408]
    assert b"\r\nConnection: close\r\n" in response
    assert b"the body took longer than 0.2 seconds to come in" in response


async def test_headers_that_trickle_have_the_time_that_aiohttp_gives_them() -> None:
    """No handler is asked before they are complete, so that is the operator's to set, as docs/aiohttp.md says."""
    async with serving(Endpoint(registry()).app(), keepalive_timeout=0.2) as site:
        siege = Siege(site, Endpoint(registry()))
        async with siege.connected() as (reader, writer):
            writer.write(HEAD)
            reading = asyncio.create_task(reader.read())
            while not reading.done():
                writer.write(b"X: y\r\n")
                await asyncio.sleep(0.02)
            assert await reading == b""
        await siege.works()


async def test_a_body_whose_client_has_stopped_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog, receive_timeout=0.1) as siege, siege.connected() as (reader, writer):
        writer.write(post(CHUNK[:20], framing=CHUNKED))
        writer.write_eof()
        assert statuses(await reader.read()) == []


async def test_a_body_byte_by_byte_is_understood(caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog) as siege, siege.connected() as (reader, writer):
        for byte in post(calling("echo", text="slow"), "Connection: close"):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        response = await reader.read()
    assert statuses(response) == [200]
    assert b'"text":"slow"' in response


# Heads


#: What is no request of HTTP. aiohttp answers by itself, or says nothing.
GARBAGE = {
    "nothing but line ends": b"\r\n" * 1000,
    "binary": bytes(range(256)) * 10,
    "a handshake of TLS": bytes.fromhex("16030100f8010000f403035c") + bytes(200),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "JSON": MESSAGE + b"\r\n\r\n",
    "a line without an end": b"POST /" + b"a" * 100_000,
    "headers without an end": HEAD + b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(100_000)),
    "a header without an end": HEAD + b"X: " + b"x" * 1_000_000,
    "a folded header": HEAD + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a header without a colon": HEAD + b"nonsense\r\n\r\n",
    "a header with a space before its colon": HEAD + b"Content-Length : 0\r\n\r\n",
    "a header with a null byte": HEAD + b"X: \x00\r\nContent-Length: 0\r\n\r\n",
    "a header without a name": HEAD + b": value\r\n\r\n",
    "bare line feeds": ECHO.replace(b"\r\n", b"\n"),
    "no version": b"GET /mcp\r\n\r\n",
    "an unknown version": b"GET /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("what", GARBAGE)
async def test_garbage(what: str, caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog) as siege, siege.connected() as (reader, writer):
        writer.write(GARBAGE[what])
        writer.write(b"\r\n\r\n")
        writer.write_eof()
        try:
            assert set(statuses(await reader.read())) <= {400, 505}
        except ConnectionError:
            pass  # it was cut before everything was read


async def test_line_ends_before_a_request_are_no_garbage(caplog: pytest.LogCaptureFixture) -> None:
    """HTTP asks servers to bear with them."""
    async with besieged(caplog) as siege:
        response = await siege.tell(b"\r\n" + post(calling("echo", text="hi"), "Connection: close"))
    assert statuses(response) == [200]


METHODS = [
    "GET",
    "HEAD",
    "PUT",
    "DELETE",
    "TRACE",
    "CONNECT",
    "PRI",
    "BREW",
    "post",
    "M" * 1000,
    "<script>",
    "!#$%&'*+",
]


@pytest.mark.parametrize("method", METHODS)
async def test_an_absurd_method(method: str, caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog) as siege:
        head = f"{method} /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        [status] = statuses(await siege.tell(head.encode()))
    assert 400 <= status < 500


TARGETS = [
    "*",
    "mcp",
    "//mcp",
    "/mcp?",
    "/mcp?" + "&" * 5000,
    "/mcp?mcp=%00%ff%zz",
    "/mcp?mcp=" + "9" * 5000,
    "/mcp#fragment",
    "/%6dcp",
    "/mcp/%00",
    "/mcp/../../etc/passwd",
    "/" + "%2e%2e/" * 1000 + "mcp",
    "/mcp;x=y",
    "http://",
    "http://[::1",
    "http://localhost:99999999/mcp",
    "http://evil.example/mcp",
    "localhost:443",
    "/\x7f",
    "/\xff\xfe",
    "/mcp?\xff",
]


@pytest.mark.parametrize("target", TARGETS)
async def test_an_absurd_target(target: str, caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog) as siege:
        request = post(calling("echo", text="hi"), "Connection: close")
        response = await siege.tell(request.replace(b"/mcp", target.encode("latin-1"), 1))
        assert set(statuses(response)) <= {200, 400, 404}


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Content-Type: \xff\xfe", 415),
        ("Content-Type: " + ";" * 8000, 415),
        ("Content-Type: application/json; charset=no-such-charset", 200),
        ("Content-Encoding: no-such-coding", 200),
        ("Mcp-Session-Id: " + "\xe9" * 8000, 200),
        ("MCP-Protocol-Version: \xff", 400),
        ("Mcp-Name: =?base64?####?=", 400),
        ("Origin: http://[", 403),
        ("Origin: \xff", 403),
        ("Host: \xff\xff", 421),
        ("Host: [::1", 421),
        ("Host: localhost:99999999999999999999", 421),
        ("Cookie: " + "a=b; " * 1500, 200),
        ("Authorization: " + "x" * 8000, 200),
        ("Range: bytes=-1", 200),
        ("If-Modified-Since: nonsense", 200),
        ("Connection: close, close, keep-alive, \xff", 200),
        ("Keep-Alive: timeout=-99999999999", 200),
        ("Last-Event-ID: \xff", 200),
        ("X-Forwarded-For: " + "1.2.3.4, " * 800, 200),
    ],
)
async def test_an_absurd_header(header: str, expected: int, caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog) as siege:
        name = header.partition(":")[0].lower()
        lines = ECHO.partition(b"\r\n\r\n")[0].split(b"\r\n")
        kept = [line for line in lines if line.partition(b":")[0].lower() != name.encode()]
        head = b"\r\n".join([*kept, header.encode("latin-1"), b"Connection: close", b"", b""])
        assert statuses(await siege.tell(head + MESSAGE)) == [expected]


async def test_a_request_of_http_1_0(caplog: pytest.LogCaptureFixture) -> None:
    """It has no chunks, so a stream ends with its connection."""
    async with besieged(caplog) as siege:
        whole = await siege.tell(ECHO.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        stream = await siege.tell(post(calling("flood", token="t", messages=2)).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    assert (statuses(whole), whole.endswith(b"}")) == ([200], True)
    assert (statuses(stream), b"Transfer-Encoding" in stream, stream.count(b"data: ")) == ([200], False, 3)


async def test_an_upgrade_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    upgrade = [
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: " + "A" * 24,
    ]
    get = "\r\n".join(["GET /mcp HTTP/1.1", "Host: localhost", *upgrade, "", ""]).encode()
    async with besieged(caplog) as siege:
        async with siege.connected() as (reader, writer):
            writer.write(get)
            assert (await reader.readline()).split()[1] == b"405"
            writer.write(b"\x81\x85\x00\x00\x00\x00hello" * 1000)
        async with siege.connected() as (reader, writer):
            writer.write(post(calling("echo", text="hi"), *upgrade))
            assert (await reader.readline()).split()[1] in (b"200", b"400")


async def test_a_client_that_waits_to_be_asked_for_its_body(caplog: pytest.LogCaptureFixture) -> None:
    async with besieged(caplog, receive_timeout=0.1) as siege:
        for answers in ([100, 200], [100, 408], [417]):
            expect = "100-continue" if answers[0] == 100 else "the moon"
            head, _, body = post(calling("echo", text="hi"), f"Expect: {expect}", "Connection: close").partition(
                b"\r\n\r\n"
            )
            async with siege.connected() as (reader, writer):
                writer.write(head + b"\r\n\r\n")
                response = await reader.readline()
                writer.write(b"" if answers[-1] == 408 else body)
                assert statuses(response + await reader.read()) == answers


# Requests that do not wait for each other


async def test_pipelined_requests_are_answered_in_order(caplog: pytest.LogCaptureFixture) -> None:
    """However slow the first of them is; each gets its own answer."""
    async with besieged(caplog) as siege:
        requests = [post(calling("flood", token="t", messages=3)), post(b"{"), ECHO, post(calling("no_such_tool"))]
        requests += [post(calling("echo", text=f"<{number}>")) for number in range(200)]
        requests += [post(calling("echo", text="last"), "Connection: close")]
        response = await siege.tell(b"".join(requests))
    assert statuses(response) == [200, 400, 200, 400] + [200] * 201
    echoed = re.findall(rb'"text":"<(\d+)>"', response)
    assert echoed == [b"%d" % number for number in range(200)]


async def test_requests_behind_one_that_never_ends(caplog: pytest.LogCaptureFixture) -> None:
    """They are not read without limit. That their client left is noticed when the stream breaks its silence."""
    async with besieged(caplog, keep_alive=0.05) as siege, siege.connected() as (reader, writer):
        writer.write(post(calling("wait", token="t")))
        await reader.readuntil(b"data: ")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(write_on(writer, ECHO * 100, 200 * 2**20), 0.2)
        reset(writer)


async def write_on(writer: asyncio.StreamWriter, data: bytes, size: int) -> None:
    """Write `data` over and over, until that much is written."""
    for _ in range(size // len(data)):
        writer.write(data)
        await writer.drain()


# Clients that go


VANISHING: dict[str, bytes] = {
    "before a byte": b"",
    "within the request line": ECHO[:7],
    "within the headers": ECHO[:90],
    "before the body": post(b"", framing="Content-Length: 100"),
    "within the body": ECHO[:-10],
    "within a chunk": post(CHUNK[:20], framing=CHUNKED),
    "before the answer": ECHO,
    "before the answers": ECHO * 20,
    "within a call": post(calling("wait")),
    "within a stream": post(calling("wait", token="t")),
    "within a flood": post(calling("flood", token="t", messages=10_000)),
    "within a listen stream": post(
        SPEAKER.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    ),
    "after garbage": b"\x00" * 50,
    "after a refusal": post(b"{"),
}


async def test_five_hundred_connections_that_vanish(caplog: pytest.LogCaptureFixture) -> None:
    """All at once, at every point: closed, half closed, or reset; with and without reading a little."""

    async def vanish(siege: Siege, number: int) -> None:
        data = list(VANISHING.values())[number % len(VANISHING)]
        try:
            async with siege.connected() as (reader, writer):
                writer.write(data)
                await writer.drain()
                met.append(None)
                if len(met) == 500:
                    all_here.set()
                await all_here.wait()
                if number % 5 == 0 and data.endswith(b"}"):
                    await reader.read(10)
                if number % 3 == 0:
                    reset(writer)
                elif number % 3 == 1:
                    writer.write_eof()
        except ConnectionError:
            pass

    met: list[None] = []
    all_here = asyncio.Event()
    async with besieged(caplog, keep_alive=0.2) as siege:
        await asyncio.gather(*(vanish(siege, number) for number in range(500)))


@pytest.mark.parametrize("where", VANISHING)
async def test_a_client_that_vanishes(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """As above, one at a time, so that a failure says where."""
    async with besieged(caplog) as siege:
        for end in (lambda writer: writer.close(), lambda writer: writer.write_eof(), reset):
            async with siege.connected() as (_, writer):
                writer.write(VANISHING[where])
                await writer.drain()
                await asyncio.sleep(0.01)
                end(writer)


def requests_of_a_session(session: str) -> list[bytes]:
    """What a client with a session may leave behind: its stream, calls of every kind, and what is not finished."""
    client = Peer(speak.HANDSHAKE[0], Registry("a client", "1"))
    client.session = session
    own = "".join(f"{name}: {value}\r\n" for name, value in client.headers().items())
    head = HEAD + own.encode()

    def calling(name: str, token: Any = None) -> bytes:
        body = encode(client.message("tools/call", {"name": name, "arguments": {"messages": 1000}}, token=token))
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    get = head.replace(b"POST", b"GET", 1) + b"\r\n"
    return [get, calling("wait"), calling("wait", "t"), calling("flood", "t"), calling("echo")[:-5], get * 3, head]


@pytest.mark.skipif(not speak.HANDSHAKE, reason="no revision has sessions")
async def test_clients_with_sessions_that_vanish(caplog: pytest.LogCaptureFixture) -> None:
    """Their calls go on, since they may come back; when those and the sessions are over, nothing is left."""

    async def vanish(siege: Siege, site: Site, number: int) -> None:
        client = await Client(speak.HANDSHAKE[0], site).open()
        requests = requests_of_a_session(str(client.session))
        async with siege.connected() as (_, writer):
            writer.write(requests[number % len(requests)])
            await writer.drain()
            await asyncio.sleep(0.01)
            if number % 2:
                reset(writer)

    async with besieged(caplog, call_timeout=0.3, session_ttl=0.5, keep_alive=0.1) as siege, ClientSession() as http:
        site = attrs.evolve(siege.site, http=http)
        await asyncio.gather(*(vanish(siege, site, number) for number in range(70)))
        await asyncio.sleep(1)
        assert len(siege.endpoint.server.store) == 0  # type: ignore[arg-type]
        client = await Client(speak.HANDSHAKE[0], site).open()
        assert text_of(await client.call("echo", text="another")) == "another"


OPENING = b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


@pytest.mark.skipif(not speak.HANDSHAKE, reason="no revision has that transport")
async def test_clients_of_the_first_transport_that_vanish(caplog: pytest.LogCaptureFixture) -> None:
    """Their calls end with their streams."""
    async with besieged(caplog, keep_alive=0.1) as siege:
        for number in range(60):
            async with siege.connected() as (reader, writer):
                writer.write(OPENING[: len(OPENING) - 30 + number])
                if number < 30:
                    continue
                where = (await reader.readuntil(b"data: "), await reader.readline())[1].strip().decode()
                body = encode(PairPeer.messages()[number % len(PairPeer.messages())])
                post = f"POST {where} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                await siege.tell(post.encode() + b"Content-Length: 5000\r\n\r\n" + body, end=True)
                answer = await siege.tell(
                    post.encode() + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                )
                assert statuses(answer) == [202]
                if number % 2:
                    reset(writer)


class PairPeer:
    """What is sent to the address of the first transport."""

    @staticmethod
    def messages() -> list[Any]:
        """Messages of every kind."""
        client = Peer(speak.HANDSHAKE[-1], Registry("a client", "1"))
        call = client.message("tools/call", {"name": "wait", "arguments": {}}, token="t")
        return [client.initialize(), call, [], {"id": 1}, speak.notification("notifications/none")]


async def test_clients_that_never_read(caplog: pytest.LogCaptureFixture) -> None:
    """Handlers wait for them, announcements do not pile up, and others are served meanwhile."""

    async def more() -> str:
        """More."""
        return "more"

    async with besieged(caplog, max_unsent=2**16) as siege:
        connections = []
        for _ in range(20):
            connections.append(socket.socket())
            connections[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connections[-1].connect(siege.site.runner.addresses[0][:2])
        for number, connection in enumerate(connections):
            name = "within a flood" if number % 2 else "within a listen stream"
            connection.sendall(VANISHING[name])
        await until(lambda: len(siege.endpoint.server.topics) == 10)
        for _ in range(100):
            siege.endpoint.server.registry.tool(more)
            siege.endpoint.server.registry.remove_tool("more")
            await siege.works()
        for connection in connections:
            connection.close()

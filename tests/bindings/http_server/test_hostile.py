"""Peers that lie, stop, trickle and vanish, on raw sockets, and heads and bodies that are none.

Whatever they do, the next request works, nothing is logged that has a traceback, and no task and no connection is left
of them. `besieged` looks to all of that at its end.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import pytest

import speak
from heard import ACCEPT, text_of
from hosting import connections, serving, until
from mcp_sansio import Config, Exchange, Registry
from mcp_sansio.wire.json import encode
from plugs import HttpServer, Serving
from talk import Client, Connection

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
    """A server, and raw connections to it."""

    place: Serving

    def connected(self, **options: Any) -> Connection:
        """A connection."""
        return Connection(self.place.host, self.place.port, **options)

    def tell(self, data: bytes, *, end: bool = False) -> bytes:
        """Write `data` on a connection of its own; what comes back until the server ends it.

        With `end`, the client says that nothing more will come.
        """
        with self.connected() as connection:
            try:
                connection.send(data)
                if end:
                    connection.half_close()
            except ConnectionError:
                pass  # it was cut before everything was read
            return connection.rest()

    def works(self) -> None:
        """The next request does."""
        client = Client(NEWEST, self.place)
        assert text_of(client.call("echo", text="still here")) == "still here"
        client.close()


@contextmanager
def besieged(http: HttpServer, caplog: pytest.LogCaptureFixture, **config: Any) -> Iterator[Siege]:
    """A server for a test. At its end the server works, has nothing left of its clients, and logged no traceback."""
    caplog.set_level(logging.INFO)
    with serving(http, registry(), pair=bool(speak.HANDSHAKE), config=Config(**config)) as place:
        siege = Siege(place)
        yield siege
        siege.works()
        until(lambda: connections(place) == 0, "a connection is left")
        server = place.server
        until(lambda: not (len(server.topics) or server._streams or server._live or server.pairs), "a stream is left")
    assert [record for record in caplog.records if is_ours_to_mind(record)] == []


def is_ours_to_mind(record: logging.LogRecord) -> bool:
    """Whether that should not have been logged.

    What aiohttp's parser rejects it logs by itself, no handler asked. On Python 3.11, asyncio's streams log that the
    task of a connection was cancelled; hypercorn is made of those.
    """
    if record.name == "asyncio" and record.getMessage().startswith("Exception in callback StreamReaderProtocol."):
        return False
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
    "a size too small": b"1\r\n" + MESSAGE + b"\r\n0\r\n\r\n",
    "no line end after the data": CHUNK[:-2] + b"XX0\r\n\r\n",
    "no line end after the last chunk": CHUNK + b"0XX\r\n\r\n",
    "a trailer that is none": CHUNK + b"0\r\n\x00\x00\r\n\r\n",
}


#: A size that no body has. Who believes it waits for what never comes.
ENDLESS = b"f" * 100 + b"\r\nhello\r\n"

#: What a server may say to what is not HTTP, or not its HTTP.
REFUSALS = {400, 404, 405, 413, 414, 417, 431, 501, 505}


def refuses(response: bytes) -> bool:
    """Whether that is a refusal, and nothing else."""
    return len(said := statuses(response)) == 1 and said[0] in REFUSALS


@pytest.mark.parametrize("lie", HEADERS)
def test_headers_that_lie_about_the_body_are_refused(
    http_server: HttpServer, lie: str, caplog: pytest.LogCaptureFixture
) -> None:
    with besieged(http_server, caplog) as siege:
        assert refuses(siege.tell(HEADERS[lie]))


@pytest.mark.wants("http")
def test_a_request_with_a_length_and_chunks_ends_its_connection(
    http_server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It is refused, or read by its chunks (RFC 9112, 6.1). What comes after it may be smuggled, and is not read."""
    with besieged(http_server, caplog) as siege:
        both = post(CHUNK + b"0\r\n\r\n", CHUNKED, framing="Content-Length: 5")
        assert statuses(siege.tell(both + ECHO)) in ([400], [200])


@pytest.mark.parametrize("lie", BODIES)
def test_a_body_that_lies_is_refused(http_server: HttpServer, lie: str, caplog: pytest.LogCaptureFixture) -> None:
    with besieged(http_server, caplog) as siege:
        assert refuses(siege.tell(post(BODIES[lie], framing=CHUNKED)))


@pytest.mark.wants("trickling")
def test_a_chunk_of_a_size_that_none_has_is_refused(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    with besieged(http_server, caplog) as siege:
        assert refuses(siege.tell(post(ENDLESS, framing=CHUNKED)))


def ask_for_body(connection: Connection, framing: str) -> None:
    """Send the head of a request, and return when a handler waits for its body."""
    connection.send(post(b"", "Expect: 100-continue", framing=framing))
    assert statuses(connection.until(b"\r\n\r\n")) == [100]


@pytest.mark.parametrize("lie", [*BODIES.values(), ENDLESS], ids=[*BODIES, "a size of a hundred digits"])
@pytest.mark.wants("trickling")
def test_a_body_that_lies_once_it_is_waited_for_is_refused(
    http_server: HttpServer, lie: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A parser may keep to itself that it gave up, so that nothing comes any more: then the time tells."""
    with besieged(http_server, caplog, receive_timeout=0.05) as siege, siege.connected() as connection:
        ask_for_body(connection, CHUNKED)
        connection.send(lie)
        assert statuses(connection.rest()) in ([400], [408])


def test_what_a_length_that_is_too_small_leaves_over_is_refused(
    http_server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no request, or the next one: either way it is not part of this."""
    with besieged(http_server, caplog) as siege, siege.connected() as connection:
        ask_for_body(connection, f"Content-Length: {len(MESSAGE) - 1}")
        connection.send(MESSAGE[:-1])
        assert connection.until(b"\r\n").split()[1] == b"400"
        connection.send(MESSAGE[-1:] + b"\r\n\r\n")
        assert refuses(connection.rest())


#: Bodies that end too early: the client has gone, so there may be nobody to answer.
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
def test_a_body_that_ends_early_leaves_nothing(
    http_server: HttpServer, where: str, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    with besieged(http_server, caplog) as siege:
        if end == "half closed":
            response = siege.tell(SHORT[where], end=True)
            assert response == b"" or refuses(response)
            return
        with siege.connected() as connection:
            connection.send(SHORT[where])
            connection.reset()


# What is slow


@pytest.mark.wants("trickling")
def test_a_body_that_trickles_is_given_up(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    with besieged(http_server, caplog, receive_timeout=0.2) as siege, siege.connected() as connection:
        connection.send(post(b"", framing="Content-Length: 5000"))
        while not connection.can_be_read(0.01):
            connection.send(b" ")
        response = connection.rest()
    assert statuses(response) == [408]
    assert b"\r\nconnection: close\r\n" in response.lower()
    assert b"the body took longer than 0.2 seconds to come in" in response


@pytest.mark.wants("trickling")
def test_a_body_whose_client_has_stopped_is_given_up(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    with besieged(http_server, caplog, receive_timeout=0.1) as siege:
        response = siege.tell(post(CHUNK[:20], framing=CHUNKED), end=True)
        assert response == b"" or refuses(response)


def test_a_request_byte_by_byte_is_understood(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    with besieged(http_server, caplog) as siege, siege.connected() as connection:
        for byte in post(calling("echo", text="slow"), "Connection: close"):
            connection.send(bytes([byte]))
        response = connection.rest()
    assert statuses(response) == [200]
    assert b'"text":"slow"' in response


def test_a_request_cut_at_every_place_is_understood(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """Two requests behind each other, in two writes."""
    two = ECHO + post(calling("echo", text="hello"), "Connection: close")
    with besieged(http_server, caplog) as siege:
        whole = siege.tell(two)
        assert statuses(whole) == [200, 200]
        for cut in range(1, len(two), 7):
            with siege.connected() as connection:
                connection.send(two[:cut])
                connection.send(two[cut:])
                assert len(statuses(connection.rest())) == 2, cut


# Heads


#: What is no request of HTTP. A server answers by itself, or says nothing.
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
    "bare line feeds": ECHO.replace(b"\r\n", b"\n").partition(b"{")[0],
    "no version": b"GET /mcp\r\n\r\n",
    "an unknown version": b"GET /mcp HTTP/9.9\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("what", GARBAGE)
def test_garbage_is_refused_or_cut(http_server: HttpServer, what: str, caplog: pytest.LogCaptureFixture) -> None:
    with besieged(http_server, caplog) as siege:
        assert set(statuses(siege.tell(GARBAGE[what] + b"\r\n\r\n", end=True))) <= REFUSALS


@pytest.mark.wants("http")
def test_line_ends_before_a_request_are_no_garbage(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """HTTP asks servers to bear with them."""
    with besieged(http_server, caplog) as siege:
        response = siege.tell(b"\r\n" + post(calling("echo", text="hi"), "Connection: close"))
    assert statuses(response) == [200]


def status_of(response: bytes) -> int:
    """The status of the only response in it."""
    (status,) = statuses(response)
    return status


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
def test_an_absurd_method_is_refused(http_server: HttpServer, method: str, caplog: pytest.LogCaptureFixture) -> None:
    with besieged(http_server, caplog) as siege:
        head = f"{method} /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        assert 400 <= status_of(siege.tell(head.encode())) <= 501


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
def test_an_absurd_target_is_served_or_refused(
    http_server: HttpServer, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    with besieged(http_server, caplog) as siege:
        request = post(calling("echo", text="hi"), "Connection: close")
        response = siege.tell(request.replace(b"/mcp", target.encode("latin-1"), 1))
        assert set(statuses(response)) <= {200, 400, 404, 421}


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
def test_an_absurd_header_is_judged_by_its_meaning(
    http_server: HttpServer, header: str, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    with besieged(http_server, caplog) as siege:
        name = header.partition(":")[0].lower()
        lines = ECHO.partition(b"\r\n\r\n")[0].split(b"\r\n")
        kept = [line for line in lines if line.partition(b":")[0].lower() != name.encode()]
        head = b"\r\n".join([*kept, header.encode("latin-1"), b"Connection: close", b"", b""])
        # A Host that HTTP's grammar has not may be refused before it is looked at.
        wanted = ([421], [400]) if name == "host" else ([expected],)
        assert statuses(siege.tell(head + MESSAGE)) in wanted


def test_a_request_of_http_1_0_is_answered(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """It has no chunks, so a stream ends with its connection."""
    with besieged(http_server, caplog) as siege:
        whole = siege.tell(ECHO.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
        stream = siege.tell(post(calling("flood", token="t", messages=2)).replace(b"HTTP/1.1", b"HTTP/1.0", 1))
    assert (statuses(whole), whole.endswith(b"}")) == ([200], True)
    assert (statuses(stream), b"chunked" in stream.lower(), stream.count(b"data: ")) == ([200], False, 3)


@pytest.mark.wants("http")
def test_an_upgrade_is_not_made(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    upgrade = [
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: " + "A" * 24,
    ]
    get = "\r\n".join(["GET /mcp HTTP/1.1", "Host: localhost", *upgrade, "", ""]).encode()
    with besieged(http_server, caplog) as siege:
        with siege.connected() as connection:
            connection.send(get)
            assert connection.until(b"\r\n").split()[1] == b"405"
            try:
                connection.send(b"\x81\x85\x00\x00\x00\x00hello" * 1000)
            except ConnectionError:
                pass  # it was ended already
        with siege.connected() as connection:
            connection.send(post(calling("echo", text="hi"), *upgrade))
            assert connection.until(b"\r\n").split()[1] in (b"200", b"400")


@pytest.mark.parametrize("answers", [[100, 200], [100, 408]], ids=["sent", "not sent"])
@pytest.mark.wants("trickling")
def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(
    http_server: HttpServer, answers: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with besieged(http_server, caplog, receive_timeout=0.1) as siege, siege.connected() as connection:
        request = post(calling("echo", text="hi"), "Expect: 100-continue", "Connection: close")
        head, _, body = request.partition(b"\r\n\r\n")
        connection.send(head + b"\r\n\r\n")
        response = connection.until(b"\r\n")
        connection.send(b"" if answers[-1] == 408 else body)
        assert statuses(response + connection.rest()) == answers


def test_an_expectation_of_another_kind_is_refused_or_passed_over(
    http_server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    with besieged(http_server, caplog) as siege:
        response = siege.tell(post(calling("echo", text="hi"), "Expect: the moon", "Connection: close"))
        assert statuses(response) in ([417], [200])


# Requests that do not wait for each other


def test_pipelined_requests_are_answered_in_order(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """However slow the first of them is; each gets its own answer."""
    with besieged(http_server, caplog) as siege:
        requests = [post(calling("flood", token="t", messages=3)), post(b"{"), ECHO, post(calling("no_such_tool"))]
        requests += [post(calling("echo", text=f"<{number}>")) for number in range(200)]
        requests += [post(calling("echo", text="last"), "Connection: close")]
        response = siege.tell(b"".join(requests))
    assert statuses(response) == [200, 400, 200, 400] + [200] * 201
    echoed = re.findall(rb'"text":"<(\d+)>"', response)
    assert echoed == [b"%d" % number for number in range(200)]


@pytest.mark.wants("cancel")
def test_requests_behind_one_that_never_ends_are_not_read_without_limit(
    http_server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    """That their client left is noticed when the stream breaks its silence."""
    with besieged(http_server, caplog, keep_alive=0.05) as siege, siege.connected() as connection:
        connection.send(post(calling("wait", token="t")))
        connection.until(b"data: ")
        connection.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.send(ECHO * (200 * 2**20 // len(ECHO)))
        connection.reset()


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


@pytest.mark.wants("cancel")
def test_five_hundred_connections_that_vanish_leave_nothing(
    http_server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    """All at once, at every point: closed, half closed, or reset; with and without reading a little."""
    with besieged(http_server, caplog, keep_alive=0.2) as siege:
        here = [siege.connected() for _ in range(500)]
        said = [list(VANISHING.values())[number % len(VANISHING)] for number in range(500)]
        for connection, data in zip(here, said, strict=True):
            connection.send(data)
        for number, (connection, data) in enumerate(zip(here, said, strict=True)):
            try:
                if number % 5 == 0 and data.endswith(b"}"):
                    connection.receive()
                if number % 3 == 0:
                    connection.reset()
                elif number % 3 == 1:
                    connection.half_close()
            except OSError:
                pass  # the server was faster
            connection.close()


@pytest.mark.parametrize("where", VANISHING)
@pytest.mark.wants("cancel")
def test_a_client_that_vanishes_leaves_nothing(
    http_server: HttpServer, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As above, one at a time, so that a failure says where."""
    with besieged(http_server, caplog, keep_alive=0.2) as siege:
        for end in (Connection.close, Connection.half_close, Connection.reset):
            with siege.connected() as connection:
                connection.send(VANISHING[where])
                connection.can_be_read(0.01)
                try:
                    end(connection)
                except OSError:
                    pass  # the server was faster


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
@pytest.mark.wants("cancel")
def test_clients_with_sessions_that_vanish_leave_nothing(
    http_server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Their calls go on, since they may come back; when those and the sessions are over, nothing is left."""
    with besieged(http_server, caplog, call_timeout=0.3, session_ttl=0.3, keep_alive=0.1) as siege:
        for number in range(70):
            client = Client(speak.HANDSHAKE[0], siege.place).open()
            client.close()
            requests = requests_of_a_session(str(client.session))
            with siege.connected() as connection:
                connection.send(requests[number % len(requests)])
                connection.can_be_read(0.01)
                if number % 2:
                    connection.reset()
        until(lambda: len(siege.place.server.store) == 0, "a session is left")  # type: ignore[arg-type]
        another = Client(speak.HANDSHAKE[0], siege.place).open()
        assert text_of(another.call("echo", text="another")) == "another"
        another.close()


OPENING = b"GET /sse HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


@pytest.mark.skipif(not speak.HANDSHAKE, reason="no revision has that transport")
@pytest.mark.wants("cancel")
def test_clients_of_the_first_transport_that_vanish_leave_nothing(
    http_server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Their calls end with their streams."""
    client = Peer(speak.HANDSHAKE[-1], Registry("a client", "1"))
    call = client.message("tools/call", {"name": "wait", "arguments": {}}, token="t")
    messages = [client.initialize(), call, [], {"id": 1}, speak.notification("notifications/none")]
    with besieged(http_server, caplog, keep_alive=0.1) as siege:
        for number in range(60):
            with siege.connected() as connection:
                connection.send(OPENING[: len(OPENING) - 30 + number])
                if number < 30:
                    continue
                connection.until(b"data: ")
                where = connection.until(b"\n").strip().decode()
                body = encode(messages[number % len(messages)])
                head = f"POST {where} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
                siege.tell(head + b"Content-Length: 5000\r\n\r\n" + body, end=True)
                answer = siege.tell(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                assert statuses(answer) == [202]
                if number % 2:
                    connection.reset()


@pytest.mark.wants("cancel")
def test_clients_that_never_read_hold_nobody_up(http_server: HttpServer, caplog: pytest.LogCaptureFixture) -> None:
    """Handlers wait for them, announcements do not pile up, and others are served meanwhile."""

    async def more() -> str:
        """More."""
        return "more"

    with besieged(http_server, caplog, max_unsent=2**16, keep_alive=http_server.keep_alive) as siege:
        server = siege.place.server
        mute = [siege.connected(receive_buffer=4096) for _ in range(20)]
        for number, connection in enumerate(mute):
            connection.send(VANISHING["within a flood" if number % 2 else "within a listen stream"])
        until(lambda: len(server.topics) == 10, "not all are listening")
        for _ in range(100):
            server.registry.tool(more)
            server.registry.remove_tool("more")
            siege.works()
        for connection in mute:
            connection.close()

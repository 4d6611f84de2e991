"""What the cases of the field say of a server at a socket: the same requests, sent by hand."""

from __future__ import annotations

import time

import pytest

import speak
from flags import Flag
from heard import text_of
from hosting import serving
from mcp_sansio import Config, Registry
from mcp_sansio.wire.json import decode
from plugs import HttpServer, Serving
from talk import Client, Connection, PairClient

NEWEST = speak.VERSIONS[0]
HANDSHAKE, ENVELOPE = speak.HANDSHAKE, speak.ENVELOPE


def shop() -> Registry:
    """What is served."""
    registry = Registry("shop", "1.0")

    @registry.tool
    async def echo(text: str) -> str:
        """Give the text back."""
        return text

    @registry.resource("note:/{+path}")
    async def note(path: str) -> str:
        return path

    return registry


def raw(place: Serving, *lines: bytes, body: bytes = b"", path: bytes = b"/mcp") -> tuple[int, bytes]:
    """Send a POST byte by byte as given; the status and the whole response."""
    with Connection(place.host, place.port) as connection:
        head = [b"POST " + path + b" HTTP/1.1", b"Connection: close", *lines, b"", b""]
        connection.send(b"\r\n".join(head) + body)
        response = connection.rest()
    return int(response.split(b" ", 2)[1]), response


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'
JSON_TYPE = b"Content-Type: application/json"
LOCAL = b"Host: localhost"


def length(body: bytes) -> bytes:
    """The header of a body's length."""
    return b"Content-Length: %d" % len(body)


@pytest.mark.parametrize("asked", ["2099-01-01", NEWEST, *HANDSHAKE])
def test_case_1_and_2_negotiated_at_a_socket(http_server: HttpServer, asked: str) -> None:
    with serving(http_server, shop()) as place:
        client = Client(HANDSHAKE[0], place)
        message = client.initialize()
        message["params"]["protocolVersion"] = asked
        answer = client.post(message, headers={"MCP-Protocol-Version": asked})
    settled = asked if asked in HANDSHAKE else HANDSHAKE[0]
    assert (answer.status, answer.message["result"]["protocolVersion"]) == (200, settled)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_13_and_15_a_session_of_another_looks_as_if_it_were_not_there(
    http_server: HttpServer, version: str
) -> None:
    with serving(http_server, shop(), user_header="X-User", config=Config(deletable_sessions=True)) as place:
        alice = Client(version, place)
        alice.extra = {"X-User": "alice"}
        alice.open()
        eve = Client(version, place)
        eve.extra = {"X-User": "eve"}
        for method in ("GET", "DELETE", "POST"):
            message = {"jsonrpc": "2.0", "id": 1, "method": "ping"} if method == "POST" else None
            seen = []
            for session in (alice.session, "gone-123"):
                answer = eve.send(method, message, headers={"Mcp-Session-Id": session})
                seen.append((answer.status, dict(answer.headers), answer.body))
            assert seen[0] == seen[1]
            assert seen[0][0] == 404
        assert text_of(alice.call("echo", text="a")) == "a"


ACCEPTED: list[tuple[list[bytes], int]] = [
    ([b"Accept: */*"], 200),
    ([], 200),
    ([b"Accept: application/json", b"Accept: text/event-stream"], 200),
    ([b"Accept: text/html", b"Accept: application/*"], 200),
    ([b"accept:Application/JSON;q=0.5 , TEXT/EVENT-STREAM"], 200),
    ([b"Accept: text/html"], 406),
    ([b"Accept: application/json;q=0"], 406),
    ([b"Accept: \xff"], 406),
]


@pytest.mark.parametrize(("lines", "status"), ACCEPTED)
def test_case_17_what_a_client_accepts_is_read_leniently(
    http_server: HttpServer, lines: list[bytes], status: int
) -> None:
    with serving(http_server, shop()) as place:
        answered, response = raw(place, LOCAL, JSON_TYPE, length(PING), *lines, body=PING)
    assert answered == status
    assert response.endswith(PONG) == (status == 200)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b'content-type: Application/JSON;charset="UTF-8"', 200),
        (b"Content-Type: application/json ; charset=utf-8", 200),
        (b"Content-Type: text/plain", 415),
        (b"X-Nothing: 1", 415),
    ],
)
def test_case_18_the_type_of_a_body_is_read_leniently(http_server: HttpServer, line: bytes, status: int) -> None:
    with serving(http_server, shop()) as place:
        answered, response = raw(place, LOCAL, line, length(PING), body=PING)
    assert (answered, response.endswith(PONG)) == (status, status == 200)


@pytest.mark.parametrize("path", [b"/mcp", b"/mcp/", b"/mcp?x=1", b"/mcp/?x=1"])
@pytest.mark.parametrize("line", [b"X-Forwarded-Proto: https", b"X-Nothing: 1"])
def test_case_21_both_spellings_are_served_without_a_redirect(
    http_server: HttpServer, path: bytes, line: bytes
) -> None:
    with serving(http_server, shop()) as place:
        status, response = raw(place, LOCAL, JSON_TYPE, length(PING), line, body=PING, path=path)
    assert (status, response.endswith(PONG), b"location:" in response.lower()) == (200, True, False)


@pytest.mark.parametrize("host", [b"127.0.0.1", b"localhost", b"LOCALHOST:8000", b"[::1]:8000", b"127.0.0.1:8000"])
def test_case_22_names_of_this_machine_at_a_loopback_socket(http_server: HttpServer, host: bytes) -> None:
    with serving(http_server, shop()) as place:
        status, _ = raw(place, b"Host: " + host, JSON_TYPE, length(PING), body=PING)
    assert status == 200


@pytest.mark.parametrize("host", [b"mcp.example.test", b"evil.test", b"localhost.evil.test", b"MCP.example.test:8443"])
def test_case_22_other_names_only_when_they_are_allowed(http_server: HttpServer, host: bytes) -> None:
    for allowed, name in (([], b""), (["mcp.example.test"], b"mcp.example.test")):
        with serving(http_server, shop(), allowed_hosts=allowed) as place:
            status, _ = raw(place, b"Host: " + host, JSON_TYPE, length(PING), body=PING)
        assert status == (200 if name and host.lower().startswith(name) else 421)


@pytest.mark.parametrize(
    ("origin", "status"),
    [("https://app.example", 204), ("http://localhost:6274", 204), ("https://evil.test", 403)],
)
def test_case_23_a_preflight_comes_before_whoever_asks_who_it_is(
    http_server: HttpServer, origin: str, status: int
) -> None:
    with serving(http_server, shop(), user_header="X-User", allowed_origins=["https://app.example"]) as place:
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST", "Content-Type": None}
        answer = Client(NEWEST, place).send("OPTIONS", headers=asked)
    allowed = origin if status == 204 else None
    assert (answer.status, answer.headers.get("Access-Control-Allow-Origin")) == (status, allowed)


NAME_LINES: list[tuple[bytes, int]] = [
    (b"Mcp-Name: =?base64?bm90ZTovxbwv5ryi?=", 200),
    ("Mcp-Name: note:/ż/漢".encode(), 400),
    (b"Mcp-Name: note:/\xbf/", 400),
    (b"Mcp-Name: note:/\t/", 400),
    (b"Mcp-Name: =?BASE64?bm90ZTovxbwv5ryi?=", 400),
    (b"Mcp-Name: =?base64?/w==?=", 400),
    (b"X-Nothing: 1", 400),
]


@pytest.mark.parametrize(("line", "status"), NAME_LINES)
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_24_a_name_in_a_header_is_held_against_the_body(
    http_server: HttpServer, version: str, line: bytes, status: int
) -> None:
    with serving(http_server, shop()) as place:
        client = Client(version, place)
        body = speak.wire(client.message("resources/read", {"uri": "note:/ż/漢"}))
        stated = [b"MCP-Protocol-Version: " + version.encode(), b"Mcp-Method: resources/read"]
        answered, response = raw(place, LOCAL, JSON_TYPE, length(body), *stated, line, body=body)
    message = decode(response.partition(b"\r\n\r\n")[2])
    assert answered == status
    if status == 200:
        assert message["result"]["contents"] == [{"uri": "note:/ż/漢", "text": "ż/漢"}]
    else:
        assert (message["id"], message["error"]["code"]) == (1, -32020)


SIZES: list[tuple[list[bytes], bytes, int]] = [
    ([b"Transfer-Encoding: chunked"], b"10000\r\n" + b" " * 65536 + b"\r\n" + b"10000\r\n" + b" " * 65536, 413),
    ([b"Content-Length: 99999999999"], b" " * 131072, 413),
    ([b"Content-Length: 1025"], b" " * 1025, 413),
    ([b"Transfer-Encoding: chunked"], b"%x\r\n%b\r\n0\r\n\r\n" % (len(PING), PING), 200),
    ([b"Content-Length: -1"], PING, 400),
    ([b"Content-Length: x"], PING, 400),
    ([b"Transfer-Encoding: chunked"], b"zz\r\n", 400),
]


@pytest.mark.parametrize(("lines", "body", "status"), SIZES, ids=lambda value: str(value)[:40])
def test_case_27_a_body_has_the_size_that_it_may_have(
    http_server: HttpServer, lines: list[bytes], body: bytes, status: int
) -> None:
    with serving(http_server, shop(), config=Config(max_message=1024)) as place:
        answered, response = raw(place, LOCAL, JSON_TYPE, *lines, body=body)
        assert answered == status
        if status == 413:
            expected = {"code": -32600, "message": "the body is larger than 1024 bytes"}
            assert decode(response.partition(b"\r\n\r\n")[2]) == {"jsonrpc": "2.0", "error": expected}
        again, _ = raw(place, LOCAL, JSON_TYPE, length(PING), body=PING)
    assert again == 200


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_29_a_server_stops_while_its_streams_are_open(http_server: HttpServer, version: str) -> None:
    with serving(http_server, shop(), patience=20) as place:
        client = Client(version, place).open()
        if version in ENVELOPE:
            opened = client.streaming(client.message("subscriptions/listen", {"notifications": {}}, id="l"))
        else:
            opened = client.listening()
        with opened as stream:
            first = stream.message() if version in ENVELOPE else None
            began = time.monotonic()
            place.stop()
            rest = stream.rest()
            assert time.monotonic() - began < 5
        assert [message["id"] for message in rest] == (["l"] if version in ENVELOPE else [])
        assert first is None or first["method"] == "notifications/subscriptions/acknowledged"


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_38_a_silent_call_is_heard_of_on_its_own_stream(http_server: HttpServer, version: str) -> None:
    registry, go_on = shop(), Flag()

    @registry.tool
    async def nap() -> str:
        """Take a while."""
        await go_on.wait()
        return "rested"

    with serving(http_server, registry, config=Config(keep_alive=0.05)) as place:
        client = Client(version, place).open()
        with client.streaming(client.calling("nap")) as stream:
            assert stream.response.headers["X-Accel-Buffering"] == "no"
            assert "Content-Encoding" not in stream.response.headers
            body = b""
            while body.count(b":\n\n") < 2:
                body += stream.response.piece()
            go_on.set()
            assert b'"result"' not in body
            assert b'"result"' in stream.response.read()


@pytest.mark.parametrize("path", ["/sse", "/sse/"])
def test_case_40_the_endpoint_of_a_pair_is_where_it_was_mounted(http_server: HttpServer, path: str) -> None:
    with serving(http_server, shop(), pair=True) as place, PairClient(place, path, HANDSHAKE[-1]).open() as client:
        assert client.where.partition("?")[0] == "/messages"
        client.send(decode(PING))
        event = client.stream.event()
        assert event is not None
        assert event.data == PONG


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_56_calls_with_one_id_keep_apart(http_server: HttpServer, version: str) -> None:
    registry = shop()
    flags = {"A": Flag(), "B": Flag()}

    @registry.tool
    async def nap(word: str) -> str:
        """Wait to be called by that word."""
        await flags[word].wait()
        return word

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        calls = [client.calling("nap", id=1, word=word) for word in flags]
        slow, fast = (client.begin(call) for call in calls)
        flags["B"].set()
        quick = client.finish(fast, calls[1]).messages[-1]
        flags["A"].set()
        late = client.finish(slow, calls[0]).messages[-1]
    assert [(reply["id"], text_of(reply)) for reply in (late, quick)] == [(1, "A"), (1, "B")]


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_74_a_client_that_vanishes_leaves_the_others_alone(http_server: HttpServer, version: str) -> None:
    registry, go_on = shop(), Flag()

    @registry.tool
    async def nap() -> str:
        """Take a while."""
        await go_on.wait()
        return "rested"

    with serving(http_server, registry, config=Config(keep_alive=0.05)) as place:
        client = Client(version, place).open()
        with client.streaming(client.calling("nap")) as stream:
            stream.response.connection.reset()
        with Connection(place.host, place.port) as connection:
            connection.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
            connection.reset()
        assert text_of(client.call("echo", text="a")) == "a"
        go_on.set()

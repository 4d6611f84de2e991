"""What the cases say of a server at a socket: the same requests, sent to the aiohttp binding by hand or by a client."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import speak
from mcp_sansio import Config, Exchange, Registry
from mcp_sansio.wire.json import decode
from sockets import PRINCIPAL, Client, Endpoint, Site, SseEndpoint, serving, text_of, web

from .common import ENVELOPE, HANDSHAKE, NEWEST

JSON = Any


def shop() -> Registry:
    """What is served."""
    registry = Registry("shop", "1.0")

    @registry.tool
    async def echo(text: str) -> str:
        """Give the text back."""
        return text

    @registry.tool
    async def nap(seconds: float, word: str, ex: Exchange) -> str:
        """Take a while."""
        await asyncio.sleep(seconds)
        return word

    @registry.resource("note:/{+path}")
    async def note(path: str) -> str:
        return path

    return registry


async def raw(
    site: Site, *lines: bytes, body: bytes = b"", path: bytes = b"/mcp", ends: bool = True
) -> tuple[int, bytes]:
    """Send a POST byte by byte as given; the status and the whole response."""
    reader, writer = await asyncio.open_connection(*site.runner.addresses[0][:2])
    head = [b"POST " + path + b" HTTP/1.1", b"Connection: close", *lines, b"", b""]
    writer.write(b"\r\n".join(head) + body)
    if ends:
        await writer.drain()
    response = await reader.read()
    writer.close()
    return int(response.split(b" ", 2)[1]), response


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
PONG = b'{"jsonrpc":"2.0","id":1,"result":{}}'
JSON_TYPE = b"Content-Type: application/json"
LOCAL = b"Host: localhost"


def length(body: bytes) -> bytes:
    """The header of a body's length."""
    return b"Content-Length: %d" % len(body)


@pytest.mark.parametrize("asked", ["2099-01-01", NEWEST, *HANDSHAKE])
async def test_case_1_and_2_negotiated_at_a_socket(asked: str) -> None:
    async with serving(Endpoint(shop()).app()) as site:
        client = Client(HANDSHAKE[0], site)
        message = client.initialize()
        message["params"]["protocolVersion"] = asked
        answer = await client.post(message, headers={"MCP-Protocol-Version": asked})
    settled = asked if asked in HANDSHAKE else HANDSHAKE[0]
    assert (answer.status, answer.message["result"]["protocolVersion"]) == (200, settled)


@pytest.mark.parametrize("version", HANDSHAKE)
async def test_case_13_and_15_at_a_socket(version: str) -> None:
    def who(request: web.Request) -> str | None:
        return request.headers.get("X-User")

    endpoint = Endpoint(shop(), config=Config(deletable_sessions=True), principal=who)
    async with serving(endpoint.app()) as site:
        alice = Client(version, site)
        alice.extra = {"X-User": "alice"}
        await alice.open()
        eve = Client(version, site)
        eve.extra = {"X-User": "eve"}
        for method in ("GET", "DELETE", "POST"):
            message = {"jsonrpc": "2.0", "id": 1, "method": "ping"} if method == "POST" else None
            seen = []
            for session in (alice.session, "gone-123"):
                answer = await eve.send(method, message, headers={"Mcp-Session-Id": session})
                seen.append((answer.status, dict(answer.headers), answer.body))
            assert seen[0] == seen[1]
            assert seen[0][0] == 404
        assert text_of(await alice.call("echo", text="a")) == "a"


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
async def test_case_17_at_a_socket(lines: list[bytes], status: int) -> None:
    async with serving(Endpoint(shop()).app()) as site:
        answered, response = await raw(site, LOCAL, JSON_TYPE, length(PING), *lines, body=PING)
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
async def test_case_18_at_a_socket(line: bytes, status: int) -> None:
    async with serving(Endpoint(shop()).app()) as site:
        answered, response = await raw(site, LOCAL, line, length(PING), body=PING)
    assert (answered, response.endswith(PONG)) == (status, status == 200)


@pytest.mark.parametrize("path", [b"/mcp", b"/mcp/", b"/mcp?x=1", b"/mcp/?x=1"])
@pytest.mark.parametrize("line", [b"X-Forwarded-Proto: https", b"X-Nothing: 1"])
async def test_case_21_both_spellings_are_served_without_a_redirect(path: bytes, line: bytes) -> None:
    async with serving(Endpoint(shop()).app()) as site:
        status, response = await raw(site, LOCAL, JSON_TYPE, length(PING), line, body=PING, path=path)
    assert (status, response.endswith(PONG), b"Location:" in response) == (200, True, False)


@pytest.mark.parametrize("host", [b"127.0.0.1", b"localhost", b"LOCALHOST:8000", b"[::1]:8000", b"127.0.0.1:8000"])
async def test_case_22_names_of_this_machine_at_a_loopback_socket(host: bytes) -> None:
    async with serving(Endpoint(shop()).app()) as site:
        status, _ = await raw(site, b"Host: " + host, JSON_TYPE, length(PING), body=PING)
    assert status == 200


@pytest.mark.parametrize("host", [b"mcp.example.test", b"evil.test", b"localhost.evil.test", b"MCP.example.test:8443"])
async def test_case_22_other_names_only_when_they_are_allowed(host: bytes) -> None:
    for allowed, name in (([], b""), (["mcp.example.test"], b"mcp.example.test")):
        async with serving(Endpoint(shop(), allowed_hosts=allowed).app()) as site:
            status, _ = await raw(site, b"Host: " + host, JSON_TYPE, length(PING), body=PING)
        assert status == (200 if name and host.lower().startswith(name) else 421)


async def test_case_23_a_preflight_comes_before_whoever_asks_who_it_is() -> None:
    @web.middleware
    async def guard(request: web.Request, handler: Any) -> web.StreamResponse:
        request[PRINCIPAL] = "alice"
        response: web.StreamResponse = await handler(request)
        return response

    app = web.Application(middlewares=[guard])
    Endpoint(shop(), allowed_origins=["https://app.example"]).setup(app)
    async with serving(app) as site:
        client = Client(NEWEST, site)
        for origin, status in (
            ("https://app.example", 204),
            ("http://localhost:6274", 204),
            ("https://evil.test", 403),
        ):
            asked = {"Origin": origin, "Access-Control-Request-Method": "POST", "Content-Type": None}
            answer = await client.send("OPTIONS", headers=asked)
            assert (answer.status, answer.headers.get("Access-Control-Allow-Origin")) == (
                status,
                origin if status == 204 else None,
            )


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
async def test_case_24_at_a_socket(version: str, line: bytes, status: int) -> None:
    async with serving(Endpoint(shop()).app()) as site:
        client = Client(version, site)
        body = speak.wire(client.message("resources/read", {"uri": "note:/ż/漢"}))
        stated = [b"MCP-Protocol-Version: " + version.encode(), b"Mcp-Method: resources/read"]
        answered, response = await raw(site, LOCAL, JSON_TYPE, length(body), *stated, line, body=body)
    message = decode(response.partition(b"\r\n\r\n")[2])
    assert answered == status
    if status == 200:
        assert message["result"]["contents"] == [{"uri": "note:/ż/漢", "text": "ż/漢"}]
    else:
        assert (message["id"], message["error"]["code"]) == (1, -32020)


@pytest.mark.parametrize("mounted", ["sub-application", "routes alone"])
@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_case_26_the_first_request_of_a_bare_mount_is_served(version: str, mounted: str) -> None:
    app = web.Application()
    endpoint = Endpoint(shop())
    if mounted == "routes alone":
        # Nothing of the endpoint's start-up or shutdown is wired.
        app.add_routes(endpoint.routes("/a/mcp"))
    else:
        app.add_subapp("/a", endpoint.app())
    async with serving(app) as site:
        client = await Client(version, site, "/a/mcp").open()
        assert text_of(await client.call("echo", text="a")) == "a"


SIZES: list[tuple[list[bytes], bytes, int]] = [
    ([b"Transfer-Encoding: chunked"], b"10000\r\n" + b" " * 65536 + b"\r\n" + b"10000\r\n" + b" " * 65536, 413),
    ([b"Content-Length: 99999999999"], b" " * 131072, 413),
    ([b"Content-Length: 1025"], b" " * 1025, 413),
    # What follows the body would be another request. aiohttp refuses both where the other is none.
    ([length(PING)], PING + b" " * 4096, 400),
    ([b"Transfer-Encoding: chunked"], b"%x\r\n%b\r\n0\r\n\r\n" % (len(PING), PING), 200),
    ([b"Content-Length: -1"], PING, 400),
    ([b"Content-Length: x"], PING, 400),
    ([b"Transfer-Encoding: chunked"], b"zz\r\n", 400),
]


@pytest.mark.parametrize(("lines", "body", "status"), SIZES, ids=lambda value: str(value)[:40])
async def test_case_27_at_a_socket(lines: list[bytes], body: bytes, status: int) -> None:
    async with serving(Endpoint(shop(), config=Config(max_message=1024)).app()) as site:
        answered, response = await raw(site, LOCAL, JSON_TYPE, *lines, body=body)
        assert answered == status
        if status == 413:
            expected = {"code": -32600, "message": "the body is larger than 1024 bytes"}
            assert decode(response.partition(b"\r\n\r\n")[2]) == {"jsonrpc": "2.0", "error": expected}
        again, _ = await raw(site, LOCAL, JSON_TYPE, length(PING), body=PING)
    assert again == 200


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_case_29_a_server_stops_while_its_streams_are_open(version: str) -> None:
    async with serving(Endpoint(shop()).app(), shutdown_timeout=20) as site:
        client = await Client(version, site).open()
        if version in ENVELOPE:
            opened = client.streaming(client.message("subscriptions/listen", {"notifications": {}}, id="l"))
        else:
            opened = client.listening()
        async with opened as stream:
            first = await stream.message() if version in ENVELOPE else None
            began = asyncio.get_running_loop().time()
            await site.stop()
            rest = await stream.rest()
            assert asyncio.get_running_loop().time() - began < 5
        assert [message["id"] for message in rest] == (["l"] if version in ENVELOPE else [])
        assert first is None or first["method"] == "notifications/subscriptions/acknowledged"


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_case_38_a_silent_call_is_heard_of_on_its_own_stream(version: str) -> None:
    async with serving(Endpoint(shop(), config=Config(keep_alive=0.05)).app()) as site:
        client = await Client(version, site).open()
        async with client.streaming(client.calling("nap", seconds=0.4, word="a")) as stream:
            assert stream.response.headers["X-Accel-Buffering"] == "no"
            assert "Content-Encoding" not in stream.response.headers
            body = await stream.response.read()
    assert body.count(b":\n\n") >= 2
    assert body.index(b":\n\n") < body.index(b'"result"')


@pytest.mark.parametrize("prefix", ["", "/a/b"])
async def test_case_40_the_endpoint_is_where_it_was_mounted(prefix: str) -> None:
    app = web.Application()
    endpoint = SseEndpoint(shop())
    if prefix:
        app.add_subapp(prefix, endpoint.app())
    else:
        endpoint.setup(app)
    async with serving(app) as site:
        client = Client(HANDSHAKE[-1], site, f"{prefix}/sse")
        async with client.streaming(method="GET") as stream:
            event = await stream.event()
            assert event is not None
            where = event.data.decode()
            assert (event.event, where.partition("?")[0]) == ("endpoint", f"{prefix}/messages")
            headers = {"Content-Type": "application/json"}
            async with site.http.post(site.url + where, data=PING, headers=headers) as accepted:
                assert (accepted.status, await accepted.read()) == (202, b"")
            answered = await stream.event()
            assert answered is not None
            assert answered.data == PONG


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_case_56_one_id_twice_at_a_socket(version: str) -> None:
    async with serving(Endpoint(shop()).app()) as site:
        client = await Client(version, site).open()
        slow, fast = await asyncio.gather(
            client.call("nap", id=1, seconds=0.2, word="A"), client.call("nap", id=1, seconds=0.1, word="B")
        )
    assert [(reply["id"], text_of(reply)) for reply in (slow, fast)] == [(1, "A"), (1, "B")]


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_case_74_a_client_that_vanishes_from_a_socket(version: str) -> None:
    async with serving(Endpoint(shop(), config=Config(keep_alive=0.05)).app()) as site:
        client = await Client(version, site).open()
        async with client.streaming(client.calling("nap", seconds=0.3, word="a")) as stream:
            stream.leave()
        reader, writer = await asyncio.open_connection(*site.runner.addresses[0][:2])
        writer.write(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        writer.transport.abort()
        assert reader is not None
        assert text_of(await client.call("echo", text="a")) == "a"

"""What goes out with a request, and over what: headers and tokens, sessions of the caller's, redirects, encodings."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import speak
from callers import Client, Request, calling, initialized, json_reply, listening, plain, result
from mcp_sansio import (
    ClientConfig,
    ConnectionLost,
    Exchange,
    Known,
    Registry,
    ServerError,
    UnusableReply,
    elicit,
    elicit_accept,
)
from mcp_sansio.wire.json import encode
from sockets import ClientSession, ClientTimeout, CookieJar, Endpoint, TCPConnector, serving

JSON = Any
NEWEST = speak.VERSIONS[0]
Respond = Callable[[Request], bytes]


@asynccontextmanager
async def recording(respond: Respond) -> AsyncIterator[tuple[str, list[Request]]]:
    """A server by hand, and the requests that come."""
    requests: list[Request] = []

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        requests.append(request)
        writer.write(respond(request))

    async with listening(answer) as url:
        yield url, requests


def beginning(url: str, **options: Any) -> Client:
    """A client that begins with its call."""
    return calling(url, NEWEST, known=Known(NEWEST), **options)


@asynccontextmanager
async def answering(respond: Respond, **options: Any) -> AsyncIterator[tuple[Client, list[Request]]]:
    """The two of them."""
    async with recording(respond) as (url, requests), beginning(url, **options) as client:
        yield client, requests


def done(request: Request) -> bytes:
    """The response to a call."""
    return json_reply(result(request))


# Headers


async def test_a_request_says_what_the_protocol_wants_and_nothing_that_aiohttp_makes_up() -> None:
    async with answering(done) as (client, requests):
        await client.call_tool("bake", {"loaves": 1})
    (request,) = requests
    assert (request.method, request.path) == ("POST", "/mcp")
    assert {name: value for name, value in request.headers.items() if name not in ("host", "content-length")} == {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": NEWEST,
        "mcp-method": "tools/call",
        "mcp-name": "bake",
        "accept-encoding": request.headers["accept-encoding"],
        "user-agent": request.headers["user-agent"],
    }


async def test_a_request_without_a_body_says_nothing_of_one() -> None:
    handshake = speak.HANDSHAKE[0]

    def respond(request: Request) -> bytes:
        if request.method != "POST":
            return plain(405)
        if request.message["method"] == "initialize":
            return json_reply(initialized(request, handshake), "Mcp-Session-Id: abc")
        return done(request) if "id" in request.message else plain(202)

    async with recording(respond) as (url, requests), calling(url, handshake, on_change=print) as client:
        await client.call_tool("bake")
    without = [request for request in requests if request.method != "POST"]
    assert [request.method for request in without] == ["GET", "DELETE"]
    assert ["content-type" in request.headers for request in without] == [False, False]
    assert [request.headers.get("content-length") for request in without] in ([None, None], [None, "0"])


async def test_headers_of_the_client_and_of_a_call() -> None:
    given = {"Authorization": "Bearer a", "X-Team": "bread", "ACCEPT": "text/plain"}
    async with answering(done, headers=given) as (client, requests):
        await client.call_tool("bake")
        await client.call_tool("bake", headers={"X-Team": "cake"})
    first, second = requests
    assert (first.headers["authorization"], first.headers["x-team"]) == ("Bearer a", "bread")
    assert (second.headers["authorization"], second.headers["x-team"]) == ("Bearer a", "cake")
    assert first.headers["accept"] == "application/json, text/event-stream, text/plain"


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_a_function_gives_headers_anew_for_each_request(is_async: bool) -> None:
    count = 0

    def token() -> dict[str, str]:
        nonlocal count
        count += 1
        return {"Authorization": f"Bearer {count}"}

    async def awaited() -> dict[str, str]:
        await asyncio.sleep(0)
        return token()

    async with answering(done, headers=awaited if is_async else token) as (client, requests):
        for _ in range(3):
            await client.call_tool("bake", headers={"X-Team": "bread"})
    assert [request.headers["authorization"] for request in requests] == ["Bearer 1", "Bearer 2", "Bearer 3"]
    assert [request.headers["x-team"] for request in requests] == ["bread"] * 3


async def test_a_function_of_headers_that_fails_is_that_calls_error() -> None:
    tokens = iter(["Bearer 1", LookupError("no token today"), 5, "Bearer 2"])

    def token() -> dict[str, Any]:
        made = next(tokens)
        if isinstance(made, Exception):
            raise made
        return {"Authorization": made}

    async with answering(done, headers=token) as (client, requests):
        await client.call_tool("bake")
        with pytest.raises(ConnectionLost, match="no token today") as failed:
            await client.call_tool("bake")
        assert isinstance(failed.value.__cause__, LookupError)
        with pytest.raises(ConnectionLost, match="the header Authorization must be a string"):
            await client.call_tool("bake")
        await client.call_tool("bake")
    assert [request.headers["authorization"] for request in requests] == ["Bearer 1", "Bearer 2"]


async def test_what_cannot_be_a_header_or_a_url_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="not the name of a header"):
        Client("http://127.0.0.1/mcp", headers={"a b": "c"})
    with pytest.raises(ValueError, match="not an http or https URL"):
        Client("ftp://127.0.0.1/mcp")
    async with Client("http://127.0.0.1:9/mcp") as client:
        with pytest.raises(ValueError, match="without line ends"):
            await client.call_tool("bake", headers={"X-A": "b\r\nX-C: d"})


# Refusals


async def test_a_refusal_has_its_status_the_servers_words_and_its_headers() -> None:
    challenge = 'Bearer resource_metadata="https://a.example/b"'

    def respond(request: Request) -> bytes:
        return plain(401, f"WWW-Authenticate: {challenge}", "Content-Type: text/plain", body=b"Who are you?")

    async with answering(respond) as (client, _):
        with pytest.raises(ServerError, match=r"Who are you\? \(HTTP 401\)") as refused:
            await client.call_tool("bake")
    assert (refused.value.status, refused.value.code) == (401, None)
    assert refused.value.headers["WWW-Authenticate"] == challenge


async def test_an_error_in_json_keeps_its_code_and_data() -> None:
    def respond(request: Request) -> bytes:
        error = {"code": -32602, "message": "no such bread", "data": {"known": ["rye"]}}
        return json_reply({"jsonrpc": "2.0", "id": request.message["id"], "error": error}, status=400)

    async with answering(respond) as (client, _):
        with pytest.raises(ServerError, match="no such bread") as refused:
            await client.call_tool("bake")
    assert (refused.value.code, refused.value.data, refused.value.status) == (-32602, {"known": ["rye"]}, 400)


# Redirects


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_origin_takes_everything_along(status: int) -> None:
    def respond(request: Request) -> bytes:
        return done(request) if request.path == "/mcp/" else plain(status, "Location: /mcp/")

    async with answering(respond, headers={"Authorization": "Bearer a"}) as (client, requests):
        await client.call_tool("bake")
        await client.call_tool("bake")
    first, second, *_ = requests
    assert (first.method, first.body, first.headers) == (second.method, second.body, second.headers)
    # What is permanent is remembered.
    assert [request.path for request in requests[2:]] == (["/mcp/"] if status == 308 else ["/mcp", "/mcp/"])


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:9/mcp", "http://localhost.evil.example/", "//evil.example/", "ftp:a"]
)
async def test_a_redirect_to_another_origin_is_not_followed(location: str) -> None:
    def respond(request: Request) -> bytes:
        return plain(307, f"Location: {location}")

    async with answering(respond, headers={"Authorization": "Bearer a"}) as (client, requests):
        with pytest.raises(UnusableReply, match=r"another origin|no URL to go on to"):
            await client.call_tool("bake")
    assert [request.message["method"] for request in requests].count("tools/call") == 1


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_would_lose_the_call_is_not_followed(status: int) -> None:
    async with answering(lambda request: plain(status, "Location: /mcp/")) as (client, requests):
        with pytest.raises(UnusableReply, match=f"with status {status} the request would not get there"):
            await client.call_tool("bake")
    assert [request.message["method"] for request in requests].count("tools/call") == 1


async def test_redirects_in_a_circle_end() -> None:
    async with answering(lambda request: plain(307, "Location: /mcp")) as (client, requests):
        with pytest.raises(UnusableReply, match="other redirects"):
            await client.call_tool("bake")
    assert [request.message["method"] for request in requests].count("tools/call") == 1 + ClientConfig().max_redirects


# Encodings and sizes


def deflated(body: bytes) -> bytes:
    """The body without the header of zlib, which HTTP servers are known to leave out."""
    packed = zlib.compressobj(wbits=-15)
    return packed.compress(body) + packed.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", deflated)]
)
async def test_a_response_may_be_compressed(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    def respond(request: Request) -> bytes:
        headers = ("Content-Type: application/json", f"Content-Encoding: {encoding}")
        return plain(200, *headers, body=pack(encode(result(request, "x" * 10_000))))

    async with answering(respond) as (client, requests):
        assert (await client.call_tool("bake")).content[0].text == "x" * 10_000
    assert encoding in requests[0].headers["accept-encoding"]


async def test_megabytes_go_either_way() -> None:
    text = "x" * (3 * 2**20)

    def respond(request: Request) -> bytes:
        return json_reply(result(request, request.message["params"]["arguments"]["text"]))

    async with answering(respond) as (client, _):
        assert (await client.call_tool("echo", {"text": text})).content[0].text == text


# Sessions


async def test_a_session_of_the_callers_is_used_and_left_open() -> None:
    async with (
        recording(lambda request: plain(500)) as (url, requests),
        ClientSession(headers={"X-From": "session"}, raise_for_status=True) as session,
    ):
        async with beginning(url, session=session) as client:
            with pytest.raises(ServerError, match="HTTP 500"):
                await client.call_tool("bake")
        assert not session.closed
    assert requests[0].headers["x-from"] == "session"


@pytest.mark.parametrize("is_own", [False, True])
async def test_cookies_are_kept_only_by_a_session_of_the_callers(is_own: bool) -> None:
    async with (
        recording(lambda request: json_reply(result(request), "Set-Cookie: a=b")) as (url, requests),
        ClientSession(cookie_jar=CookieJar(unsafe=True)) as session,
        beginning(url, session=session if is_own else None) as client,
    ):
        await client.call_tool("bake")
        await client.call_tool("bake")
    assert [request.headers.get("cookie") for request in requests] == [None, "a=b" if is_own else None]


async def test_a_session_that_does_not_decompress_gets_nothing_compressed() -> None:
    async with (
        recording(done) as (url, requests),
        ClientSession(auto_decompress=False) as session,
        beginning(url, session=session) as client,
    ):
        await client.call_tool("bake")
    assert requests[0].headers["accept-encoding"] == "identity"


async def test_a_session_that_is_closed_is_said_so() -> None:
    session = ClientSession()
    await session.close()
    async with answering(done, session=session) as (client, _):
        with pytest.raises(ConnectionLost, match="Session is closed"):
            await client.call_tool("bake")


async def test_a_sessions_own_time_limit_does_not_end_a_call() -> None:
    registry = Registry("slow", "1")

    @registry.tool
    async def wait() -> str:
        """Longer than the session would."""
        await asyncio.sleep(0.1)
        return "waited"

    async with (
        serving(Endpoint(registry).app()) as site,
        ClientSession(timeout=ClientTimeout(total=0.02, sock_read=0.02)) as session,
        calling(site, NEWEST, session=session) as client,
    ):
        assert (await client.call_tool("wait")).content[0].text == "waited"


async def test_clients_may_share_a_session_with_one_connection() -> None:
    async with (
        recording(done) as (url, _),
        ClientSession(connector=TCPConnector(limit=1)) as session,
        beginning(url, session=session) as first,
        beginning(url, session=session) as second,
    ):
        await asyncio.gather(*(client.call_tool("bake") for client in (first, second) for _ in range(10)))


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_questions_leave_connections_for_their_answers(version: str) -> None:
    """More calls that wait for an answer, each on a connection of its own, than aiohttp has connections by itself."""
    registry = Registry("asking", "1")

    @registry.tool
    async def confirm(ex: Exchange) -> str:
        """Ask."""
        return (await ex.ask("sure", elicit("Sure?"))).action

    asked: list[JSON] = []
    all_asked = asyncio.Event()

    async def on_ask(request: JSON) -> JSON:
        asked.append(request)
        if len(asked) == 90:
            all_asked.set()
        await all_asked.wait()
        return elicit_accept()

    async with (
        serving(Endpoint(registry).app()) as site,
        calling(site, version, on_ask=on_ask, config=ClientConfig(max_questions=200)) as client,
    ):
        said = await asyncio.gather(*(client.call_tool("confirm") for _ in range(90)))
    assert {one.content[0].text for one in said} == {"accept"}

"""What goes out with a request, and what may come back: headers and tokens, refusals, redirects, encodings, sizes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import speak
from by_hand import Accepted, Request, initialized, json_reply, plain, result
from flags import Flag, turn
from mcp_sansio import (
    ClientConfig,
    Exchange,
    HeadersFailed,
    Known,
    Registry,
    ServerError,
    UnusableReply,
    elicit,
    elicit_accept,
)
from mcp_sansio.wire.json import encode
from plugs import HttpClient
from worlds import World

JSON = Any
Calling = Callable[..., Any]
Respond = Callable[[Request], bytes]
NEWEST = speak.VERSIONS[0]


class Recorded:
    """A server by hand, and the requests that come."""

    def __init__(self, listen: Calling, respond: Respond) -> None:
        self.requests: list[Request] = []
        self._respond = respond
        self.url = listen(self._answer)

    def _answer(self, request: Request, connection: Accepted) -> None:
        self.requests.append(request)
        connection.send(self._respond(request))

    def calls(self) -> int:
        """How many calls of tools there were."""
        return [request.message["method"] for request in self.requests].count("tools/call")


@pytest.fixture
def recording(listen: Calling) -> Calling:
    """Begins to record, and to respond by a function."""
    return lambda respond: Recorded(listen, respond)


@pytest.fixture
def beginning(calling: Calling) -> Calling:
    """Makes a client of a server that begins with its call."""
    return lambda server, **options: calling(server.url, NEWEST, known=Known(NEWEST), **options)


def done(request: Request) -> bytes:
    """The response to a call."""
    return json_reply(result(request))


# Headers


async def test_a_request_says_what_the_protocol_wants_and_nothing_that_the_http_library_makes_up(
    http_client: HttpClient, recording: Calling, beginning: Calling
) -> None:
    server = recording(done)
    async with beginning(server) as client:
        await client.call_tool("bake", {"loaves": 1})
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/mcp")
    of_http = ("host", "content-length", "accept-encoding", "user-agent", "connection")
    assert {name: value for name, value in request.headers.items() if name not in of_http} == {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": NEWEST,
        "mcp-method": "tools/call",
        "mcp-name": "bake",
    }
    assert request.headers["host"] in server.url
    assert request.headers["content-length"] == str(len(request.body))


async def test_a_request_without_a_body_says_nothing_of_one(
    http_client: HttpClient, recording: Calling, calling: Calling
) -> None:
    handshake = speak.HANDSHAKE[0]

    def respond(request: Request) -> bytes:
        if request.method != "POST":
            return plain(405)
        if request.message["method"] == "initialize":
            return json_reply(initialized(request, handshake), "Mcp-Session-Id: abc")
        return done(request) if "id" in request.message else plain(202)

    server = recording(respond)
    async with calling(server.url, handshake, on_change=print) as client:
        await client.call_tool("bake")
    without = [request for request in server.requests if request.method != "POST"]
    assert [request.method for request in without] == ["GET", "DELETE"]
    assert ["content-type" in request.headers for request in without] == [False, False]
    assert [request.headers.get("content-length") for request in without] in ([None, None], [None, "0"])


async def test_headers_of_the_client_and_of_a_call(
    http_client: HttpClient, recording: Calling, beginning: Calling
) -> None:
    given = {"Authorization": "Bearer a", "X-Team": "bread", "ACCEPT": "text/plain"}
    server = recording(done)
    async with beginning(server, headers=given) as client:
        await client.call_tool("bake")
        await client.call_tool("bake", headers={"X-Team": "cake"})
    first, second = server.requests
    assert (first.headers["authorization"], first.headers["x-team"]) == ("Bearer a", "bread")
    assert (second.headers["authorization"], second.headers["x-team"]) == ("Bearer a", "cake")
    assert first.headers["accept"] == "application/json, text/event-stream, text/plain"


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_a_function_gives_headers_anew_for_each_request(
    http_client: HttpClient, recording: Calling, beginning: Calling, is_async: bool
) -> None:
    count = 0

    def token() -> dict[str, str]:
        nonlocal count
        count += 1
        return {"Authorization": f"Bearer {count}"}

    async def awaited() -> dict[str, str]:
        await turn()
        return token()

    server = recording(done)
    async with beginning(server, headers=awaited if is_async else token) as client:
        for _ in range(3):
            await client.call_tool("bake", headers={"X-Team": "bread"})
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer 1", "Bearer 2", "Bearer 3"]
    assert [request.headers["x-team"] for request in server.requests] == ["bread"] * 3


async def test_a_function_of_headers_that_fails_is_that_calls_error(
    http_client: HttpClient, recording: Calling, beginning: Calling
) -> None:
    tokens = iter(["Bearer 1", LookupError("no token today"), 5, "Bearer 2"])

    def token() -> dict[str, Any]:
        made = next(tokens)
        if isinstance(made, Exception):
            raise made
        return {"Authorization": made}

    server = recording(done)
    async with beginning(server, headers=token) as client:
        await client.call_tool("bake")
        with pytest.raises(HeadersFailed, match=_headers_failed(r"LookupError\('no token today'\)")) as failed:
            await client.call_tool("bake")
        assert isinstance(failed.value.__cause__, LookupError)
        with pytest.raises(
            HeadersFailed, match=_headers_failed(r"ValueError\(.the header Authorization must be a str.*")
        ):
            await client.call_tool("bake")
        await client.call_tool("bake")
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer 1", "Bearer 2"]


def _headers_failed(why: str) -> str:
    return f"^the function that gives the headers failed: {why}$"


@pytest.mark.parametrize(
    "known", [None, *(Known(version) for version in speak.VERSIONS), Known(speak.VERSIONS[-1], True)]
)
async def test_a_function_of_headers_that_fails_is_the_error_whatever_was_to_be_sent(
    http_client: HttpClient, recording: Calling, calling: Calling, known: Known | None
) -> None:
    def token() -> dict[str, Any]:
        raise LookupError("no token today")

    server = recording(done)
    async with calling(server.url, None, known=known, headers=token) as client:
        for _ in range(2):
            with pytest.raises(HeadersFailed, match=_headers_failed(r"LookupError\('no token today'\)")) as failed:
                await client.call_tool("bake")
            assert isinstance(failed.value.__cause__, LookupError)
    assert server.requests == []


async def test_what_cannot_be_a_header_or_a_url_is_refused_at_once(http_client: HttpClient) -> None:
    with pytest.raises(ValueError, match="not the name of a header"):
        http_client.client("http://127.0.0.1/mcp", headers={"a b": "c"})
    with pytest.raises(ValueError, match="not an http or https URL"):
        http_client.client("ftp://127.0.0.1/mcp")
    async with http_client.client("http://127.0.0.1:9/mcp") as client:
        with pytest.raises(ValueError, match="without line ends"):
            await client.call_tool("bake", headers={"X-A": "b\r\nX-C: d"})


async def test_cookies_are_not_kept(http_client: HttpClient, recording: Calling, beginning: Calling) -> None:
    server = recording(lambda request: json_reply(result(request), "Set-Cookie: a=b"))
    async with beginning(server) as client:
        await client.call_tool("bake")
        await client.call_tool("bake")
    assert [request.headers.get("cookie") for request in server.requests] == [None, None]


async def test_a_connection_is_used_again(http_client: HttpClient, listen: Calling, calling: Calling) -> None:
    connections = set()

    def answer(request: Request, connection: Accepted) -> None:
        connections.add(connection)
        connection.send(done(request))

    async with calling(listen(answer), NEWEST, known=Known(NEWEST)) as client:
        for _ in range(5):
            await client.call_tool("bake")
    assert len(connections) == 1


# Refusals


async def test_a_refusal_has_its_status_the_servers_words_and_its_headers(
    http_client: HttpClient, recording: Calling, beginning: Calling
) -> None:
    challenge = 'Bearer resource_metadata="https://a.example/b"'

    def respond(request: Request) -> bytes:
        return plain(401, f"WWW-Authenticate: {challenge}", "Content-Type: text/plain", body=b"Who are you?")

    async with beginning(recording(respond)) as client:
        with pytest.raises(ServerError, match=r"Who are you\? \(HTTP 401\)") as refused:
            await client.call_tool("bake")
    assert (refused.value.status, refused.value.code) == (401, None)
    assert refused.value.headers["WWW-Authenticate"] == challenge


async def test_an_error_in_json_keeps_its_code_and_data(
    http_client: HttpClient, recording: Calling, beginning: Calling
) -> None:
    def respond(request: Request) -> bytes:
        error = {"code": -32602, "message": "no such bread", "data": {"known": ["rye"]}}
        return json_reply({"jsonrpc": "2.0", "id": request.message["id"], "error": error}, status=400)

    async with beginning(recording(respond)) as client:
        with pytest.raises(ServerError, match="no such bread") as refused:
            await client.call_tool("bake")
    assert (refused.value.code, refused.value.data, refused.value.status) == (-32602, {"known": ["rye"]}, 400)


# Redirects


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_origin_takes_everything_along(
    http_client: HttpClient, recording: Calling, beginning: Calling, status: int
) -> None:
    def respond(request: Request) -> bytes:
        return done(request) if request.path == "/mcp/" else plain(status, "Location: /mcp/")

    server = recording(respond)
    async with beginning(server, headers={"Authorization": "Bearer a"}) as client:
        await client.call_tool("bake")
        await client.call_tool("bake")
    first, second, *_ = server.requests
    assert (first.method, first.body, first.headers) == (second.method, second.body, second.headers)
    # What is permanent is remembered.
    assert [request.path for request in server.requests[2:]] == (["/mcp/"] if status == 308 else ["/mcp", "/mcp/"])


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:9/mcp", "http://localhost.evil.example/", "//evil.example/", "ftp:a"]
)
async def test_a_redirect_to_another_origin_is_not_followed(
    http_client: HttpClient, recording: Calling, beginning: Calling, location: str
) -> None:
    server = recording(lambda request: plain(307, f"Location: {location}"))
    async with beginning(server, headers={"Authorization": "Bearer a"}) as client:
        with pytest.raises(UnusableReply, match=r"another origin|no URL to go on to"):
            await client.call_tool("bake")
    assert server.calls() == 1


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_a_redirect_that_would_lose_the_call_is_not_followed(
    http_client: HttpClient, recording: Calling, beginning: Calling, status: int
) -> None:
    server = recording(lambda request: plain(status, "Location: /mcp/"))
    async with beginning(server) as client:
        with pytest.raises(UnusableReply, match=f"with status {status} the request would not get there"):
            await client.call_tool("bake")
    assert server.calls() == 1


async def test_redirects_in_a_circle_end(http_client: HttpClient, recording: Calling, beginning: Calling) -> None:
    server = recording(lambda request: plain(307, "Location: /mcp"))
    async with beginning(server) as client:
        with pytest.raises(UnusableReply, match="other redirects"):
            await client.call_tool("bake")
    assert server.calls() == 1 + ClientConfig().max_redirects


# Encodings and sizes


def deflated(body: bytes) -> bytes:
    """The body without the header of zlib, which HTTP servers are known to leave out."""
    packed = zlib.compressobj(wbits=-15)
    return packed.compress(body) + packed.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", deflated)]
)
async def test_a_response_is_compressed_only_in_a_way_that_the_client_accepts(
    http_client: HttpClient, recording: Calling, beginning: Calling, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    def respond(request: Request) -> bytes:
        body = encode(result(request, "x" * 10_000))
        if encoding not in request.headers.get("accept-encoding", ""):
            return json_reply(body)
        return plain(200, "Content-Type: application/json", f"Content-Encoding: {encoding}", body=pack(body))

    async with beginning(recording(respond)) as client:
        assert (await client.call_tool("bake")).content[0].text == "x" * 10_000


async def test_megabytes_go_either_way(http_client: HttpClient, recording: Calling, beginning: Calling) -> None:
    text = "x" * (3 * 2**20)

    def respond(request: Request) -> bytes:
        return json_reply(result(request, request.message["params"]["arguments"]["text"]))

    async with beginning(recording(respond)) as client:
        assert (await client.call_tool("echo", {"text": text})).content[0].text == text


# Many at once


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_questions_leave_connections_for_their_answers(
    http_client: HttpClient, world: World, serve: Calling, calling: Calling, version: str
) -> None:
    """More calls that wait for an answer, each on a connection of its own, than libraries have connections."""

    def build(event: Any) -> Registry:
        registry = Registry("asking", "1")

        @registry.tool
        async def confirm(ex: Exchange) -> str:
            """Ask."""
            return (await ex.ask("sure", elicit("Sure?"))).action

        return registry

    asked: list[JSON] = []
    all_asked = Flag()

    async def on_ask(request: JSON) -> JSON:
        asked.append(request)
        if len(asked) == 90:
            all_asked.set()
        await all_asked.wait()
        return elicit_accept()

    config = ClientConfig(max_questions=200)
    async with calling(serve(build), version, on_ask=on_ask, config=config) as client:
        said = await world.gather(*[partial(client.call_tool, "confirm")] * 90)
    assert {one.content[0].text for one in said} == {"accept"}

"""aiohttp's own sessions, which the caller may lend to a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import speak
from by_hand import Request, json_reply, plain, result
from callers import Client, calling, listening
from mcp_sansio import (
    ConnectionLost,
    Known,
    Registry,
    ServerError,
)
from sockets import ClientSession, ClientTimeout, CookieJar, Endpoint, TCPConnector, serving

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


async def test_headers_are_read_as_utf_8() -> None:
    """aiohttp reads them so as well, and there are servers that redirect to such letters as they are."""

    def respond(request: Request) -> bytes:
        elsewhere = b"HTTP/1.1 307 Elsewhere\r\nLocation: /n\xc3\xa9\r\nContent-Length: 0\r\n\r\n"
        return done(request) if request.path == "/n%C3%A9" else elsewhere

    async with answering(respond) as (client, requests):
        await client.call_tool("bake")
    assert [request.path for request in requests] == ["/mcp", "/n%C3%A9"]


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

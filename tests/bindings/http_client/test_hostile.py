"""Servers that lie, stop, trickle, flood and vanish, on raw sockets, in front of a client.

Whatever they do, a call ends with a result or with an error that says what was wrong; it ends in time; the next call
works; and no task and no connection is left of it.
"""

from __future__ import annotations

import gc
import gzip
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import speak
from by_hand import Accepted, Request, event_stream, json_reply, plain, result
from flags import Flag, turn
from mcp_sansio import CallTimeout, ClientConfig, ConnectionLost, Known, McpError, ServerError, UnusableReply
from mcp_sansio.types import CallToolResult
from plugs import HttpClient
from worlds import World

Calling = Callable[..., Any]
NEWEST, OLDER = speak.VERSIONS[:2]
MIB = 2**20
LIMITS = ClientConfig(max_message=MIB, timeout=5.0)
IMPATIENT = ClientConfig(max_message=MIB, timeout=0.2)

OK = b"HTTP/1.1 200 OK\r\n"
JSON_TYPE = b"Content-Type: application/json\r\n"
CHUNKED = OK + JSON_TYPE + b"Transfer-Encoding: chunked\r\n\r\n"
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 99, "progress": 1}}
BOMB = gzip.compress(bytes(16 * MIB), 1)

Misbehave = Callable[[Request, Accepted], None]


def sending(data: bytes, end: str = "close") -> Misbehave:
    """Send that, and close the connection, reset it, or keep it."""

    def misbehave(request: Request, connection: Accepted) -> None:
        connection.send(data)
        if end == "close":
            connection.close()
        elif end == "reset":
            connection.reset()

    return misbehave


def repeating(piece: bytes, head: bytes = b"", pause: float = 0.0) -> Misbehave:
    """Send that until the client leaves."""

    def misbehave(request: Request, connection: Accepted) -> None:
        connection.send(head)
        while not connection.can_be_read(pause):
            connection.send(piece)
        connection.close()

    return misbehave


def silent(request: Request, connection: Accepted) -> None:
    """Keep the connection, and say nothing."""


def trickling(request: Request, connection: Accepted) -> None:
    """The right response, slower than anybody waits."""
    for byte in json_reply(result(request)):
        if connection.can_be_read(0.02):
            return
        connection.send(bytes([byte]))


def encoded(encoding: str, body: bytes) -> bytes:
    """A response of that encoding."""
    return plain(200, "Content-Type: application/json", f"Content-Encoding: {encoding}", body=body)


#: What a server does instead of answering, and what the call ends with.
LOST: dict[str, Misbehave] = {
    "closes": sending(b""),
    "resets": sending(b"", "reset"),
    "is no HTTP server": sending(b"220 mail.example ESMTP\r\n"),
    "ends within the body": sending(OK + JSON_TYPE + b'Content-Length: 50\r\n\r\n{"jsonrpc":'),
    "resets within the body": sending(OK + JSON_TYPE + b'Content-Length: 50\r\n\r\n{"jsonrpc":', "reset"),
    "ends within a chunk": sending(CHUNKED + b"5\r\n{}"),
    "ends before the last chunk": sending(CHUNKED + b"2\r\n{}\r\n"),
    "has a chunk of no size": sending(CHUNKED + b"zz\r\n{}", "keep"),
    "has two lengths": sending(OK + JSON_TYPE + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "keep"),
    "has an endless head": repeating(b"X-A: b\r\n", OK),
    "has an endless header": repeating(b"x" * 1000, OK + b"X-A: "),
    "has an endless first line": repeating(b"x" * 1000, b"HTTP/1.1 200 "),
    "ends its stream": sending(event_stream()),
    "ends its stream after something else": sending(event_stream(PROGRESS)),
    "resets its stream": sending(event_stream(PROGRESS), "reset"),
    "ends within an event": sending(event_stream() + b'data: {"jsonrpc":'),
}
#: Heads that some libraries take for whole ones.
FAULTY: dict[str, Misbehave] = {
    "ends within the head": sending(OK + b"Content-"),
    "has a negative length": sending(OK + JSON_TYPE + b"Content-Length: -2\r\n\r\n{}", "keep"),
}
UNUSABLE: dict[str, Misbehave] = {
    "is empty": sending(plain(200, "Content-Type: application/json"), "keep"),
    "has no content": sending(b"HTTP/1.1 204 No Content\r\n\r\n", "keep"),
    "is a page": sending(plain(200, "Content-Type: text/html", body=b"<p>Welcome!"), "keep"),
    "is of a type that is none": sending(plain(200, "Content-Type: ;;;=", body=b"{}"), "keep"),
    "is no JSON": sending(json_reply(b"{'jsonrpc'}"), "keep"),
    "is not in UTF-8": sending(json_reply(b'{"jsonrpc":"2.0","id":1,"result":"\xff"}'), "keep"),
    "is deep": sending(json_reply(b"[" * 100_000 + b"]" * 100_000), "keep"),
    "is for somebody else": sending(json_reply({"jsonrpc": "2.0", "id": 999, "result": {}}), "keep"),
    "is no message": sending(json_reply({"hello": "world"}), "keep"),
    "is long": sending(OK + JSON_TYPE + b"Content-Length: 100000000\r\n\r\n" + b"x" * (2 * MIB), "keep"),
    "is endless": repeating(b"10000\r\n" + b"x" * 0x10000 + b"\r\n", CHUNKED),
    "is a bomb": sending(encoded("gzip", BOMB), "keep"),
    "leads elsewhere": sending(plain(307, "Location: http://evil.example/mcp"), "keep"),
    "leads in a circle": sending(plain(307, "Location: /mcp"), "keep"),
}
ODD: dict[str, Misbehave] = {
    "has an encoding that is none": sending(encoded("gzip", b"nothing of the kind"), "keep"),
    "upgrades": sending(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
}
LATE: dict[str, Misbehave] = {
    "is silent": silent,
    "trickles": trickling,
    "only says that it is there": repeating(b": hello\n\n", event_stream(), 0.01),
    "floods with comments": repeating(b": hello\n\n" * 1000, event_stream()),
    "floods with messages": repeating(event_stream(*[PROGRESS] * 100).partition(b"\r\n\r\n")[2], event_stream()),
    "sends an endless event": repeating(b"data: " + b"x" * 100_000, event_stream()),
    "sends an endless line": repeating(b"x" * 100_000, event_stream()),
    "always asks for more": repeating(b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.01),
    "floods with that": repeating(b"HTTP/1.1 100 Continue\r\n\r\n"),
}


class Fickle:
    """A server that answers, or misbehaves, as it is told, and a client of it."""

    def __init__(self, misbehave: Misbehave, listen: Calling, calling: Calling, config: ClientConfig) -> None:
        self._misbehave = misbehave
        self._is_good = True
        self.client = calling(listen(self._answer), NEWEST, known=Known(NEWEST), config=config)

    def _answer(self, request: Request, connection: Accepted) -> None:
        if self._is_good or request.message["method"] != "tools/call":
            connection.send(json_reply(result(request)))
        else:
            self._misbehave(request, connection)

    async def provoked(self) -> McpError:
        """The error of a call to the server that misbehaves. Calls work before and after it."""
        async with self.client as client:
            await works(client)
            self._is_good = False
            with pytest.raises(McpError) as error:
                await client.call_tool("any")
            self._is_good = True
            await works(client)
        return error.value


@pytest.fixture
def fickle(listen: Calling, calling: Calling) -> Calling:
    """Makes a `Fickle` server and its client."""
    return lambda misbehave, config: Fickle(misbehave, listen, calling, config)


async def works(client: Any) -> None:
    """A call is answered, in more time than the client of a server that is late has."""
    said = await client.call_tool("any", timeout=LIMITS.timeout)
    assert isinstance(said, CallToolResult)
    assert not said.is_error


@pytest.mark.parametrize("how", LOST)
async def test_a_server_that_is_lost_is_said_so(http_client: HttpClient, fickle: Calling, how: str) -> None:
    error = await fickle(LOST[how], LIMITS).provoked()
    assert isinstance(error, ConnectionLost), error
    assert "tools/call" in str(error)
    assert len(str(error)) < 600
    assert "\n" not in str(error)


@pytest.mark.wants("http")
@pytest.mark.parametrize("how", FAULTY)
async def test_a_head_that_is_faulty_is_a_server_that_is_lost(
    http_client: HttpClient, fickle: Calling, how: str
) -> None:
    error = await fickle(FAULTY[how], LIMITS).provoked()
    assert isinstance(error, ConnectionLost), error
    assert "tools/call" in str(error)
    assert len(str(error)) < 600
    assert "\n" not in str(error)


@pytest.mark.parametrize("how", UNUSABLE)
async def test_a_response_that_cannot_be_used_is_said_so(http_client: HttpClient, fickle: Calling, how: str) -> None:
    error = await fickle(UNUSABLE[how], LIMITS).provoked()
    assert isinstance(error, UnusableReply), error
    assert len(str(error)) < 600


@pytest.mark.parametrize("how", ODD)
async def test_a_response_that_http_itself_forbids_is_said_so(
    http_client: HttpClient, fickle: Calling, how: str
) -> None:
    """By the HTTP library, or, where that lets it through, by who reads what is no JSON."""
    error = await fickle(ODD[how], LIMITS).provoked()
    assert isinstance(error, ConnectionLost | UnusableReply), error


@pytest.mark.parametrize("how", LATE)
async def test_a_server_that_takes_too_long_is_given_up(http_client: HttpClient, fickle: Calling, how: str) -> None:
    """A library may be sooner to have had enough: Python's http.client is, since 3.14, of interim responses."""
    error = await fickle(LATE[how], IMPATIENT).provoked()
    assert isinstance(error, CallTimeout) or "interim responses" in str(error), error


@pytest.mark.parametrize("status", [300, 304, 400, 402, 403, 404, 405, 409, 418, 429, 500, 502, 503, 599, 999])
async def test_a_status_of_any_kind_is_said(http_client: HttpClient, fickle: Calling, status: int) -> None:
    body = b"<html>\n<p>Something  went wrong, " + b"x" * (2 * MIB)
    said = b"" if status == 304 else body
    error = await fickle(sending(plain(status, "Content-Type: text/html", body=said), "keep"), LIMITS).provoked()
    assert isinstance(error, ServerError), error
    assert error.status == status
    assert len(error.message) < 600


async def test_garbage_after_a_response_touches_neither_that_call_nor_the_next(
    http_client: HttpClient, listen: Calling, calling: Calling
) -> None:
    """It ends the connection."""
    is_good = False
    was_read, arrived = Flag(), Flag()

    def answer(request: Request, connection: Accepted) -> None:
        connection.send(json_reply(result(request)))
        if not is_good:
            was_read.seen()
            connection.send(b"garbage\r\n\r\n" * 10)
            arrived.set()

    async with calling(listen(answer), NEWEST, known=Known(NEWEST), config=LIMITS) as client:
        await works(client)
        was_read.set()
        await arrived.wait()
        for _ in range(5):
            await turn()
        is_good = True
        await works(client)


async def test_a_response_may_come_before_the_request_was_read(
    http_client: HttpClient, accept: Calling, calling: Calling
) -> None:
    def converse(connection: Accepted) -> None:
        connection.until(b"\r\n\r\n")
        connection.send(plain(413, "Connection: close", body=b"too much"))
        connection.reset()

    async with calling(accept(converse), NEWEST, known=Known(NEWEST), config=LIMITS) as client:
        with pytest.raises((ServerError, ConnectionLost)):
            await client.call_tool("any", {"text": "x" * (8 * MIB)})


@pytest.mark.parametrize("version", [NEWEST, OLDER, None])
@pytest.mark.parametrize("how", ["closes", "resets", "is no HTTP server", "has an endless head"])
async def test_a_server_that_never_says_what_it_is_is_lost(
    http_client: HttpClient, listen: Calling, calling: Calling, how: str, version: str | None
) -> None:
    async with calling(listen(LOST[how]), version, config=LIMITS) as client:
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                await client.call_tool("any")


@pytest.mark.parametrize("version", [NEWEST, OLDER, None])
async def test_a_server_that_is_silent_about_what_it_is_is_given_up(
    http_client: HttpClient, listen: Calling, calling: Calling, version: str | None
) -> None:
    config = ClientConfig(timeout=0.3, probe_timeout=0.1)
    async with calling(listen(silent), version, config=config) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("any")


async def test_five_hundred_calls_of_which_some_fail_come_each_to_its_own_end(
    http_client: HttpClient, world: World, listen: Calling, calling: Calling
) -> None:
    def answer(request: Request, connection: Accepted) -> None:
        number = request.message["params"]["arguments"].get("number", 0)
        if number % 5 == 1:
            connection.reset()
        elif number % 5 == 2:
            connection.send(plain(503, body=b"busy"))
        elif number % 5 == 3:
            connection.send(json_reply(b"{"))
        else:
            connection.send(json_reply(result(request, str(number))))

    def expected(number: int, got: Any) -> bool:
        kinds = {1: ConnectionLost, 2: ServerError, 3: UnusableReply}
        kind = kinds.get(number % 5)
        return isinstance(got, kind) if kind else got.content[0].text == str(number)

    async with calling(listen(answer), NEWEST, known=Known(NEWEST)) as client:
        await works(client)
        calls = (partial(client.call_tool, "any", {"number": number}) for number in range(500))
        got = await world.gather(*calls)
    assert [number for number, one in enumerate(got) if not expected(number, one)] == []


@pytest.mark.parametrize("how", ["is a bomb", "is endless", "is long"])
async def test_what_is_too_large_is_not_kept(http_client: HttpClient, fickle: Calling, how: str) -> None:
    await fickle(UNUSABLE[how], LIMITS).provoked()  # whatever is imported and cached on the way
    gc.collect()
    tracemalloc.start()
    try:
        await fickle(UNUSABLE[how], LIMITS).provoked()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB


async def test_a_stream_that_goes_on_after_its_result_is_closed(
    http_client: HttpClient, listen: Calling, calling: Calling
) -> None:
    """The connection is not kept for ever."""
    ended = Flag()

    def answer(request: Request, connection: Accepted) -> None:
        connection.send(event_stream(result(request)))
        try:
            while not connection.can_be_read(0.01):
                connection.send(b": still here\n\n")
        finally:
            ended.set()
        connection.close()

    config = ClientConfig(linger=0.05)
    async with calling(listen(answer), NEWEST, known=Known(NEWEST), config=config) as client:
        await works(client)
        await ended.wait()

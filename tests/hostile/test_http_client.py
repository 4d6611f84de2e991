"""Servers that lie, stop, trickle, flood and vanish, on raw sockets, in front of the aiohttp binding's client.

Whatever they do, a call ends with a result or with an error that says what was wrong; it ends in time; the next call
works; and no task and no connection is left of it.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import speak
from callers import Client, Request, calling, event_stream, json_reply, listening, plain, reset, result
from mcp_sansio import CallTimeout, ClientConfig, ConnectionLost, Known, McpError, ServerError, UnusableReply
from mcp_sansio.types import CallToolResult

NEWEST, OLDER = speak.VERSIONS[:2]
MIB = 2**20
LIMITS = ClientConfig(max_message=MIB, timeout=5.0)
IMPATIENT = ClientConfig(max_message=MIB, timeout=0.2)

OK = b"HTTP/1.1 200 OK\r\n"
JSON_TYPE = b"Content-Type: application/json\r\n"
CHUNKED = OK + JSON_TYPE + b"Transfer-Encoding: chunked\r\n\r\n"
PROGRESS = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 99, "progress": 1}}
BOMB = gzip.compress(bytes(16 * MIB), 1)

Misbehave = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


def sending(data: bytes, end: str = "close") -> Misbehave:
    """Send that, and close the connection, reset it, or keep it."""

    async def misbehave(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()
        if end == "close":
            writer.close()
        elif end == "reset":
            reset(writer)

    return misbehave


def repeating(piece: bytes, head: bytes = b"", pause: float = 0.0) -> Misbehave:
    """Send that for ever."""

    async def misbehave(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return misbehave


async def silent(request: Request, writer: asyncio.StreamWriter) -> None:
    """Keep the connection, and say nothing."""


async def trickling(request: Request, writer: asyncio.StreamWriter) -> None:
    """The right response, slower than anybody waits."""
    for byte in json_reply(result(request)):
        if writer.is_closing():
            return
        writer.write(bytes([byte]))
        await asyncio.sleep(0.02)


def encoded(encoding: str, body: bytes) -> bytes:
    """A response of that encoding."""
    return plain(200, "Content-Type: application/json", f"Content-Encoding: {encoding}", body=body)


#: What a server does instead of answering, and what the call ends with.
LOST: dict[str, Misbehave] = {
    "closes": sending(b""),
    "resets": sending(b"", "reset"),
    "is no HTTP server": sending(b"220 mail.example ESMTP\r\n"),
    "ends within the head": sending(OK + b"Content-"),
    "ends within the body": sending(OK + JSON_TYPE + b'Content-Length: 50\r\n\r\n{"jsonrpc":'),
    "resets within the body": sending(OK + JSON_TYPE + b'Content-Length: 50\r\n\r\n{"jsonrpc":', "reset"),
    "ends within a chunk": sending(CHUNKED + b"5\r\n{}"),
    "ends before the last chunk": sending(CHUNKED + b"2\r\n{}\r\n"),
    "has a chunk of no size": sending(CHUNKED + b"zz\r\n{}", "keep"),
    "has a negative length": sending(OK + JSON_TYPE + b"Content-Length: -2\r\n\r\n{}", "keep"),
    "has two lengths": sending(OK + JSON_TYPE + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "keep"),
    "has an endless head": repeating(b"X-A: b\r\n", OK),
    "has an endless header": repeating(b"x" * 1000, OK + b"X-A: "),
    "has an endless first line": repeating(b"x" * 1000, b"HTTP/1.1 200 "),
    "has an encoding that is none": sending(encoded("gzip", b"nothing of the kind"), "keep"),
    "ends its stream": sending(event_stream()),
    "ends its stream after something else": sending(event_stream(PROGRESS)),
    "resets its stream": sending(event_stream(PROGRESS), "reset"),
    "ends within an event": sending(event_stream() + b'data: {"jsonrpc":'),
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
    "upgrades": sending(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
    "leads elsewhere": sending(plain(307, "Location: http://evil.example/mcp"), "keep"),
    "leads in a circle": sending(plain(307, "Location: /mcp"), "keep"),
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


async def provoked(misbehave: Misbehave, config: ClientConfig) -> McpError:
    """The error of a call to a server that misbehaves until it was called. Calls work before and after it."""
    is_good = True

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if is_good or request.message["method"] != "tools/call":
            writer.write(json_reply(result(request)))
        else:
            await misbehave(request, writer)

    async with listening(answer) as url, calling(url, NEWEST, known=Known(NEWEST), config=config) as client:
        await works(client)
        is_good = False
        with pytest.raises(McpError) as error:
            await client.call_tool("any")
        is_good = True
        await works(client)
    return error.value


async def works(client: Client) -> None:
    """A call is answered."""
    said = await client.call_tool("any")
    assert isinstance(said, CallToolResult)
    assert not said.is_error


@pytest.mark.parametrize("how", LOST)
async def test_a_server_that_is_lost(how: str) -> None:
    error = await provoked(LOST[how], LIMITS)
    assert isinstance(error, ConnectionLost), error
    assert "tools/call" in str(error)
    assert len(str(error)) < 600
    assert "\n" not in str(error)


@pytest.mark.parametrize("how", UNUSABLE)
async def test_a_response_that_cannot_be_used(how: str) -> None:
    error = await provoked(UNUSABLE[how], LIMITS)
    assert isinstance(error, UnusableReply), error
    assert len(str(error)) < 600


@pytest.mark.parametrize("how", LATE)
async def test_a_server_that_takes_too_long(how: str) -> None:
    error = await provoked(LATE[how], IMPATIENT)
    assert isinstance(error, CallTimeout), error


@pytest.mark.parametrize("status", [300, 304, 400, 402, 403, 404, 405, 409, 418, 429, 500, 502, 503, 599, 999])
async def test_a_status_of_any_kind(status: int) -> None:
    body = b"<html>\n<p>Something  went wrong, " + b"x" * (2 * MIB)
    said = b"" if status == 304 else body
    error = await provoked(sending(plain(status, "Content-Type: text/html", body=said), "keep"), LIMITS)
    assert isinstance(error, ServerError), error
    assert error.status == status
    assert len(error.message) < 600


async def test_a_response_that_is_followed_by_garbage_is_one() -> None:
    """What comes after a response ends the connection, and touches neither that call nor the next."""
    is_good = False

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(json_reply(result(request)))
        await writer.drain()
        if not is_good:
            await asyncio.sleep(0.05)
            writer.write(b"garbage\r\n\r\n" * 10)

    async with listening(answer) as url, calling(url, NEWEST, known=Known(NEWEST), config=LIMITS) as client:
        await works(client)
        await asyncio.sleep(0.1)
        is_good = True
        await works(client)


async def test_a_response_before_the_request_was_read() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(plain(413, "Connection: close", body=b"too much"))
        await writer.drain()
        reset(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, calling(f"http://{host}:{port}", NEWEST, known=Known(NEWEST), config=LIMITS) as client:
        with pytest.raises((ServerError, ConnectionLost)):
            await client.call_tool("any", {"text": "x" * (8 * MIB)})


@pytest.mark.parametrize("version", [NEWEST, OLDER, None])
@pytest.mark.parametrize("how", ["closes", "resets", "is no HTTP server", "has an endless head"])
async def test_a_server_that_never_says_what_it_is(how: str, version: str | None) -> None:
    async with listening(LOST[how]) as url, calling(url, version, config=LIMITS) as client:
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                await client.call_tool("any")


@pytest.mark.parametrize("version", [NEWEST, OLDER, None])
async def test_a_server_that_is_silent_about_what_it_is(version: str | None) -> None:
    config = ClientConfig(timeout=0.3, probe_timeout=0.1)
    async with listening(silent) as url, calling(url, version, config=config) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("any")


async def test_five_hundred_calls_of_which_some_fail() -> None:
    """Each comes to its own end."""

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        number = request.message["params"]["arguments"].get("number", 0)
        if number % 5 == 1:
            reset(writer)
        elif number % 5 == 2:
            writer.write(plain(503, body=b"busy"))
        elif number % 5 == 3:
            writer.write(json_reply(b"{"))
        else:
            writer.write(json_reply(result(request, str(number))))

    def expected(number: int, got: Any) -> bool:
        kinds = {1: ConnectionLost, 2: ServerError, 3: UnusableReply}
        kind = kinds.get(number % 5)
        return isinstance(got, kind) if kind else got.content[0].text == str(number)

    async with listening(answer) as url, calling(url, NEWEST, known=Known(NEWEST)) as client:
        await works(client)
        calls = (client.call_tool("any", {"number": number}) for number in range(500))
        got = await asyncio.gather(*calls, return_exceptions=True)
    assert [number for number, one in enumerate(got) if not expected(number, one)] == []


@pytest.mark.parametrize("how", ["is a bomb", "is endless", "is long"])
async def test_what_is_too_large_is_not_kept(how: str) -> None:
    await provoked(UNUSABLE[how], LIMITS)  # whatever is imported and cached on the way
    gc.collect()
    tracemalloc.start()
    try:
        await provoked(UNUSABLE[how], LIMITS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * MIB


async def test_a_stream_that_is_never_read_to_its_end_is_closed() -> None:
    """A response whose stream goes on after the result: the connection is not kept for ever."""
    ended = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(event_stream(result(request)))
        try:
            while not writer.is_closing():
                writer.write(b": still here\n\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            ended.set()

    config = ClientConfig(linger=0.05)
    async with listening(answer) as url, calling(url, NEWEST, known=Known(NEWEST), config=config) as client:
        await works(client)
        await ended.wait()

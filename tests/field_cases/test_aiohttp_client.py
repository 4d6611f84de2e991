"""The cases of a client that only sockets and tasks show: what the aiohttp binding does with them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import speak
from callers import Client, Request, baking, calling, event_stream, json_reply, listening, plain, reset, result
from mcp_sansio import CallTimeout, ClientConfig, ConnectionLost, Known, NegotiationFailed, UnusableReply

NEWEST = speak.VERSIONS[0]
MIB = 2**20


async def prices(client: Client) -> str:
    """What the bakery says."""
    said: Any = await client.call_tool("price", {"loaves": 1})
    return str(said.content[0].text)


async def test_case_21_a_redirect_takes_no_token_to_another_place() -> None:
    elsewhere: list[Request] = []

    async def other(request: Request, writer: asyncio.StreamWriter) -> None:
        elsewhere.append(request)
        writer.write(json_reply(result(request)))

    async with listening(other) as target:

        async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
            writer.write(plain(307, f"Location: {target}/mcp"))

        secret = {"Authorization": "Bearer secret"}
        async with listening(answer) as url, calling(url, NEWEST, known=Known(NEWEST), headers=secret) as client:
            with pytest.raises(UnusableReply, match="another origin"):
                await client.call_tool("any")
    assert elsewhere == []


@pytest.mark.parametrize("version", speak.VERSIONS[:2])
@pytest.mark.parametrize("kind", ["json", "stream"])
async def test_case_28_an_endless_response_ends_one_call_on_every_path(version: str, kind: str) -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head if kind == "json" else event_stream() + b"data: ")
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n" if kind == "json" else b"x" * 0x10000
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()

    config = ClientConfig(max_message=MIB, timeout=0.5)
    async with listening(answer) as url, calling(url, version, config=config) as client:
        with pytest.raises((UnusableReply, NegotiationFailed, CallTimeout)):
            await client.call_tool("any")


@pytest.mark.parametrize("events", [0, 1])
@pytest.mark.parametrize("end", ["closed", "reset"])
async def test_case_36_a_stream_that_ends_without_a_response_fails_its_call(events: int, end: str) -> None:
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hello"}}

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(event_stream(*[log] * events))
        await writer.drain()
        reset(writer) if end == "reset" else writer.close()

    async with listening(answer) as url, calling(url, NEWEST, known=Known(NEWEST)) as client:
        with pytest.raises(ConnectionLost, match="tools/call"):
            await client.call_tool("any")


async def test_case_70_an_answer_after_the_time_is_up_breaks_nothing() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.message["params"]["name"] == "slow":
            await asyncio.sleep(0.1)
        writer.write(json_reply(result(request)))

    async with listening(answer) as url, calling(url, NEWEST, known=Known(NEWEST)) as client:
        with pytest.raises(CallTimeout):
            await client.call_tool("slow", timeout=0.05)
        await asyncio.sleep(0.1)
        assert (await client.call_tool("quick")).content[0].text == "done"


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_case_75_clients_are_closed_in_any_order_and_by_any_task(version: str) -> None:
    async with baking() as site:
        first = await calling(site, version).__aenter__()
        second = await calling(site, version).__aenter__()
        assert await prices(first) == await prices(second)
        await first.close()
        assert await prices(second) == "4 euros"
        await asyncio.create_task(second.close())


@pytest.mark.parametrize("version", [*speak.VERSIONS, None])
async def test_case_75_a_connection_that_fails_is_raised_plainly(version: str | None) -> None:
    async def block() -> None:
        async with calling("http://127.0.0.1:9", version) as client:
            await client.call_tool("any")

    with pytest.raises(ConnectionLost) as failed:
        await block()
    assert isinstance(failed.value.__cause__, OSError)


@pytest.mark.parametrize("version", [*speak.VERSIONS, None])
async def test_case_75_a_client_is_cancelled_while_it_connects(version: str | None) -> None:
    asked = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        asked.set()  # and says nothing

    async with listening(answer) as url:

        async def block() -> None:
            async with calling(url, version) as client:
                await client.call_tool("any")

        connecting = asyncio.create_task(block())
        await asked.wait()
        connecting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await connecting

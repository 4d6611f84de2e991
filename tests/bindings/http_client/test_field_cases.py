"""The cases of a client that only sockets and tasks show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import bakery
import speak
from by_hand import Accepted, Request, event_stream, json_reply, plain, result
from flags import EVER_LONGER, Flag
from mcp_sansio import CallTimeout, ClientConfig, ConnectionLost, Known, NegotiationFailed, UnusableReply
from plugs import HttpClient
from worlds import CANCELLED, World

Calling = Callable[..., Any]
NEWEST = speak.VERSIONS[0]
MIB = 2**20


async def price(client: Any) -> str:
    """What the bakery says."""
    return str((await client.call_tool("price", {"loaves": 1})).content[0].text)


async def test_case_21_a_redirect_takes_no_token_to_another_place(
    http_client: HttpClient, listen: Calling, calling: Calling
) -> None:
    elsewhere: list[Request] = []

    def other(request: Request, connection: Accepted) -> None:
        elsewhere.append(request)
        connection.send(json_reply(result(request)))

    target = listen(other)

    def answer(request: Request, connection: Accepted) -> None:
        connection.send(plain(307, f"Location: {target}/mcp"))

    secret = {"Authorization": "Bearer secret"}
    async with calling(listen(answer), NEWEST, known=Known(NEWEST), headers=secret) as client:
        with pytest.raises(UnusableReply, match="another origin"):
            await client.call_tool("any")
    assert elsewhere == []


@pytest.mark.parametrize("version", speak.VERSIONS[:2])
@pytest.mark.parametrize("kind", ["json", "stream"])
async def test_case_28_an_endless_response_ends_one_call_on_every_path(
    http_client: HttpClient, listen: Calling, calling: Calling, version: str, kind: str
) -> None:
    def answer(request: Request, connection: Accepted) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.send(head if kind == "json" else event_stream() + b"data: ")
        piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n" if kind == "json" else b"x" * 0x10000
        while True:
            connection.send(piece)

    config = ClientConfig(max_message=MIB, timeout=0.5)
    async with calling(listen(answer), version, config=config) as client:
        with pytest.raises((UnusableReply, NegotiationFailed, CallTimeout)):
            await client.call_tool("any")


@pytest.mark.parametrize("events", [0, 1])
@pytest.mark.parametrize("end", ["closed", "reset"])
async def test_case_36_a_stream_that_ends_without_a_response_fails_its_call(
    http_client: HttpClient, listen: Calling, calling: Calling, events: int, end: str
) -> None:
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hello"}}

    def answer(request: Request, connection: Accepted) -> None:
        connection.send(event_stream(*[log] * events))
        connection.reset() if end == "reset" else connection.close()

    async with calling(listen(answer), NEWEST, known=Known(NEWEST)) as client:
        with pytest.raises(ConnectionLost, match="tools/call"):
            await client.call_tool("any")


async def test_case_70_an_answer_after_the_time_is_up_breaks_nothing(
    http_client: HttpClient, listen: Calling, calling: Calling
) -> None:
    begun, given_up, answered = Flag(), Flag(), Flag()

    def answer(request: Request, connection: Accepted) -> None:
        if request.message["params"]["name"] == "slow":
            begun.set()
            given_up.seen()
            try:
                connection.send(json_reply(result(request)))
            finally:
                answered.set()
        else:
            connection.send(json_reply(result(request)))

    async with calling(listen(answer), NEWEST, known=Known(NEWEST)) as client:
        for timeout in EVER_LONGER:
            with pytest.raises(CallTimeout):
                await client.call_tool("slow", timeout=timeout)
            if begun.is_set:
                break
        given_up.set()
        await answered.wait()
        assert (await client.call_tool("quick")).content[0].text == "done"


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_case_75_clients_are_closed_in_any_order_and_by_any_task(
    http_client: HttpClient, world: World, serve: Calling, calling: Calling, version: str
) -> None:
    site = serve(bakery.build)
    async with calling(site, version) as first, calling(site, version) as second, world.tasks() as tasks:
        assert await price(first) == await price(second)
        await first.close()
        assert await price(second) == "4 euros"
        assert await tasks.start(second.close).outcome() is None


@pytest.mark.parametrize("version", [*speak.VERSIONS, None])
async def test_case_75_a_connection_that_fails_is_raised_plainly(
    http_client: HttpClient, calling: Calling, version: str | None
) -> None:
    async def block() -> None:
        async with calling("http://127.0.0.1:9", version) as client:
            await client.call_tool("any")

    with pytest.raises(ConnectionLost) as failed:
        await block()
    assert isinstance(failed.value.__cause__, OSError)


@pytest.mark.parametrize("version", [*speak.VERSIONS, None])
@pytest.mark.wants("cancel")
async def test_case_75_a_client_is_cancelled_while_it_connects(
    http_client: HttpClient, world: World, listen: Calling, calling: Calling, version: str | None
) -> None:
    asked = Flag()

    def answer(request: Request, connection: Accepted) -> None:
        asked.set()  # and says nothing

    url = listen(answer)

    async def block() -> None:
        async with calling(url, version) as client:
            await client.call_tool("any")

    async with world.tasks() as tasks:
        connecting = tasks.start(block)
        await asked.wait()
        connecting.cancel()
        assert await connecting.outcome() == CANCELLED

"""How calls and clients end where that is asyncio's: cancellations that are counted, clients that no block holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import speak
from callers import Client, calling
from mcp_sansio import (
    CallTimeout,
    ConnectionLost,
    Exchange,
    Registry,
)
from sockets import Endpoint, serving, web

NEWEST = speak.VERSIONS[0]
everyone = pytest.mark.parametrize("version", speak.VERSIONS)


@attrs.define
class Waiting:
    """A tool that waits, and what became of its calls."""

    registry: Registry
    begun: asyncio.Event
    given_up: asyncio.Event
    let_go: asyncio.Event


def waiting() -> Waiting:
    made = Waiting(Registry("waiting", "1"), asyncio.Event(), asyncio.Event(), asyncio.Event())

    @made.registry.tool
    async def wait(ex: Exchange) -> str:
        """Wait to be let go."""
        made.begun.set()
        try:
            await made.let_go.wait()
        except asyncio.CancelledError:
            made.given_up.set()
            raise
        return "waited"

    @made.registry.tool
    async def echo(text: str) -> str:
        """Give it back."""
        return text

    return made


async def echoes(client: Client, text: str = "hello") -> bool:
    """Whether a call works."""
    return (await client.call_tool("echo", {"text": text})).content[0].text == text


def pending() -> int:
    """How many cancellations of this task are still to arrive."""
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


@everyone
async def test_a_call_that_ends_early_leaves_its_caller_as_it_was(version: str) -> None:
    """Callers work on their requests themselves, and giving one up must not be taken for their own cancellation."""
    tool = waiting()
    async with serving(Endpoint(tool.registry).app()) as site, calling(site, version) as client:
        await client.initialize()
        async with asyncio.timeout(30):
            with pytest.raises(CallTimeout):
                await client.call_tool("wait", timeout=0.05)
            assert pending() == 0
            assert await echoes(client)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.call_tool("wait")
        assert pending() == 0
        assert await echoes(client)


async def test_closing_is_no_cancellation_of_the_callers() -> None:
    tool = waiting()
    counts: list[int] = []

    async def call(client: Client) -> None:
        with pytest.raises(ConnectionLost):
            await client.call_tool("wait")
        await asyncio.sleep(0)
        counts.append(pending())

    async with serving(Endpoint(tool.registry).app()) as site, calling(site, NEWEST) as client:
        callers = [asyncio.create_task(call(client)) for _ in range(3)]
        await tool.begun.wait()
        await client.close()
        await asyncio.gather(*callers)
        tool.let_go.set()
    assert counts == [0, 0, 0]


@everyone
async def test_what_one_task_opened_another_may_close(version: str) -> None:
    tool = waiting()
    async with serving(Endpoint(tool.registry).app()) as site:

        async def opened() -> Client:
            client = await calling(site, version).__aenter__()
            assert await echoes(client)
            return client

        first, second = [await asyncio.create_task(opened()) for _ in range(2)]
        await asyncio.create_task(first.close())
        assert await echoes(second)
        await asyncio.create_task(second.__aexit__(None, None, None))


@asynccontextmanager
async def restarting() -> AsyncIterator[tuple[str, Callable[[], Any]]]:
    """A server at one address, and what ends it and has another in its place."""
    runners: list[web.AppRunner] = []
    port = 0

    async def start() -> None:
        nonlocal port
        if runners:
            await runners.pop().cleanup()
        runners.append(web.AppRunner(Endpoint(waiting().registry).app(), access_log=None))
        await runners[0].setup()
        await web.TCPSite(runners[0], "127.0.0.1", port).start()
        port = runners[0].addresses[0][1]

    async with asyncio.timeout(30):
        await start()
        try:
            yield f"http://127.0.0.1:{port}", start
        finally:
            await runners.pop().cleanup()


@everyone
async def test_a_server_may_be_restarted_between_calls(version: str) -> None:
    async with restarting() as (url, restart), calling(url, version) as client:
        for _ in range(3):
            assert await echoes(client)
            await restart()
        assert await echoes(client)

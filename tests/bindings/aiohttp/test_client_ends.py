"""How calls and clients end: given up, timed out, closed, from another task, and with the server going away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import speak
from callers import Client, Request, calling, initialized, json_reply, listening, plain, result
from mcp_sansio import (
    CallTimeout,
    ClientConfig,
    Config,
    ConnectionLost,
    Exchange,
    MemorySessionStore,
    Registry,
    elicit,
    elicit_accept,
)
from sockets import Endpoint, serving, web

JSON = Any
NEWEST = speak.VERSIONS[0]
SESSIONS = [version for version in speak.HANDSHAKE if version != speak.VERSIONS[-1]]
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
    async def hurry(ex: Exchange, times: int) -> str:
        """Report that often, and wait then."""
        for number in range(times):
            await ex.progress(number)
            await asyncio.sleep(0.03)
        await made.let_go.wait()
        return "late"

    @made.registry.tool
    async def echo(text: str) -> str:
        """Give it back."""
        return text

    @made.registry.tool
    async def confirm(ex: Exchange) -> str:
        """Ask."""
        return (await ex.ask("sure", elicit("Sure?"))).action

    return made


async def echoes(client: Client, text: str = "hello") -> bool:
    """Whether a call works."""
    return (await client.call_tool("echo", {"text": text})).content[0].text == text


# Calls


@everyone
async def test_a_caller_that_is_cancelled_gives_its_call_up(version: str) -> None:
    tool = waiting()
    async with serving(Endpoint(tool.registry).app()) as site, calling(site, version) as client:
        caller = asyncio.create_task(client.call_tool("wait"))
        await tool.begun.wait()
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        await tool.given_up.wait()
        assert await echoes(client)


@everyone
async def test_a_call_that_takes_too_long_is_given_up(version: str) -> None:
    tool = waiting()
    async with serving(Endpoint(tool.registry).app()) as site, calling(site, version) as client:
        await client.initialize()
        with pytest.raises(CallTimeout, match="call_tool"):
            await client.call_tool("wait", timeout=0.05)
        await tool.given_up.wait()
        assert await echoes(client)


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


async def test_a_caller_that_is_cancelled_as_its_time_is_up_is_cancelled() -> None:
    tool = waiting()
    async with serving(Endpoint(tool.registry).app()) as site, calling(site, NEWEST) as client:
        await client.initialize()
        caller = asyncio.create_task(client.call_tool("wait"))
        await tool.begun.wait()
        caller.cancel()
        closing = asyncio.create_task(client.close())
        with pytest.raises(asyncio.CancelledError):
            await caller
        await closing


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


async def test_progress_gives_a_call_more_time_up_to_a_limit() -> None:
    tool = waiting()
    loop = asyncio.get_running_loop()
    async with serving(Endpoint(tool.registry).app()) as site, calling(site, NEWEST) as client:
        await client.initialize()
        began = loop.time()
        with pytest.raises(CallTimeout):
            await client.call_tool(
                "hurry", {"times": 1000}, timeout=0.15, max_timeout=0.5, on_progress=lambda *progress: None
            )
        assert loop.time() - began >= 0.5


async def test_a_deadline_that_is_sooner_than_the_one_before_is_kept() -> None:
    tool = waiting()
    async with serving(Endpoint(tool.registry).app()) as site, calling(site, NEWEST) as client:
        slow = asyncio.create_task(client.call_tool("wait"))
        await tool.begun.wait()
        with pytest.raises(CallTimeout):
            await client.call_tool("wait", timeout=0.05)
        tool.let_go.set()
        assert (await slow).content[0].text == "waited"


async def test_a_question_is_withdrawn_when_nobody_waits_for_its_answer() -> None:
    tool = waiting()
    asked, withdrawn = asyncio.Event(), asyncio.Event()

    async def on_ask(request: JSON) -> JSON:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            withdrawn.set()
            raise

    async with serving(Endpoint(tool.registry).app()) as site:
        for version in speak.VERSIONS[:3]:
            asked.clear()
            withdrawn.clear()
            async with calling(site, version, on_ask=on_ask) as client:
                caller = asyncio.create_task(client.call_tool("confirm"))
                await asked.wait()
                caller.cancel()
                await withdrawn.wait()
                assert await echoes(client)


# Closing


@everyone
async def test_closing_ends_what_is_in_flight(version: str) -> None:
    tool = waiting()
    async with serving(Endpoint(tool.registry).app()) as site:
        client = calling(site, version)
        caller = asyncio.create_task(client.call_tool("wait"))
        await tool.begun.wait()
        await client.close()
        with pytest.raises(ConnectionLost, match="closed"):
            await caller
        with pytest.raises(ConnectionLost, match="closed"):
            await client.ping()
        await client.close()
        tool.let_go.set()


async def test_a_client_that_was_never_used_has_nothing_to_close() -> None:
    async with Client("http://127.0.0.1:9/mcp"):
        pass
    await Client("http://127.0.0.1:9/mcp").close()


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


@everyone
async def test_an_exception_in_the_block_comes_out_plain(version: str) -> None:
    tool = waiting()
    async with serving(Endpoint(tool.registry).app()) as site:
        callers: list[asyncio.Task[Any]] = []

        async def block() -> None:
            async with calling(site, version) as client:
                callers.append(asyncio.create_task(client.call_tool("wait")))
                await tool.begun.wait()
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await block()
        with pytest.raises(ConnectionLost):
            await callers[0]
        tool.let_go.set()


async def test_a_callback_may_close_the_client() -> None:
    tool = waiting()
    closed = asyncio.Event()

    async def on_ask(request: JSON) -> JSON:
        await client.close()
        closed.set()
        return elicit_accept()

    async with serving(Endpoint(tool.registry).app()) as site:
        for version in speak.VERSIONS[:2]:
            client = calling(site, version, on_ask=on_ask)
            closed.clear()
            with pytest.raises(ConnectionLost):
                await client.call_tool("confirm")
            await closed.wait()


async def test_closing_may_be_cancelled() -> None:
    deleting = asyncio.Event()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "DELETE":
            deleting.set()
            await asyncio.sleep(0)
            return  # and no response
        writer.write(_handshake(request) or json_reply(result(request)))

    async with listening(answer) as url:
        client = calling(url, SESSIONS[0])
        await client.call_tool("any")
        closing = asyncio.create_task(client.close())
        await deleting.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing


async def test_a_server_that_never_ends_a_session_holds_nobody_up() -> None:
    deleted: list[str | None] = []

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "DELETE":
            deleted.append(request.headers.get("mcp-session-id"))
            return
        writer.write(_handshake(request) or json_reply(result(request)))

    config = ClientConfig(notice_timeout=0.05)
    async with listening(answer) as url, calling(url, SESSIONS[0], config=config) as client:
        await client.call_tool("any")
    assert deleted == ["abc"]


@pytest.mark.parametrize("version", SESSIONS)
async def test_the_session_is_ended(version: str) -> None:
    tool, store = waiting(), MemorySessionStore(clock=asyncio.get_running_loop().time)
    config = Config(deletable_sessions=True)
    async with serving(Endpoint(tool.registry, store=store, config=config).app()) as site:
        async with calling(site, version) as client:
            assert await echoes(client)
            assert len(store) == 1
        assert len(store) == 0


# The server


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


@pytest.mark.parametrize("version", SESSIONS)
async def test_a_session_that_is_gone_is_opened_anew_once_however_many_calls_find_out(version: str) -> None:
    keys: list[str] = []

    class Watched(MemorySessionStore):
        """Knows the sessions that were opened."""

        async def create(self, key: str, data: JSON, *, ttl: float) -> bool:
            keys.append(key)
            return await super().create(key, data, ttl=ttl)

    store = Watched(clock=asyncio.get_running_loop().time)
    async with serving(Endpoint(waiting().registry, store=store).app()) as site, calling(site, version) as client:
        assert await echoes(client)
        (first,) = keys
        await store.delete(first)
        said = await asyncio.gather(*(echoes(client, f"text {number}") for number in range(20)))
        assert all(said)
        assert len(keys) == 2


async def test_a_server_that_is_not_there_is_said_so() -> None:
    async with Client("http://127.0.0.1:9/mcp") as client:
        with pytest.raises(ConnectionLost, match=r"Cannot connect to host 127\.0\.0\.1:9"):
            await client.call_tool("any")


def _handshake(request: Request) -> bytes | None:
    """What a server by hand says to a handshake, and to what belongs to it."""
    if request.method == "GET":
        return plain(405)
    if request.message.get("method") == "initialize":
        return json_reply(initialized(request, SESSIONS[0]), "Mcp-Session-Id: abc")
    return plain(202) if "id" not in request.message else None

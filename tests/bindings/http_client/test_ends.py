"""How calls and clients end: given up, timed out, closed, from another task, and with the server going away."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import speak
from by_hand import Accepted, Request, event_stream, initialized, json_reply, plain, result
from flags import EVER_LONGER, Flag, turn
from hosting import until
from mcp_sansio import (
    CallTimeout,
    ClientConfig,
    Config,
    ConnectionLost,
    Exchange,
    Known,
    MemorySessionStore,
    Registry,
    elicit,
    elicit_accept,
)
from plugs import HttpClient
from worlds import CANCELLED, World

JSON = Any
Serve = Callable[..., Any]
Calling = Callable[..., Any]
NEWEST = speak.VERSIONS[0]
SESSIONS = [version for version in speak.HANDSHAKE if version != speak.VERSIONS[-1]]
everyone = pytest.mark.parametrize("version", speak.VERSIONS)
NOWHERE = "http://127.0.0.1:9"


class Waiting:
    """A server with a tool that waits, and what became of its calls."""

    def __init__(self, serve: Serve, **options: Any) -> None:
        self.begun, self.given_up = Flag(), Flag()
        self.site = serve(self._build, **options)

    def _build(self, event: Callable[[], Any]) -> Registry:
        registry, self._let_go = Registry("waiting", "1"), event()

        @registry.tool
        async def wait(ex: Exchange) -> str:
            """Wait to be let go."""
            self.begun.set()
            try:
                await self._let_go.wait()
            except BaseException:
                self.given_up.set()
                raise
            return "waited"

        @registry.tool
        async def echo(text: str) -> str:
            """Give it back."""
            return text

        @registry.tool
        async def confirm(ex: Exchange) -> str:
            """Ask."""
            return (await ex.ask("sure", elicit("Sure?"))).action

        return registry

    async def takes_too_long(self, client: Any) -> None:
        """A call that has begun, whose time is up."""
        for timeout in EVER_LONGER:
            with pytest.raises(CallTimeout, match="call_tool"):
                await client.call_tool("wait", timeout=timeout)
            if self.begun.is_set:
                return
        pytest.fail("no call begins")

    def let_go(self) -> None:
        """Have the calls of `wait` end."""
        self.site.do(self._let_go.set)


async def echoes(client: Any, text: str = "hello") -> bool:
    """Whether a call works."""
    return bool((await client.call_tool("echo", {"text": text})).content[0].text == text)


# Calls


@everyone
@pytest.mark.wants("cancel")
async def test_a_caller_that_is_cancelled_gives_its_call_up(
    http_client: HttpClient, world: World, serve: Serve, calling: Calling, version: str
) -> None:
    tool = Waiting(serve)
    async with calling(tool.site, version) as client, world.tasks() as tasks:
        caller = tasks.start(client.call_tool, "wait")
        await tool.begun.wait()
        caller.cancel()
        assert await caller.outcome() == CANCELLED
        await tool.given_up.wait()
        assert await echoes(client)


@everyone
async def test_a_call_that_takes_too_long_is_given_up(
    http_client: HttpClient, serve: Serve, calling: Calling, version: str
) -> None:
    tool = Waiting(serve)
    async with calling(tool.site, version) as client:
        await client.initialize()
        await tool.takes_too_long(client)
        await tool.given_up.wait()
        assert await echoes(client)


@everyone
@pytest.mark.wants("cancel")
async def test_a_block_whose_time_is_up_gives_its_call_up_and_nothing_else(
    http_client: HttpClient, world: World, serve: Serve, calling: Calling, version: str
) -> None:
    """Callers may work on their requests themselves, and giving one up is not their own cancellation."""
    tool = Waiting(serve)
    async with calling(tool.site, version) as client:
        await client.initialize()
        async with world.limit(30):
            with pytest.raises(CallTimeout):
                await client.call_tool("wait", timeout=0.05)
            assert await echoes(client)
        with pytest.raises(TimeoutError):
            async with world.limit(0.05):
                await client.call_tool("wait")
        assert await echoes(client)


@pytest.mark.wants("cancel")
async def test_a_caller_that_is_cancelled_as_the_client_is_closed_is_cancelled(
    http_client: HttpClient, world: World, serve: Serve, calling: Calling
) -> None:
    tool = Waiting(serve)
    async with calling(tool.site, NEWEST) as client, world.tasks() as tasks:
        await client.initialize()
        caller = tasks.start(client.call_tool, "wait")
        await tool.begun.wait()
        caller.cancel()
        closing = tasks.start(client.close)
        assert await caller.outcome() == CANCELLED
        assert await closing.outcome() is None


async def test_progress_gives_a_call_more_time_up_to_a_limit(
    http_client: HttpClient, listen: Calling, calling: Calling
) -> None:
    def answer(request: Request, connection: Accepted) -> None:
        token = request.message["params"]["_meta"]["progressToken"]
        connection.send(event_stream())
        for number in range(1000):
            params = {"progressToken": token, "progress": number}
            connection.send(event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
            if connection.can_be_read(0.03):
                return

    async with calling(listen(answer), NEWEST, known=Known(NEWEST)) as client:
        # A busy machine may hold one report up for longer than the shortest time.
        for timeout in (0.15, 0.5, 2.0):
            began, told = time.monotonic(), list[Any]()
            with pytest.raises(CallTimeout):
                await client.call_tool("any", timeout=timeout, max_timeout=4 * timeout, on_progress=partial(note, told))
            if time.monotonic() - began >= 4 * timeout:
                break
        else:
            pytest.fail("no call had more time")
    assert len(told) > 3


def note(told: list[Any], *report: Any) -> None:
    """Keep a report."""
    told.append(report)


def event(message: JSON) -> bytes:
    """A message on a stream."""
    return event_stream(message).partition(b"\r\n\r\n")[2]


async def test_a_deadline_that_is_sooner_than_the_one_before_is_kept(
    http_client: HttpClient, world: World, serve: Serve, calling: Calling
) -> None:
    tool = Waiting(serve)
    async with calling(tool.site, NEWEST) as client, world.tasks() as tasks:
        slow = tasks.start(client.call_tool, "wait")
        await tool.begun.wait()
        with pytest.raises(CallTimeout):
            await client.call_tool("wait", timeout=0.05)
        tool.let_go()
        assert (await slow.outcome()).content[0].text == "waited"


@pytest.mark.parametrize("version", speak.VERSIONS[:3])
@pytest.mark.wants("cancel")
async def test_a_question_is_withdrawn_when_nobody_waits_for_its_answer(
    http_client: HttpClient, world: World, serve: Serve, calling: Calling, version: str
) -> None:
    tool, asked, withdrawn = Waiting(serve), Flag(), Flag()

    async def on_ask(request: JSON) -> JSON:
        asked.set()
        try:
            await Flag().wait()
        except BaseException:
            withdrawn.set()
            raise

    async with calling(tool.site, version, on_ask=on_ask) as client, world.tasks() as tasks:
        caller = tasks.start(client.call_tool, "confirm")
        await asked.wait()
        caller.cancel()
        await withdrawn.wait()
        assert await echoes(client)


# Closing


@everyone
async def test_closing_ends_what_is_in_flight(
    http_client: HttpClient, world: World, serve: Serve, calling: Calling, version: str
) -> None:
    tool = Waiting(serve)
    async with calling(tool.site, version) as client, world.tasks() as tasks:
        caller = tasks.start(client.call_tool, "wait")
        await tool.begun.wait()
        await client.close()
        lost = await caller.outcome()
        assert isinstance(lost, ConnectionLost)
        assert "closed" in str(lost)
        with pytest.raises(ConnectionLost, match="closed"):
            await client.ping()
        await client.close()
    tool.let_go()


async def test_a_client_that_was_never_used_has_nothing_to_close(http_client: HttpClient) -> None:
    async with http_client.client(f"{NOWHERE}/mcp"):
        pass


@everyone
async def test_any_task_may_close_a_client_and_in_any_order(
    http_client: HttpClient, world: World, serve: Serve, calling: Calling, version: str
) -> None:
    tool = Waiting(serve)
    async with calling(tool.site, version) as first, calling(tool.site, version) as second, world.tasks() as tasks:
        assert await echoes(first)
        assert await echoes(second)
        assert await tasks.start(first.close).outcome() is None
        assert await echoes(second)
        assert await tasks.start(second.close).outcome() is None


@everyone
async def test_an_exception_in_the_block_comes_out_plain(
    http_client: HttpClient, world: World, serve: Serve, calling: Calling, version: str
) -> None:
    tool = Waiting(serve)
    async with world.tasks() as tasks:
        callers = []

        async def block() -> None:
            async with calling(tool.site, version) as client:
                callers.append(tasks.start(client.call_tool, "wait"))
                await tool.begun.wait()
                raise LookupError("mine")

        with pytest.raises(LookupError, match="mine"):
            await block()
        assert isinstance(await callers[0].outcome(), ConnectionLost)
    tool.let_go()


@pytest.mark.parametrize("version", speak.VERSIONS[:2])
async def test_a_callback_may_close_the_client(
    http_client: HttpClient, serve: Serve, calling: Calling, version: str
) -> None:
    tool, closed = Waiting(serve), Flag()

    async def on_ask(request: JSON) -> JSON:
        await turn()
        await client.close()
        closed.set()
        return elicit_accept()

    async with calling(tool.site, version, on_ask=on_ask) as client:
        with pytest.raises(ConnectionLost):
            await client.call_tool("confirm")
        await closed.wait()


def handshake(request: Request) -> bytes | None:
    """What a server by hand says to a handshake, and to what belongs to it."""
    if request.method == "GET":
        return plain(405)
    if request.message.get("method") == "initialize":
        return json_reply(initialized(request, SESSIONS[0]), "Mcp-Session-Id: abc")
    return plain(202) if "id" not in request.message else None


@pytest.mark.wants("cancel")
async def test_closing_may_be_cancelled(
    http_client: HttpClient, world: World, listen: Calling, calling: Calling
) -> None:
    deleting = Flag()

    def answer(request: Request, connection: Accepted) -> None:
        if request.method == "DELETE":
            deleting.set()
            return  # and no response
        connection.send(handshake(request) or json_reply(result(request)))

    async with calling(listen(answer), SESSIONS[0]) as client, world.tasks() as tasks:
        await client.call_tool("any")
        closing = tasks.start(client.close)
        await deleting.wait()
        closing.cancel()
        assert await closing.outcome() == CANCELLED


async def test_a_server_that_never_ends_a_session_holds_nobody_up(
    http_client: HttpClient, listen: Calling, calling: Calling
) -> None:
    deleted: list[str | None] = []

    def answer(request: Request, connection: Accepted) -> None:
        if request.method == "DELETE":
            deleted.append(request.headers.get("mcp-session-id"))
            return
        connection.send(handshake(request) or json_reply(result(request)))

    config = ClientConfig(notice_timeout=0.05)
    async with calling(listen(answer), SESSIONS[0], config=config) as client:
        await client.call_tool("any")
    until(lambda: deleted == ["abc"], "the session is not ended")


@pytest.mark.parametrize("version", SESSIONS)
async def test_the_session_is_ended(http_client: HttpClient, serve: Serve, calling: Calling, version: str) -> None:
    store = MemorySessionStore(clock=lambda: 0.0)
    tool = Waiting(serve, store=store, config=Config(deletable_sessions=True))
    async with calling(tool.site, version) as client:
        assert await echoes(client)
        assert len(store) == 1
    assert len(store) == 0


# The server


@everyone
async def test_a_server_may_be_restarted_between_calls(
    http_client: HttpClient, serve: Serve, calling: Calling, version: str
) -> None:
    tool = Waiting(serve)
    async with calling(tool.site, version) as client:
        for _ in range(3):
            assert await echoes(client)
            tool.site.restart()
            for _ in range(5):
                await turn()  # a loop has to look before it knows that the connection has ended
        assert await echoes(client)


class Watched(MemorySessionStore):
    """Knows the sessions that were opened."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)
        self.keys: list[str] = []

    async def create(self, key: str, data: JSON, *, ttl: float) -> bool:
        """See `SessionStore.create`."""
        self.keys.append(key)
        return await super().create(key, data, ttl=ttl)


@pytest.mark.parametrize("version", SESSIONS)
async def test_a_session_that_is_gone_is_opened_anew_once_however_many_calls_find_out(
    http_client: HttpClient, world: World, serve: Serve, calling: Calling, version: str
) -> None:
    store = Watched()
    tool = Waiting(serve, store=store)
    async with calling(tool.site, version) as client:
        assert await echoes(client)
        (first,) = store.keys
        await store.delete(first)
        said = await world.gather(*(partial(echoes, client, f"text {number}") for number in range(20)))
        assert said == [True] * 20
        assert len(store.keys) == 2


@pytest.mark.parametrize("version", [*speak.VERSIONS, None])
async def test_a_server_that_is_not_there_is_said_so(
    http_client: HttpClient, calling: Calling, version: str | None
) -> None:
    async with calling(NOWHERE, version) as client:
        with pytest.raises(ConnectionLost) as lost:
            await client.call_tool("any")
    assert isinstance(lost.value.__cause__, OSError)
    # Nothing was lost: there was nothing.
    assert str(lost.value).startswith(f"cannot connect to {NOWHERE} (")
    assert "refused" in str(lost.value).lower() or "Connect call failed" in str(lost.value)

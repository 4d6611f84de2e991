"""The client of HTTP in front of a server of the library: what takes both sides, on every revision and transport."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import Change, ChangeKind, Config, Exchange, McpError, Registry, elicit, elicit_accept
from mcp_sansio.testing import Cancelled, Simulation, connect, every_revision
from speak import HANDSHAKE

WAYS = [*(("http", version) for version in every_revision), *(("pair", version) for version in HANDSHAKE)]
BOTH = pytest.mark.parametrize(("over", "version"), WAYS)


class Shop:
    """A registry whose `nap` waits behind a door, and a simulation of it."""

    def __init__(self, **config: Any) -> None:
        self.registry = Registry("shop", "1")
        self.simulation = Simulation(self.registry, config=Config(**config))
        self.ended: list[str] = []
        self.door = self.simulation.runtime.event()

        @self.registry.tool
        async def echo(text: str) -> str:
            """Give the text back."""
            return text

        @self.registry.tool
        async def nap(ex: Exchange) -> str:
            """Wait behind the door."""
            try:
                await ex.progress(1)
                await self.door.wait()
            except Cancelled:
                self.ended.append("cancelled")
                raise
            return "slept"

        @self.registry.tool
        async def confirm(ex: Exchange) -> str:
            """Ask for an agreement."""
            return (await ex.ask("sure", elicit("Sure?"))).action

    def connect(self, over: Any, version: str | None, **options: Any) -> Any:
        """A client of it."""
        return connect(self.simulation, version, over=over, **options)


def text(result: Any) -> str:
    """The text of a tool's result."""
    said: str = result.content[0].text
    return said


@BOTH
def test_a_visit(over: str, version: str) -> None:
    changes: list[Change] = []
    shop = Shop()
    with shop.connect(over, version, on_ask=lambda request: elicit_accept({}), on_change=changes.append) as client:
        assert text(client.call_tool("echo", {"text": "é"})) == "é"
        assert text(client.call_tool("confirm")) == "accept"
        assert [tool.name for tool in client.list_tools()] == ["echo", "nap", "confirm"]
        shop.registry.tool(name="more")(lambda: "more")
        client.advance(1)
        assert changes == [Change(ChangeKind.TOOLS)]
        assert len(client.list_tools()) == 4


@pytest.mark.parametrize("over", ["http", "pair"])
def test_a_client_that_knows_nothing_finds_out(over: str) -> None:
    with Shop().connect(over, None) as client:
        assert text(client.call_tool("echo", {"text": "a"})) == "a"
        known = client.known
    assert (known.revision, known.pair) == ((HANDSHAKE[0], True) if over == "pair" else (every_revision[0], False))
    with Shop().connect(over, None, known=known) as client:
        assert text(client.call_tool("echo", {"text": "b"})) == "b"


def test_what_was_known_and_is_no_longer_so_is_found_out_anew() -> None:
    with Shop().connect("pair", None) as client:
        client.ping()
        known = client.known
    with Shop().connect("http", None, known=known) as client:
        assert text(client.call_tool("echo", {"text": "a"})) == "a"
        assert (client.known.revision, client.known.pair) == (every_revision[0], False)


@BOTH
def test_a_call_that_is_given_up_ends_at_the_server_too(over: str, version: str) -> None:
    shop = Shop()
    with shop.connect(over, version) as client:
        client.ping()
        pending = client.start(client.calls.call_tool("nap"))
        assert not pending.done
        pending.cancel()
        client.advance(1)
        assert shop.ended == ["cancelled"]
        assert text(client.call_tool("echo", {"text": "a"})) == "a"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_session_that_expired_is_replaced_under_the_call(version: str) -> None:
    shop = Shop(session_ttl=60)
    with shop.connect("http", version) as client:
        client.ping()
        for _ in range(3):
            client.advance(100)
            assert text(client.call_tool("echo", {"text": "a"})) == "a"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_server_may_let_go_of_a_reply_and_be_polled(version: str) -> None:
    shop = Shop()

    @shop.registry.tool(poll_after=1)
    async def polled(ex: Exchange) -> str:
        """Wait behind the door, and let go of the client meanwhile."""
        await shop.door.wait()
        return "done"

    with shop.connect("http", version) as client:
        client.ping()
        pending = client.start(client.calls.call_tool("polled"))
        for _ in range(10):
            client.advance(1)
        assert not pending.done
        shop.door.set()
        client.advance(5)
        assert text(pending.result()) == "done"


@BOTH
def test_more_questions_than_streams_that_are_kept_are_answered_late(over: str, version: str) -> None:
    """What is kept for a client that comes back is bounded; that may cost nobody the session of the questions."""
    shop = Shop(replay_streams=3)
    thought_about = shop.simulation.runtime.event()

    async def on_ask(request: Any) -> Any:
        await thought_about.wait()
        return elicit_accept()

    with shop.connect(over, version, on_ask=on_ask, on_change=lambda change: None) as client:
        pending = [client.start(client.calls.call_tool("confirm")) for _ in range(6)]
        client.advance(10)
        thought_about.set()
        client.advance(1)
        assert [text(one.result()) for one in pending] == ["accept"] * 6


@BOTH
def test_a_server_that_goes_away_fails_the_calls_and_not_the_client(over: str, version: str) -> None:
    shop = Shop()
    with shop.connect(over, version) as client:
        client.ping()
        shop.simulation.server.shutdown()
        client.advance(1)
        with pytest.raises(McpError):
            client.call_tool("echo", {"text": "a"}, timeout=5)


@BOTH
def test_many_calls_at_once(over: str, version: str) -> None:
    shop = Shop()
    with shop.connect(over, version) as client:
        pending = [client.start(client.calls.call_tool("echo", {"text": str(number)})) for number in range(100)]
        client.advance(1)
        assert [text(one.result()) for one in pending] == [str(number) for number in range(100)]

"""A channel whose driver has tools that wait for nothing run where their calls come in says the same as any other."""

from __future__ import annotations

import gc
import weakref
from functools import partial
from typing import Any

import pytest

from kitchen import Kitchen, tool_calls
from mcp_sansio import AdapterSet, Config, ToolError
from mcp_sansio.events import CallReceived
from mcp_sansio.testing import Simulation
from mcp_sansio.wire.json import decode, encode
from speak import HANDSHAKE, VERSIONS, Channel, notification

JSON = Any
ADAPTERS = AdapterSet.default().by_version
ANSWER = {"action": "accept", "content": {"name": "n"}, "roots": []}


class Thing:
    """Something of which can be told whether it is still there."""


class Table:
    """A client at a channel, and all that it was told, message by message."""

    def __init__(self, version: str, *, runs_at_once: bool, **options: Any) -> None:
        self.kitchen = Kitchen()
        self.simulation = Simulation(self.kitchen.registry, **options)
        self.kitchen.server, self.kitchen.event = self.simulation.server, self.simulation.runtime.event
        self.client = Channel(version, self.simulation, runs_at_once=runs_at_once)
        self.channel = self.client.end

    def call(self, name: str, arguments: JSON) -> None:
        """Call a tool, let it go on where it waits, and answer what it asks."""
        self.channel.send(self.client.message("tools/call", {"name": name, "arguments": arguments}, id="call"))
        for _ in range(3):
            self.kitchen.open()
            self.simulation.settle()
            for message in map(decode, self.channel.sent[-3:]):
                if "method" in message and "id" in message:
                    self.channel.send({"jsonrpc": "2.0", "id": message["id"], "result": ANSWER})

    def was_handed(self) -> list[str | None]:
        """The tools whose calls the driver was handed."""
        return [event.call.target for event in self.channel.happened if isinstance(event, CallReceived)]


def tables(version: str) -> tuple[Table, Table]:
    return Table(version, runs_at_once=False), Table(version, runs_at_once=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_call_of_a_tool_is_answered_alike(version: str) -> None:
    usual, at_once = tables(version)
    for table in (usual, at_once):
        for name, arguments in tool_calls():
            if not name.startswith("shuts_down"):
                for _ in range(3):
                    table.call(name, arguments)
    assert at_once.channel.sent == usual.channel.sent
    assert at_once.kitchen.closed == usual.kitchen.closed
    assert usual.was_handed().count("ends") == 3
    assert at_once.was_handed().count("ends") == 1  # of which the server had not heard before
    assert at_once.was_handed().count("passes") == 3
    assert at_once.simulation.next_deadline() == usual.simulation.next_deadline()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handler_that_raises_is_run_once(version: str) -> None:
    table = Table(version, runs_at_once=True)
    ran: list[str] = []

    @table.kitchen.registry.tool
    async def counts_and_fails() -> str:
        ran.append("once")
        raise RuntimeError("private")

    for number in range(1, 4):
        table.call("counts_and_fails", {})
        assert len(ran) == number
    assert b"private" not in b"".join(map(encode, table.channel.messages))


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_handler_raises_is_gone_with_its_call_and_no_collector_is_needed(version: str) -> None:
    table, held = Table(version, runs_at_once=True), list[weakref.ref[Thing]]()

    @table.kitchen.registry.tool
    async def refuses() -> str:
        thing = Thing()
        held.append(weakref.ref(thing))
        raise ToolError("not today")

    table.call("refuses", {})
    table.channel.happened.clear()
    gc.collect()
    gc.disable()
    try:
        table.call("refuses", {})
        table.channel.happened.clear()
        assert (b"not today" in table.channel.sent[-1], [is_there() for is_there in held]) == (True, [None, None])
    finally:
        gc.enable()


@pytest.mark.parametrize("version", VERSIONS)
def test_messages_that_are_one_behind_the_other_are_answered_in_their_order(version: str) -> None:
    usual, at_once = tables(version)
    for table in (usual, at_once):
        for name in ("declares", "ends", "passes", "waits"):
            table.call(name, {})
        engine, call = table.channel.engine, table.client.message
        for number, name in enumerate(("ends", "waits", "declares", "passes", "ends", "restores", "nobody", "ends")):
            engine.receive_message(encode(call("tools/call", {"name": name, "arguments": {}}, id=number)))
        engine.receive_message(encode(call("tools/call", {"name": "ends", "arguments": {}}, id=1)))  # is in flight
        engine.receive_message(encode(notification("notifications/cancelled", {"requestId": 1})))
        table.simulation.settle()
        table.channel.close()
        assert table.simulation.next_deadline() is None
    # Who is handed to the driver ends after who is not: replies have no order among each other, and only that.
    assert sorted(at_once.channel.sent) == sorted(usual.channel.sent)
    assert at_once.was_handed()[-5:] == ["waits", "declares", "passes", "restores", "nobody"]


def test_a_full_channel_and_one_that_shuts_down_refuse_what_waits_for_nothing_as_well() -> None:
    table = Table(VERSIONS[0], runs_at_once=True, config=Config(max_calls=1))
    table.call("ends", {})
    table.channel.send(table.client.message("tools/call", {"name": "waits", "arguments": {}}, id="waits"))
    for reason in ("at most 1 calls may be in flight", "this server is shutting down"):
        (refused,) = table.channel.send(table.client.message("tools/call", {"name": "ends", "arguments": {}}, id=7))
        assert refused["error"]["message"] == reason
        table.kitchen.server.shutdown()


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_client_may_still_ask_whether_a_server_that_shuts_down_is_there(version: str) -> None:
    table = Table(version, runs_at_once=True)
    table.channel.send(table.client.message("tools/call", {"name": "waits", "arguments": {}}, id="waits"))
    table.kitchen.server.shutdown()
    [pong] = table.channel.send(table.client.message("ping", id="ping"))
    assert (pong["id"], pong["result"]) == ("ping", {})


class TestAReplyThatIsAllThereIs:
    @pytest.fixture
    def table(self) -> Table:
        """A client that has called what ends at once, so that its calls are known."""
        made = Table(VERSIONS[0], runs_at_once=True)
        made.call("ends", {})
        return made

    def call(self, table: Table, name: str) -> bytes:
        """The message of a call."""
        data: bytes = encode(table.client.message("tools/call", {"name": name, "arguments": {}}, id="call"))
        return data

    def test_is_given_and_nothing_is_left_to_take(self, table: Table) -> None:
        engine = table.channel.engine
        assert engine.respond(self.call(table, "ends")) == table.channel.sent[-1]
        assert (engine.events(), engine.data_to_send(), engine.unsent, engine.next_deadline()) == ([], [], 0, None)
        pong = engine.respond(encode(table.client.message("ping", id="call")))
        assert (pong is None, len(engine.data_to_send())) == (True, 1)  # which is not remembered

    def test_waits_behind_what_was_there_to_be_said(self, table: Table) -> None:
        engine = table.channel.engine
        engine.receive_message(b"[]")
        assert engine.respond(self.call(table, "ends")) is None
        refusal, reply = engine.data_to_send()
        assert (b'"error"' in refusal, reply) == (True, table.channel.sent[-1])

    def test_waits_behind_a_reply_that_was_not_taken(self, table: Table) -> None:
        engine = table.channel.engine
        engine.receive_message(encode(table.client.message("tools/list", id="list")))
        assert engine.respond(self.call(table, "ends")) is None
        assert engine.events() == []
        assert [decode(message)["id"] for message in engine.data_to_send()] == ["list", "call"]

    def test_waits_for_an_event_that_was_not_taken(self, table: Table) -> None:
        engine = table.channel.engine
        assert engine.respond(self.call(table, "waits")) is None
        ends = encode(table.client.message("tools/call", {"name": "ends", "arguments": {}}, id="other"))
        assert engine.respond(ends) is None
        assert [event.call.target for event in engine.events()] == ["waits"]
        assert [b'"other"' in message for message in engine.data_to_send()] == [True]

    def test_is_not_there_where_a_call_waits_or_the_channel_has_ended(self, table: Table) -> None:
        engine = table.channel.engine
        assert engine.respond(self.call(table, "waits")) is None
        assert [event.call.target for event in engine.events()] == ["waits"]
        engine.receive_eof()
        assert (engine.respond(self.call(table, "ends")), engine.data_to_send()) == (None, [])

    def test_is_logged_as_everything_is(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level("DEBUG", "mcp_sansio.wire")
        table = Table(VERSIONS[0], runs_at_once=True)
        table.call("ends", {})
        engine = table.channel.engine
        assert engine.respond(self.call(table, "ends")) is None
        caplog.clear()
        assert engine.data_to_send() == [table.channel.sent[-1]]
        assert len(caplog.messages) == 1


@pytest.mark.parametrize("version", [version for version in VERSIONS if ADAPTERS[version].allows_batch])
def test_what_is_there_at_once_in_a_batch_is_one_of_its_replies(version: str) -> None:
    usual, at_once = tables(version)
    for table in (usual, at_once):
        table.call("ends", {})
        call = partial(table.client.message, "tools/call")
        names = ("ends", "passes", "nobody")
        calls = [call({"name": name, "arguments": {}}, id=number) for number, name in enumerate(names)]
        table.channel.send([*calls, table.client.message("ping", id="ping")])
    assert at_once.channel.sent == usual.channel.sent
    assert len(decode(at_once.channel.sent[-1])) == 4

"""The state machines: every state with every input, and what misuse of an engine looks like."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from mcp_sansio import Body, End, Head, LocalProtocolError, Registry
from mcp_sansio.server import _state
from mcp_sansio.server._state import (
    CALL,
    CHANNEL,
    RESPONSE,
    SUBSCRIPTION,
    CallInput,
    CallState,
    ChannelInput,
    ChannelState,
    ResponseInput,
    ResponseState,
    SubscriptionInput,
    SubscriptionState,
)
from mcp_sansio.states import advance
from mcp_sansio.testing import Simulation
from speak import VERSIONS, Http

Step = tuple[str, str]
#: The whole of each table, by name; what is not here is not possible.
MACHINES: dict[str, tuple[Any, type[Enum], type[Enum], dict[Step, str]]] = {
    "call": (
        CALL,
        CallState,
        CallInput,
        {
            ("RUNNING", "FINISH"): "ANSWERED",
            ("RUNNING", "CANCEL"): "CANCELLED",
            ("ANSWERED", "FINISH"): "ANSWERED",
            ("ANSWERED", "CANCEL"): "ANSWERED",
            ("CANCELLED", "FINISH"): "CANCELLED",
            ("CANCELLED", "CANCEL"): "CANCELLED",
        },
    ),
    "response": (
        RESPONSE,
        ResponseState,
        ResponseInput,
        {
            ("IDLE", "REQUEST"): "RECEIVING",
            ("IDLE", "DISCONNECT"): "ENDED",
            ("RECEIVING", "RECEIVED"): "WAITING",
            ("RECEIVING", "END"): "ENDED",
            ("RECEIVING", "DISCONNECT"): "ENDED",
            ("WAITING", "STREAM"): "STREAMING",
            ("WAITING", "END"): "ENDED",
            ("WAITING", "DISCONNECT"): "ENDED",
            ("STREAMING", "END"): "ENDED",
            ("STREAMING", "DISCONNECT"): "ENDED",
            ("ENDED", "RECEIVED"): "ENDED",
            ("ENDED", "DISCONNECT"): "ENDED",
        },
    ),
    "channel": (
        CHANNEL,
        ChannelState,
        ChannelInput,
        {
            ("NEW", "INITIALIZE"): "NEGOTIATED",
            ("NEW", "CLOSE"): "CLOSED",
            ("NEGOTIATED", "INITIALIZE"): "NEGOTIATED",
            ("NEGOTIATED", "CLOSE"): "CLOSED",
            ("CLOSED", "CLOSE"): "CLOSED",
        },
    ),
    "subscription": (
        SUBSCRIPTION,
        SubscriptionState,
        SubscriptionInput,
        {
            ("OPEN", "DETACH"): "DETACHED",
            ("OPEN", "ATTACH"): "OPEN",
            ("OPEN", "END"): "ENDED",
            ("DETACHED", "ATTACH"): "OPEN",
            ("DETACHED", "END"): "ENDED",
            ("ENDED", "END"): "ENDED",
        },
    ),
}
CASES = [
    (name, state, given)
    for name, (_, states, inputs, _) in MACHINES.items()
    for state in states.__members__
    for given in inputs.__members__
]


@pytest.mark.parametrize(("name", "state", "given"), CASES)
def test_every_state_with_every_input(name: str, state: str, given: str) -> None:
    table: Mapping[Any, Any]
    table, states, inputs, steps = MACHINES[name]
    if (state, given) in steps:
        assert advance(table, states[state], inputs[given]) is states[steps[state, given]]
        return
    with pytest.raises(LocalProtocolError) as caught:
        advance(table, states[state], inputs[given])
    assert str(caught.value) == f"{given} is not possible in the state {state}"


def test_every_table_is_tried() -> None:
    tables = {name.lower(): held for name, held in vars(_state).items() if name.isupper() and isinstance(held, Mapping)}
    assert tables == {name: table for name, (table, *_) in MACHINES.items()}
    assert all(list(table) == list(states) for table, states, _, _ in MACHINES.values())


@pytest.mark.parametrize(("name", "state"), sorted({(name, state) for name, state, _ in CASES}))
def test_every_state_can_be_left_for_an_end(name: str, state: str) -> None:
    steps = MACHINES[name][3]
    after = {held: {to for (before, _), to in steps.items() if before == held} for held, _ in steps}
    reached = {state}
    while more := set().union(*(after[held] for held in reached)) - reached:
        reached |= more
    assert any(after[held] == {held} for held in reached)


# Misuse ---------------------------------------------------------------------------------------------------------------


def registry() -> Registry:
    made = Registry("s", "1")

    @made.tool
    async def echo(text: str) -> str:
        """Echo."""
        return text

    return made


def test_two_requests_on_one_transaction() -> None:
    exchange = Simulation(registry()).http(b"{}")
    with pytest.raises(LocalProtocolError, match=r"^REQUEST is not possible in the state ENDED$"):
        exchange.engine.receive_request("POST", "/mcp", {})


def test_a_request_after_a_disconnect() -> None:
    transaction = Simulation(registry()).server.http_transaction()
    transaction.receive_disconnect()
    transaction.receive_disconnect()
    with pytest.raises(LocalProtocolError, match=r"^REQUEST is not possible in the state ENDED$"):
        transaction.receive_request("POST", "/mcp", {})


@pytest.mark.parametrize("version", VERSIONS)
def test_what_comes_after_the_end_is_let_be(version: str) -> None:
    speaker = Http(version, registry())
    exchange = speaker.call("echo", {"text": "a"})
    engine, body = exchange.engine, exchange.body
    engine.receive_body(b"more")
    engine.receive_end()
    engine.receive_disconnect()
    engine.handle_timeout(1e9)
    assert (engine.events(), engine.data_to_send(), engine.next_deadline()) == ([], [], None)
    assert (exchange.body, engine.ended) == (body, True)


def test_a_body_before_its_request_is_let_be() -> None:
    transaction = Simulation(registry()).server.http_transaction()
    transaction.receive_body(b"x")
    transaction.receive_end()
    assert (transaction.events(), transaction.data_to_send(), transaction.ended) == ([], [], False)


def test_a_channel_that_is_closed() -> None:
    channel = Simulation(registry()).channel()
    channel.close()
    channel.close()
    assert channel.send({"jsonrpc": "2.0", "id": 1, "method": "ping"}) == []
    channel.engine.receive_overlong(10**9)
    channel.engine.handle_timeout(1e9)
    assert (channel.engine.data_to_send(), channel.engine.next_deadline()) == ([], None)


def test_a_message_of_which_the_body_comes_in_pieces() -> None:
    transaction = Simulation(registry()).server.http_transaction()
    transaction.receive_request("POST", "/mcp", {"Content-Type": "application/json"})
    for byte in b'{"jsonrpc":"2.0","id":1,"method":"ping"}':
        transaction.receive_body(bytes([byte]))
        assert transaction.data_to_send() == []
    transaction.receive_end()
    parts = transaction.data_to_send()
    assert [type(part) for part in parts] == [Head, Body, End]
    assert b'"id":1' in parts[1].data  # type: ignore[union-attr]

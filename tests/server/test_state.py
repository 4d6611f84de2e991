"""The state machines: every state with every input, and what misuse of an engine looks like."""

from __future__ import annotations

import pytest

import machines
from machines import Machine
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
from mcp_sansio.testing import Simulation
from speak import VERSIONS, Http

#: The whole of each table, by name; what is not here is not possible.
MACHINES = {
    "call": Machine(
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
    "response": Machine(
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
    "channel": Machine(
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
    "subscription": Machine(
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


@pytest.mark.parametrize(("name", "state", "given"), machines.every_input(MACHINES))
def test_every_state_with_every_input(name: str, state: str, given: str) -> None:
    MACHINES[name].check_step(state, given)


def test_every_table_is_tried() -> None:
    machines.check_tables(_state, MACHINES)


@pytest.mark.parametrize(("name", "state"), machines.every_state(MACHINES))
def test_every_state_can_be_left_for_an_end(name: str, state: str) -> None:
    MACHINES[name].check_end(state)


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

"""The state machines of the client role: every state with every input."""

from __future__ import annotations

import pytest

import machines
from machines import Machine
from mcp_sansio.client import _state
from mcp_sansio.client._state import (
    CALL,
    NEGOTIATION,
    QUESTION,
    CallInput,
    CallState,
    NegotiationInput,
    NegotiationState,
    QuestionInput,
    QuestionState,
)

_FINDING_OUT = {
    "PROBE": "PROBING",
    "HANDSHAKE": "HANDSHAKING",
    "SETTLE": "READY",
    "FAIL": "NEW",
    "CLOSE": "CLOSED",
}
#: The whole of each table, by name; what is not here is not possible.
MACHINES = {
    "call": Machine(
        CALL,
        CallState,
        CallInput,
        {
            ("WAITING", "SEND"): "SENT",
            ("WAITING", "PARK"): "WAITING",
            ("WAITING", "END"): "ENDED",
            ("SENT", "SEND"): "SENT",
            ("SENT", "PARK"): "WAITING",
            ("SENT", "ASK"): "ASKING",
            ("SENT", "END"): "ENDED",
            ("ASKING", "SEND"): "SENT",
            ("ASKING", "PARK"): "WAITING",
            ("ASKING", "END"): "ENDED",
            ("ENDED", "END"): "ENDED",
        },
    ),
    "negotiation": Machine(
        NEGOTIATION,
        NegotiationState,
        NegotiationInput,
        {
            **{
                (state, given): then
                for state in ("NEW", "PROBING", "HANDSHAKING", "READY")
                for given, then in _FINDING_OUT.items()
            },
            ("CLOSED", "CLOSE"): "CLOSED",
        },
    ),
    "question": Machine(
        QUESTION,
        QuestionState,
        QuestionInput,
        {
            ("OPEN", "ANSWER"): "ANSWERED",
            ("OPEN", "WITHDRAW"): "WITHDRAWN",
            ("ANSWERED", "ANSWER"): "ANSWERED",
            ("ANSWERED", "WITHDRAW"): "ANSWERED",
            ("WITHDRAWN", "ANSWER"): "WITHDRAWN",
            ("WITHDRAWN", "WITHDRAW"): "WITHDRAWN",
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

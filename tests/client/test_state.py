"""The state machines of the client role: every state with every input."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest

from mcp_sansio import LocalProtocolError
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
from mcp_sansio.states import advance

Step = tuple[str, str]
_FINDING_OUT = {
    "PROBE": "PROBING",
    "HANDSHAKE": "HANDSHAKING",
    "SETTLE": "READY",
    "FAIL": "NEW",
    "CLOSE": "CLOSED",
}
#: The whole of each table, by name; what is not here is not possible.
MACHINES: dict[str, tuple[Any, type[Enum], type[Enum], dict[Step, str]]] = {
    "call": (
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
    "negotiation": (
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
    "question": (
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
    assert {name: table for name, table in tables.items() if not name.startswith("_")} == {
        name: table for name, (table, *_) in MACHINES.items()
    }
    assert all(list(table) == list(states) for table, states, _, _ in MACHINES.values())

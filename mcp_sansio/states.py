"""State machines as tables, for both roles: ``{state: {input: next state}}``.

Everything that decides what may come next stands in a table. An input that a state does not list is a misuse by the
driver, never a fault of a peer: what peers send is judged before it becomes an input.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from .errors import LocalProtocolError

S = TypeVar("S", bound=Enum)
Given = TypeVar("Given", bound=Enum)


class Member(Enum):
    """A state or an input. Members are singletons; hashing them by identity spares a call into Python each time."""

    __hash__ = object.__hash__


class Steps(dict[Given, S]):
    """Where each input leads from `state`. To look up any other raises `LocalProtocolError`."""

    def __init__(self, state: S, steps: Mapping[Given, S]) -> None:
        super().__init__(steps)
        self._state = state

    def __missing__(self, given: Given) -> S:
        raise LocalProtocolError(f"{given.name} is not possible in the state {self._state.name}")


def machine(table: Mapping[S, Mapping[Given, S]]) -> Mapping[S, Steps[Given, S]]:
    """The machine of that `table`: ``machine[state][input]`` is the next state."""
    return {state: Steps(state, steps) for state, steps in table.items()}

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


def advance(table: Mapping[S, Mapping[Given, S]], state: S, given: Given) -> S:
    """The state after `given`. Raises `LocalProtocolError` where the table has no such step."""
    try:
        return table[state][given]
    except KeyError:
        raise LocalProtocolError(f"{given.name} is not possible in the state {state.name}") from None

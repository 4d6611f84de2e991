"""State machines as tests write them down: every step that there is, so that everything else is known to be none."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from mcp_sansio import LocalProtocolError


class Machine(NamedTuple):
    """A table of the library, its states and inputs, and the whole of it by name: (state, input) to the next state."""

    table: Mapping[Any, Mapping[Any, Any]]
    states: type[Enum]
    inputs: type[Enum]
    steps: Mapping[tuple[str, str], str]

    def check_step(self, state: str, given: str) -> None:
        """The step is there, or refused."""
        if (state, given) in self.steps:
            assert self.table[self.states[state]][self.inputs[given]] is self.states[self.steps[state, given]]
            return
        with pytest.raises(LocalProtocolError) as caught:
            self.table[self.states[state]][self.inputs[given]]
        assert str(caught.value) == f"{given} is not possible in the state {state}"

    def check_end(self, state: str) -> None:
        """From `state` there is a way to one that is not left any more."""
        after = {held: {to for (before, _), to in self.steps.items() if before == held} for held, _ in self.steps}
        reached = {state}
        while more := set().union(*(after[held] for held in reached)) - reached:
            reached |= more
        assert any(after[held] == {held} for held in reached)


def every_input(machines: Mapping[str, Machine]) -> list[tuple[str, str, str]]:
    """Every state of every machine with every input."""
    return [
        (name, state, given)
        for name, machine in machines.items()
        for state in machine.states.__members__
        for given in machine.inputs.__members__
    ]


def every_state(machines: Mapping[str, Machine]) -> list[tuple[str, str]]:
    """Every state of every machine."""
    return [(name, state) for name, machine in machines.items() for state in machine.states.__members__]


def check_tables(module: ModuleType, machines: Mapping[str, Machine]) -> None:
    """`machines` are all of the module's, and each table has all of its states, in their order."""
    public = {name.lower(): held for name, held in vars(module).items() if name.isupper() and not name.startswith("_")}
    tables = {name: held for name, held in public.items() if isinstance(held, Mapping)}
    assert tables == {name: machine.table for name, machine in machines.items()}
    assert all(list(machine.table) == list(machine.states) for machine in machines.values())

"""Anything at all, from hypothesis, over HTTP and over channels: the engines reply, refuse or wait, and never fail."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from drawn import Drawn
from world import ChannelWorld, Errors, HttpWorld, World

EXAMPLES = settings(max_examples=150, stateful_step_count=15, suppress_health_check=list(HealthCheck))


class Machine(RuleBasedStateMachine):
    """What all peers do, and what holds of all of them."""

    kind: type[World]

    @initialize(data=st.data())
    def start(self, data: Any) -> None:
        self.errors = Errors()
        self.errors.__enter__()
        self.world: Any = self.kind(Drawn(data))

    def doing(self, data: Any) -> Any:
        self.world.choices = Drawn(data)
        return self.world

    @rule(data=st.data())
    def publish(self, data: Any) -> None:
        self.doing(data).publish()

    @rule(data=st.data())
    def pass_time(self, data: Any) -> None:
        self.doing(data).pass_time()

    @rule(data=st.data())
    def shut_down(self, data: Any) -> None:
        if not self.doing(data).choices.number(0, 5):
            self.world.shut_down()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            if sys.exc_info()[0] is None:
                self.world.close()
                assert self.errors.said == []
        finally:
            self.errors.__exit__()


class HttpMachine(Machine):
    """Clients of the HTTP endpoints."""

    kind = HttpWorld

    @rule(data=st.data())
    def handshake(self, data: Any) -> None:
        self.doing(data).handshake()

    @rule(data=st.data())
    def post(self, data: Any) -> None:
        self.doing(data).post()

    @rule(data=st.data())
    def post_more(self, data: Any) -> None:
        self.doing(data).post()

    @rule(data=st.data())
    def other(self, data: Any) -> None:
        self.doing(data).other()

    @rule(data=st.data())
    def pair(self, data: Any) -> None:
        self.doing(data).pair()

    @rule(data=st.data())
    def disconnect(self, data: Any) -> None:
        self.doing(data).disconnect()


class ChannelMachine(Machine):
    """One client at the end of a channel."""

    kind = ChannelWorld

    @rule(data=st.data())
    def handshake(self, data: Any) -> None:
        self.doing(data).handshake()

    @rule(data=st.data())
    def send(self, data: Any) -> None:
        self.doing(data).send()

    @rule(data=st.data())
    def send_more(self, data: Any) -> None:
        self.doing(data).send()

    @rule(data=st.data())
    def overlong(self, data: Any) -> None:
        self.doing(data).overlong()

    @precondition(lambda self: not self.world.at_eof)
    @rule(data=st.data())
    def eof(self, data: Any) -> None:
        self.doing(data).eof()


@pytest.mark.parametrize("machine", [HttpMachine, ChannelMachine])
def test_any_conversation(machine: type[Machine]) -> None:
    run_state_machine_as_test(machine, settings=EXAMPLES)  # type: ignore[no-untyped-call]

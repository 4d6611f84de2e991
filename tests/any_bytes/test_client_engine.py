"""Anything at all from a server, from hypothesis, on a client's channel: every call ends, once, and nothing fails."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from calling import settled
from drawn import Drawn
from hostile_channel import HostileServer
from mcp_sansio import Operation
from speak import VERSIONS

EXAMPLES = settings(max_examples=150, stateful_step_count=15, suppress_health_check=list(HealthCheck))
ACTIONS = ("start", "give_up", "answer", "reply", "notify", "push", "overlong", "pass_time")


class ClientMachine(RuleBasedStateMachine):
    """One client, and a server that says anything."""

    @initialize(data=st.data())
    def begin(self, data: Any) -> None:
        self.server = HostileServer(Drawn(data))
        self.server.start()

    @rule(data=st.data(), action=st.sampled_from(ACTIONS))
    def act(self, data: Any, action: str) -> None:
        self.server.choices = Drawn(data)
        getattr(self.server, action)()

    @rule(data=st.data())
    def reply(self, data: Any) -> None:
        self.server.choices = Drawn(data)
        self.server.reply()

    def teardown(self) -> None:
        if hasattr(self, "server"):
            self.server.close()


def test_any_conversation() -> None:
    run_state_machine_as_test(ClientMachine, settings=EXAMPLES)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.binary(max_size=200))
@settings(max_examples=100)
def test_any_bytes_touch_no_call(version: str, data: bytes) -> None:
    line = settled(version)
    call = line.engine.call(Operation.PING)
    line.take()
    line.say(data)
    assert len(line.take()) <= 1, "it may be a request of the server, which is answered"
    line.reply({"supportedVersions": [version]})
    assert call.ended

"""Any server at all, from hypothesis: the client of HTTP ends every call, asks nobody for ever, and never fails."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from drawn import Drawn
from hostile_web import STEPS, HostileWeb

EXAMPLES = settings(max_examples=120, stateful_step_count=25, suppress_health_check=list(HealthCheck))


class WebMachine(RuleBasedStateMachine):
    """A client, and a server of no particular kind."""

    @initialize(data=st.data())
    def begin(self, data: Any) -> None:
        self.web = HostileWeb(Drawn(data))
        self.web.call()

    @rule(data=st.data(), step=st.sampled_from(STEPS))
    def act(self, data: Any, step: str) -> None:
        self.web.choices = Drawn(data)
        getattr(self.web, step)()

    def teardown(self) -> None:
        if hasattr(self, "web"):
            self.web.close()


def test_any_server() -> None:
    run_state_machine_as_test(WebMachine, settings=EXAMPLES)  # type: ignore[no-untyped-call]

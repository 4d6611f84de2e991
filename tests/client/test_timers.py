"""Timers that are due at the same time, of which one may have a say in what becomes of another."""

from __future__ import annotations

import pytest

from mcp_sansio.client.timers import Timers


@pytest.fixture
def timers() -> Timers:
    return Timers()


def test_one_that_another_drops_does_nothing(timers: Timers) -> None:
    done: list[str] = []
    timers.set("first", 1.0, lambda: timers.drop("second"))
    timers.set("second", 1.0, lambda: done.append("second"))
    timers.handle_timeout(1.0)
    assert (done, timers.next_deadline()) == ([], None)


def test_one_that_another_sets_anew_waits_for_its_new_time(timers: Timers) -> None:
    done: list[str] = []
    timers.set("first", 1.0, lambda: timers.set("second", 3.0, lambda: done.append("anew")))
    timers.set("second", 1.0, lambda: done.append("second"))
    timers.handle_timeout(1.0)
    assert (done, timers.next_deadline()) == ([], 3.0)
    timers.handle_timeout(3.0)
    assert (done, timers.next_deadline()) == (["anew"], None)

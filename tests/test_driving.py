"""What drivers share: an alarm that is never late, and a table of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcp_sansio.driving import Alarm, Tasks


class Timers:
    """A loop's timers, which go off when they are told to."""

    def __init__(self) -> None:
        self.set: dict[Timers.One, tuple[float, Callable[[], None]]] = {}

    class One:
        """A handle."""

        def __init__(self, timers: Timers) -> None:
            self.timers = timers

        def cancel(self) -> None:
            del self.timers.set[self]

    def call_at(self, when: float, function: Callable[[], None]) -> One:
        handle = self.One(self)
        self.set[handle] = (when, function)
        return handle

    @property
    def due(self) -> list[float]:
        return [when for when, _ in self.set.values()]

    def go_off(self) -> None:
        ((handle, (_, function)),) = self.set.items()
        del self.set[handle]
        function()


class TestTheAlarm:
    def test_is_one_timer_for_the_earliest(self) -> None:
        timers, rung = Timers(), []
        alarm = Alarm(timers.call_at, lambda: rung.append("rung"))
        for deadline, due in ((None, []), (5.0, [5.0]), (7.0, [5.0]), (5.0, [5.0]), (3.0, [3.0]), (None, [3.0])):
            alarm.set(deadline)
            assert timers.due == due
        timers.go_off()
        assert (rung, timers.due) == (["rung"], [])

    def test_is_set_again_by_what_it_rings(self) -> None:
        timers = Timers()
        alarm = Alarm(timers.call_at, lambda: alarm.set(9.0))
        alarm.set(5.0)
        timers.go_off()
        assert timers.due == [9.0]

    def test_stops_and_can_be_set_again(self) -> None:
        timers = Timers()
        alarm = Alarm(timers.call_at, lambda: None)
        alarm.stop()
        alarm.set(5.0)
        alarm.stop()
        assert timers.due == []
        alarm.set(8.0)
        assert timers.due == [8.0]


class TestTasks:
    async def test_run_until_they_end(self) -> None:
        door, ends = asyncio.Event(), []

        async def run() -> None:
            await door.wait()
            ends.append("returned")

        tasks = Tasks[str, asyncio.Future[None]](asyncio.ensure_future)
        tasks.start("a", run())
        (task,) = tasks.running.values()
        door.set()
        await task
        assert (ends, tasks.running) == (["returned"], {})
        tasks.cancel("a")

    async def test_end_when_they_are_cancelled(self) -> None:
        tasks = Tasks[str, asyncio.Future[None]](asyncio.ensure_future)
        tasks.start("a", asyncio.Event().wait())
        tasks.start("b", asyncio.Event().wait())
        task, other = tasks.running.values()
        tasks.cancel("a")
        await asyncio.wait([task])
        assert (task.cancelled(), tasks.running) == (True, {"b": other})
        tasks.cancel("b")

    async def test_that_are_done_at_once_are_not_kept(self) -> None:
        tasks = Tasks[str, Done](lambda work: Done())
        tasks.start("a", asyncio.Future())
        assert tasks.running == {}


class Done:
    """A task that ended within its first step."""

    def done(self) -> bool:
        return True

    def cancel(self) -> None:
        raise AssertionError("there is nothing to cancel")

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        raise AssertionError("there is nothing to wait for")

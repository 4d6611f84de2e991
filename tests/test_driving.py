"""What drivers share: an alarm that is never late, and a table of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from foreign import Panic
from mcp_sansio.driving import (
    Alarm,
    Here,
    Orphans,
    Tasks,
    leaves,
    plain_errors,
    run_for_another,
    split_failed,
    words_of,
)
from mcp_sansio.driving import Timers as LoopTimers


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


def here() -> Here:
    task = asyncio.current_task()
    assert task is not None
    return Here(task, asyncio.CancelledError, lambda: asyncio.sleep(0))


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


class TestHere:
    async def test_work_ends_without_its_task_when_it_is_cancelled_from_elsewhere(self) -> None:
        work, ends = here(), []

        async def wait() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ends.append("ended")

        asyncio.get_running_loop().call_soon(work.cancel)
        asyncio.get_running_loop().call_soon(work.cancel)
        await work.run(wait())
        assert (ends, cancelling()) == (["ended"], 0)
        await asyncio.sleep(0)

    async def test_work_that_cancels_itself_and_waits_no_more_leaves_nothing_to_arrive(self) -> None:
        work = here()

        async def give_up() -> None:
            work.cancel()

        await work.run(give_up())
        assert cancelling() == 0
        await asyncio.sleep(0)

    async def test_a_cancellation_of_the_task_comes_out(self) -> None:
        async def caller() -> None:
            await here().run(asyncio.sleep(30))

        task = asyncio.create_task(caller())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    async def test_a_cancellation_of_the_task_comes_out_beside_that_of_the_work(self) -> None:
        made: list[Here] = []

        async def caller() -> None:
            made.append(here())
            await made[0].run(asyncio.sleep(30))

        task = asyncio.create_task(caller())
        await asyncio.sleep(0)
        made[0].cancel()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    async def test_what_the_work_raises_comes_out(self) -> None:
        async def fail() -> None:
            raise LookupError

        with pytest.raises(LookupError):
            await here().run(fail())


class Done:
    """A task that ended within its first step."""

    def done(self) -> bool:
        return True

    def cancel(self) -> None:
        raise AssertionError("there is nothing to cancel")

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None:
        raise AssertionError("there is nothing to wait for")


class TestTimersOfALoopThatHasNone:
    def test_are_called_in_their_time_unless_they_were_cancelled(self) -> None:
        timers, called = LoopTimers(), []
        assert timers.next == inf
        timers.add(5.0, lambda: called.append("five"))
        three = timers.add(3.0, lambda: called.append("three"))
        timers.add(4.0, lambda: called.append("four"))
        assert timers.next == 3.0
        three.cancel()
        three.cancel()
        assert timers.next == 4.0
        timers.ring(3.9)
        assert called == []
        timers.ring(5.0)
        assert (called, timers.next) == (["four", "five"], inf)

    def test_may_cancel_and_add_one_another(self) -> None:
        timers, called = LoopTimers(), []

        def first() -> None:
            second.cancel()
            timers.add(0.0, lambda: called.append("third"))

        timers.add(1.0, first)
        second = timers.add(1.0, lambda: called.append("second"))
        timers.ring(1.0)
        assert called == []
        timers.ring(1.0)
        assert called == ["third"]


class TestOrphans:
    async def test_are_waited_for(self) -> None:
        orphans, doors = Orphans(), [asyncio.Event(), asyncio.Event()]
        await orphans.ended(asyncio.Event)
        for door in doors:
            orphans.adopt(asyncio.ensure_future(door.wait()))
        waiting = asyncio.ensure_future(orphans.ended(asyncio.Event))
        for door in doors:
            await asyncio.sleep(0)
            assert not waiting.done()
            door.set()
        await waiting

    async def test_live_until_they_end_or_all_end(self) -> None:
        orphans, doors = Orphans(), [asyncio.Event(), asyncio.Event()]
        first, second = (asyncio.ensure_future(door.wait()) for door in doors)
        for task in (first, second, first):
            orphans.adopt(task)
        doors[0].set()
        await first
        await orphans.close(asyncio.Event)
        assert (first.cancelled(), second.cancelled()) == (False, True)

    async def test_who_comes_after_the_end_ends_at_once(self) -> None:
        orphans = Orphans()
        await orphans.close(asyncio.Event)
        task = asyncio.ensure_future(asyncio.Event().wait())
        orphans.adopt(task)
        await asyncio.wait([task])
        assert task.cancelled()

    async def test_a_task_that_takes_its_time_to_end_is_waited_for(self) -> None:
        orphans, order = Orphans(), []

        async def reluctant() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                order.append("ended")

        orphans.adopt(asyncio.ensure_future(reluctant()))
        await asyncio.sleep(0)
        await orphans.close(asyncio.Event)
        order.append("closed")
        assert order == ["ended", "closed"]


def caused(error: BaseException, *causes: BaseException) -> BaseException:
    """`error`, with that as its cause, and so on."""
    if causes:
        error.__cause__ = caused(*causes)
    return error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("no route"), "no route"),
        (KeyError(), "KeyError"),
        (caused(RuntimeError(), OSError("no route")), "no route"),
        (caused(OSError("all have failed"), OSError("no route")), "all have failed: no route"),
        (
            caused(OSError("all have failed"), ExceptionGroup("two", [OSError("no"), OSError("none")])),
            "all have failed: no",
        ),
        (ExceptionGroup("one", [ExceptionGroup("two", [OSError("no")])]), "no"),
    ],
)
def test_what_went_wrong_is_said_in_the_words_that_there_are(error: BaseException, words: str) -> None:
    assert words_of(error) == words


class Given(BaseException):
    """What a loop raises for a cancellation."""


NESTED = BaseExceptionGroup("", [BaseExceptionGroup("", [ValueError("a"), Given()]), Given()])
TWO = BaseExceptionGroup("", [ValueError("a"), ExceptionGroup("", [KeyError("b")])])
ONLY_GIVEN = BaseExceptionGroup("", [Given()])


def test_the_leaves_of_a_group() -> None:
    assert [type(error) for error in leaves(NESTED)] == [ValueError, Given, Given]
    alone = ValueError("a")
    assert [*leaves(alone)] == [alone]


@pytest.mark.parametrize("error", [ValueError(), Panic()])
def test_what_a_handler_failed_with_is_its_own(error: BaseException) -> None:
    assert split_failed(error, Given) == (error, None)


@pytest.mark.parametrize("error", [Given(), GeneratorExit(), KeyboardInterrupt(), SystemExit()])
def test_a_cancellation_and_what_ends_the_process_are_for_others(error: BaseException) -> None:
    assert split_failed(error, Given) == (None, error)


def test_a_group_is_taken_apart() -> None:
    interrupt, panic = KeyboardInterrupt(), Panic()
    failed, others = split_failed(BaseExceptionGroup("both", [interrupt, panic]), Given)
    assert failed is not None
    assert others is not None
    assert ([*leaves(failed)], [*leaves(others)]) == ([panic], [interrupt])


def raised_from(error: BaseException, known: tuple[BaseException, ...] = ()) -> BaseException | None:
    """What comes out of `plain_errors`."""
    try:
        with plain_errors(Given, known):
            raise error
    except BaseException as came_out:
        return came_out
    return None


def test_an_error_that_is_alone_comes_out_as_it_was_raised() -> None:
    only = next(leaves(NESTED))
    assert raised_from(NESTED) is only
    assert only.__context__ is None
    assert raised_from(only) is only


def test_several_errors_and_cancellations_alone_come_out_as_a_group() -> None:
    assert raised_from(TWO) is TWO
    assert raised_from(ONLY_GIVEN) is ONLY_GIVEN


def test_what_is_known_does_not_come_out_again() -> None:
    first, second = leaves(TWO)
    assert raised_from(TWO, (first,)) is second
    assert raised_from(TWO, (first, second)) is None
    with plain_errors(Given):
        pass


@pytest.mark.parametrize(
    ("raised", "passed_on"),
    [
        (GeneratorExit(), RuntimeError("GeneratorExit was raised in a thread")),
        (KeyboardInterrupt(), RuntimeError("KeyboardInterrupt was raised in a thread")),
        (OSError("no"), OSError("no")),
    ],
)
def test_what_a_thread_raises_ends_no_task_that_waits_for_it(raised: BaseException, passed_on: Exception) -> None:
    def function() -> None:
        raise raised

    with pytest.raises(type(passed_on)) as caught:
        run_for_another(function)
    assert str(caught.value) == str(passed_on)
    assert run_for_another(lambda: "done") == "done"

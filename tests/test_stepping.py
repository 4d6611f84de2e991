"""Coroutines that are taken on by hand: steps, jobs, cancellation, and what is set for later."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from mcp_sansio.stepping import Agenda, Cancelled, Event, Guarded, Job, Task, run_outside


class World:
    """What is to be run, the time, and the jobs that were handed out."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: deque[Callable[[], Any]] = deque()
        self.jobs: list[Job[Any]] = []
        self.agenda = Agenda(lambda: self.now, self.due.append, self.jobs.append)

    def turn(self) -> None:
        """Run all there is."""
        self.agenda.pass_time()
        while self.due:
            self.due.popleft()()

    def begin(self, work: Coroutine[Any, Any, Any]) -> Task:
        """Start a coroutine, and take it as far as it goes."""
        task = self.agenda.start(work)
        self.turn()
        return task


async def waiting_for(event: Event, log: list[str]) -> str:
    try:
        await event.wait()
    except BaseException as error:
        log.append(type(error).__name__)
        raise
    return "done"


def test_who_sets_a_flag_has_all_go_on_that_wait_for_it() -> None:
    world, event = World(), Event()
    tasks = [world.begin(waiting_for(event, [])) for _ in range(3)]
    assert [task.done() for task in tasks] == [False] * 3
    event.set()
    world.turn()
    assert [(task.done(), task.value) for task in tasks] == [(True, "done")] * 3
    assert world.begin(waiting_for(event, [])).value == "done"


def test_a_cancellation_is_raised_where_the_task_waits_and_once() -> None:
    world, event, log = World(), Event(), list[str]()
    task = world.begin(waiting_for(event, log))
    task.cancel()
    task.cancel()
    event.set()
    world.turn()
    assert (log, type(task.error), task.done()) == (["Cancelled"], Cancelled, True)
    task.cancel()
    world.turn()


def test_a_task_that_cancels_itself_is_told_where_it_waits_next() -> None:
    world, log = World(), list[str]()

    async def work() -> None:
        task.cancel()
        log.append("goes on")
        await waiting_for(Event(), log)

    task = world.agenda.start(work())
    world.turn()
    assert (log, type(task.error)) == (["goes on", "Cancelled"], Cancelled)


VARIABLE = contextvars.ContextVar("VARIABLE", default="outside")


def test_what_is_begun_takes_its_first_step_now_and_each_in_a_context_of_its_own() -> None:
    world, event = World(), Event()

    async def work(name: str) -> tuple[str, str]:
        before = VARIABLE.get()
        VARIABLE.set(name)
        await event.wait()
        return before, VARIABLE.get()

    tasks = [world.agenda.begin(work(name)) for name in "ab"]
    event.set()
    assert world.agenda.begin(work("c")).value == ("outside", "c")
    assert (VARIABLE.get(), [task.value for task in tasks]) == ("outside", [None, None])
    world.turn()
    assert [task.value for task in tasks] == [("outside", "a"), ("outside", "b")]


def test_what_is_begun_and_fails_at_once_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("at once")

    task = World().agenda.begin(fail())
    assert (task.done(), str(task.error), caplog.messages) == (True, "at once", ["a task failed"])


def test_an_interrupt_in_the_midst_of_a_step_is_for_who_takes_it() -> None:
    world = World()

    async def work() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        world.agenda.begin(work())
    task = world.agenda.start(work())
    with pytest.raises(KeyboardInterrupt):
        world.turn()
    assert (task.done(), type(task.error)) == (True, KeyboardInterrupt)


def test_who_asks_for_the_end_after_it_finds_it() -> None:
    world, ended = World(), list[Task]()
    task = world.begin(waiting_for(Event(), []))
    task.add_done_callback(ended.append)
    task.cancel()
    world.turn()
    assert (task.ended.is_set, ended) == (True, [task])


def test_a_pause_lets_everything_else_have_its_turn() -> None:
    world, order = World(), list[str]()

    async def work() -> None:
        order.append("before")
        await world.agenda.pause()
        order.append("after")

    task = world.agenda.begin(work())
    world.due.append(lambda: order.append("between"))
    world.turn()
    assert (task.done(), order) == (True, ["before", "between", "after"])


def test_a_job_is_done_by_whoever_gets_it() -> None:
    world = World()
    task = world.begin(run_outside(lambda: 6 * 7))
    (job,) = world.jobs
    thread = threading.Thread(target=job.run)
    thread.start()
    thread.join()
    job.done.set()
    world.turn()
    assert task.value == 42


@pytest.mark.parametrize(
    ("raised", "passed_on"),
    [(ValueError("no"), ValueError), (SystemExit(), RuntimeError), (StopIteration(), RuntimeError)],
)
def test_what_a_job_raises_is_raised_where_it_is_waited_for(raised: BaseException, passed_on: type[Exception]) -> None:
    world = World()

    def fail() -> None:
        raise raised

    task = world.begin(run_outside(fail))
    world.jobs[0].run()
    world.jobs[0].done.set()
    task.add_done_callback(lambda ended: None)
    world.turn()
    assert type(task.error) is passed_on


def test_what_a_job_held_that_raised_is_let_go_of_without_the_garbage_collector() -> None:
    """As with multiprocessing, whose buffers complain when they are found as garbage (Python 3.13)."""

    class Buffer:
        """Something that the function holds."""

    held: list[weakref.ref[Buffer]] = []

    def fail() -> None:
        buffer = Buffer()
        held.append(weakref.ref(buffer))
        raise OSError("gone")

    async def work() -> str:
        try:
            await run_outside(fail)
        except OSError as error:
            return str(error)
        return "done"

    world = World()
    gc.disable()
    try:
        task = world.begin(work())
        [job] = world.jobs
        world.jobs.clear()
        job.run()
        job.done.set()
        world.turn()
        assert (task.value, held[0]()) == ("gone", None)
    finally:
        gc.enable()


def test_a_job_that_nobody_waits_for_any_more_is_not_done() -> None:
    world, done = World(), list[int]()
    task = world.begin(run_outside(lambda: done.append(1)))
    task.cancel()
    world.turn()
    world.jobs[0].run()
    assert (done, task.done()) == ([], True)


def test_a_job_that_nobody_can_do_fails_where_it_is_waited_for() -> None:
    def outside(job: Job[Any]) -> None:
        raise RuntimeError("can't start new thread")

    due: deque[Callable[[], Any]] = deque()
    task = Agenda(lambda: 0.0, due.append, outside).start(run_outside(lambda: "done"))
    while due:
        due.popleft()()
    assert (task.done(), repr(task.error)) == (True, 'RuntimeError("can\'t start new thread")')


def test_an_interrupt_is_also_the_threads_own() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    job = Job(interrupted)
    with pytest.raises(KeyboardInterrupt):
        job.run()
    with pytest.raises(RuntimeError, match="KeyboardInterrupt was raised in a thread"):
        job.result()


def test_what_waits_for_a_loop_is_told_that_there_is_none() -> None:
    world, caught = World(), list[str]()

    async def work() -> str:
        try:
            await asyncio.sleep(0)
        except RuntimeError as error:
            caught.append(str(error))
        return "goes on"

    assert world.begin(work()).value == "goes on"
    assert caught[0].startswith("this waits for what an event loop brings about, and there is none here")


def test_things_are_done_when_they_are_due_and_in_order() -> None:
    world, done = World(), list[str]()
    world.agenda.call_at(2.0, lambda: done.append("later"))
    world.agenda.call_at(1.0, lambda: done.append("sooner"))
    world.agenda.call_at(1.5, lambda: done.append("never")).cancel()
    assert world.agenda.pass_time() == 1.0
    world.now = 1.0
    world.turn()
    assert (done, world.agenda.pass_time()) == (["sooner"], 1.0)
    world.now = 3.0
    world.turn()
    assert (done, world.agenda.pass_time()) == (["sooner", "later"], None)


@pytest.mark.parametrize("happens", [True, False])
def test_something_is_waited_for_within_a_time(happens: bool) -> None:
    world, event, log = World(), Event(), list[str]()
    task = world.begin(world.agenda.within(2.0, lambda: waiting_for(event, log)))
    world.now = 1.0
    if happens:
        event.set()
    world.turn()
    assert task.done() is happens
    world.now = 2.0
    world.turn()
    assert (task.done(), log) == (True, [] if happens else ["Cancelled"])


async def test_on_a_loop_that_is_lent_each_step_has_the_lock() -> None:
    lock, held = threading.Lock(), list[bool]()
    event = Event()

    async def work() -> int:
        held.append(lock.locked())
        await event.wait()
        held.append(lock.locked())
        await asyncio.sleep(0)
        held.append(lock.locked())
        return await run_outside(lambda: int(lock.locked()))

    async def wait(waited: Event) -> None:
        assert not lock.locked()
        waited.set()

    def outside(job: Job[Any]) -> None:
        job.run()

    async def whole(guarded: Awaitable[int]) -> int:
        return await guarded

    assert await whole(Guarded(work(), lock, outside, wait)) == 0
    assert held == [True, True, True]

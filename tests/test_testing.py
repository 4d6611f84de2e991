"""The simulation: a clock that moves when told, tasks that run in order, and what a driver has to do."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import CallCancelled, CallReceived, Exchange, PeerFaulted, Registry, StoreNeeded
from mcp_sansio.testing import Cancelled, FakeClock, FakeEvent, Scheduler, Simulation
from speak import HANDSHAKE, VERSIONS, Channel, DistantStore, Http


def test_a_clock() -> None:
    clock = FakeClock(5.0)
    assert clock() == 5.0
    clock.advance(0)
    clock.advance(2.5)
    assert clock() == 7.5
    with pytest.raises(ValueError, match=r"^a clock does not go back: -1 seconds$"):
        clock.advance(-1)
    assert FakeClock()() == 0.0


class Log:
    """Tasks that say what they do."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.event = FakeEvent(self.scheduler)
        self.said: list[str] = []

    async def wait(self, name: str) -> None:
        self.said.append(f"{name} waits")
        try:
            await self.event.wait()
        except Cancelled:
            self.said.append(f"{name} is cancelled")
            raise
        self.said.append(f"{name} goes on")


def test_tasks_run_in_order_and_wait_for_events() -> None:
    log = Log()
    for name in "ab":
        log.scheduler.spawn(log.wait(name))
    assert (log.said, len(log.scheduler), log.scheduler.ready) == ([], 2, True)
    log.scheduler.run()
    assert (log.said, log.scheduler.ready) == (["a waits", "b waits"], False)
    log.event.set()
    assert log.scheduler.ready
    log.scheduler.run()
    assert (log.said[2:], len(log.scheduler)) == (["a goes on", "b goes on"], 0)
    log.scheduler.spawn(log.wait("c"))
    log.event.set()
    log.scheduler.run()
    assert log.said[4:] == ["c waits", "c goes on"]


def test_a_task_is_cancelled_where_it_stands() -> None:
    log = Log()
    waiting, fresh = log.scheduler.spawn(log.wait("a")), log.scheduler.spawn(log.wait("b"))
    log.scheduler.cancel(fresh)
    log.scheduler.run()
    log.scheduler.cancel(waiting)
    log.scheduler.cancel(waiting)
    log.event.set()
    log.scheduler.run()
    # One that has not started ends without a word.
    assert (log.said, len(log.scheduler)) == (["a waits", "a is cancelled"], 0)


def test_a_task_that_is_ready_is_cancelled() -> None:
    log = Log()
    task = log.scheduler.spawn(log.wait("a"))
    log.scheduler.run()
    log.event.set()
    log.scheduler.cancel(task)
    log.scheduler.run()
    assert (log.said, len(log.scheduler)) == (["a waits", "a is cancelled"], 0)


def test_a_task_may_wait_for_nothing_else() -> None:
    class Other:
        def __await__(self) -> Any:
            yield "something"

    async def wrong() -> None:
        await Other()

    scheduler = Scheduler()
    scheduler.spawn(wrong())
    with pytest.raises(TypeError) as caught:
        scheduler.run()
    assert str(caught.value) == "without an event loop there is nothing to wait for but the Exchange, not 'something'"


def test_a_fault_in_a_task_is_raised() -> None:
    async def wrong() -> None:
        raise KeyError("x")

    scheduler = Scheduler()
    scheduler.spawn(wrong())
    with pytest.raises(KeyError):
        scheduler.run()
    assert len(scheduler) == 0


def test_a_coroutine_is_run_to_its_end() -> None:
    async def add() -> int:
        return 1 + 1

    async def fail() -> None:
        raise KeyError("x")

    scheduler = Scheduler()
    assert scheduler.complete(add()) == 2
    with pytest.raises(KeyError):
        scheduler.complete(fail())
    assert len(scheduler) == 0


def test_a_coroutine_that_waits_for_nothing_is_ended() -> None:
    log = Log()
    with pytest.raises(RuntimeError, match=r"^this waits for something that nothing brings about$"):
        log.scheduler.complete(log.wait("a"))
    assert (log.said, len(log.scheduler)) == (["a waits", "a is cancelled"], 0)


def test_what_was_started_is_told_when_it_has_ended() -> None:
    log = Log()
    waiting, late = log.scheduler.start(log.wait("a")), log.scheduler.start(log.wait("b"))
    late.cancel()
    assert (late.done, waiting.done) == (True, False)
    with pytest.raises(RuntimeError, match=r"^it has not ended$"):
        waiting.result()
    log.scheduler.run()
    log.event.set()
    log.scheduler.run()
    assert (waiting.done, waiting.result(), log.said) == (True, None, ["a waits", "a goes on"])
    with pytest.raises(Cancelled):
        late.result()


def test_all_tasks_end_at_once() -> None:
    log = Log()
    for name in "ab":
        log.scheduler.spawn(log.wait(name))
    log.scheduler.run()
    log.scheduler.close()
    assert (log.said[2:], len(log.scheduler)) == (["a is cancelled", "b is cancelled"], 0)


def registry() -> Registry:
    made = Registry("s", "1")

    @made.tool
    async def echo(text: str) -> str:
        """Echo."""
        return text

    @made.tool
    async def wait(ex: Exchange) -> str:
        """Wait."""
        await ex.wait_cancelled()
        return "late"

    return made


@pytest.mark.parametrize("version", VERSIONS)
def test_two_simulations_are_alike_to_the_byte(version: str) -> None:
    bodies = []
    for _ in range(2):
        speaker = Http(version, registry())
        running = speaker.call("wait", token="t")
        speaker.simulation.advance(40)
        bodies.append((speaker.session, running.head, running.body, speaker.call("echo", {"text": "a"}).body))
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_happened_is_kept(version: str) -> None:
    speaker, channel = Http(version, registry()), Channel(version, registry())
    exchange = speaker.call("echo", {"text": "a"})
    kinds = [type(event) for event in exchange.happened]
    assert kinds == [CallReceived]
    distant = Http(version, Simulation(registry(), store=DistantStore())).call("echo", {"text": "a"})
    kinds = [type(event) for event in distant.happened]
    assert kinds == ([StoreNeeded, CallReceived] if version in HANDSHAKE else [CallReceived])
    assert exchange.status == 200
    assert exchange.header("CONTENT-TYPE") == "application/json"
    assert exchange.header("none") is None
    assert not exchange.is_stream
    unknown = speaker.request("nonsense")
    assert isinstance(unknown.happened[-1], PeerFaulted)
    before = len(channel.end.happened)
    channel.call("wait")
    channel.end.close()
    assert [type(event) for event in channel.end.happened[before:]] == [CallReceived, CallCancelled]


def test_before_there_is_a_response() -> None:
    exchange = Http(VERSIONS[0], registry()).call("wait")
    assert (exchange.head, exchange.status, exchange.header("x"), exchange.messages) == (None, None, None, [])
    assert (exchange.ended, exchange.is_stream) == (False, False)


def test_time_stops_at_every_deadline() -> None:
    speaker = Http(VERSIONS[0], registry())
    one, two = speaker.call("wait", id=1), speaker.call("wait", id=2)
    speaker.simulation.advance(7.5)
    three = speaker.call("wait", id=3)
    speaker.simulation.advance(15)
    assert speaker.simulation.clock() == 22.5
    comments = [exchange.body.count(b":\n\n") - exchange.body.count(b"data:\n\n") for exchange in (one, two, three)]
    assert comments == [1, 1, 1]
    speaker.simulation.advance(7.5)
    assert one.body.count(b":\n\n") - one.body.count(b"data:\n\n") == 2


def test_options_reach_the_server() -> None:
    from mcp_sansio import AdapterSet

    only = AdapterSet.default().only(VERSIONS[0])
    simulation = Simulation(registry(), adapters=only)
    assert simulation.server.adapters is only
    answered = simulation.http({"jsonrpc": "2.0", "id": 1, "method": "x"}, headers={"Content-Type": "text/plain"})
    assert answered.status == 415

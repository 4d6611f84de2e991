"""What stores and hubs on an engine share, without an engine and without a loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from mcp_sansio import HubMessage, StoreFull, StoreTooNew, StoreUnavailable
from mcp_sansio.storing import (
    Backoff,
    EngineHub,
    EngineStore,
    Opening,
    check_namespace,
    check_schema,
    encode_key,
    sweep_forever,
)
from mcp_sansio.testing import Scheduler


def test_a_backoff_doubles_up_to_its_most() -> None:
    backoff = Backoff(first=0.5, most=3.0)
    assert [backoff.delay() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    backoff.reset()
    assert [backoff.delay() for _ in range(2)] == [0.5, 1.0]


@pytest.mark.parametrize("namespace", ["a", "my-app_1.x", "x" * 48])
def test_a_namespace(namespace: str) -> None:
    assert check_namespace(namespace) == namespace


@pytest.mark.parametrize("namespace", ["", "x" * 49, "a:b", "a b", "a\n", "{a}", "a*", "ä", "a\0"])
def test_what_is_no_namespace(namespace: str) -> None:
    with pytest.raises(ValueError, match=r"^a namespace is 1 to 48 of the characters A-Z a-z 0-9 _ \. -, not '"):
        check_namespace(namespace)


def test_keys_are_told_apart() -> None:
    keys = ["", "\0", "a", "a\0", "é", "e\u0301", "\ud83e\udd56x", "🥖", "\ud83e", "\udd56"]
    assert len({encode_key(key) for key in keys}) == len(keys)


def test_a_schema() -> None:
    check_schema("here", 1, 1)
    check_schema("here", 1, 2)
    with pytest.raises(StoreTooNew, match=r"^here: its schema is 3, and this release knows up to 2; update it first$"):
        check_schema("here", 3, 2)


# Opening --------------------------------------------------------------------------------------------------------------


class Loop:
    """An event loop, as far as anybody asks."""

    def __init__(self) -> None:
        self.closed = False

    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self.closed


class Door:
    """Something that takes a while to open, and may not open at all."""

    def __init__(self, **options: Any) -> None:
        self.scheduler = Scheduler()
        self.loop = Loop()
        lent: Any = {
            "event": lambda: self.scheduler.event(),
            "start": lambda work: self.scheduler.start(work),
            "loop": lambda: self.loop,
        }
        self.opening = Opening(self.open, self.shut, **lent, **options)
        self.attempts: list[int] = []
        self.closed: list[int] = []
        self.may_go_on = self.scheduler.event()
        self.failure: Exception | None = None

    async def open(self) -> int:
        number = len(self.attempts) + 1
        self.attempts.append(number)
        await self.may_go_on.wait()
        if self.failure is not None:
            raise self.failure
        return number

    async def shut(self, number: int) -> None:
        self.closed.append(number)


def test_it_is_opened_once_for_all_who_come() -> None:
    door = Door()
    comers = [door.scheduler.start(door.opening.get()) for _ in range(3)]
    door.scheduler.run()
    assert door.opening.opened is None
    door.may_go_on.set()
    door.scheduler.run()
    assert door.opening.opened == 1
    assert [comer.result() for comer in comers] == [1, 1, 1]
    assert door.scheduler.complete(door.opening.get()) == 1
    assert (door.attempts, door.closed) == ([1], [])


@pytest.mark.parametrize("how", ["close", "give up"])
def test_it_is_opened_anew_once_it_was_closed(how: str) -> None:
    door = Door()
    door.may_go_on.set()
    door.scheduler.complete(door.opening.close())
    door.opening.give_up()
    assert door.scheduler.complete(door.opening.get()) == 1
    if how == "close":
        door.scheduler.complete(door.opening.close())
    else:
        door.opening.give_up()
    assert (door.closed, door.opening.opened) == ([1], None)
    assert door.scheduler.complete(door.opening.get()) == 2
    door.scheduler.complete(door.opening.close())
    assert (door.closed, len(door.scheduler)) == ([1, 2], 0)


def test_it_is_closed_when_the_tasks_of_its_loop_end() -> None:
    door = Door()
    door.may_go_on.set()
    assert door.scheduler.complete(door.opening.get()) == 1
    door.scheduler.close()
    assert (door.closed, len(door.scheduler)) == ([1], 0)
    assert door.scheduler.complete(door.opening.get()) == 2


@pytest.mark.parametrize("when", ["while it was open", "while it was opened"])
def test_it_is_opened_anew_once_its_loop_was_closed_without_a_word(when: str) -> None:
    door = Door()
    comer = door.scheduler.start(door.opening.get())
    if when == "while it was open":
        door.may_go_on.set()
    door.scheduler.run()
    assert comer.done == (when == "while it was open")
    door.loop.closed = True
    door.loop, door.scheduler = Loop(), Scheduler()
    door.may_go_on = door.scheduler.event()
    door.may_go_on.set()
    assert door.scheduler.complete(door.opening.get()) == 2
    assert door.scheduler.complete(door.opening.get()) == 2


def test_nothing_is_left_to_close_once_its_loop_was_closed_without_a_word() -> None:
    door = Door()
    door.may_go_on.set()
    assert door.scheduler.complete(door.opening.get()) == 1
    door.loop.closed = True
    door.loop, door.scheduler = Loop(), Scheduler()
    door.scheduler.complete(door.opening.close())
    assert (door.closed, door.opening.opened) == ([], None)


def test_it_is_the_same_on_a_loop_beside_another() -> None:
    door = Door()
    door.may_go_on.set()
    assert door.scheduler.complete(door.opening.get()) == 1
    door.loop = Loop()
    assert door.scheduler.complete(door.opening.get()) == 1


def test_it_is_tended_for_as_long_as_it_is_open() -> None:
    tended: list[str] = []

    async def tend() -> None:
        tended.append("begun")
        try:
            await door.scheduler.event().wait()
        finally:
            tended.append("ended")

    door = Door(tend=tend)
    door.may_go_on.set()
    door.scheduler.complete(door.opening.get())
    assert tended == ["begun"]
    door.scheduler.complete(door.opening.close())
    assert (tended, door.closed) == (["begun", "ended"], [1])


def test_all_who_wait_hear_that_it_failed_and_the_next_one_tries_again() -> None:
    door = Door()
    comers = [door.scheduler.start(door.opening.get()) for _ in range(3)]
    door.scheduler.run()
    door.failure = StoreUnavailable("it is locked")
    door.may_go_on.set()
    door.scheduler.run()
    for comer in comers:
        with pytest.raises(StoreUnavailable, match=r"^it is locked$"):
            comer.result()
    door.failure = None
    assert door.scheduler.complete(door.opening.get()) == 2
    assert door.attempts == [1, 2]


def test_who_is_given_up_while_it_opens_leaves_it_to_the_others() -> None:
    door = Door()
    first, second = (door.scheduler.start(door.opening.get()) for _ in range(2))
    door.scheduler.run()
    first.cancel()
    door.scheduler.run()
    door.may_go_on.set()
    door.scheduler.run()
    assert (second.result(), door.attempts) == (2, [1, 2])


def test_what_is_swept_is_swept_again_whatever_becomes_of_it(caplog: pytest.LogCaptureFixture) -> None:
    scheduler, waits, fates = Scheduler(), [], [None, StoreUnavailable("away"), StoreFull("full"), None, OSError("x")]

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def sweep() -> None:
        if (fate := fates.pop(0)) is not None:
            raise fate

    with pytest.raises(OSError, match=r"^x$"):
        scheduler.complete(sweep_forever(sweep, 7.0, sleep, logging.getLogger("test")))
    assert waits == [7.0] * 5
    assert [record.getMessage() for record in caplog.records] == [
        "what has expired is not removed: away",
        "what has expired is not removed: full",
    ]


# The hub --------------------------------------------------------------------------------------------------------------


class Board(EngineHub):
    """A hub on a list. Its engine is listened to once the test has said so, and lost when it says that."""

    def __init__(self) -> None:
        self.scheduler = Scheduler()
        self.slept: list[float] = []
        self.loop = Loop()
        lent: Any = {"event": self.scheduler.event, "start": self.scheduler.start, "loop": lambda: self.loop}
        super().__init__(sleep=self.sleep, **lent)
        self.messages: list[tuple[str, HubMessage]] = []
        self.looks = 0
        self.listened = 0
        self.reached = self.scheduler.event()
        self.lost = self.scheduler.event()
        self.failure: Exception | None = StoreUnavailable("the engine was lost")

    def put(self, topic: str, cursor: int, data: bytes) -> None:
        self.messages.append((topic, HubMessage(cursor, data)))

    def wait(self, *topics: str) -> list[Any]:
        """Polls of those topics that wait, with the engine listened to."""
        polls = [self.scheduler.start(self.poll(topic, 0)) for topic in topics]
        self.reached.set()
        self.scheduler.run()
        self.looks = 0
        return polls

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def _hear(self, ready: Callable[[], None]) -> None:
        self.listened += 1
        await self.reached.wait()
        ready()
        await self.lost.wait()
        self.lost = self.scheduler.event()
        if self.failure is not None:
            raise self.failure

    async def _read(self, topic: str, cursor: int) -> Sequence[HubMessage]:
        self.looks += 1
        return [message for of, message in self.messages if of == topic and message.cursor > cursor]


def test_what_is_there_is_given_at_once() -> None:
    board = Board()
    board.put("t", 1, b"a")
    board.put("t", 2, b"b")
    assert board.scheduler.complete(board.poll("t", 1)) == [HubMessage(2, b"b")]
    assert board.is_waited_for is False


def test_who_waits_looks_when_it_rings_for_them() -> None:
    board = Board()
    one, two, other = board.wait("t", "t", "u")
    board.ring("t")
    board.scheduler.run()
    assert (board.looks, one.done, two.done, other.done) == (2, False, False, False)
    board.put("t", 1, b"a")
    board.ring("t")
    board.scheduler.run()
    assert (one.result(), two.result(), other.done) == ([HubMessage(1, b"a")], [HubMessage(1, b"a")], False)
    board.put("u", 2, b"b")
    board.ring("nobody's")
    board.ring()
    board.scheduler.run()
    assert (other.result(), board.looks, board.is_waited_for) == ([HubMessage(2, b"b")], 5, False)
    assert board.listened == 1, "however many wait"


def test_what_comes_before_the_engine_is_listened_to_is_not_missed() -> None:
    board = Board()
    waiting = board.scheduler.start(board.poll("t", 0))
    board.scheduler.run()
    board.put("t", 1, b"a")  # which nobody hears
    board.scheduler.run()
    assert waiting.done is False
    board.reached.set()
    board.scheduler.run()
    assert waiting.result() == [HubMessage(1, b"a")]


def test_what_comes_while_it_is_looked_is_not_missed() -> None:
    class Late(Board):
        async def _read(self, topic: str, cursor: int) -> Sequence[HubMessage]:
            found = await super()._read(topic, cursor)
            if self.looks == 1:
                self.put("t", 1, b"a")
                self.ring("t")
            return found

    board = Late()
    assert board.scheduler.complete(board.poll("t", 0)) == [HubMessage(1, b"a")]


def test_who_waits_hears_that_the_engine_was_lost_and_can_go_on() -> None:
    board = Board()
    polls = board.wait("t", "u")
    board.lost.set()
    board.scheduler.run()
    for poll in polls:
        with pytest.raises(StoreUnavailable, match=r"^the engine was lost$"):
            poll.result()
    assert (board.is_waited_for, board.slept) == (False, [0.1])
    (again,) = board.wait("t")
    board.put("t", 1, b"a")
    board.ring()
    board.scheduler.run()
    assert again.result() == [HubMessage(1, b"a")]


def test_an_engine_that_is_lost_over_and_over_is_asked_ever_more_rarely() -> None:
    class Lost(Board):
        async def _hear(self, ready: Callable[[], None]) -> None:
            self.listened += 1
            if self.listened in (3, 7):
                ready()
            raise StoreFull("full") if self.listened % 2 else StoreUnavailable("away")

        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds)
            if len(self.slept) == 8:
                await self.scheduler.event().wait()  # it is enough
            self.scheduler.start(self.poll("t", 0))

    board = Lost()
    board.scheduler.start(board.poll("t", 0))
    board.scheduler.run()
    assert board.slept == [0.1, 0.2, 0.1, 0.2, 0.4, 0.8, 0.1, 0.2]


def test_an_engine_that_is_not_waited_for_need_not_be_listened_to() -> None:
    board = Board()
    board.failure = None
    (poll,) = board.wait("t")
    poll.cancel()
    board.lost.set()
    board.scheduler.run()
    assert (board.listened, len(board.scheduler)) == (1, 0)
    board.wait("t")
    assert board.listened == 2


def test_a_listener_with_a_fault_leaves_nobody_waiting() -> None:
    board = Board()
    board.failure = KeyError("t")
    (poll,) = board.wait("t")
    board.lost.set()
    board.scheduler.run()
    with pytest.raises(StoreUnavailable, match=r"^KeyError\('t'\)$"):
        poll.result()
    assert len(board.wait("t")) == 1
    assert board.listened == 2


def test_who_waits_hears_that_it_was_closed() -> None:
    board = Board()
    board.stop("closed before anybody came")
    (poll,) = board.wait("t")
    board.stop("it was closed")
    board.scheduler.run()
    with pytest.raises(StoreUnavailable, match=r"^it was closed$"):
        poll.result()
    assert len(board.scheduler) == 0
    board.wait("t")
    assert board.listened == 2


def test_it_is_listened_to_anew_once_its_loop_was_closed_without_a_word() -> None:
    board = Board()
    (lost,) = board.wait("t")
    board.loop.closed = True
    board.loop = Loop()
    (waiting,) = board.wait("t")
    assert board.listened == 2
    lost.cancel()  # as the collector does, sooner or later
    board.put("t", 1, b"a")
    board.ring("t")
    board.scheduler.run()
    assert waiting.result() == [HubMessage(1, b"a")]


@pytest.mark.parametrize(
    "failure", [RuntimeError("coroutine ignored GeneratorExit"), StoreUnavailable("it was closed")]
)
def test_what_a_listener_of_a_closed_loop_ends_with_is_nobodys(failure: Exception) -> None:
    board = Board()
    board.wait("t")
    collected, board.lost = board.lost, board.scheduler.event()
    board.loop.closed = True
    board.loop = Loop()
    (waiting,) = board.wait("t")
    board.failure = failure
    collected.set()
    board.scheduler.run()
    assert waiting.done is False
    board.put("t", 1, b"a")
    board.ring("t")
    board.scheduler.run()
    assert waiting.result() == [HubMessage(1, b"a")]


def test_nobody_is_left_to_stop_once_its_loop_was_closed_without_a_word() -> None:
    board = Board()
    (lost,) = board.wait("t")
    board.loop.closed = True
    board.loop = Loop()
    board.stop("it was closed")
    board.scheduler.run()
    assert lost.done is False


def test_who_gives_up_is_not_waited_for() -> None:
    board = Board()
    one, two = board.wait("t", "t")
    one.cancel()
    assert board.is_waited_for is True
    two.cancel()
    assert board.is_waited_for is False


def test_a_store_in_async_with() -> None:
    happened: list[str] = []

    class Store(EngineStore):
        async def open(self) -> None:
            happened.append("opened")

        async def close(self) -> None:
            happened.append("closed")

    async def use() -> None:
        async with Store() as store:
            happened.append(type(store).__name__)

    Scheduler().complete(use())
    assert happened == ["opened", "Store", "closed"]

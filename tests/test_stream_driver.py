"""`StreamDriver` on a loop that a test turns by hand: what goes in when, what waits, and that it all comes out."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest

from mcp_sansio.stream_driver import PATIENCE, StreamDriver, TaskSink, TaskSource

LIMIT = 100


class Loop:
    """An event loop whose time stands still."""

    class Handle:
        """Something that is to happen."""

        def __init__(self, when: float, callback: Callable[[], Any]) -> None:
            self.when, self.callback, self.cancelled = when, callback, False

        def cancel(self) -> None:
            self.cancelled = True

    def __init__(self) -> None:
        self.now = 0.0
        self.ready: deque[Callable[[], Any]] = deque()
        self.later: list[Loop.Handle] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[[], Any]) -> None:
        self.ready.append(callback)

    def call_at(self, when: float, callback: Callable[[], Any]) -> Handle:
        self.later.append(self.Handle(when, callback))
        return self.later[-1]

    def turn(self) -> None:
        """Run what is ready, and not what that makes ready."""
        for _ in range(len(self.ready)):
            self.ready.popleft()()

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        due = [handle for handle in self.later if handle.when <= self.now]
        self.later = [handle for handle in self.later if handle.when > self.now]
        for handle in due:
            if not handle.cancelled:
                handle.callback()


class Pipe:
    """Both a source and a sink."""

    def __init__(self) -> None:
        self.pending = self.written = 0
        self.is_read, self.hung_up = True, False
        self.out: list[bytes] = []

    def pause(self) -> None:
        self.is_read = False

    def resume(self) -> None:
        self.is_read = True

    def has_hung_up(self) -> bool:
        return self.hung_up

    def write(self, data: bytes) -> None:
        self.out.append(data)

    def close(self) -> None:
        self.is_read = False


class Engine:
    """Echoes what it gets, and says when it has heard "event"."""

    def __init__(self) -> None:
        self.heard: list[Any] = []
        self.said: list[bytes] = []
        self.happened: list[Any] = []
        self.deadline: float | None = None

    def receive_message(self, data: bytes) -> None:
        self.heard.append(data)
        self.said.append(data)

    def receive_overlong(self, size: int) -> None:
        self.heard.append(size)

    def events(self) -> list[Any]:
        happened, self.happened = self.happened, []
        return happened

    def data_to_send(self) -> list[bytes]:
        said, self.said = self.said, []
        return said

    def next_deadline(self) -> float | None:
        return self.deadline

    def handle_timeout(self, now: float) -> None:
        self.deadline = None
        self.happened.append(f"timeout at {now}")


class Driver(StreamDriver):
    """Between `Pipe`s."""

    def __init__(self) -> None:
        self.engine, self.turns, self.pipe = Engine(), Loop(), Pipe()
        self.handled: list[Any] = []
        super().__init__(self.engine, LIMIT, self.turns, take_events=self.take, event=asyncio.Event)
        self.source = self.sink = self.pipe

    def take(self) -> None:
        self.handled += self.engine.events()

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether it is at its end, and whether nothing more comes in."""
        return cast("asyncio.Event", self.at_end).is_set(), cast("asyncio.Event", self.silent).is_set()


class Patient(Driver):
    """Takes in what comes whatever waits to be written, as a client does."""

    holds_back = False


def test_what_comes_in_goes_out_in_one_write() -> None:
    driver = Driver()
    driver.receive(b"a\nb\nc")
    driver.receive(b"d\n")
    assert driver.pipe.out == [b"a\nb\n", b"cd\n"]


def test_no_more_than_a_slice_between_two_turns_of_the_loop() -> None:
    driver = Driver()
    driver.receive(b"".join(b"%d\n" % number for number in range(150)))
    counts = []
    while driver.turns.ready:
        counts.append(len(driver.engine.heard))
        driver.turns.turn()
    assert (counts, len(driver.engine.heard)) == ([64, 128], 150)


def test_a_server_hears_nothing_while_its_client_does_not_read() -> None:
    driver = Driver()
    driver.pipe.pending = 7
    driver.receive(b"a\n")
    assert (driver.engine.heard, driver.pipe.is_read) == ([], True)
    driver.receive(b"b" * LIMIT + b"\n")
    assert driver.pipe.is_read is False
    driver.pipe.pending = 0
    driver.feed()
    assert (driver.engine.heard, driver.pipe.is_read) == ([b"a", b"b" * LIMIT], True)


def test_a_client_hears_what_its_server_says_all_the_same() -> None:
    driver = Patient()
    driver.pipe.pending = 7
    driver.receive(b"a\n")
    assert (driver.engine.heard, driver.engine.said, driver.pipe.out) == ([b"a"], [b"a"], [])
    driver.pipe.pending = 0
    driver.feed()
    assert driver.pipe.out == [b"a\n"]


def test_who_hangs_up_unread_is_noticed() -> None:
    driver = Driver()
    driver.pipe.pending = 7
    driver.receive(b"a" * (LIMIT + 1))
    driver.turns.pass_time(0.25)
    assert (driver.ends, len(driver.turns.later)) == ((False, False), 1)
    driver.pipe.hung_up = True
    driver.turns.pass_time(0.25)
    assert (driver.ends, driver.turns.later) == ((True, True), [])


def test_nobody_looks_once_it_is_read_again() -> None:
    driver = Driver()
    driver.pipe.pending = 7
    driver.receive(b"a" * (LIMIT + 1))
    driver.pipe.pending, driver.pipe.hung_up = 0, True
    driver.feed()
    driver.turns.pass_time(1)
    assert (driver.ends, driver.pipe.is_read) == ((False, False), True)


def test_who_stops_reads_no_more_and_forgets_what_was_not_had() -> None:
    driver = Driver()
    driver.pipe.pending = 7
    driver.receive(b"a" * (LIMIT + 1) + b"\n")
    driver.stop()
    driver.pipe.pending = 0
    driver.feed()
    driver.turns.pass_time(1)
    assert (driver.ends, driver.pipe.is_read, driver.engine.heard) == ((True, True), False, [])


def test_an_output_that_is_broken_is_an_end_but_what_comes_in_goes_on() -> None:
    driver = Driver()
    driver.broken()
    driver.receive(b"a\n")
    assert (driver.ends, driver.engine.heard) == ((True, False), [b"a"])


def test_the_end_is_told_and_the_last_line_needs_no_end() -> None:
    driver = Driver()
    driver.receive(b"a")
    driver.receive(b"")
    assert (driver.ends, driver.engine.heard) == ((True, True), [b"a"])


class TestWaiting:
    """For as long as the peer moves."""

    async def test_until_everything_is_written(self) -> None:
        driver = Driver()
        await driver.sent()
        driver.pipe.pending = 7
        waiting = asyncio.ensure_future(driver.sent())
        for _ in range(3):
            await turn()
            driver.pipe.written += 1
            driver.turns.pass_time(PATIENCE)
        await turn()
        assert not waiting.done()
        driver.pipe.pending = 0
        driver.feed()
        await waiting
        assert [handle for handle in driver.turns.later if not handle.cancelled] == []

    async def test_no_longer_than_it_reads(self) -> None:
        driver = Driver()
        driver.pipe.pending = 7
        waiting = asyncio.ensure_future(driver.sent())
        await turn()
        driver.turns.pass_time(PATIENCE)
        await waiting
        await driver.sent()

    async def test_no_longer_than_it_reads_however_much_it_writes(self) -> None:
        driver = Patient()
        driver.pipe.pending = 7
        waiting = asyncio.ensure_future(driver.sent())
        for _ in range(2):
            await turn()
            driver.receive(b"a\n")
            driver.turns.pass_time(PATIENCE)
        await waiting

    async def test_no_longer_than_there_is_time_however_slowly_it_reads(self) -> None:
        driver = Driver()
        driver.pipe.pending = 7
        waiting = asyncio.ensure_future(driver.sent(within=2.5 * PATIENCE))
        for seconds in (PATIENCE, PATIENCE, PATIENCE / 2):
            await turn()
            assert not waiting.done()
            driver.pipe.written += 1
            driver.turns.pass_time(seconds)
        await waiting

    async def test_no_longer_than_there_is_time_however_much_comes_in(self) -> None:
        driver = Driver()
        waiting = asyncio.ensure_future(driver.taken_in(within=2.5 * PATIENCE))
        for seconds in (PATIENCE, PATIENCE, PATIENCE / 2):
            await turn()
            assert not waiting.done()
            driver.receive(b"a\n")
            driver.turns.pass_time(seconds)
        await waiting

    async def test_until_everything_is_taken_in(self) -> None:
        driver = Driver()
        driver.receive(b"".join(b"%d\n" % number for number in range(100)))
        waiting = asyncio.ensure_future(driver.taken_in())
        await turn()
        driver.receive(b"")
        while driver.turns.ready:
            assert not waiting.done()
            driver.turns.turn()
        await waiting
        assert len(driver.engine.heard) == 100


async def turn() -> None:
    """Let what runs come to where it waits."""
    for _ in range(3):
        await asyncio.sleep(0)


def test_a_wake_is_one_flush_however_often_it_comes() -> None:
    driver = Driver()
    for said in (b"a", b"b"):
        driver.engine.said.append(said)
        driver.wake()
    assert (len(driver.turns.ready), driver.pipe.out) == (1, [])
    driver.turns.turn()
    assert driver.pipe.out == [b"a\nb\n"]


def test_events_are_handled_even_if_nothing_can_be_written() -> None:
    driver = Driver()
    driver.pipe.pending = 7
    driver.engine.happened, driver.engine.said = ["one", "two"], [b"a"]
    driver.flush()
    assert (driver.handled, driver.pipe.out) == (["one", "two"], [])


def test_deadlines_come_in_time() -> None:
    driver = Driver()
    driver.engine.deadline = 3.0
    driver.flush()
    driver.turns.pass_time(2.9)
    assert driver.handled == []
    driver.turns.pass_time(0.1)
    assert (driver.handled, driver.turns.later) == (["timeout at 3.0"], [])


def test_the_last_that_the_engine_says_is_written_whatever_waits() -> None:
    driver = Driver()
    driver.engine.deadline = 3.0
    driver.flush()
    driver.pipe.pending = 7
    driver.engine.happened, driver.engine.said = ["before"], [b"a"]
    driver.finish(lambda: driver.engine.happened.append("after"))
    assert (driver.handled, driver.pipe.out, driver.is_over) == (["before", "after"], [b"a\n"], True)
    driver.receive(b"b\n")
    driver.wake()
    driver.turns.pass_time(9)
    assert (driver.engine.heard, driver.pipe.out, len(driver.turns.ready)) == ([], [b"a\n"], 0)


async def test_a_source_that_a_task_reads_stops_for_as_long_as_it_is_told_to() -> None:
    pieces, received = asyncio.Queue[bytes](), asyncio.Queue[bytes]()
    released: list[str] = []
    source = TaskSource(
        pieces.get,
        received.put_nowait,
        start=asyncio.ensure_future,
        event=asyncio.Event,
        release=lambda: released.append("released"),
    )
    pieces.put_nowait(b"one")
    assert await received.get() == b"one"
    source.pause()
    source.pause()
    pieces.put_nowait(b"is being read")
    pieces.put_nowait(b"two")
    assert await received.get() == b"is being read"
    for _ in range(5):
        await asyncio.sleep(0)
    assert (received.empty(), pieces.qsize()) == (True, 1)
    source.resume()
    source.resume()
    assert await received.get() == b"two"
    assert (source.has_hung_up(), released) == (False, [])
    source.close()
    assert released == ["released"]


async def test_a_source_that_fails_has_ended() -> None:
    received = asyncio.Queue[bytes]()

    async def read() -> bytes:
        raise OSError("gone")

    TaskSource(read, received.put_nowait, start=asyncio.ensure_future, event=asyncio.Event)
    assert await received.get() == b""


class Slow:
    """A descriptor that takes three bytes now, and three for each time that it is waited for."""

    def __init__(self, fails: str = "") -> None:
        self.taken, self.fails, self.room = b"", fails, 3
        self.rooms: list[int] = []
        self.may_go_on, self.told = asyncio.Event(), asyncio.Queue[str]()
        self.sink = TaskSink(
            self.later,
            lambda: self.told.put_nowait("written"),
            lambda: self.told.put_nowait("broken"),
            start=asyncio.ensure_future,
            now=self.now,
            release=lambda: self.told.put_nowait("released"),
        )

    def now(self, data: memoryview) -> int:
        if self.fails == "now":
            raise BrokenPipeError
        if self.fails == "blocks" and not self.room:
            raise BlockingIOError
        piece = bytes(data[: self.room])
        self.taken += piece
        self.room -= len(piece)
        return len(piece)

    async def later(self, data: memoryview) -> int:
        await self.may_go_on.wait()
        if self.fails == "later":
            raise BrokenPipeError
        self.room = self.rooms.pop(0) if self.rooms else 3
        return self.now(data)


async def test_a_sink_writes_what_goes_and_the_rest_in_order() -> None:
    slow = Slow()
    slow.sink.write(b"ab")
    assert (slow.taken, slow.sink.pending, slow.told.empty()) == (b"ab", 0, True)
    slow.sink.write(b"cdefgh")
    slow.sink.write(b"ij")
    assert (slow.taken, slow.sink.pending, slow.sink.written) == (b"abc", 7, 3)
    slow.may_go_on.set()
    assert await slow.told.get() == "written"
    assert (slow.taken, slow.sink.pending, slow.sink.written) == (b"abcdefghij", 0, 10)
    slow.sink.close()
    assert await slow.told.get() == "released"


async def test_a_sink_of_which_the_system_takes_nothing_is_waited_for() -> None:
    """Also where it was ready and is no longer, as with an output that others write to as well."""
    slow = Slow("blocks")
    slow.room = 0
    slow.sink.write(b"ab")
    assert (slow.taken, slow.sink.pending, slow.sink.written) == (b"", 2, 0)
    slow.rooms = [0, 3]
    slow.may_go_on.set()
    assert await slow.told.get() == "written"
    assert (slow.taken, slow.sink.pending, slow.sink.written, slow.rooms) == (b"ab", 0, 2, [])


async def test_a_sink_that_had_to_wait_tells_of_the_end_once_it_has_waited() -> None:
    """Whoever is told takes more in, and what was taken in before has to have begun."""
    slow = Slow()
    slow.sink.write(b"abcdef")
    slow.room = 3  # its peer was quick
    for _ in range(5):
        await asyncio.sleep(0)
    assert (slow.taken, slow.sink.pending, slow.told.empty()) == (b"abc", 3, True)
    slow.may_go_on.set()
    assert await slow.told.get() == "written"
    assert slow.taken == b"abcdef"


@pytest.mark.parametrize("when", ["now", "later"])
async def test_a_sink_that_nobody_reads_is_said_so(when: str) -> None:
    slow = Slow(when)
    slow.sink.write(b"abcdef")
    slow.may_go_on.set()
    assert await slow.told.get() == "broken"
    assert slow.sink.pending == 0


async def test_a_sink_that_is_closed_writes_no_more() -> None:
    slow = Slow()
    slow.sink.write(b"abcdef")
    slow.sink.close()
    slow.may_go_on.set()
    for _ in range(5):
        await asyncio.sleep(0)
    assert slow.taken == b"abc"

"""The stores and hubs that come with the library: atomicity, expiry, order, and that nothing stays behind."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcp_sansio import (
    HubMessage,
    MemoryHub,
    MemorySessionStore,
    Runtime,
    Session,
    SessionAccess,
    SessionExpired,
    SessionRecord,
    StoreFull,
)
from mcp_sansio.testing import FakeClock, FakeEvent, Scheduler

T = TypeVar("T")


def now(work: Awaitable[T]) -> T:
    """The result of something that waits for nothing."""
    coroutine = work.__await__()
    try:
        next(coroutine)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def store(**options: Any) -> tuple[MemorySessionStore, FakeClock]:
    clock = FakeClock()
    return MemorySessionStore(clock=clock, **options), clock


# The store ------------------------------------------------------------------------------------------------------------


def test_create_get_save_delete() -> None:
    held, _ = store()
    assert now(held.get("k")) is None
    assert now(held.create("k", {"a": 1}, ttl=10)) is True
    assert now(held.create("k", {"a": 2}, ttl=10)) is False
    assert now(held.get("k")) == SessionRecord({"a": 1}, 1)
    assert now(held.save("k", {"a": 3}, expected=2, ttl=10)) is False
    assert now(held.save("k", {"a": 3}, expected=1, ttl=10)) is True
    assert now(held.save("k", {"a": 4}, expected=1, ttl=10)) is False
    assert now(held.get("k")) == SessionRecord({"a": 3}, 2)
    now(held.delete("k"))
    now(held.delete("k"))
    assert now(held.take("k")) is None
    assert (now(held.get("k")), now(held.save("k", {}, expected=2, ttl=1)), now(held.touch("k", ttl=1))) == (
        None,
        False,
        False,
    )
    assert (len(held), held._queues) == (0, {})


def test_a_record_is_nobodys_to_change() -> None:
    held, _ = store()
    given = {"list": [1]}
    now(held.create("k", given, ttl=10))
    given["list"].append(2)
    first = now(held.get("k"))
    assert first is not None
    first.data["list"].append(3)
    assert now(held.get("k")) == SessionRecord({"list": [1]}, 1)


def test_a_record_of_json_text_is_the_record_of_what_that_says() -> None:
    record = SessionRecord(b'{"list": [1]}', 2)
    assert record == SessionRecord({"list": [1]}, 2)
    assert repr(record) == "SessionRecord(data={'list': [1]}, version=2)"
    assert record != SessionRecord(b'{"list": [1]}', 3)
    assert record != ({"list": [1]}, 2)


def test_what_is_taken_is_gone() -> None:
    held, clock = store()
    now(held.create("k", {"a": [1]}, ttl=10))
    now(held.save("k", {"a": [2]}, expected=1, ttl=10))
    assert now(held.take("k")) == SessionRecord({"a": [2]}, 2)
    assert (now(held.take("k")), now(held.get("k")), len(held), held._queues) == (None, None, 0, {})
    assert now(held.create("k", {"a": [3]}, ttl=10)) is True
    clock.advance(10)
    assert now(held.take("k")) is None


def test_a_look_can_renew() -> None:
    held, clock = store()
    now(held.create("k", {"a": 1}, ttl=5))
    clock.advance(4)
    assert now(held.get("k", ttl=10)) == SessionRecord({"a": 1}, 1)
    clock.advance(9)
    assert now(held.get("k")) == SessionRecord({"a": 1}, 1)
    clock.advance(1)
    assert now(held.get("k", ttl=10)) is None


def test_a_look_for_another_time_renews_at_once() -> None:
    held, clock = store()
    now(held.create("k", {}, ttl=5))
    assert now(held.get("k", ttl=100)) == SessionRecord({}, 1)
    clock.advance(99)
    assert now(held.get("k", ttl=3)) == SessionRecord({}, 1)
    clock.advance(3)
    assert now(held.get("k")) is None


def test_expiry() -> None:
    held, clock = store()
    now(held.create("short", {}, ttl=5))
    now(held.create("long", {}, ttl=50))
    clock.advance(4.9)
    assert len(held) == 2
    clock.advance(0.1)
    assert (len(held), now(held.get("short")), now(held.touch("short", ttl=5))) == (1, None, False)
    assert now(held.create("short", {"again": 1}, ttl=5)) is True
    clock.advance(44.9)
    assert now(held.touch("long", ttl=5)) is True
    clock.advance(4.9)
    assert now(held.get("long")) is not None
    clock.advance(0.1)
    assert (len(held), held._queues) == (0, {})


def test_saving_renews() -> None:
    held, clock = store()
    now(held.create("k", {}, ttl=5))
    for version in range(1, 5):
        clock.advance(4)
        assert now(held.save("k", {}, expected=version, ttl=5)) is True
    clock.advance(5)
    assert now(held.save("k", {}, expected=5, ttl=5)) is False


def test_a_full_store() -> None:
    held, clock = store(max_records=2)
    now(held.create("a", {}, ttl=5))
    now(held.create("b", {}, ttl=50))
    with pytest.raises(StoreFull, match=r"^the session store holds 2 records$"):
        now(held.create("c", {}, ttl=5))
    assert now(held.create("a", {}, ttl=5)) is False
    clock.advance(5)
    assert now(held.create("c", {}, ttl=5)) is True


def test_data_that_is_not_json_changes_nothing() -> None:
    held, _ = store()
    with pytest.raises(TypeError):
        now(held.create("k", {"a": object()}, ttl=5))
    now(held.create("k", {"a": 1}, ttl=5))
    with pytest.raises(TypeError):
        now(held.save("k", {"a": object()}, expected=1, ttl=5))
    assert now(held.get("k")) == SessionRecord({"a": 1}, 1)


class StoreMachine(RuleBasedStateMachine):
    """The store against a dict of (data, version, expiry)."""

    keys = st.sampled_from("abc")
    ttls = st.sampled_from([1.0, 2.0, 5.0])

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = MemorySessionStore(clock=self.clock)
        self.model: dict[str, tuple[int, int, float]] = {}
        self.count = 0

    def live(self, key: str) -> bool:
        return key in self.model and self.model[key][2] > self.clock()

    @rule(key=keys, ttl=ttls)
    def create(self, key: str, ttl: float) -> None:
        self.count += 1
        made = now(self.store.create(key, {"n": self.count}, ttl=ttl))
        assert made is not self.live(key)
        if made:
            self.model[key] = (self.count, 1, self.clock() + ttl)

    @rule(key=keys, ttl=ttls, stale=st.booleans())
    def save(self, key: str, ttl: float, stale: bool) -> None:
        self.count += 1
        version = self.model[key][1] if self.live(key) else 1
        saved = now(self.store.save(key, {"n": self.count}, expected=version + stale, ttl=ttl))
        assert saved is (self.live(key) and not stale)
        if saved:
            self.model[key] = (self.count, version + 1, self.clock() + ttl)

    @rule(key=keys, ttl=ttls)
    def touch(self, key: str, ttl: float) -> None:
        assert now(self.store.touch(key, ttl=ttl)) is self.live(key)
        if self.live(key):
            self.model[key] = (*self.model[key][:2], self.clock() + ttl)

    @rule(key=keys)
    def delete(self, key: str) -> None:
        now(self.store.delete(key))
        self.model.pop(key, None)

    @rule(key=keys)
    def take(self, key: str) -> None:
        live = self.live(key)
        data, version, _ = self.model.pop(key, (0, 0, 0.0))
        assert now(self.store.take(key)) == (SessionRecord({"n": data}, version) if live else None)

    @rule(seconds=st.sampled_from([0.5, 1.0, 3.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def agrees(self) -> None:
        for key in "abc":
            record = now(self.store.get(key))
            expected = SessionRecord({"n": self.model[key][0]}, self.model[key][1]) if self.live(key) else None
            assert record == expected
        assert len(self.store) == sum(map(self.live, "abc"))
        assert sum(map(len, self.store._queues.values())) == len(self.store)


TestStore = StoreMachine.TestCase


# Sessions -------------------------------------------------------------------------------------------------------------


def runtime(clock: FakeClock) -> Runtime:
    numbers = iter(range(1, 1000))
    scheduler = Scheduler()
    return Runtime(
        now=clock,
        token_bytes=lambda size: next(numbers).to_bytes(size, "big"),
        event=lambda: FakeEvent(scheduler),
    )


def test_values() -> None:
    held, clock = store()
    access = SessionAccess(held, runtime(clock), None, 10)
    session = now(access.open())
    assert (session.get("a"), session.get("a", 5), "a" in session, dict(session.values)) == (None, 5, False, {})
    now(session.set("a", {"b": [1]}))
    now(session.update(lambda values: {**values, "c": len(values)}))
    again = now(access.use(session.handle))
    assert again is not None
    assert dict(again.values) == {"a": {"b": [1]}, "c": 1}
    now(again.delete("a"))
    now(again.delete("none"))
    assert ("a" in again, again.get("c")) == (False, 1)


def test_two_writers_lose_nothing() -> None:
    held, clock = store()
    access = SessionAccess(held, runtime(clock), None, 10)
    one = now(access.open())
    two = now(access.use(one.handle))
    assert two is not None
    now(one.set("a", 1))
    now(two.set("b", 2))
    now(one.set("c", 3))
    assert dict(one.values) == {"a": 1, "b": 2, "c": 3}


class Contended(MemorySessionStore):
    """A store in which somebody else always writes first."""

    async def save(self, key: str, data: Any, *, expected: int, ttl: float) -> bool:
        await super().save(key, {"values": {"n": expected}}, expected=expected, ttl=ttl)
        return False


def test_a_writer_that_always_loses() -> None:
    clock = FakeClock()
    held = Contended(clock=clock)
    session = now(SessionAccess(held, runtime(clock), None, 10).open())
    with pytest.raises(SessionExpired, match=r"^the session kept losing its writes to other workers$"):
        now(session.set("a", 1))


def test_a_session_that_is_gone() -> None:
    held, clock = store()
    access = SessionAccess(held, runtime(clock), None, 10)
    session = now(access.open())
    clock.advance(10)
    with pytest.raises(SessionExpired, match=r"^the session expired during a write$"):
        now(session.set("a", 1))
    assert now(access.use(session.handle)) is None
    now(access.drop(session.handle))


def test_using_a_session_renews_it() -> None:
    held, clock = store()
    access = SessionAccess(held, runtime(clock), "ada", 10)
    handle = now(access.open()).handle
    for _ in range(5):
        clock.advance(9)
        assert now(access.use(handle)) is not None
    clock.advance(10)
    assert len(held) == 0


@pytest.mark.parametrize("other", ["bob", None, ""])
def test_nobody_else_uses_renews_or_drops_a_session(other: str | None) -> None:
    held, clock = store()
    mine, others = (SessionAccess(held, runtime(clock), principal, 10) for principal in ("ada", other))
    handle = now(mine.open()).handle
    clock.advance(9)
    assert now(others.use(handle)) is None
    now(others.drop(handle))
    assert len(held) == 1
    clock.advance(1)
    assert (now(mine.use(handle)), len(held)) == (None, 0)


def test_a_session_by_handle_is_written_to_from_the_first() -> None:
    held, clock = store()
    access = SessionAccess(held, runtime(clock), "ada", 10)
    session = now(access.open())
    now(session.set("a", 1))
    # As it was when it was opened, and what this one wrote since.
    assert (session.record, len(held)) == (SessionRecord({"values": {"a": 1}}, 2), 1)
    again = now(access.use(session.handle))
    assert again is not None
    assert again.record == session.record
    now(access.drop(session.handle))
    assert (now(access.use(session.handle)), len(held)) == (None, 0)


def test_a_session_of_a_snapshot() -> None:
    held, _ = store()
    session = Session(held, "k", "h", SessionRecord({}, 1), 10)
    assert (session.handle, dict(session.values)) == ("h", {})


# The hub --------------------------------------------------------------------------------------------------------------


class Line:
    """A hub whose waiting is seen."""

    def __init__(self, keep: int = 1024) -> None:
        self.scheduler = Scheduler()
        self.hub = MemoryHub(event=lambda: FakeEvent(self.scheduler), keep=keep)
        self.heard: list[list[HubMessage]] = []

    def listen(self, topic: str, cursor: int) -> None:
        async def poll() -> None:
            self.heard.append(list(await self.hub.poll(topic, cursor)))

        self.run(poll())

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.scheduler.spawn(work)
        self.scheduler.run()

    def say(self, topic: str, data: bytes) -> None:
        self.run(self.hub.publish(topic, data))


def test_who_takes_the_position_first_misses_nothing() -> None:
    line = Line()
    position = now(line.hub.position("t"))
    line.say("t", b"a")
    line.say("t", b"b")
    line.say("other", b"x")
    assert now(line.hub.poll("t", position)) == [HubMessage(1, b"a"), HubMessage(2, b"b")]
    assert now(line.hub.poll("t", 1)) == [HubMessage(2, b"b")]
    assert now(line.hub.position("t")) == 2


def test_polling_waits_for_the_next_message() -> None:
    line = Line()
    line.listen("t", 0)
    line.listen("t", 0)
    line.say("other", b"x")
    assert (line.heard, len(line.scheduler)) == ([], 2)
    line.say("t", b"a")
    assert (line.heard, len(line.scheduler)) == ([[HubMessage(1, b"a")]] * 2, 0)


def test_only_so_many_are_kept() -> None:
    line = Line(keep=2)
    for data in (b"a", b"b", b"c"):
        line.say("t", data)
    assert now(line.hub.poll("t", 0)) == [HubMessage(2, b"b"), HubMessage(3, b"c")]


def test_pollers_that_give_up_leave_nothing() -> None:
    line = Line()
    polls = [line.scheduler.start(line.hub.poll("t", 0)) for _ in range(3)]
    line.scheduler.run()
    polls[1].cancel()
    assert len(line.hub._topics["t"].waiting) == 2
    line.say("t", b"a")
    assert [poll.result() for poll in polls[::2]] == [[HubMessage(1, b"a")]] * 2
    assert line.hub._topics["t"].waiting == []


def test_a_topic_that_is_forgotten() -> None:
    line = Line()
    line.say("t", b"a")
    now(line.hub.delete("t"))
    now(line.hub.delete("t"))
    assert now(line.hub.position("t")) == 0

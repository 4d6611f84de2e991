"""`check_store` passes the stores of the library, and names the method and the rule by which any other one fails."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import support
from mcp_sansio import MemorySessionStore, SessionRecord, SessionStore
from mcp_sansio.testing import FakeClock, Scheduler, check_store

JSON = Any


async def check(kind: Callable[..., Any], **lent: Any) -> None:
    """Check a store in memory of that kind, with all that may be lent."""
    clock = FakeClock()
    store = kind(clock=clock)
    await check_store(lambda: store, **{"pass_time": clock.advance, "gather": asyncio.gather, **lent})


class Waiting(MemorySessionStore):
    """It lets others have their turn before it does anything, as one of another process would."""

    answers_at_once = False

    async def create(self, key: str, data: Mapping[str, JSON], *, ttl: float) -> bool:
        await asyncio.sleep(0)
        return await super().create(key, data, ttl=ttl)

    async def take(self, key: str) -> SessionRecord | None:
        await asyncio.sleep(0)
        return await super().take(key)


@pytest.mark.parametrize("kind", [MemorySessionStore, Waiting])
@pytest.mark.parametrize("ttl", [50.0, 0.25])
async def test_a_store_that_keeps_the_rules(kind: Callable[..., Any], ttl: float) -> None:
    await check(kind, ttl=ttl)
    await check(kind, gather=None, pass_time=None)


def test_it_needs_no_event_loop_of_its_own() -> None:
    clock = FakeClock()
    store = MemorySessionStore(clock=clock)

    async def make() -> MemorySessionStore:
        return store

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    Scheduler().complete(check_store(make, pass_time=pass_time))
    trio = support.need("trio")
    trio.run(lambda: check_store(make, pass_time=pass_time))


async def test_it_may_be_run_again_on_the_same_records() -> None:
    clock = FakeClock()
    store = MemorySessionStore(clock=clock)
    for _ in range(2):
        await check_store(lambda: store, pass_time=clock.advance)


# What a store may do wrong --------------------------------------------------------------------------------------------


class CreatesAgain(MemorySessionStore):
    async def create(self, key: str, data: Mapping[str, JSON], *, ttl: float) -> bool:
        await self.delete(key)
        return await super().create(key, data, ttl=ttl)


class SaysNothing(MemorySessionStore):
    async def create(self, key: str, data: Mapping[str, JSON], *, ttl: float) -> bool:
        await super().create(key, data, ttl=ttl)
        return None  # type: ignore[return-value]


class CountsFromNought(MemorySessionStore):
    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        record = await super().get(key, ttl=ttl)
        return record and SessionRecord(record.data, record.version - 1)


class SavesWhatever(MemorySessionStore):
    async def save(self, key: str, data: Mapping[str, JSON], *, expected: int, ttl: float) -> bool:
        record = await self.get(key)
        return record is not None and await super().save(key, data, expected=record.version, ttl=ttl)


class TouchesNothing(MemorySessionStore):
    async def touch(self, key: str, *, ttl: float) -> bool:
        return await super().get(key) is not None


class TouchesMore(MemorySessionStore):
    async def touch(self, key: str, *, ttl: float) -> bool:
        await super().touch(key, ttl=ttl)
        return True


class RenewsNothing(MemorySessionStore):
    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        return await super().get(key)


class RenewsAlways(MemorySessionStore):
    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        return await super().get(key, ttl=50.0)


class SavesWithoutRenewing(MemorySessionStore):
    """A save leaves the expiry as it was."""

    async def save(self, key: str, data: Mapping[str, JSON], *, expected: int, ttl: float) -> bool:
        entry = self._entries.get(key)
        left = ttl if entry is None else entry.expires - self._clock()
        return await super().save(key, data, expected=expected, ttl=left)


class DeletesOnce(MemorySessionStore):
    async def delete(self, key: str) -> None:
        if await self.take(key) is None and key == "check_store":
            raise KeyError(key)


class TakesNothing(MemorySessionStore):
    async def take(self, key: str) -> SessionRecord | None:
        return await self.get(key)


class TakesInTwoSteps(Waiting):
    async def take(self, key: str) -> SessionRecord | None:
        record = await self.get(key)
        await asyncio.sleep(0)
        await self.delete(key)
        return record


class SavesInTwoSteps(Waiting):
    async def save(self, key: str, data: Mapping[str, JSON], *, expected: int, ttl: float) -> bool:
        record = await self.get(key)
        await asyncio.sleep(0)
        if record is None or record.version != expected:
            return False
        await self.delete(key)
        await self.create(key, data, ttl=ttl)
        self._entries[key].version = expected + 1
        return True


class CreatesInTwoSteps(Waiting):
    async def create(self, key: str, data: Mapping[str, JSON], *, ttl: float) -> bool:
        if await self.get(key) is not None:
            return False
        await asyncio.sleep(0)
        await self.delete(key)
        return await MemorySessionStore.create(self, key, data, ttl=ttl)


class Renaming(MemorySessionStore):
    """It makes one key of several."""

    def name(self, key: str) -> str:
        return key.lower()

    async def create(self, key: str, data: Mapping[str, JSON], *, ttl: float) -> bool:
        return await super().create(self.name(key), data, ttl=ttl)

    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        return await super().get(self.name(key), ttl=ttl)

    async def save(self, key: str, data: Mapping[str, JSON], *, expected: int, ttl: float) -> bool:
        return await super().save(self.name(key), data, expected=expected, ttl=ttl)

    async def take(self, key: str) -> SessionRecord | None:
        return await super().take(self.name(key))


class Rounding(MemorySessionStore):
    """Its numbers are all of one kind."""

    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        record = await super().get(key, ttl=ttl)
        return record and SessionRecord(_rounded(record.data), record.version)


def _rounded(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return int(value) if isinstance(value, float) and value == int(value) else value


class Sharing(MemorySessionStore):
    """What it gives is what it keeps."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.given: dict[tuple[str, int], SessionRecord] = {}

    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        record = await super().get(key, ttl=ttl)
        return record and self.given.setdefault((key, record.version), record)

    async def create(self, key: str, data: Mapping[str, JSON], *, ttl: float) -> bool:
        self.given.pop((key, 1), None)
        return await super().create(key, data, ttl=ttl)


class Expiring(MemorySessionStore):
    """It asks its clock once."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        now = clock()
        super().__init__(clock=lambda: now)


class Plain(MemorySessionStore):
    def delete(self, key: str) -> None:  # type: ignore[override]
        self._drop(key)


class SaysAtOnce(Waiting):
    answers_at_once = True


class NoTake(MemorySessionStore):
    take = None  # type: ignore[assignment]


WRONG: dict[type, tuple[str, str]] = {
    CreatesAgain: ("create", "where a record is there, create('check_store', {'a': 2}, ttl=600.0) gives True"),
    SaysNothing: ("create", "where nothing is kept, create('check_store', {'a': 1}, ttl=600.0) gives None"),
    CountsFromNought: ("get", "after create, get('check_store') gives SessionRecord(data={'a': 1}, version=0)"),
    SavesWhatever: ("save", "after create, save('check_store', {'a': 3}, expected=2, ttl=600.0) gives True"),
    TouchesNothing: ("get", "within the lifetime that touch has renewed, get('check_store:touched') gives None"),
    TouchesMore: ("touch", "after delete, touch('check_store', ttl=600.0) gives True"),
    RenewsNothing: ("get", "within the lifetime that get with a ttl has renewed, get('check_store:got') gives None"),
    RenewsAlways: ("get", "after its lifetime, get('check_store:read') gives SessionRecord(data={}, version=1)"),
    SavesWithoutRenewing: ("get", "within the lifetime that save has renewed, get('check_store:saved') gives None"),
    TakesNothing: ("get", "after take, get('check_store') gives SessionRecord(data={'a': 3}, version=2)"),
    TakesInTwoSteps: ("take", "of 20 who call take at once, 20 are told that it was they"),
    SavesInTwoSteps: ("save", "of 20 who call save at once, "),
    CreatesInTwoSteps: ("create", "of 20 who call create at once, 20 are told that it was they"),
    Renaming: ("create", "where nothing is kept, create('check_store:A', {'key': 2}, ttl=600.0) gives False"),
    Rounding: ("get", "after create, the data that was {'integers': [0, -1, "),
    Sharing: ("get", "when the data that get gave has changed, get('check_store') gives"),
    Expiring: ("get", "after its lifetime, get('check_store:read') gives SessionRecord(data={}, version=1)"),
}


@pytest.mark.parametrize("kind", WRONG)
async def test_a_store_that_breaks_a_rule(kind: type) -> None:
    method, text = WRONG[kind]
    with pytest.raises(AssertionError) as failed:
        await check(kind)
    what, _, rule = str(failed.value).partition(f".\nSessionStore.{method}: ")
    assert what.startswith(text), what
    assert rule == inspect.getdoc(getattr(SessionStore, method))


FAILING: dict[type, str] = {
    DeletesOnce: "at any time, delete('check_store') raises KeyError('check_store')",
    Plain: (
        "at any time, delete('check_store') raises TypeError('what make() gives: Plain.delete must be async def: it "
        "gave None, which cannot be awaited')"
    ),
    SaysAtOnce: (
        "where nothing is kept, create('check_store', {'a': 1}, ttl=600.0) raises RuntimeError('what was said to "
        "answer at once has to be waited for')"
    ),
    NoTake: "what make() gives must be a SessionStore object, not NoTake, which has no take",
}


@pytest.mark.parametrize("kind", FAILING)
async def test_a_store_that_fails(kind: type) -> None:
    with pytest.raises(AssertionError) as failed:
        await check(kind)
    assert str(failed.value) == FAILING[kind]

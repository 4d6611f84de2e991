"""What every store and every hub holds to, whatever the engine: several workers on it, each with its own connection."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deployments import DEPLOYMENTS, Deployment, Servers, Worker
from mcp_sansio import HubMessage, SessionRecord, SessionStore
from mcp_sansio.testing import check_store

Open = Callable[[], AbstractAsyncContextManager[Deployment]]

#: Nothing here takes that long; a wait that has no end fails.
PATIENCE = 20.0

KEYS = {
    "empty": "",
    "separators": "a:b/c.d*e?[f]{g}%h_i",
    "quotes": "'\"`;--\\",
    "spaces": " \t\r\n ",
    "nul": "\0a\0",
    "unicode": "żółć 🥖 \u200b é é",
    "half a pair": "\ud800x",
    "long": "k" * 500,
}
VALUES = {
    "nul": {"\0": "\0a\0\\u0000"},
    "unicode": {"żółć": "🥖 \u2028\u2029\x7f\x80\uffff"},
    "escapes": {'"\\/': "\b\f\n\r\t\"\\/"},
    "integers": {"n": [0, -1, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 2**64, 10**100]},
    "floats": {"x": [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1e16, 1.0, 123456789.123456789]},
    "kinds": {"a": [None, True, False, "", [], {}], "": {"": {"": []}}},
    "order": {"b": 1, "a": 2, "c": {"z": 1, "y": 2}},
    "large": {"text": "0123456789abcdef" * 16_384},
    "nothing": {},
}  # fmt: skip
TEXTS = [b"", b"\0", bytes(range(256)), "żółć".encode(), b"x" * 300_000]


@pytest.fixture(params=DEPLOYMENTS)
def opened(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Open:
    """Opens a deployment on each engine."""
    return partial(DEPLOYMENTS[request.param], tmp_path, servers)


@asynccontextmanager
async def two(opened: Open, **options: Any) -> AsyncIterator[tuple[Worker, Worker]]:
    async with opened() as made:
        yield await made.worker(**options), await made.worker(**options)


async def within(work: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await work


def exactly(value: Any) -> Any:
    """A value with all that ``==`` does not see: kinds of numbers, the sign of zero, the order of members."""
    if isinstance(value, dict):
        return [(key, exactly(item)) for key, item in value.items()]
    if isinstance(value, list):
        return [exactly(item) for item in value]
    return type(value), value, math.copysign(1, value) if isinstance(value, float) else None


# The store ------------------------------------------------------------------------------------------------------------


async def test_the_check_for_authors_passes(opened: Open) -> None:
    async with opened() as made:

        async def make() -> SessionStore:
            return (await made.worker()).store

        await within(check_store(make, pass_time=made.pass_time, gather=asyncio.gather))


async def test_what_one_worker_keeps_the_other_has(opened: Open) -> None:
    async with two(opened) as (one, other):
        assert await other.store.get("k") is None
        assert await one.store.create("k", {"a": 1}, ttl=10) is True
        assert await other.store.create("k", {"a": 2}, ttl=10) is False
        assert await other.store.get("k") == SessionRecord({"a": 1}, 1)
        assert await other.store.save("k", {"a": 3}, expected=2, ttl=10) is False
        assert await other.store.save("k", {"a": 3}, expected=1, ttl=10) is True
        assert await one.store.save("k", {"a": 4}, expected=1, ttl=10) is False
        assert await one.store.get("k", ttl=10) == SessionRecord({"a": 3}, 2)
        assert await one.store.touch("k", ttl=10) is True
        await other.store.delete("k")
        await other.store.delete("k")
        assert await one.store.get("k") is None
        assert await one.store.get("k", ttl=10) is None
        assert await one.store.save("k", {}, expected=2, ttl=10) is False
        assert await one.store.touch("k", ttl=10) is False
        assert await one.store.take("k") is None
        assert await one.store.create("k", {"a": 5}, ttl=10) is True
        assert await other.store.get("k") == SessionRecord({"a": 5}, 1)


async def test_what_one_worker_takes_no_other_has(opened: Open) -> None:
    async with two(opened) as (one, other):
        await one.store.create("k", {"a": 1}, ttl=10)
        await one.store.create("beside", {"a": 2}, ttl=10)
        await one.store.save("k", {"a": 3}, expected=1, ttl=10)
        assert await other.store.take("k") == SessionRecord({"a": 3}, 2)
        for worker in (one, other):
            assert await worker.store.take("k") is None
            assert await worker.store.get("k") is None
            assert await worker.store.touch("k", ttl=10) is False
            assert await worker.store.save("k", {}, expected=2, ttl=10) is False
        assert await other.store.get("beside") == SessionRecord({"a": 2}, 1)
        # A key that was taken is a key like any other.
        assert await one.store.create("k", {"a": 4}, ttl=10) is True
        assert await other.store.take("k") == SessionRecord({"a": 4}, 1)


@pytest.mark.parametrize("data", VALUES.values(), ids=VALUES)
async def test_data_comes_back_as_it_was(opened: Open, data: Any) -> None:
    async with two(opened) as (one, other):
        await one.store.create("k", data, ttl=10)
        created = await other.store.get("k")
        assert created is not None
        assert exactly(created.data) == exactly(data)
        await other.store.save("k", data, expected=1, ttl=10)
        saved = await one.store.get("k")
        assert saved is not None
        assert (exactly(saved.data), saved.version) == (exactly(data), 2)
        taken = await other.store.take("k")
        assert taken is not None
        assert (exactly(taken.data), taken.version) == (exactly(data), 2)


async def test_keys_of_any_characters_are_keys_of_their_own(opened: Open) -> None:
    async with two(opened) as (one, other):
        for name, key in KEYS.items():
            assert await one.store.create(key, {"name": name}, ttl=10) is True
        for name, key in KEYS.items():
            assert await other.store.get(key) == SessionRecord({"name": name}, 1)
            assert await other.store.save(key, {"saved": name}, expected=1, ttl=10) is True
            assert await one.store.touch(key, ttl=10) is True
        for name, key in KEYS.items():
            assert await one.store.get(key, ttl=10) == SessionRecord({"saved": name}, 2)
            await one.store.delete(key)
            assert await other.store.get(key) is None
        for name, key in KEYS.items():
            await one.store.create(key, {"taken": name}, ttl=10)
        for name, key in KEYS.items():
            assert await other.store.take(key) == SessionRecord({"taken": name}, 1)
            assert await one.store.get(key) is None


async def test_data_that_is_not_json_changes_nothing(opened: Open) -> None:
    async with two(opened) as (one, other):
        with pytest.raises(TypeError):
            await one.store.create("k", {"a": object()}, ttl=10)
        await one.store.create("k", {"a": 1}, ttl=10)
        with pytest.raises(TypeError):
            await one.store.save("k", {"a": object()}, expected=1, ttl=10)
        assert await other.store.get("k") == SessionRecord({"a": 1}, 1)


async def test_a_record_is_nobodys_to_change(opened: Open) -> None:
    async with two(opened) as (one, _):
        given = {"list": [1]}
        await one.store.create("k", given, ttl=10)
        given["list"].append(2)
        first = await one.store.get("k")
        assert first is not None
        first.data["list"].append(3)
        assert await one.store.get("k") == SessionRecord({"list": [1]}, 1)


async def test_of_fifty_that_create_one_does(opened: Open) -> None:
    async with two(opened) as workers:
        made = await within(asyncio.gather(*(workers[n % 2].store.create("k", {"by": n}, ttl=10) for n in range(50))))
        assert made.count(True) == 1
        assert await workers[0].store.get("k") == SessionRecord({"by": made.index(True)}, 1)


async def test_of_fifty_that_take_one_does(opened: Open) -> None:
    async with two(opened) as workers:
        for number in range(5):
            await workers[0].store.create("k", {"n": number}, ttl=100)
            taken = await within(asyncio.gather(*(workers[n % 2].store.take("k") for n in range(50))))
            assert [record for record in taken if record is not None] == [SessionRecord({"n": number}, 1)]
            assert await workers[1].store.get("k") is None


async def test_fifty_that_pass_a_record_on_lose_nothing_of_it(opened: Open) -> None:
    """Each takes it and puts it back with a name more: whoever has it has all that the others wrote."""

    async def sign(worker: Worker, name: str) -> None:
        while (record := await worker.store.take("k")) is None:
            await asyncio.sleep(0.001)
        assert await worker.store.create("k", {"by": [*record.data["by"], name]}, ttl=100) is True

    async with two(opened) as workers:
        await workers[0].store.create("k", {"by": []}, ttl=100)
        names = [f"writer {n}" for n in range(50)]
        await within(asyncio.gather(*(sign(workers[n % 2], name) for n, name in enumerate(names))))
        record = await workers[1].store.take("k")
        assert record is not None
        assert sorted(record.data["by"]) == sorted(names)


async def test_fifty_writers_lose_no_write(opened: Open) -> None:
    async def count(worker: Worker, name: str) -> int:
        """Count up by one, and so often somebody else came first."""
        for attempt in range(1_000):
            record = await worker.store.get("k", ttl=100)
            assert record is not None
            data = {"n": record.data["n"] + 1, "by": [*record.data["by"], name]}
            if await worker.store.save("k", data, expected=record.version, ttl=100):
                return attempt
        raise AssertionError("it never won")

    async with two(opened) as workers:
        await workers[0].store.create("k", {"n": 0, "by": []}, ttl=100)
        names = [f"writer {n}" for n in range(50)]
        await within(asyncio.gather(*(count(workers[n % 2], name) for n, name in enumerate(names))))
        record = await workers[1].store.get("k")
        assert record is not None
        assert (record.version, record.data["n"], sorted(record.data["by"])) == (51, 50, sorted(names))


async def test_records_expire(opened: Open) -> None:
    async with opened() as made:
        one, other = await made.worker(), await made.worker()
        await one.store.create("short", {}, ttl=50)
        await one.store.create("long", {}, ttl=500)
        await made.pass_time(45)
        assert await other.store.get("short") is not None
        await made.pass_time(5)
        assert await other.store.get("short") is None
        assert await other.store.get("short", ttl=50) is None
        assert await other.store.touch("short", ttl=50) is False
        assert await other.store.take("short") is None
        assert await other.store.save("short", {}, expected=1, ttl=50) is False
        assert await other.store.get("long") is not None
        assert await other.store.create("short", {"again": 1}, ttl=50) is True
        assert await one.store.get("short") == SessionRecord({"again": 1}, 1)


@pytest.mark.parametrize("how", ["touch", "save", "get"])
async def test_what_is_used_lives_on(opened: Open, how: str) -> None:
    async with opened() as made:
        one, other = await made.worker(), await made.worker()
        await one.store.create("k", {}, ttl=50)
        for version in range(1, 5):
            await made.pass_time(45)
            if how == "touch":
                assert await other.store.touch("k", ttl=50) is True
            elif how == "save":
                assert await other.store.save("k", {}, expected=version, ttl=50) is True
            else:
                assert await other.store.get("k", ttl=50) is not None
        await made.pass_time(45)
        assert await one.store.get("k") is not None
        await made.pass_time(5)
        assert await one.store.get("k") is None


async def test_reading_alone_renews_nothing(opened: Open) -> None:
    async with opened() as made:
        one = await made.worker()
        await one.store.create("k", {}, ttl=50)
        await made.pass_time(45)
        assert await one.store.get("k") is not None
        await made.pass_time(5)
        assert await one.store.get("k") is None


# The hub --------------------------------------------------------------------------------------------------------------


async def collect(worker: Worker, topic: str, cursor: int, count: int) -> list[bytes]:
    """The next `count` messages after `cursor`. Their cursors rise."""
    heard: list[bytes] = []
    while len(heard) < count:
        messages = await worker.hub.poll(topic, cursor)
        assert [message.cursor for message in messages] == sorted({message.cursor for message in messages})
        assert messages[0].cursor > cursor
        cursor = messages[-1].cursor
        heard += [message.data for message in messages]
    return heard


async def test_what_is_published_after_the_position_is_seen(opened: Open) -> None:
    async with two(opened) as (one, other):
        await one.hub.publish("t", b"before")
        position = await other.hub.position("t")
        await one.hub.publish("t", b"a")
        await other.hub.publish("u", b"elsewhere")
        await other.hub.publish("t", b"b")
        for worker in (one, other):
            assert [message.data for message in await within(worker.hub.poll("t", position))] == [b"a", b"b"]
        assert await one.hub.position("t") == (await one.hub.poll("t", position))[-1].cursor


async def test_the_position_of_a_topic_that_nobody_knows(opened: Open) -> None:
    async with two(opened) as (one, other):
        position = await one.hub.position("t")
        await other.hub.publish("t", b"a")
        assert await within(collect(one, "t", position, 1)) == [b"a"]


async def test_messages_come_back_as_they_were(opened: Open) -> None:
    async with two(opened) as (one, other):
        position = await other.hub.position("t")
        for text in TEXTS:
            await one.hub.publish("t", text)
        assert await within(collect(other, "t", position, len(TEXTS))) == TEXTS


async def test_topics_of_any_characters_are_topics_of_their_own(opened: Open) -> None:
    async with two(opened) as (one, other):
        positions = {name: await other.hub.position(topic) for name, topic in KEYS.items()}
        waiting = [asyncio.create_task(collect(other, topic, positions[name], 1)) for name, topic in KEYS.items()]
        await asyncio.sleep(0)
        for name, topic in KEYS.items():
            await one.hub.publish(topic, name.encode())
        assert await within(asyncio.gather(*waiting)) == [[name.encode()] for name in KEYS]


async def test_who_waits_is_woken_at_every_worker(opened: Open) -> None:
    async with two(opened) as workers:
        position = await workers[0].hub.position("t")
        waiting = [asyncio.create_task(workers[n % 2].hub.poll("t", position)) for n in range(6)]
        others = [asyncio.create_task(worker.hub.poll("u", position)) for worker in workers]
        await workers[0].hub.publish("t", b"a")
        assert [[message.data for message in heard] for heard in await within(asyncio.gather(*waiting))] == [[b"a"]] * 6
        assert [task.done() for task in others] == [False, False]
        await workers[1].hub.publish("u", b"b")
        assert [[message.data for message in heard] for heard in await within(asyncio.gather(*others))] == [[b"b"]] * 2


async def test_nobody_misses_or_hears_twice_while_many_publish(opened: Open) -> None:
    async def publish(worker: Worker, name: int) -> None:
        for number in range(20):
            await worker.hub.publish("t", b"%d.%d" % (name, number))

    async with two(opened) as workers:
        position = await workers[0].hub.position("t")
        readers = [asyncio.create_task(collect(worker, "t", position, 200)) for worker in (*workers, *workers)]
        await within(asyncio.gather(*(publish(workers[name % 2], name) for name in range(10))))
        heard = await within(asyncio.gather(*readers))
        assert heard == [heard[0]] * 4
        assert sorted(heard[0]) == sorted(b"%d.%d" % (name, number) for name in range(10) for number in range(20))
        for name in range(10):
            assert [text for text in heard[0] if text.startswith(b"%d." % name)] == [
                b"%d.%d" % (name, number) for number in range(20)
            ]


async def test_pollers_that_come_and_go_miss_nothing(opened: Open) -> None:
    """Every poll is given up after a moment, wherever it is by then, and taken up with the same cursor."""

    async def impatient(worker: Worker, cursor: int) -> list[bytes]:
        heard: list[bytes] = []
        for moment in range(100_000):
            poll = asyncio.ensure_future(worker.hub.poll("t", cursor))
            for _ in range(moment % 7):
                await asyncio.sleep(0 if moment % 3 else 0.001)
            poll.cancel()
            await asyncio.wait([poll])
            if not poll.cancelled():
                messages = poll.result()
                cursor = messages[-1].cursor
                heard += [message.data for message in messages]
            if len(heard) >= 60:
                return heard
        raise AssertionError(f"only {len(heard)} messages arrived")

    async with two(opened) as (one, other):
        position = await one.hub.position("t")
        readers = [asyncio.create_task(impatient(worker, position)) for worker in (one, other, other)]
        expected = [b"%d" % number for number in range(60)]
        for text in expected:
            await one.hub.publish("t", text)
            await asyncio.sleep(0.002)
        assert await within(asyncio.gather(*readers)) == [expected] * 3


async def test_only_so_many_are_kept(opened: Open) -> None:
    async with two(opened, keep=3) as (one, other):
        await other.hub.publish("u", b"untouched")
        for number in range(10):
            await (one, other)[number % 2].hub.publish("t", b"%d" % number)
        for worker in (one, other):
            assert [message.data for message in await within(worker.hub.poll("t", 0))] == [b"7", b"8", b"9"]
            assert [message.data for message in await within(worker.hub.poll("u", 0))] == [b"untouched"]


async def test_a_topic_that_is_forgotten(opened: Open) -> None:
    async with two(opened) as (one, other):
        await one.hub.publish("t", b"a")
        await one.hub.publish("u", b"b")
        await other.hub.delete("t")
        await other.hub.delete("t")
        waiting = asyncio.create_task(one.hub.poll("t", await one.hub.position("t")))
        await other.hub.publish("t", b"c")
        assert [message.data for message in await within(waiting)] == [b"c"]
        assert data_of(await within(one.hub.poll("u", 0))) == [b"b"]


def data_of(messages: Sequence[HubMessage]) -> list[bytes]:
    return [message.data for message in messages]

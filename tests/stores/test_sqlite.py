"""What is SQLite's own: the file, who else has it, and what happens when it is full, locked, newer or no database."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

import support
from deployments import used_in_loops_that_are_closed
from mcp_sansio import SessionRecord, StoreFull, StoreTooNew, StoreUnavailable
from mcp_sansio.testing import FakeClock

SqliteStore = support.need("mcp_sansio_sqlite").SqliteStore

PATIENCE = 20.0


@asynccontextmanager
async def at(path: Path, **options: Any) -> AsyncIterator[Any]:
    async with asyncio.timeout(PATIENCE), SqliteStore(path, **options) as store:
        yield store


def query(path: Path, statement: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(statement).fetchall()


# Opening and closing --------------------------------------------------------------------------------------------------


def test_an_unopened_store_opens_with_its_use_and_closes_with_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sqlite"
    store = SqliteStore(path)
    assert not path.exists()

    async def use() -> None:
        position = await store.hub.position("t")
        polls = [asyncio.create_task(store.hub.poll("t", position)) for _ in range(3)]
        made = await asyncio.gather(*(store.create("k", {"n": n}, ttl=60) for n in range(10)))
        assert made.count(True) == 1
        await asyncio.wait(polls, timeout=0)

    async def use_again() -> None:
        assert await store.get("k") is not None

    asyncio.run(use())
    assert [file.name for file in tmp_path.iterdir()] == ["mcp.sqlite"], "its log is gone, so it was closed"
    asyncio.run(use_again())
    assert [file.name for file in tmp_path.iterdir()] == ["mcp.sqlite"]


def test_a_process_that_closes_nothing_ends(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from mcp_sansio_sqlite import SqliteStore\n"
        "async def main():\n"
        "    store = SqliteStore(sys.argv[1])\n"
        "    await store.create('k', {}, ttl=60)\n"
        "    asyncio.ensure_future(store.hub.poll('t', 0))\n"
        "    await store.hub.position('t')\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "mcp.sqlite")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_process_that_cannot_open_its_file_says_so_and_no_more(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from mcp_sansio import StoreUnavailable\n"
        "from mcp_sansio_sqlite import SqliteStore\n"
        "async def main():\n"
        "    try:\n"
        "        await SqliteStore(sys.argv[1]).open()\n"
        "    except StoreUnavailable as error:\n"
        "        print(str(error)[-29:])\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "missing" / "mcp.sqlite")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, " unable to open database file\n", "")


def test_a_loop_that_is_closed_without_a_word_does_not_end_a_store(tmp_path: Path) -> None:
    ended = used_in_loops_that_are_closed("mcp_sansio_sqlite", "SqliteStore", str(tmp_path / "mcp.sqlite"))
    assert (ended.returncode, ended.stdout) == (0, "True 1\n" * 3 + "closed\n"), ended.stderr


async def test_closing_ends_who_waits_and_what_is_used_opens_again(tmp_path: Path) -> None:
    async with at(tmp_path / "mcp.sqlite") as store:
        waiting = asyncio.create_task(store.hub.poll("t", 0))
        await store.create("k", {}, ttl=60)
        await store.close()
        with pytest.raises(StoreUnavailable, match="it was closed"):
            await waiting
        await store.close()
        assert await store.get("k") == SessionRecord({}, 1)


@pytest.mark.filterwarnings("ignore:.*sqlite3.Connection:pytest.PytestUnraisableExceptionWarning")
async def test_a_call_that_is_given_up_while_it_opens_leaves_it_to_the_others(tmp_path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        store = SqliteStore(tmp_path / "mcp.sqlite")
        first = asyncio.create_task(store.create("k", {}, ttl=60))
        await asyncio.sleep(0)
        second = asyncio.create_task(store.get("other"))
        await asyncio.sleep(0)
        first.cancel()
        assert await second is None
        await store.close()
    # aiosqlite drops the connection that nobody waited for, which Python 3.13 has something to say of.
    gc.collect()


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_what_workers_cannot_share_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"^a SqliteStore is in a file, which workers can share, not at "):
        SqliteStore(path)


@pytest.mark.parametrize("namespace", ["", "a:b", "a b", "ä", "x" * 49])
def test_a_namespace_is_plain(namespace: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^a namespace is 1 to 48 of the characters"):
        SqliteStore(tmp_path / "mcp.sqlite", namespace=namespace)


# The schema -----------------------------------------------------------------------------------------------------------

_OPENS = """
import asyncio, sys
from mcp_sansio_sqlite import SqliteStore
async def main():
    async with SqliteStore(sys.argv[1]) as store:
        sys.stdin.readline()
        print(await store.create("k", {}, ttl=60))
sys.stdout.write("started\\n"), sys.stdout.flush(), sys.stdin.readline()
asyncio.run(main())
"""


def test_any_number_of_processes_make_the_schema_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OPENS, str(tmp_path / "mcp.sqlite")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    processes = [subprocess.Popen(command, text=True, **pipes) for _ in range(8)]
    for process in processes:
        assert process.stdout.readline() == "started\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate("\n", timeout=60)[0] for process in processes]
    assert sorted(said) == ["False\n"] * 7 + ["True\n"]
    assert query(tmp_path / "mcp.sqlite", "SELECT version FROM mcp_sansio_schema") == [(1,)]


async def test_a_newer_schema_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sqlite"
    query(path, "CREATE TABLE mcp_sansio_schema (version INTEGER NOT NULL)")
    query(path, "INSERT INTO mcp_sansio_schema VALUES (2)")
    store = SqliteStore(path)
    for attempt in (store.open(), store.get("k"), store.hub.poll("t", 0)):
        with pytest.raises(StoreTooNew, match=r"its schema is 2, and this release knows up to 1; update it first"):
            await attempt
    assert query(path, "SELECT name FROM sqlite_master") == [("mcp_sansio_schema",)]


async def test_two_applications_share_a_file(tmp_path: Path) -> None:
    path, clock = tmp_path / "shared.sqlite", FakeClock()
    query(path, "CREATE TABLE theirs (x)")
    query(path, "PRAGMA user_version = 17")
    async with at(path, namespace="one", clock=clock) as one, at(path, namespace="other", clock=clock) as other:
        assert await one.create("k", {"of": "one"}, ttl=10) is True
        assert await other.create("k", {"of": "other"}, ttl=20) is True
        await one.hub.publish("t", b"one")
        await other.hub.publish("t", b"other")
        assert [message.data for message in await one.hub.poll("t", 0)] == [b"one"]
        await one.hub.delete("t")
        await one.delete("k")
        assert await other.get("k") == SessionRecord({"of": "other"}, 1)
        assert [message.data for message in await other.hub.poll("t", 0)] == [b"other"]
    assert query(path, "PRAGMA user_version") == [(17,)]


# Sweeping -------------------------------------------------------------------------------------------------------------


async def test_what_expired_is_removed_by_itself(tmp_path: Path) -> None:
    path, clock = tmp_path / "mcp.sqlite", FakeClock()
    async with at(path, clock=clock, keep_for=100, sweep_every=0.01) as store:
        for number in range(2_500):
            await store.create(f"short {number}", {}, ttl=50)
        await store.create("long", {}, ttl=200)
        await store.hub.publish("t", b"old")
        clock.advance(100)
        while query(path, "SELECT count(*) FROM mcp_sansio_records") != [(1,)]:
            await asyncio.sleep(0.01)
        while query(path, "SELECT count(*) FROM mcp_sansio_messages") != [(0,)]:
            await asyncio.sleep(0.01)
        assert await store.get("long") is not None


# What goes wrong ------------------------------------------------------------------------------------------------------


async def test_a_file_that_is_locked_for_longer_than_anybody_waits(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sqlite"
    async with at(path, timeout=0.05) as store:
        await store.create("k", {}, ttl=60)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match=r"mcp\.sqlite: database is locked$"):
                await store.create("l", {}, ttl=60)
            assert await store.get("k") == SessionRecord({}, 1)
            other.execute("COMMIT")
        assert await store.create("l", {}, ttl=60) is True


async def test_a_full_file_says_so_and_keeps_what_it_has(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, clock = tmp_path / "mcp.sqlite", FakeClock()
    async with at(path, max_bytes=200_000, clock=clock) as store:
        kept = 0

        async def fill() -> None:
            nonlocal kept
            while kept < 1_000:
                await store.create(f"k{kept}", {"text": "x" * 1_000}, ttl=50)
                kept += 1

        with pytest.raises(StoreFull, match=r"^the session store is full$"):
            await fill()
        assert f"SQLite, {path}: database or disk is full" in caplog.text
        assert 50 < kept < 200
        for number in range(kept):
            assert await store.get(f"k{number}") == SessionRecord({"text": "x" * 1_000}, 1)
        with pytest.raises(StoreFull):
            await store.hub.publish("t", b"x" * 10_000)
        clock.advance(50)
        await store.sweep()
        assert await store.create("again", {"text": "x" * 1_000}, ttl=50) is True
    assert path.stat().st_size <= 200_000


_FAILS_TO_WRITE = """
import asyncio, resource, signal, sys
from mcp_sansio import StoreUnavailable
from mcp_sansio_sqlite import SqliteStore
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
async def main():
    async with SqliteStore(sys.argv[1]) as store:
        await store.create("before", {"n": 1}, ttl=60)
        limit(300_000)
        written = 0
        try:
            while True:
                await store.create(f"k{written}", {"text": "x" * 1_000}, ttl=60)
                written += 1
        except StoreUnavailable as error:
            print(str(error).replace(sys.argv[1], "PATH"))
        print((await store.get("before")).data)
        limit(resource.RLIM_INFINITY)
        kept = [await store.get(f"k{number}") is not None for number in range(written)]
        print(written > 10, all(kept), await store.create("after", {}, ttl=60))
asyncio.run(main())
"""


def test_a_disk_that_fails_loses_nothing_that_was_written(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", _FAILS_TO_WRITE, str(tmp_path / "mcp.sqlite")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    lines = "SQLite, PATH: disk I/O error\n{'n': 1}\nTrue True True\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, lines, "")


async def test_what_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sqlite"
    path.write_bytes(b"no database at all" * 100)
    store = SqliteStore(path)
    for attempt in (store.open(), store.create("k", {}, ttl=60)):
        with pytest.raises(StoreUnavailable, match=r"mcp\.sqlite: file is not a database$"):
            await attempt
    assert path.read_bytes() == b"no database at all" * 100
    path.unlink()
    assert await store.create("k", {}, ttl=60) is True
    await store.close()


async def test_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "later" / "mcp.sqlite")
    waiting = [asyncio.create_task(store.get("k")) for _ in range(3)]
    for result in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(result, StoreUnavailable)
        assert str(result).endswith("mcp.sqlite: unable to open database file")
    (tmp_path / "later").mkdir()
    assert await store.get("k") is None
    await store.close()


async def test_a_file_that_breaks_is_opened_anew_once_it_is_mended(tmp_path: Path) -> None:
    path = tmp_path / "mcp.sqlite"
    async with at(path, check_every=0.01) as store:
        await store.create("k", {}, ttl=60)
        waiting = asyncio.create_task(store.hub.poll("t", 0))
        query(path, "DROP TABLE mcp_sansio_messages")
        with pytest.raises(StoreUnavailable, match="no such table: mcp_sansio_messages"):
            await waiting
        await store.hub.publish("t", b"a")
        assert [message.data for message in await store.hub.poll("t", 0)] == [b"a"]
        assert await store.get("k") == SessionRecord({}, 1)

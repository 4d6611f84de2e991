"""One SQLite file behind asyncio: opened with its first use, its schema made by whoever comes first."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import aiosqlite

from mcp_sansio import StoreFull, StoreUnavailable
from mcp_sansio.storing import Backoff, Opening, check_schema, sweep_forever

logger = logging.getLogger("mcp_sansio_sqlite")

#: Of the tables below. A release that changes them raises it, and brings what an older file has up to it.
SCHEMA_VERSION = 1
_VERSION = f"""
CREATE TABLE IF NOT EXISTS mcp_sansio_schema (version INTEGER NOT NULL);
INSERT INTO mcp_sansio_schema SELECT {SCHEMA_VERSION} WHERE NOT EXISTS (SELECT 1 FROM mcp_sansio_schema)
"""
_SCHEMA = """
CREATE TABLE IF NOT EXISTS mcp_sansio_records (
    namespace TEXT NOT NULL,
    key BLOB NOT NULL,
    version INTEGER NOT NULL,
    expires REAL NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (namespace, key)
);
CREATE INDEX IF NOT EXISTS mcp_sansio_records_expires ON mcp_sansio_records (expires);
CREATE TABLE IF NOT EXISTS mcp_sansio_messages (
    cursor INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace TEXT NOT NULL,
    topic BLOB NOT NULL,
    published REAL NOT NULL,
    data BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS mcp_sansio_messages_topic ON mcp_sansio_messages (namespace, topic, cursor);
CREATE INDEX IF NOT EXISTS mcp_sansio_messages_published ON mcp_sansio_messages (published)
"""
#: The first with RETURNING.
_OLDEST_SQLITE = (3, 35, 0)
#: The reasons for which one statement fails and the next one may not. After any other the file is opened anew.
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL)

Row = Sequence[Any]


class Database:
    """The file at `path`, on a connection of its own, whose statements run one after the other.

    `timeout` is how many seconds a statement waits for those of other processes, and `max_bytes` what the file may grow
    to. `sweep` is called every `sweep_every` seconds while the file is open.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float,
        max_bytes: int | None,
        sweep: Callable[[], Awaitable[None]],
        sweep_every: float,
    ) -> None:
        self.path = os.fspath(path)
        if self.path in ("", ":memory:"):
            raise ValueError(f"a SqliteStore is in a file, which workers can share, not at {self.path!r}")
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._connection = Opening(
            self._open,
            aiosqlite.Connection.close,
            event=asyncio.Event,
            start=asyncio.create_task,
            loop=asyncio.get_running_loop,
            tend=partial(sweep_forever, sweep, sweep_every, asyncio.sleep, logger),
        )

    async def open(self) -> None:
        """Open the file, if it is not open. Raises `StoreUnavailable`, and `StoreTooNew`."""
        await self._connection.get()

    async def run(self, statement: str, *parameters: object) -> list[Row]:
        """The rows of one statement, which is a transaction of its own. Raises `StoreUnavailable` and `StoreFull`."""
        connection = await self._connection.get()
        try:
            return list(await connection.execute_fetchall(statement, parameters))
        except sqlite3.Error as error:
            if _reason(error) not in _PASSING:
                self._connection.give_up()
            raise self._told(error) from error
        except ValueError as error:
            # What aiosqlite raises on a connection that was closed meanwhile.
            raise StoreUnavailable(f"SQLite, {self.path}: it was closed") from error

    async def close(self) -> None:
        """Close the file. Whatever needs it next opens it again."""
        await self._connection.close()

    def _told(self, error: sqlite3.Error) -> StoreFull | StoreUnavailable:
        if _reason(error) == sqlite3.SQLITE_FULL:
            logger.error("SQLite, %s: %s", self.path, error)
            return StoreFull("the session store is full")
        return StoreUnavailable(f"SQLite, {self.path}: {error}")

    async def _open(self) -> aiosqlite.Connection:
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreUnavailable(f"SQLite is {sqlite3.sqlite_version}, and has to be 3.35 at least")
        try:
            # First where a failure leaves nothing: aiosqlite then has a thread that may end after the event loop.
            await asyncio.to_thread(lambda: sqlite3.connect(self.path).close())
            connection = aiosqlite.connect(self.path, timeout=self._timeout, isolation_level=None)
            # Its thread, which until 0.22 is the connection itself, must not keep a process whose loop was closed.
            thread: Any = getattr(connection, "_thread", connection)
            thread.daemon = True
            await connection
            try:
                await self._prepare(connection)
            except BaseException:
                await connection.close()
                raise
        except sqlite3.Error as error:
            raise self._told(error) from error
        return connection

    async def _prepare(self, connection: aiosqlite.Connection) -> None:
        """Have the file as it is to be. Any number of processes may do so at once."""
        await self._use_wal(connection)
        # Without a sync for each transaction: nothing is lost with a process, and a little may be with the machine.
        await connection.execute_fetchall("PRAGMA synchronous = NORMAL")
        if self._max_bytes is not None:
            ((page_size,),) = await connection.execute_fetchall("PRAGMA page_size")
            await connection.execute_fetchall(f"PRAGMA max_page_count = {max(1, self._max_bytes // page_size)}")
        await connection.execute_fetchall("BEGIN IMMEDIATE")
        for statement in _VERSION.split(";"):
            await connection.execute_fetchall(statement)
        ((version,),) = await connection.execute_fetchall("SELECT version FROM mcp_sansio_schema")
        check_schema(f"SQLite, {self.path}", version, SCHEMA_VERSION)
        for statement in _SCHEMA.split(";"):
            await connection.execute_fetchall(statement)
        await connection.execute_fetchall("COMMIT")

    async def _use_wal(self, connection: aiosqlite.Connection) -> None:
        # The switch takes the file for itself, and SQLite does not wait for that by its own timeout.
        backoff = Backoff(first=0.01, most=0.1)
        deadline = asyncio.get_running_loop().time() + self._timeout
        while True:
            try:
                ((mode,),) = await connection.execute_fetchall("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if _reason(error) not in _PASSING or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(backoff.delay())
                continue
            if mode != "wal":
                raise StoreUnavailable(f"SQLite, {self.path}: it cannot have a write-ahead log, but {mode}")
            return


def _reason(error: sqlite3.Error) -> int:
    """The primary code of an error of SQLite, 0 for one of its Python module."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF

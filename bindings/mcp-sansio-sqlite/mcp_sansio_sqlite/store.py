"""A session store in SQLite."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from mcp_sansio import SessionRecord
from mcp_sansio.storing import WORTH_RENEWING, EngineStore, check_namespace, decode_data, encode_data, encode_key

from .database import Database
from .hub import SqliteHub

#: Rows that one statement sweeps: other processes write in between.
_SWEPT_AT_ONCE = 1_000


class SqliteStore(EngineStore):
    """A `mcp_sansio.SessionStore` in the SQLite file at `path`, for all processes of one machine; `hub` is their hub.

    The file and its tables are made where there are none. It is opened by ``async with`` or `open`, or else by its
    first use, and closed by `close`, or else with the event loop; what is used once more opens again.

    `namespace` keeps applications apart that share a file. `keep` and `keep_for` (seconds) bound what the hub keeps
    of a topic. `timeout` is how many seconds a statement waits for those of other processes, `check_every` how often
    the hub asks whether other processes have written, and `sweep_every` how often what has expired is removed.
    `max_bytes` bounds the file: a store that is full raises `mcp_sansio.StoreFull`. `clock` gives the seconds by
    which records expire; processes that share a file share it.

    Raises ``ValueError`` for a path that is no file's, and for a namespace of other characters than letters, digits,
    ``_``, ``.`` and ``-``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        namespace: str = "mcp",
        keep: int = 1024,
        keep_for: float = 3600.0,
        timeout: float = 5.0,
        check_every: float = 0.05,
        sweep_every: float = 60.0,
        max_bytes: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._namespace = check_namespace(namespace)
        self._clock = clock
        self._database = Database(path, timeout=timeout, max_bytes=max_bytes, sweep=self.sweep, sweep_every=sweep_every)
        self.hub = SqliteHub(
            self._database,
            namespace=namespace,
            clock=clock,
            keep=keep,
            keep_for=keep_for,
            check_every=check_every,
        )

    async def open(self) -> None:
        """Open the file now, so that what is wrong with it is heard of at once.

        Raises `mcp_sansio.StoreUnavailable`, and `mcp_sansio.StoreTooNew` for a file of a newer release.
        """
        await self._database.open()

    async def close(self) -> None:
        """Close the file. Whoever waits for the hub raises `mcp_sansio.StoreUnavailable`."""
        self.hub.stop(f"SQLite, {self._database.path}: it was closed")
        await self._database.close()

    async def create(self, key: str, data: Mapping[str, Any], *, ttl: float) -> bool:
        """See `mcp_sansio.SessionStore.create`."""
        now = self._clock()
        made = await self._database.run(
            "INSERT INTO mcp_sansio_records (namespace, key, version, expires, data) VALUES (?, ?, 1, ?, ?)"
            " ON CONFLICT (namespace, key) DO UPDATE SET version = 1, expires = excluded.expires, data = excluded.data"
            " WHERE expires <= ? RETURNING 1",
            self._namespace, encode_key(key), now + ttl, encode_data(data), now,
        )  # fmt: skip
        return bool(made)

    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        """See `mcp_sansio.SessionStore.get`."""
        now = self._clock()
        found = await self._database.run(
            "SELECT data, version, expires FROM mcp_sansio_records WHERE namespace = ? AND key = ? AND expires > ?",
            self._namespace, encode_key(key), now,
        )  # fmt: skip
        if not found:
            return None
        ((data, version, expires),) = found
        if ttl is not None and abs(now + ttl - expires) > ttl * WORTH_RENEWING:
            await self.touch(key, ttl=ttl)
        return SessionRecord(decode_data(data), version)

    async def save(self, key: str, data: Mapping[str, Any], *, expected: int, ttl: float) -> bool:
        """See `mcp_sansio.SessionStore.save`."""
        now = self._clock()
        saved = await self._database.run(
            "UPDATE mcp_sansio_records SET version = version + 1, expires = ?, data = ?"
            " WHERE namespace = ? AND key = ? AND version = ? AND expires > ? RETURNING 1",
            now + ttl, encode_data(data), self._namespace, encode_key(key), expected, now,
        )  # fmt: skip
        return bool(saved)

    async def touch(self, key: str, *, ttl: float) -> bool:
        """See `mcp_sansio.SessionStore.touch`."""
        now = self._clock()
        touched = await self._database.run(
            "UPDATE mcp_sansio_records SET expires = ? WHERE namespace = ? AND key = ? AND expires > ? RETURNING 1",
            now + ttl, self._namespace, encode_key(key), now,
        )  # fmt: skip
        return bool(touched)

    async def delete(self, key: str) -> None:
        """See `mcp_sansio.SessionStore.delete`."""
        await self._database.run(
            "DELETE FROM mcp_sansio_records WHERE namespace = ? AND key = ?", self._namespace, encode_key(key)
        )

    async def take(self, key: str) -> SessionRecord | None:
        """See `mcp_sansio.SessionStore.take`."""
        taken = await self._database.run(
            "DELETE FROM mcp_sansio_records WHERE namespace = ? AND key = ? AND expires > ? RETURNING data, version",
            self._namespace, encode_key(key), self._clock(),
        )  # fmt: skip
        return SessionRecord(decode_data(taken[0][0]), taken[0][1]) if taken else None

    async def sweep(self) -> None:
        """Remove what has expired, which happens by itself every `sweep_every` seconds."""
        swept = _SWEPT_AT_ONCE
        while swept == _SWEPT_AT_ONCE:
            rows = await self._database.run(
                "DELETE FROM mcp_sansio_records WHERE rowid IN (SELECT rowid FROM mcp_sansio_records"
                " WHERE expires <= ? AND namespace = ? LIMIT ?) RETURNING 1",
                self._clock(), self._namespace, _SWEPT_AT_ONCE,
            )  # fmt: skip
            swept = len(rows)
        await self.hub.sweep()

"""A hub in SQLite: the table is the truth, and whoever waits for it is woken when the file has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from mcp_sansio import HubMessage
from mcp_sansio.storing import EngineHub, encode_key

from .database import Database


class SqliteHub(EngineHub):
    """A `mcp_sansio.Hub` between the processes that have the same file open: the `hub` of a `SqliteStore`.

    It keeps the last `keep` messages of a topic, for `keep_for` seconds at most. Who waits in the process that
    publishes is woken at once, and in others within `check_every` seconds: that is how often SQLite is asked whether
    another process has written, which costs no reading of the file, and only while anybody waits.
    """

    def __init__(
        self,
        database: Database,
        *,
        namespace: str,
        clock: Callable[[], float],
        keep: int,
        keep_for: float,
        check_every: float,
    ) -> None:
        super().__init__(
            event=asyncio.Event, start=asyncio.create_task, sleep=asyncio.sleep, loop=asyncio.get_running_loop
        )
        self._database = database
        self._namespace = namespace
        self._clock = clock
        self._keep = keep
        self._keep_for = keep_for
        self._check_every = check_every

    async def publish(self, topic: str, data: bytes) -> None:
        """See `mcp_sansio.Hub.publish`."""
        key = encode_key(topic)
        # First, so that nothing was published where it fails.
        await self._database.run(
            "DELETE FROM mcp_sansio_messages WHERE namespace = ? AND topic = ? AND cursor <= ("
            " SELECT cursor FROM mcp_sansio_messages WHERE namespace = ? AND topic = ?"
            " ORDER BY cursor DESC LIMIT 1 OFFSET ?)",
            self._namespace, key, self._namespace, key, self._keep - 1,
        )  # fmt: skip
        await self._database.run(
            "INSERT INTO mcp_sansio_messages (namespace, topic, published, data) VALUES (?, ?, ?, ?)",
            self._namespace, key, self._clock(), bytes(data),
        )  # fmt: skip
        self.ring(topic)

    async def position(self, topic: str) -> int:
        """See `mcp_sansio.Hub.position`."""
        ((cursor,),) = await self._database.run(
            "SELECT coalesce(max(cursor), 0) FROM mcp_sansio_messages WHERE namespace = ? AND topic = ?",
            self._namespace, encode_key(topic),
        )  # fmt: skip
        return int(cursor)

    async def delete(self, topic: str) -> None:
        """See `mcp_sansio.Hub.delete`."""
        await self._database.run(
            "DELETE FROM mcp_sansio_messages WHERE namespace = ? AND topic = ?", self._namespace, encode_key(topic)
        )

    async def sweep(self) -> None:
        """Forget what is older than it is kept for."""
        await self._database.run(
            "DELETE FROM mcp_sansio_messages WHERE published <= ? AND namespace = ?",
            self._clock() - self._keep_for, self._namespace,
        )  # fmt: skip

    async def _read(self, topic: str, cursor: int) -> Sequence[HubMessage]:
        rows = await self._database.run(
            "SELECT cursor, data FROM mcp_sansio_messages WHERE namespace = ? AND topic = ? AND cursor > ?"
            " ORDER BY cursor DESC LIMIT ?",
            self._namespace, encode_key(topic), cursor, self._keep,
        )  # fmt: skip
        return [HubMessage(*row) for row in reversed(rows)]

    async def _hear(self, ready: Callable[[], None]) -> None:
        seen = await self._data_version()
        ready()
        while self.is_waited_for:
            await asyncio.sleep(self._check_every)
            found = await self._data_version()
            if found != seen:  # another connection has written
                seen = found
                self.ring()

    async def _data_version(self) -> int:
        ((version,),) = await self._database.run("PRAGMA data_version")
        return int(version)

"""A hub in PostgreSQL: the table is the truth, and whoever waits for it is notified."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from hashlib import blake2b

from psycopg import Error
from psycopg.sql import SQL, Identifier

from mcp_sansio import HubMessage
from mcp_sansio.storing import EngineHub, encode_key

from .server import Server, told

#: Cursors are drawn from a sequence, and whoever drew the lower one may commit last: a reader who has seen the higher
#: one would never see it. So who publishes to a topic has its lock before they draw, and until they have committed.
#: The rest hangs on the insertion, and so does not begin before it.
_PUBLISH = """
WITH locked AS MATERIALIZED (
    SELECT pg_advisory_xact_lock(%(lock)s)
), added AS (
    INSERT INTO mcp_sansio_messages (namespace, topic, published, data)
    SELECT %(namespace)s, %(topic)s, now(), %(data)s FROM locked
    RETURNING cursor
), trimmed AS (
    DELETE FROM mcp_sansio_messages AS old USING added
    WHERE old.namespace = %(namespace)s AND old.topic = %(topic)s AND old.cursor <= (
        SELECT kept.cursor FROM mcp_sansio_messages AS kept
        WHERE kept.namespace = %(namespace)s AND kept.topic = %(topic)s
        ORDER BY kept.cursor DESC LIMIT 1 OFFSET %(kept)s
    )
)
SELECT pg_notify(%(channel)s, %(name)s) FROM added
"""
#: PostgreSQL takes texts of up to 8000 bytes along. A topic that does not fit rings for all.
_LONGEST_NAME = 7_000
#: Seconds of silence after which it is seen whether the listening connection is still one.
_CHECK_EVERY = 15.0


class PostgresHub(EngineHub):
    """A `mcp_sansio.Hub` between all who use one database: the `hub` of a `PostgresStore`.

    It keeps the last `keep` messages of a topic, for `keep_for` seconds at most. However many wait, and for whatever
    topics, one connection beside those of the store listens for all of them.
    """

    def __init__(self, server: Server, *, namespace: str, keep: int, keep_for: float) -> None:
        super().__init__(
            event=asyncio.Event, start=asyncio.create_task, sleep=asyncio.sleep, loop=asyncio.get_running_loop
        )
        self._server = server
        self._namespace = namespace
        self._channel = f"mcp_sansio_{namespace}"
        self._keep = keep
        self._keep_for = keep_for

    async def publish(self, topic: str, data: bytes) -> None:
        """See `mcp_sansio.Hub.publish`."""
        name = encode_key(topic)
        await self._server.run(
            _PUBLISH,
            {
                "lock": _lock_of(self._namespace, name),
                "namespace": self._namespace,
                "topic": name,
                "data": bytes(data),
                "kept": self._keep - 1,
                "channel": self._channel,
                "name": name.hex() if 2 * len(name) <= _LONGEST_NAME else "",
            },
        )

    async def position(self, topic: str) -> int:
        """See `mcp_sansio.Hub.position`."""
        ((cursor,),) = await self._server.run(
            "SELECT coalesce(max(cursor), 0) FROM mcp_sansio_messages"
            " WHERE namespace = %(namespace)s AND topic = %(topic)s",
            {"namespace": self._namespace, "topic": encode_key(topic)},
        )
        return int(cursor)

    async def delete(self, topic: str) -> None:
        """See `mcp_sansio.Hub.delete`."""
        await self._server.run(
            "DELETE FROM mcp_sansio_messages WHERE namespace = %(namespace)s AND topic = %(topic)s RETURNING 1",
            {"namespace": self._namespace, "topic": encode_key(topic)},
        )

    async def sweep(self) -> None:
        """Forget what is older than it is kept for."""
        await self._server.run(
            "WITH swept AS (DELETE FROM mcp_sansio_messages WHERE namespace = %(namespace)s"
            " AND published <= now() - make_interval(secs => %(seconds)s)) SELECT 1",
            {"namespace": self._namespace, "seconds": self._keep_for},
        )

    async def _read(self, topic: str, cursor: int) -> Sequence[HubMessage]:
        rows = await self._server.run(
            "SELECT cursor, data FROM mcp_sansio_messages"
            " WHERE namespace = %(namespace)s AND topic = %(topic)s AND cursor > %(cursor)s"
            " ORDER BY cursor DESC LIMIT %(keep)s",
            {"namespace": self._namespace, "topic": encode_key(topic), "cursor": cursor, "keep": self._keep},
        )
        return [HubMessage(*row) for row in reversed(rows)]

    async def _hear(self, ready: Callable[[], None]) -> None:
        try:
            async with await self._server.connect() as connection:
                await connection.execute(SQL("LISTEN {}").format(Identifier(self._channel)))
                while True:
                    ready()
                    async for notify in connection.notifies(timeout=_CHECK_EVERY):
                        self.ring(bytes.fromhex(notify.payload).decode("utf-8", "surrogatepass") or None)
                    async with asyncio.timeout(self._server.timeout):
                        await connection.execute("SELECT 1")
        except (Error, OSError) as error:
            raise told(error) from error


def _lock_of(namespace: str, topic: bytes) -> int:
    """The advisory lock of a topic: a number that others hardly have."""
    digest = blake2b(topic, digest_size=8, key=f"mcp_sansio {namespace}".encode()).digest()
    return int.from_bytes(digest, "big", signed=True)

"""A session store in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_sansio import SessionRecord
from mcp_sansio.storing import WORTH_RENEWING, EngineStore, check_namespace, decode_data, encode_data, encode_key

from .hub import PostgresHub
from .server import Server

#: PostgreSQL's dates end.
_LONGEST = 10**9

_CREATE = """
INSERT INTO mcp_sansio_records AS held (namespace, key, version, expires, data)
VALUES (%(namespace)s, %(key)s, 1, now() + make_interval(secs => %(ttl)s), %(data)s)
ON CONFLICT (namespace, key) DO UPDATE SET version = 1, expires = excluded.expires, data = excluded.data
WHERE held.expires <= now()
RETURNING 1
"""
_GET = """
SELECT data, version FROM mcp_sansio_records WHERE namespace = %(namespace)s AND key = %(key)s AND expires > now()
"""
_GET_AND_RENEW = """
WITH found AS (
    SELECT data, version, expires FROM mcp_sansio_records
    WHERE namespace = %(namespace)s AND key = %(key)s AND expires > now()
), renewed AS (
    UPDATE mcp_sansio_records AS held SET expires = now() + make_interval(secs => %(ttl)s) FROM found
    WHERE held.namespace = %(namespace)s AND held.key = %(key)s AND held.expires > now()
    AND abs(extract(epoch FROM found.expires - now()) - %(ttl)s) > %(worth)s
)
SELECT data, version FROM found
"""
_SAVE = """
UPDATE mcp_sansio_records
SET version = version + 1, expires = now() + make_interval(secs => %(ttl)s), data = %(data)s
WHERE namespace = %(namespace)s AND key = %(key)s AND version = %(expected)s AND expires > now()
RETURNING 1
"""
_TOUCH = """
UPDATE mcp_sansio_records SET expires = now() + make_interval(secs => %(ttl)s)
WHERE namespace = %(namespace)s AND key = %(key)s AND expires > now()
RETURNING 1
"""
_DELETE = "DELETE FROM mcp_sansio_records WHERE namespace = %(namespace)s AND key = %(key)s RETURNING 1"
_TAKE = """
DELETE FROM mcp_sansio_records WHERE namespace = %(namespace)s AND key = %(key)s AND expires > now()
RETURNING data, version
"""
#: So many at once: others write in between, and nobody waits for what another worker sweeps already.
_SWEEP = """
WITH expired AS (
    SELECT namespace, key FROM mcp_sansio_records WHERE expires <= now() AND namespace = %(namespace)s
    LIMIT 1000 FOR UPDATE SKIP LOCKED
)
DELETE FROM mcp_sansio_records AS held USING expired
WHERE held.namespace = expired.namespace AND held.key = expired.key
RETURNING 1
"""


class PostgresStore(EngineStore):
    """A `mcp_sansio.SessionStore` in the PostgreSQL database at `conninfo`, for workers on any number of machines.

    `hub` is theirs. `conninfo` is one of libpq's: ``postgresql://user@host/database`` or ``host=… dbname=…``. The
    tables are made where there are none. The database is connected to by ``async with`` or `open`, or else by the
    first use; connections are closed by `close`, or else with the event loop, and what is used once more opens again.
    Records expire by the database's clock.

    `namespace` keeps applications apart that share a database. `keep` and `keep_for` (seconds) bound what the hub
    keeps of a topic. `timeout` is how many seconds the database has for an answer, and a call waits for a connection;
    `connections` is how many there are at most, beside the one that the hub listens on. What has expired is removed
    every `sweep_every` seconds. `options` are further ones of psycopg's connections, such as ``password`` or
    ``sslmode``.

    Raises ``ValueError`` for a namespace of other characters than letters, digits, ``_``, ``.`` and ``-``.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        namespace: str = "mcp",
        keep: int = 1024,
        keep_for: float = 3600.0,
        timeout: float = 5.0,
        connections: int = 10,
        sweep_every: float = 60.0,
        **options: Any,
    ) -> None:
        self._namespace = check_namespace(namespace)
        self._server = Server(
            conninfo,
            timeout=timeout,
            connections=connections,
            options=options,
            sweep=self.sweep,
            sweep_every=sweep_every,
        )
        self.hub = PostgresHub(self._server, namespace=namespace, keep=keep, keep_for=keep_for)

    async def open(self) -> None:
        """Connect now, so that what is wrong is heard of at once.

        Raises `mcp_sansio.StoreUnavailable`, and `mcp_sansio.StoreTooNew` for a database of a newer release.
        """
        await self._server.open()

    async def close(self) -> None:
        """Close the connections. Whoever waits for the hub raises `mcp_sansio.StoreUnavailable`."""
        self.hub.stop("PostgreSQL: it was closed")
        await self._server.close()

    async def create(self, key: str, data: Mapping[str, Any], *, ttl: float) -> bool:
        """See `mcp_sansio.SessionStore.create`."""
        return bool(await self._server.run(_CREATE, self._of(key, ttl) | {"data": encode_data(data)}))

    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        """See `mcp_sansio.SessionStore.get`."""
        if ttl is None:
            rows = await self._server.run(_GET, self._of(key))
        else:
            rows = await self._server.run(_GET_AND_RENEW, self._of(key, ttl) | {"worth": ttl * WORTH_RENEWING})
        return _record(rows)

    async def save(self, key: str, data: Mapping[str, Any], *, expected: int, ttl: float) -> bool:
        """See `mcp_sansio.SessionStore.save`."""
        more = {"data": encode_data(data), "expected": expected}
        return bool(await self._server.run(_SAVE, self._of(key, ttl) | more))

    async def touch(self, key: str, *, ttl: float) -> bool:
        """See `mcp_sansio.SessionStore.touch`."""
        return bool(await self._server.run(_TOUCH, self._of(key, ttl)))

    async def delete(self, key: str) -> None:
        """See `mcp_sansio.SessionStore.delete`."""
        await self._server.run(_DELETE, self._of(key))

    async def take(self, key: str) -> SessionRecord | None:
        """See `mcp_sansio.SessionStore.take`."""
        return _record(await self._server.run(_TAKE, self._of(key)))

    async def sweep(self) -> None:
        """Remove what has expired, which happens by itself every `sweep_every` seconds."""
        while await self._server.run(_SWEEP, {"namespace": self._namespace}):
            pass
        await self.hub.sweep()

    def _of(self, key: str, ttl: float = 0.0) -> dict[str, Any]:
        return {"namespace": self._namespace, "key": encode_key(key), "ttl": float(min(ttl, _LONGEST))}


def _record(rows: list[Any]) -> SessionRecord | None:
    return SessionRecord(decode_data(rows[0][0]), rows[0][1]) if rows else None

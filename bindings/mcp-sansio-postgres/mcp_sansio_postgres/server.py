"""A PostgreSQL database behind asyncio: one pool of connections for a store and its hub, and its errors told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, LiteralString

from psycopg import AsyncConnection, Error
from psycopg.errors import DiskFull, UndefinedTable
from psycopg_pool import AsyncConnectionPool

from mcp_sansio import StoreFull, StoreUnavailable
from mcp_sansio.storing import Opening, check_schema, sweep_forever

logger = logging.getLogger("mcp_sansio_postgres")

#: Of the tables below. A release that changes them raises it, and brings an older database up to it.
SCHEMA_VERSION = 1
_SCHEMA = (
    "CREATE TABLE mcp_sansio_schema (version integer NOT NULL)",
    """
    CREATE TABLE mcp_sansio_records (
        namespace text NOT NULL,
        key bytea NOT NULL,
        version bigint NOT NULL,
        expires timestamptz NOT NULL,
        data bytea NOT NULL, -- not jsonb, which refuses some strings and changes some numbers
        PRIMARY KEY (namespace, key)
    )
    """,
    "CREATE INDEX mcp_sansio_records_expires ON mcp_sansio_records (expires)",
    """
    CREATE TABLE mcp_sansio_messages (
        cursor bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        namespace text NOT NULL,
        topic bytea NOT NULL,
        published timestamptz NOT NULL,
        data bytea NOT NULL
    )
    """,
    "CREATE INDEX mcp_sansio_messages_topic ON mcp_sansio_messages (namespace, topic, cursor)",
    "CREATE INDEX mcp_sansio_messages_published ON mcp_sansio_messages (published)",
)
#: The advisory lock of whoever makes the tables.
_SCHEMA_LOCK = 0x6D63705F73616E73

Connection = AsyncConnection[Any]


class Server:
    """The database at `conninfo`.

    `timeout` is how many seconds it has to answer, and for a connection to be made or to become free, of which there
    are `connections` at most. `options` are those of psycopg's connections. `sweep` is called every `sweep_every`
    seconds while connections are open.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        timeout: float,
        connections: int,
        options: dict[str, Any],
        sweep: Callable[[], Awaitable[None]],
        sweep_every: float,
    ) -> None:
        self.timeout = timeout
        self._conninfo = conninfo
        self._options = {"connect_timeout": max(2, round(timeout)), **options, "autocommit": True}
        self._connections = connections
        self._pool = Opening(
            self._open,
            AsyncConnectionPool.close,
            event=asyncio.Event,
            start=asyncio.create_task,
            loop=asyncio.get_running_loop,
            tend=partial(sweep_forever, sweep, sweep_every, asyncio.sleep, logger),
        )

    async def open(self) -> None:
        """See that it can be used. Raises `StoreUnavailable`, and `StoreTooNew`."""
        await self._pool.get()

    async def close(self) -> None:
        """Close all connections. Whatever needs one next opens it again."""
        await self._pool.close()

    async def run(self, statement: LiteralString, parameters: dict[str, Any]) -> list[Any]:
        """The rows of one statement, a transaction of its own. Raises `StoreUnavailable` and `StoreFull`."""
        pool = await self._pool.get()
        try:
            async with asyncio.timeout(2 * self.timeout), pool.connection() as connection:
                return await (await connection.execute(statement, parameters, binary=True)).fetchall()
        except (Error, OSError) as error:
            if self._pool.opened is not pool:
                raise StoreUnavailable("PostgreSQL: it was closed") from error
            if isinstance(error, UndefinedTable):
                # It came back as another one, which is empty: it gets its tables with the next use.
                self._pool.give_up()
            raise told(error) from error

    async def connect(self) -> Connection:
        """A connection beside the pool's, for the caller to close. Raises `StoreUnavailable`."""
        try:
            connection = await AsyncConnection.connect(self._conninfo, **self._options)
        except (Error, OSError) as error:
            raise told(error) from error
        return connection

    async def _open(self) -> AsyncConnectionPool[Connection]:
        # By a connection of its own, whose error says what is wrong; a pool's would say that time is up.
        connection = await self.connect()
        try:
            async with connection:
                await _make_schema(connection)
            pool = AsyncConnectionPool(
                self._conninfo,
                kwargs=self._options,
                min_size=1,
                max_size=self._connections,
                timeout=self.timeout,
                open=False,
                check=_is_there,
                configure=_configure,
            )
            await pool.open()
        except (Error, OSError) as error:
            raise told(error) from error
        return pool


async def _make_schema(connection: Connection) -> None:
    """Have the tables as they are to be. Any number of workers may do so at once, and whoever comes later needs no
    right to make any.
    """
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_SCHEMA_LOCK])
        found = await (await connection.execute("SELECT to_regclass('mcp_sansio_schema') IS NOT NULL")).fetchone()
        if found == (False,):
            for statement in _SCHEMA:
                await connection.execute(statement)
            await connection.execute("INSERT INTO mcp_sansio_schema VALUES (%s)", [SCHEMA_VERSION])
        row = await (await connection.execute("SELECT version FROM mcp_sansio_schema")).fetchone()
    check_schema("PostgreSQL", row[0] if row else SCHEMA_VERSION, SCHEMA_VERSION)


async def _configure(connection: Connection) -> None:
    # What a statement waited for is then looked at again, and the statement does not fail, whatever the database's
    # own default.
    await connection.execute("SET default_transaction_isolation TO 'read committed'")


async def _is_there(connection: Connection) -> None:
    """Raises where the server has left an idle connection, which costs no round trip: the end has come in by then."""
    for _ in range(2):  # what it said last, and the end
        connection.pgconn.consume_input()


def told(error: Exception) -> StoreFull | StoreUnavailable:
    """What is raised in place of an error of psycopg or of the system."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, DiskFull):
        logger.error("PostgreSQL: %s", text)
        return StoreFull("the session store is full")
    return StoreUnavailable(f"PostgreSQL: {text}")

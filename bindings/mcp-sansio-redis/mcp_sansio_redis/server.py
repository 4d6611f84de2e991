"""A Redis server behind asyncio: one pool of connections for a store and its hub, and its errors told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ReadOnlyError, RedisError

from mcp_sansio import StoreFull, StoreUnavailable
from mcp_sansio.storing import Opening, check_schema

logger = logging.getLogger("mcp_sansio_redis")

#: Of the keys and of what is under them. A release that changes them raises it, and brings an older server up to it.
SCHEMA_VERSION = 1
#: What every reply begins with that refuses a write for want of memory.
_OUT_OF_MEMORY = "command not allowed when used memory"


class Server:
    """The server at `url`, whose keys of this application begin with ``namespace:``.

    `timeout` is how many seconds it has to answer, and for a connection to be made or to become free, of which there
    are `connections` at most. `options` are those of redis-py's connections.
    """

    def __init__(self, url: str, *, namespace: str, timeout: float, connections: int, options: dict[str, Any]) -> None:
        # Refuses here what is wrong with the URL. Nothing is connected yet.
        self._pool: Callable[[], BlockingConnectionPool] = lambda: BlockingConnectionPool.from_url(
            url,
            **{
                "max_connections": connections,
                "timeout": timeout,
                "socket_timeout": timeout,
                "socket_connect_timeout": timeout,
                # A write that may have been made is not made again.
                "retry": Retry(NoBackoff(), 0),
                **options,
                "decode_responses": False,
                "protocol": 2,
            },
        )
        self._pool()
        self._namespace = namespace.encode()
        self._client = Opening(
            self._open,
            Redis.aclose,
            event=asyncio.Event,
            start=asyncio.create_task,
            loop=asyncio.get_running_loop,
        )

    def key(self, kind: bytes, name: bytes = b"") -> bytes:
        """Where something of this application is kept."""
        return b":".join((self._namespace, kind, name))

    async def open(self) -> None:
        """See that it can be used. Raises `StoreUnavailable`, and `StoreTooNew`."""
        await self._client.get()

    async def close(self) -> None:
        """Close all connections. Whatever needs one next opens it again."""
        await self._client.close()

    async def ask(self, work: Callable[[Redis], Awaitable[Any]]) -> Any:
        """What `work` makes of the server. Raises `StoreUnavailable` and `StoreFull`."""
        with _cancellable():
            return await self._ask(work)

    async def _ask(self, work: Callable[[Redis], Awaitable[Any]]) -> Any:
        client = await self._client.get()
        try:
            return await work(client)
        except Exception as error:
            if self._client.opened is not client:  # which redis-py answers with errors of all kinds
                raise StoreUnavailable("Redis: it was closed") from error
            if isinstance(error, ReadOnlyError):
                # It is a replica since it was connected to, and its name may be another server's by now.
                await client.connection_pool.disconnect(inuse_connections=False)
            if isinstance(error, RedisError | OSError):
                raise _told(error) from error
            raise

    async def run(self, script: str, keys: list[bytes], arguments: list[Any]) -> Any:
        """What a script comes to, which is one step for everybody else. Raises like `ask`."""
        return await self.ask(lambda client: client.register_script(script)(keys, arguments))

    async def _open(self) -> Redis:
        client = Redis.from_pool(self._pool())
        try:
            with _cancellable():
                await self._check(client)
        except BaseException as error:
            await client.aclose()
            if isinstance(error, RedisError | OSError):
                raise _told(error) from error
            raise
        return client

    async def _check(self, client: Redis) -> None:
        key = self.key(b"schema")
        await client.set(key, SCHEMA_VERSION, nx=True)
        check_schema("Redis", int(await client.get(key) or SCHEMA_VERSION), SCHEMA_VERSION)


@contextmanager
def _cancellable() -> Iterator[None]:
    """Raise the cancellation that came meanwhile, even if it was lost.

    redis-py sends by ``asyncio.wait_for``, which on Python 3.11 loses a cancellation that comes as the sending ends.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError


def _told(error: Exception) -> StoreFull | StoreUnavailable:
    if _OUT_OF_MEMORY in str(error):
        logger.error("Redis: %s", error)
        return StoreFull("the session store is full")
    return StoreUnavailable(f"Redis: {str(error) or type(error).__name__}")

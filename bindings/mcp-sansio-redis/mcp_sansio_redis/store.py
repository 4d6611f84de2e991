"""A session store in Redis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_sansio import SessionRecord
from mcp_sansio.storing import EngineStore, check_namespace, decode_data, encode_data, encode_key

from .hub import RedisHub
from .server import Server

#: A record is its version, a colon and its data.
_SAVE = """
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then
    return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
#: Redis refuses a lifetime that its clock cannot count to.
_LONGEST = 10**12


class RedisStore(EngineStore):
    """A `mcp_sansio.SessionStore` in the Redis server at `url`, for workers on any number of machines; `hub` is theirs.

    `url` is one of redis-py's: ``redis://``, ``rediss://`` or ``unix://``. The server is connected to by ``async
    with`` or `open`, or else by the first use; connections are closed by `close`, or else with the event loop, and
    what is used once more opens again. Records expire by the server's clock.

    `namespace` keeps applications apart that share a server: all keys begin with it and a colon. `keep` and `keep_for`
    (seconds) bound what the hub keeps of a topic. `timeout` is how many seconds the server has for an answer, and
    `connections` how many there are at most; one of them is the hub's. `options` are further ones of redis-py's
    connections, such as ``ssl_ca_certs`` or ``credential_provider``.

    Raises ``ValueError`` for a URL that redis-py does not know, and for a namespace of other characters than letters,
    digits, ``_``, ``.`` and ``-``.
    """

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "mcp",
        keep: int = 1024,
        keep_for: float = 3600.0,
        timeout: float = 5.0,
        connections: int = 20,
        **options: Any,
    ) -> None:
        self._server = Server(
            url, namespace=check_namespace(namespace), timeout=timeout, connections=connections, options=options
        )
        # A read that is answered in half the time tells silence from a server that is gone.
        self.hub = RedisHub(self._server, keep=keep, keep_for=keep_for, block=timeout / 2)

    async def open(self) -> None:
        """Connect now, so that what is wrong is heard of at once.

        Raises `mcp_sansio.StoreUnavailable`, and `mcp_sansio.StoreTooNew` where a newer release uses the namespace.
        """
        await self._server.open()

    async def close(self) -> None:
        """Close the connections. Whoever waits for the hub raises `mcp_sansio.StoreUnavailable`."""
        self.hub.stop("Redis: it was closed")
        await self._server.close()

    async def create(self, key: str, data: Mapping[str, Any], *, ttl: float) -> bool:
        """See `mcp_sansio.SessionStore.create`."""
        name, value = self._key(key), _packed(1, data)
        return bool(await self._server.ask(lambda client: client.set(name, value, px=_milliseconds(ttl), nx=True)))

    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        """See `mcp_sansio.SessionStore.get`."""
        name = self._key(key)
        if ttl is None:
            value = await self._server.ask(lambda client: client.get(name))
        else:
            value = await self._server.ask(lambda client: client.getex(name, px=_milliseconds(ttl)))
        return _unpacked(value)

    async def save(self, key: str, data: Mapping[str, Any], *, expected: int, ttl: float) -> bool:
        """See `mcp_sansio.SessionStore.save`."""
        arguments = [b"%d:" % expected, _packed(expected + 1, data), _milliseconds(ttl)]
        return bool(await self._server.run(_SAVE, [self._key(key)], arguments))

    async def touch(self, key: str, *, ttl: float) -> bool:
        """See `mcp_sansio.SessionStore.touch`."""
        name = self._key(key)
        return bool(await self._server.ask(lambda client: client.pexpire(name, _milliseconds(ttl))))

    async def delete(self, key: str) -> None:
        """See `mcp_sansio.SessionStore.delete`."""
        name = self._key(key)
        await self._server.ask(lambda client: client.delete(name))

    async def take(self, key: str) -> SessionRecord | None:
        """See `mcp_sansio.SessionStore.take`."""
        name = self._key(key)
        return _unpacked(await self._server.ask(lambda client: client.getdel(name)))

    def _key(self, key: str) -> bytes:
        return self._server.key(b"record", encode_key(key))


def _packed(version: int, data: Mapping[str, Any]) -> bytes:
    return b"%d:" % version + encode_data(data)


def _unpacked(value: bytes | None) -> SessionRecord | None:
    if value is None:
        return None
    version, _, text = value.partition(b":")
    return SessionRecord(decode_data(text), int(version))


def _milliseconds(ttl: float) -> int:
    return max(1, round(min(ttl * 1000, _LONGEST)))

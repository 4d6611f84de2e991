"""A hub in Redis: a stream for each topic, and one that says which of them has more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from mcp_sansio import HubMessage
from mcp_sansio.storing import EngineHub, encode_key

from .server import Server

#: The message, and the topic on the bell. One step, so that nobody is woken for what is not there.
_PUBLISH = """
redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', 'd', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('XADD', KEYS[2], 'MAXLEN', ARGV[4], '*', 't', ARGV[5])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
"""
#: Who is further behind than this rings for every topic.
_BELL_LENGTH = 1_000
#: A stream's ids are milliseconds of the server's clock and a number within each, of which there are never so many.
_NUMBER_BITS = 20


class RedisHub(EngineHub):
    """A `mcp_sansio.Hub` between all who use one Redis server: the `hub` of a `RedisStore`.

    It keeps the last `keep` messages of a topic, and a topic for `keep_for` seconds after its last message. However
    many wait, and for whatever topics, one connection of the store is in a blocking read for all of them.
    """

    def __init__(self, server: Server, *, keep: int, keep_for: float, block: float) -> None:
        super().__init__(
            event=asyncio.Event, start=asyncio.create_task, sleep=asyncio.sleep, loop=asyncio.get_running_loop
        )
        self._server = server
        self._keep = keep
        self._keep_for = round(keep_for * 1000)
        self._block = round(block * 1000)
        self._bell = server.key(b"bell")

    async def publish(self, topic: str, data: bytes) -> None:
        """See `mcp_sansio.Hub.publish`."""
        name = encode_key(topic)
        keys = [self._key(topic), self._bell]
        arguments = [self._keep, bytes(data), self._keep_for, _BELL_LENGTH, name]
        await self._server.run(_PUBLISH, keys, arguments)

    async def position(self, topic: str) -> int:
        """See `mcp_sansio.Hub.position`."""
        return _cursor_of(await self._newest(self._key(topic)))

    async def delete(self, topic: str) -> None:
        """See `mcp_sansio.Hub.delete`."""
        await self._server.ask(lambda client: client.delete(self._key(topic)))

    def _key(self, topic: str) -> bytes:
        return self._server.key(b"topic", encode_key(topic))

    async def _newest(self, key: bytes) -> bytes:
        """The id of a stream's last entry."""
        entries = await self._server.ask(lambda client: client.xrevrange(key, count=1))
        return bytes(entries[0][0]) if entries else b"0-0"

    async def _read(self, topic: str, cursor: int) -> Sequence[HubMessage]:
        key, after = self._key(topic), b"(" + _id_of(cursor)
        entries = await self._server.ask(lambda client: client.xrange(key, min=after))
        return [HubMessage(_cursor_of(entry), fields[b"d"]) for entry, fields in entries]

    async def _hear(self, ready: Callable[[], None]) -> None:
        last = await self._newest(self._bell)
        ready()
        while True:
            last = await self._hear_after(last)

    async def _hear_after(self, last: bytes) -> bytes:
        """Ring for what was published after `last`, or have waited for a while. What to go on after."""
        said: Any = await self._server.ask(lambda client: client.xread({self._bell: last}, block=self._block))
        if not said:
            return last
        ((_, entries),) = said
        if len(entries) < _BELL_LENGTH:
            for name in {fields[b"t"] for _, fields in entries}:
                self.ring(name.decode("utf-8", "surrogatepass"))
        else:
            self.ring()
        return bytes(entries[-1][0])


def _cursor_of(entry: bytes) -> int:
    milliseconds, number = entry.split(b"-")
    return int(milliseconds) << _NUMBER_BITS | int(number)


def _id_of(cursor: int) -> bytes:
    return b"%d-%d" % (cursor >> _NUMBER_BITS, cursor & (1 << _NUMBER_BITS) - 1)

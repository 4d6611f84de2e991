"""Where sessions live, and the words that pass between workers: the two protocols, and the pair that needs no service.

A `SessionStore` keeps small JSON objects under unguessable keys; a `Hub` carries messages between the workers of one
deployment. Both are async and small, so that an engine (SQLite, Redis, PostgreSQL) fits behind them in a page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import ClassVar, Protocol

import attrs
import msgspec

from .errors import McpError, SessionExpired
from .runtime import Event, Runtime
from .types import JSON

Cursor = int
_SAVE_ATTEMPTS = 16
#: A look-up that would add less of its lifetime to a record leaves it as it is: to renew took half the time of a look-
#: up here, and is a write in an engine.
WORTH_RENEWING = 0.01
#: What a peer is told of a store that fails, whatever the reason.
STORE_FAULT = "the session store cannot be reached"


class StoreFull(McpError):
    """The store holds as many records as it may. The peer is told to come back later."""


class StoreUnavailable(McpError):
    """The engine behind a store or a hub cannot be reached now, or did not do what it was asked.

    The text is for the operator. The peer is told (503 over HTTP) that the store cannot be reached, and may come
    back. A write that was under way when the engine was lost may have been made.
    """


class StoreTooNew(McpError):
    """The engine holds what a newer release of the library has written, and this release does not touch it."""


class SessionRecord:
    """What a store holds under a key: JSON `data`, and the `version` that `SessionStore.save` compares.

    A store that has the data as JSON text may give that. It is read when it is asked for: of a session that was looked
    up before, the version is mostly enough, and reading took a tenth of what a call in a session costs over ASGI.
    """

    __slots__ = ("_data", "version")

    def __init__(self, data: Mapping[str, JSON] | bytes, version: int) -> None:
        self._data = data
        self.version = version

    @property
    def data(self) -> Mapping[str, JSON]:
        """The data. It is nobody else's."""
        if isinstance(self._data, bytes):
            read: Mapping[str, JSON] = msgspec.json.decode(self._data)
            self._data = read
        return self._data

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SessionRecord):
            return NotImplemented
        return (self.data, self.version) == (other.data, other.version)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SessionRecord(data={self.data!r}, version={self.version!r})"


class SessionStore(Protocol):
    """Records under keys, with expiry. Every method is atomic, also across workers; `ttl` is in seconds.

    A store whose methods never wait for anything may have ``answers_at_once = True``: then it is asked in the middle of
    a request, and no driver hears of it (`StoreNeeded`).

    Methods raise `StoreUnavailable` while the engine behind the store cannot be reached. A renewal that would
    lengthen a record's life by less than a hundredth may be left out.
    """

    async def create(self, key: str, data: Mapping[str, JSON], *, ttl: float) -> bool:
        """Keep `data` under `key`. False where a live record is there already. Raises `StoreFull` when out of room."""

    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        """The live record under `key`, or ``None``. With `ttl` its expiry is renewed, on the same way."""

    async def save(self, key: str, data: Mapping[str, JSON], *, expected: int, ttl: float) -> bool:
        """Replace the data and renew the expiry. False where the record is gone or its version is not `expected`.

        The version is `expected` + 1 then.
        """

    async def touch(self, key: str, *, ttl: float) -> bool:
        """Renew the expiry alone. False where the record is gone."""

    async def delete(self, key: str) -> None:
        """Forget the record, if there is one."""

    async def take(self, key: str) -> SessionRecord | None:
        """The live record under `key`, which is forgotten in the same step, or ``None``.

        Of any number who take it at the same moment, at any workers, one gets it.
        """


class _Entry(msgspec.Struct):
    data: bytes
    version: int
    ttl: float
    expires: float = 0.0
    #: Until when renewing it would add less than is worth it.
    fresh: float = 0.0


class MemorySessionStore:
    """A `SessionStore` within one process.

    Data is kept as JSON bytes, so that nobody can change a record by holding on to what they stored. Entries of one
    lifetime expire in the order in which they were touched; each lifetime therefore keeps its own queue (a dict is
    one), and sweeping costs only what it removes.
    """

    answers_at_once: ClassVar[bool] = True

    def __init__(self, *, clock: Callable[[], float], max_records: int = 100_000) -> None:
        self._clock = clock
        self._max_records = max_records
        self._entries: dict[str, _Entry] = {}
        self._queues: dict[float, dict[str, None]] = {}

    def __len__(self) -> int:
        """How many records are live."""
        self._sweep()
        return len(self._entries)

    async def create(self, key: str, data: Mapping[str, JSON], *, ttl: float) -> bool:
        """See `SessionStore.create`."""
        self._sweep()
        if key in self._entries:
            return False
        if len(self._entries) >= self._max_records:
            raise StoreFull(f"the session store holds {self._max_records} records")
        self._put(key, _Entry(msgspec.json.encode(data), 1, ttl))
        return True

    async def get(self, key: str, *, ttl: float | None = None) -> SessionRecord | None:
        """See `SessionStore.get`."""
        return self.look_up(key, ttl)

    def look_up(self, key: str, ttl: float | None) -> SessionRecord | None:
        """`get`, without having to be awaited."""
        entry = self._entries.get(key)
        now = self._clock()
        if entry is None or entry.expires <= now:
            return None
        if ttl is not None and (now > entry.fresh or ttl != entry.ttl):
            self._renew(key, ttl)
        return SessionRecord(entry.data, entry.version)

    async def save(self, key: str, data: Mapping[str, JSON], *, expected: int, ttl: float) -> bool:
        """See `SessionStore.save`."""
        self._sweep()
        entry = self._entries.get(key)
        if entry is None or entry.version != expected:
            return False
        encoded = msgspec.json.encode(data)
        self._drop(key)
        self._put(key, _Entry(encoded, expected + 1, ttl))
        return True

    async def touch(self, key: str, *, ttl: float) -> bool:
        """See `SessionStore.touch`."""
        self._sweep()
        return self._renew(key, ttl)

    async def delete(self, key: str) -> None:
        """See `SessionStore.delete`."""
        self._drop(key)

    async def take(self, key: str) -> SessionRecord | None:
        """See `SessionStore.take`."""
        self._sweep()
        entry = self._drop(key)
        return None if entry is None else SessionRecord(entry.data, entry.version)

    def _renew(self, key: str, ttl: float) -> bool:
        entry = self._drop(key)
        if entry is None:
            return False
        entry.ttl = ttl
        self._put(key, entry)
        return True

    def _put(self, key: str, entry: _Entry) -> None:
        now = self._clock()
        entry.expires, entry.fresh = now + entry.ttl, now + entry.ttl * WORTH_RENEWING
        self._entries[key] = entry
        self._queues.setdefault(entry.ttl, {})[key] = None

    def _drop(self, key: str) -> _Entry | None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            queue = self._queues[entry.ttl]
            del queue[key]
            if not queue:
                del self._queues[entry.ttl]
        return entry

    def _sweep(self) -> None:
        now = self._clock()
        for queue in list(self._queues.values()):
            while queue and self._entries[key := next(iter(queue))].expires <= now:
                self._drop(key)


class Session:
    """The values that an application keeps for one session, read from a snapshot and written with compare-and-set.

    Values must survive a trip through JSON. A write applies its change to fresh values until it wins.
    """

    def __init__(self, store: SessionStore, key: str, handle: str, record: SessionRecord, ttl: float) -> None:
        self.handle = handle
        self.record = record
        self._store = store
        self._key = key
        self._ttl = ttl

    @property
    def values(self) -> Mapping[str, JSON]:
        """Everything kept, as of the last read or write."""
        values: Mapping[str, JSON] = self.record.data.get("values", {})
        return values

    def get(self, key: str, default: JSON = None) -> JSON:
        """One value."""
        return self.values.get(key, default)

    def __contains__(self, key: str) -> bool:
        return key in self.values

    async def set(self, key: str, value: JSON) -> None:
        """Keep one value. Raises `SessionExpired` where the session is gone."""
        await self.update(lambda values: {**values, key: value})

    async def delete(self, key: str) -> None:
        """Forget one value. Raises `SessionExpired` where the session is gone."""
        await self.update(lambda values: {name: value for name, value in values.items() if name != key})

    async def update(self, change: Callable[[Mapping[str, JSON]], Mapping[str, JSON]]) -> None:
        """Replace the values by ``change(values)``, which may run several times. Raises `SessionExpired`."""
        await self.write(lambda data: {**data, "values": dict(change(data.get("values", {})))})

    async def write(self, change: Callable[[Mapping[str, JSON]], Mapping[str, JSON]]) -> None:
        """Replace the whole record, the library's own members included. Raises `SessionExpired`."""
        for _ in range(_SAVE_ATTEMPTS):
            data, version = change(self.record.data), self.record.version
            if await self._store.save(self._key, data, expected=version, ttl=self._ttl):
                # What this write made, whatever others have made of it since.
                self.record = SessionRecord(msgspec.json.encode(data), version + 1)
                return
            fresh = await self._store.get(self._key)
            if fresh is None:
                raise SessionExpired("the session expired during a write")
            self.record = fresh
        raise SessionExpired("the session kept losing its writes to other workers")


class SessionAccess:
    """Sessions by explicit handle, for any revision: open one, hand the handle out, take it as an argument later.

    A handle works only for the principal that opened it; to anybody else the session does not exist.
    """

    def __init__(self, store: SessionStore, runtime: Runtime, principal: str | None, ttl: float) -> None:
        self._store = store
        self._runtime = runtime
        self._principal = principal
        self._ttl = ttl

    async def open(self) -> Session:
        """A new, empty session. Its ``handle`` is what the caller must send back."""
        handle = self._runtime.token()
        key = self._key(handle)
        data: dict[str, JSON] = {"values": {}}
        await self._store.create(key, data, ttl=self._ttl)
        return Session(self._store, key, handle, SessionRecord(data, 1), self._ttl)

    async def use(self, handle: str) -> Session | None:
        """The session of `handle`, or ``None`` where it is unknown, expired or another principal's."""
        key = self._key(handle)
        record = await self._store.get(key, ttl=self._ttl)
        return None if record is None else Session(self._store, key, handle, record, self._ttl)

    async def drop(self, handle: str) -> None:
        """Forget the session of `handle`, if it is this principal's."""
        await self._store.delete(self._key(handle))

    def _key(self, handle: str) -> str:
        return owned_key("handle", self._principal, handle)


def owned_key(kind: str, principal: str | None, name: str) -> str:
    """Where what is `principal`'s alone is stored, so that a look at it by anybody else finds and renews nothing."""
    return f"{kind}:{'' if principal is None else _digest(principal)}:{name}"


@lru_cache(1024)
def _digest(principal: str) -> str:
    """Of a fixed length and without what it is made of: an engine's keys are short, and seen by its operators."""
    from hashlib import sha256  # which loads OpenSSL, and most servers know no principals

    return sha256(msgspec.json.encode(principal)).hexdigest()


@attrs.frozen
class HubMessage:
    """One message of a topic; `cursor` is the place right after it."""

    cursor: Cursor
    data: bytes


class Hub(Protocol):
    """Topics of messages between workers, read by cursor: who takes the position first misses nothing after it.

    Methods raise `StoreUnavailable` while the engine behind the hub cannot be reached, `poll` also while it waits. Who
    polls again with the same cursor goes on where they were.
    """

    async def publish(self, topic: str, data: bytes) -> None:
        """Append a message."""

    async def position(self, topic: str) -> Cursor:
        """The place after the newest message."""

    async def poll(self, topic: str, cursor: Cursor) -> Sequence[HubMessage]:
        """The messages after `cursor`, as soon as there is one. Messages older than what is kept are lost."""

    async def delete(self, topic: str) -> None:
        """Forget a topic and its messages."""


class _Topic(msgspec.Struct):
    messages: deque[HubMessage]
    position: Cursor = 0
    waiting: list[Event] = msgspec.field(default_factory=list)


class MemoryHub:
    """A `Hub` between the servers of one process. It keeps the last `keep` messages of a topic."""

    def __init__(self, *, event: Callable[[], Event], keep: int = 1024) -> None:
        self._event = event
        self._keep = keep
        self._topics: dict[str, _Topic] = {}

    def _topic(self, name: str) -> _Topic:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _Topic(deque(maxlen=self._keep))
        return topic

    async def publish(self, topic: str, data: bytes) -> None:
        """See `Hub.publish`."""
        held = self._topic(topic)
        held.position += 1
        held.messages.append(HubMessage(held.position, data))
        waiting, held.waiting = held.waiting, []
        for event in waiting:
            event.set()

    async def position(self, topic: str) -> Cursor:
        """See `Hub.position`."""
        return self._topic(topic).position

    async def poll(self, topic: str, cursor: Cursor) -> Sequence[HubMessage]:
        """See `Hub.poll`."""
        held = self._topic(topic)
        while held.position <= cursor:
            event = self._event()
            held.waiting.append(event)
            try:
                await event.wait()
            finally:
                if event in held.waiting:  # given up, with nothing published
                    held.waiting.remove(event)
        return [message for message in held.messages if message.cursor > cursor]

    async def delete(self, topic: str) -> None:
        """See `Hub.delete`."""
        self._topics.pop(topic, None)

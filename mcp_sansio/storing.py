"""What stores and hubs on an engine share, whatever the engine and its event loop: opening, waiting, keys and data."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

import msgspec

from .runtime import Event
from .storage import Cursor, HubMessage, StoreUnavailable
from .types import JSON

__all__ = ["Backoff", "EngineHub", "Opening", "check_namespace", "decode_data", "encode_data", "encode_key"]

T = TypeVar("T")

#: No character that an engine, or a key in front of which the name stands, gives a meaning to.
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def check_namespace(namespace: str) -> str:
    """`namespace`, under which one application keeps what it has in an engine that it shares.

    Raises ``ValueError`` for what is not 1 to 64 letters, digits, ``_``, ``.`` and ``-`` of ASCII.
    """
    if _NAMESPACE.fullmatch(namespace) is None:
        raise ValueError(f"a namespace is 1 to 64 of the characters A-Z a-z 0-9 _ . -, not {namespace!r}")
    return namespace


def encode_key(key: str) -> bytes:
    """Any key or topic as bytes, different ones as different ones: engines differ in the characters of their texts."""
    return key.encode("utf-8", "surrogatepass")


def encode_data(data: Mapping[str, JSON]) -> bytes:
    """A record's data as JSON. Raises ``TypeError`` or ``ValueError`` for what is none."""
    return msgspec.json.encode(data)


def decode_data(text: bytes) -> dict[str, JSON]:
    """What `encode_data` was given: every number and every character of it."""
    data: dict[str, JSON] = msgspec.json.decode(text)
    return data


class Backoff:
    """How long to wait before an engine is tried again: `first` seconds, twice that, and so on up to `most`."""

    def __init__(self, *, first: float = 0.1, most: float = 5.0) -> None:
        self._first = first
        self._most = most
        self._next = first

    def delay(self) -> float:
        """The seconds to wait now, after one more failure."""
        now, self._next = self._next, min(2 * self._next, self._most)
        return now

    def reset(self) -> None:
        """It was reached."""
        self._next = self._first


class _Flag:
    """Raised for somebody who waits, maybe with bad news."""

    def __init__(self, event: Event) -> None:
        self._event = event
        self._failure: str | None = None

    def set(self, failure: str | None = None) -> None:
        self._failure = failure
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        if self._failure is not None:
            raise StoreUnavailable(self._failure)


class Opening(Generic[T]):
    """Something that is opened by whoever needs it first, and once for all who come meanwhile.

    `open_it` opens it, and raises `StoreUnavailable` where that fails: all who wait hear of it, and the next one tries
    again.
    """

    def __init__(self, open_it: Callable[[], Awaitable[T]], event: Callable[[], Event]) -> None:
        self._open = open_it
        self._event = event
        self._opened: T | None = None
        self._attempt: _Flag | None = None

    @property
    def opened(self) -> T | None:
        """What was opened, or ``None``."""
        return self._opened

    async def get(self) -> T:
        """What was opened. Raises what `open_it` raises."""
        while self._opened is None:
            if self._attempt is None:
                await self._try()
            else:
                await self._attempt.wait()
        return self._opened

    def forget(self) -> T | None:
        """Open it anew when it is needed next. What was open until now is for the caller to close."""
        opened, self._opened = self._opened, None
        return opened

    async def _try(self) -> None:
        attempt = self._attempt = _Flag(self._event())
        failure: str | None = None
        try:
            self._opened = await self._open()
        except StoreUnavailable as error:
            failure = str(error)
            raise
        finally:
            # Whoever was cancelled, or met another error, leaves it to those who wait to try for themselves.
            self._attempt = None
            attempt.set(failure)


class EngineHub:
    """`Hub.poll` for an engine that keeps the messages and says when there are more.

    A subclass has `_attend` and `_read`, and calls `ring` and `fail`. `event` makes a fresh flag of its event loop.
    """

    def __init__(self, event: Callable[[], Event]) -> None:
        self._event = event
        self._waiting: dict[str, dict[_Flag, None]] = {}

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody waits for a message."""
        return bool(self._waiting)

    async def poll(self, topic: str, cursor: Cursor) -> Sequence[HubMessage]:
        """See `Hub.poll`."""
        while True:
            # Whoever waits is on the list before they look: what comes after the look rings.
            with self._listed(topic) as flag:
                await self._attend()
                messages = await self._read(topic, cursor)
                if messages:
                    return messages
                await flag.wait()

    def ring(self, topic: str | None = None) -> None:
        """There may be messages of `topic`, or of any: whoever waits for them looks."""
        for flags in [*self._waiting.values()] if topic is None else [self._waiting.get(topic, {})]:
            for flag in flags:
                flag.set()

    def fail(self, reason: str) -> None:
        """The engine was lost: whoever waits raises `StoreUnavailable` with that `reason`."""
        for flags in self._waiting.values():
            for flag in flags:
                flag.set(reason)

    @contextmanager
    def _listed(self, topic: str) -> Iterator[_Flag]:
        flag = _Flag(self._event())
        flags = self._waiting.setdefault(topic, {})
        flags[flag] = None
        try:
            yield flag
        finally:
            del flags[flag]
            if not flags:
                del self._waiting[topic]

    async def _attend(self) -> None:
        """See to it that `ring` is called for what is published from now on, by whomever, or else `fail`.

        Where that takes a while, `ring` may instead be called once it is so.
        """
        raise NotImplementedError

    async def _read(self, topic: str, cursor: Cursor) -> Sequence[HubMessage]:
        """The messages of `topic` after `cursor`, in their order."""
        raise NotImplementedError

"""What stores and hubs on an engine share, whatever the engine and its event loop: opening, waiting, keys and data."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

import msgspec

from .runtime import Event
from .storage import WORTH_RENEWING, Cursor, HubMessage, StoreFull, StoreTooNew, StoreUnavailable
from .types import JSON

__all__ = [
    "WORTH_RENEWING",
    "Backoff",
    "EngineHub",
    "EngineStore",
    "Opening",
    "check_namespace",
    "check_schema",
    "decode_data",
    "encode_data",
    "encode_key",
    "sweep_forever",
]

T = TypeVar("T")

#: No character that an engine, or a key in front of which the name stands, gives a meaning to.
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,48}")


def check_namespace(namespace: str) -> str:
    """`namespace`, under which one application keeps what it has in an engine that it shares.

    Raises ``ValueError`` for what is not 1 to 48 letters, digits, ``_``, ``.`` and ``-`` of ASCII.
    """
    if _NAMESPACE.fullmatch(namespace) is None:
        raise ValueError(f"a namespace is 1 to 48 of the characters A-Z a-z 0-9 _ . -, not {namespace!r}")
    return namespace


def check_schema(where: str, found: int, known: int) -> None:
    """Raises `StoreTooNew` where the schema `found` in an engine is newer than the newest that is `known` here."""
    if found > known:
        raise StoreTooNew(f"{where}: its schema is {found}, and this release knows up to {known}; update it first")


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
        self._failure = self._failure or failure
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
        if self._failure is not None:
            raise StoreUnavailable(self._failure)


class Task(Protocol):
    """A coroutine that runs beside others, as ``asyncio.Task`` does."""

    def cancel(self) -> Any:
        """Have it end soon."""


class EventLoop(Protocol):
    """An event loop, as far as anybody asks here: asyncio's are such."""

    def is_closed(self) -> bool:
        """Whether nothing runs on it any more, though tasks may be left on it that never end."""


class _Home:
    """The event loop on which something has its tasks. `loop` gives the caller's."""

    def __init__(self, loop: Callable[[], EventLoop]) -> None:
        self._find = loop
        self._loop: EventLoop | None = None

    def is_lost(self) -> bool:
        """Whether it was closed, with the tasks as they were. The caller's takes its place."""
        before, self._loop = self._loop, self._find()
        return before is not None and before is not self._loop and before.is_closed()


class _Kept(Generic[T]):
    """Something open, and the task that closes it."""

    task: Task

    def __init__(self, value: T, event: Callable[[], Event]) -> None:
        self.value = value
        self.begun = event()
        self.closed = event()


class Opening(Generic[T]):
    """Something that is opened by whoever needs it first, once for all who come meanwhile, and closed with its loop.

    `open_it` opens it, and raises `StoreUnavailable` where that fails: all who wait hear of it, and the next one tries
    again. `tend` is run for as long as it is open, in a task that `start` makes (``asyncio.create_task``), and
    `close_it` closes it when that task ends: by `close`, or when the event loop ends its tasks. `loop` gives the event
    loop of its caller (``asyncio.get_running_loop``): what was open on one that was closed without that is forgotten.
    """

    def __init__(
        self,
        open_it: Callable[[], Awaitable[T]],
        close_it: Callable[[T], Awaitable[object]],
        *,
        event: Callable[[], Event],
        start: Callable[[Coroutine[Any, Any, None]], Task],
        loop: Callable[[], EventLoop],
        tend: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        self._open_it = open_it
        self._close_it = close_it
        self._event = event
        self._start = start
        self._tend = tend
        self._home = _Home(loop)
        self._kept: _Kept[T] | None = None
        self._attempt: _Flag | None = None

    async def get(self) -> T:
        """What is open. Raises what `open_it` raises."""
        self._forget_lost()
        while (kept := self._kept) is None:
            if self._attempt is None:
                await self._try()
            else:
                await self._attempt.wait()
        return kept.value

    @property
    def opened(self) -> T | None:
        """What is open, or ``None``."""
        return None if self._kept is None else self._kept.value

    async def close(self) -> None:
        """Close what is open. Whoever needs it next opens it again."""
        self._forget_lost()
        kept = self._kept
        if kept is not None:
            self.give_up()
            await kept.closed.wait()

    def give_up(self) -> None:
        """Have what is open closed, since it is of no use any more, and open it anew when it is needed next."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.task.cancel()

    def _forget_lost(self) -> None:
        if self._home.is_lost():
            self._kept = self._attempt = None

    async def _try(self) -> None:
        attempt = self._attempt = _Flag(self._event())
        failure: str | None = None
        try:
            kept = _Kept(await self._open_it(), self._event)
            kept.task = self._start(self._keep(kept))
            await kept.begun.wait()
        except StoreUnavailable as error:
            failure = str(error)
            raise
        finally:
            # Whoever was cancelled, or met another error, leaves it to those who wait to try for themselves.
            self._attempt = None
            attempt.set(failure)

    async def _keep(self, kept: _Kept[T]) -> None:
        self._kept = kept
        kept.begun.set()  # a task that is cancelled before it has begun would close nothing
        try:
            await (self._event().wait() if self._tend is None else self._tend())
        finally:
            if self._kept is kept:
                self._kept = None
            await self._close_it(kept.value)
            kept.closed.set()


async def sweep_forever(
    sweep: Callable[[], Awaitable[None]],
    seconds: float,
    sleep: Callable[[float], Awaitable[object]],
    logger: logging.Logger,
) -> None:
    """`sweep` every so many `seconds`, whatever becomes of it. `sleep` waits, as ``asyncio.sleep`` does."""
    while True:
        await sleep(seconds)
        try:
            await sweep()
        except (StoreUnavailable, StoreFull) as error:
            logger.warning("what has expired is not removed: %s", error)


class EngineStore:
    """A store that may be used in ``async with``. A subclass has the methods of `SessionStore`, `open` and `close`."""

    async def open(self) -> None:
        """Open the engine now, so that what is wrong with it is heard of at once."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close it. What is used once more opens again."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class EngineHub:
    """`Hub.poll` for an engine that keeps the messages, and says to one listener when there are more.

    A subclass has `_read` and `_hear`, and the other methods of `Hub`. `event` makes a fresh flag of its event loop,
    `start` a task (``asyncio.create_task``), and `sleep` waits for seconds. `loop` is that of `Opening`.
    """

    def __init__(
        self,
        *,
        event: Callable[[], Event],
        start: Callable[[Coroutine[Any, Any, None]], Task],
        sleep: Callable[[float], Awaitable[object]],
        loop: Callable[[], EventLoop],
    ) -> None:
        self._event = event
        self._start = start
        self._sleep = sleep
        self._home = _Home(loop)
        self._waiting: dict[str, dict[_Flag, None]] = {}
        self._listening: object = None
        self._listener: Task | None = None

    @property
    def is_waited_for(self) -> bool:
        """Whether anybody waits for a message."""
        return bool(self._waiting)

    async def poll(self, topic: str, cursor: Cursor) -> Sequence[HubMessage]:
        """See `Hub.poll`."""
        self._forget_lost()
        while True:
            # Whoever waits is on the list before they look: what comes after the look rings.
            with self._listed(topic) as flag:
                if self._listening is None:
                    self._listening = mark = object()
                    self._listener = self._start(self._listen(mark))
                messages = await self._read(topic, cursor)
                if messages:
                    return messages
                await flag.wait()

    def ring(self, topic: str | None = None) -> None:
        """There may be messages of `topic`, or of any: whoever waits for them looks."""
        for flags in [*self._waiting.values()] if topic is None else [self._waiting.get(topic, {})]:
            for flag in flags:
                flag.set()

    def stop(self, reason: str) -> None:
        """Listen no more: whoever waits raises `StoreUnavailable` with that `reason`."""
        self._forget_lost()
        listener, self._listener, self._listening = self._listener, None, None
        if listener is not None:
            listener.cancel()
        self._fail(reason)

    def _forget_lost(self) -> None:
        if self._home.is_lost():
            self._waiting, self._listening, self._listener = {}, None, None

    def _fail(self, reason: str) -> None:
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
            if not flags and self._waiting.get(topic) is flags:
                del self._waiting[topic]

    async def _listen(self, mark: object) -> None:
        """Hear of messages for as long as anybody waits, whatever becomes of the engine meanwhile."""
        backoff = Backoff()

        def ready() -> None:
            backoff.reset()
            self.ring()  # whoever looked before looks again

        def fail(reason: str) -> None:
            if self._listening is mark:  # the collector may end one long after its loop, by whatever error
                self._fail(reason)

        try:
            while self._waiting:
                try:
                    await self._hear(ready)
                except (StoreUnavailable, StoreFull) as error:
                    fail(str(error))
                    await self._sleep(backoff.delay())
        except Exception as error:
            fail(repr(error))
            raise
        finally:
            if self._listening is mark:
                self._listening = self._listener = None

    async def _hear(self, ready: Callable[[], None]) -> None:
        """Call `ready()` once the engine is listened to, and from then on `ring` for whatever is published.

        It may return when nobody `is_waited_for`. Raises `StoreUnavailable` when the engine is lost.
        """
        raise NotImplementedError

    async def _read(self, topic: str, cursor: Cursor) -> Sequence[HubMessage]:
        """The messages of `topic` after `cursor`, in their order."""
        raise NotImplementedError

"""When something is due: parts of an engine that have deadlines, timers, and how long to wait before another try."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Protocol

#: Beyond these any delay is the longest, and numbers cease to be any.
_MOST_DOUBLINGS = 32


class Timed(Protocol):
    """A part of an engine for which something is due at times, in the runtime's seconds."""

    #: Where it is empty nothing is due, and no time is asked for: most parts wait for nothing, most of the time. It is
    #: one and the same for as long as the part is there.
    pending: Collection[object]

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`, or ``None``."""

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""


class Timers:
    """Actions with a time, in the runtime's seconds. One that is set again replaces what was set before."""

    def __init__(self) -> None:
        self._set: dict[Hashable, tuple[float, Callable[[], None]]] = {}
        self.pending: Collection[object] = self._set

    def set(self, key: Hashable, at: float, action: Callable[[], None]) -> None:
        """Do `action` at that time."""
        self._set[key] = (at, action)

    def drop(self, key: Hashable) -> None:
        """Do nothing of the kind."""
        self._set.pop(key, None)

    def clear(self) -> None:
        """Do nothing at all any more."""
        self._set.clear()

    def next_deadline(self) -> float | None:
        """When to call `handle_timeout`."""
        return min(at for at, _ in self._set.values()) if self._set else None

    def handle_timeout(self, now: float) -> None:
        """Do what is due. What that sets anew waits for the next time."""
        for key, held in tuple(self._set.items()):
            at, action = held
            if at <= now and self._set.get(key) is held:
                del self._set[key]
                action()


def doubled(first: float, times: int, longest: float) -> float:
    """How many seconds to wait before something is tried again: `first`, doubled so many `times`, up to `longest`."""
    return min(first * 2.0 ** min(times, _MOST_DOUBLINGS), longest)

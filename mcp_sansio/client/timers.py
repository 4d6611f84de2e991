"""What is to happen later, each thing under a key of its own."""

from __future__ import annotations

from collections.abc import Callable, Hashable


class Timers:
    """Actions with a time, in the runtime's seconds. One that is set again replaces what was set before."""

    def __init__(self) -> None:
        self._set: dict[Hashable, tuple[float, Callable[[], None]]] = {}

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

"""Between an engine and its driver: taking what is queued, and waiting for a client that does not keep up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mcp_sansio.runtime import Event

T = TypeVar("T")


def taken(queue: list[T]) -> list[T]:
    """What is in `queue`, taken out. A handler in a thread may add to it meanwhile, and nothing of that is lost."""
    items = queue[:]
    del queue[: len(items)]
    return items


class Backlog:
    """The bytes that wait for the driver to take them, and the handlers that wait for it when there are too many.

    `most` is how many are not too many, and `event` makes something to wait for. Where it is `paced`, handlers wait
    whenever there are any.
    """

    def __init__(self, most: int, event: Callable[[], Event], *, paced: bool = False) -> None:
        self.size = 0
        self._most = most
        self._paced = paced
        self._event = event
        self._room: Event | None = None

    @property
    def is_too_large(self) -> bool:
        """Whether a handler should wait before it adds more."""
        return self.size > self._most

    def clear(self) -> None:
        """Everything was taken, or nobody will take it any more: who waits goes on."""
        self.size = 0
        if self._room is not None:
            room, self._room = self._room, None
            room.set()

    async def drained(self) -> None:
        """Return once the backlog is cleared, at once where it is not too large."""
        if self.is_too_large or (self._paced and self.size):
            if self._room is None:
                self._room = self._event()
            await self._room.wait()

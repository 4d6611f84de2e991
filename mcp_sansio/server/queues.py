"""Taking what an engine has queued for its driver."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

T = TypeVar("T")


def taken(queue: deque[T]) -> list[T]:
    """What is in `queue`, taken out. A handler in a thread may add to it meanwhile, and nothing of that is lost."""
    return [queue.popleft() for _ in range(len(queue))]

"""A clock for tests: time is what the test says it is."""

from __future__ import annotations


class FakeClock:
    """A clock that stands still until it is told to move. Call it for the time, in seconds."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the time forward. Raises ``ValueError`` for a step back."""
        if seconds < 0:
            raise ValueError(f"a clock does not go back: {seconds} seconds")
        self._now += seconds

"""Calls that wait for the end of the handshake to arrive.

Every message of HTTP travels on its own, so a call may overtake what the handshake ends with. There are servers that
take no call before that, and what a server asks on a stream that is not open yet is lost.
"""

from __future__ import annotations

from collections.abc import Callable

from .calls import OutgoingRequest
from .timers import Timers


class Gate:
    """Shut, it keeps calls; `transmit` gets them once it opens."""

    def __init__(self, timers: Timers, transmit: Callable[[OutgoingRequest], None]) -> None:
        self._timers = timers
        self._transmit = transmit
        self._held: dict[OutgoingRequest, None] | None = None

    @property
    def is_shut(self) -> bool:
        """Whether calls have to wait."""
        return self._held is not None

    def shut(self, until: float, otherwise: Callable[[], None]) -> None:
        """Keep what comes, until that time at most, at which `otherwise` is called."""
        self._held = {}
        self._timers.set(self, until, otherwise)

    def keeps(self, request: OutgoingRequest) -> bool:
        """Whether `request` has to wait; it is kept then."""
        if self._held is None or request.call is None:
            return False
        self._held[request] = None
        return True

    def forget(self, request: OutgoingRequest) -> bool:
        """Nobody waits for the reply to `request`. Whether it was kept here."""
        return self._held is not None and self._held.pop(request, request) is None

    def open(self) -> None:
        """Let go what was kept, in its order."""
        self._timers.drop(self)
        held, self._held = self._held, None
        for request in held or ():
            self._transmit(request)

    def clear(self) -> None:
        """Forget everything."""
        self._timers.drop(self)
        self._held = None

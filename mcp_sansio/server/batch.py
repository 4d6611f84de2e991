"""The calls that came in one batch on a channel: their answer is one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_sansio.outcome import Failure

from .calls import RunningCall
from .replies import Replies

if TYPE_CHECKING:
    from .connection import ServerConnection


class Batch:
    """The `Outlet` of the calls that came in one batch, whose answer is one message."""

    can_stream = True
    session = None

    def __init__(self, connection: ServerConnection, replies: Replies) -> None:
        self.wake = connection.wake
        self.owner = self.peer = connection
        self.principal = connection.principal
        self.request = connection.request
        self._connection = connection
        self._replies = replies

    def add(self, message: bytes | None) -> None:
        """One reply is made, or will never be."""
        body = self._replies.body() if self._replies.add(message) else None
        if body is not None:
            self._connection.send(body)

    def send(self, message: bytes) -> None:
        """See `Outlet.send`."""
        self._connection.send(message)

    def reply(self, running: RunningCall, message: bytes, failure: Failure | None) -> None:
        """See `Outlet.reply`."""
        self._connection.forget(running.call)
        self.add(message)

    def gone(self, running: RunningCall) -> None:
        """See `Outlet.gone`."""
        self._connection.gone(running)
        self.add(None)

    async def drained(self) -> None:
        """See `Outlet.drained`."""
        await self._connection.drained()

"""The body of a request, as its server has it: in pieces, of which mostly there is one."""

from __future__ import annotations

from collections.abc import Awaitable

from .facts import Message, Receive


class Body:
    """What is sent with a request. Of its first piece, the `message` or what is `coming` may have been asked for."""

    def __init__(
        self, receive: Receive, message: Message | None = None, coming: Awaitable[Message] | None = None
    ) -> None:
        self._receive = receive
        self._message = message
        self._coming = coming
        #: Whether all of it is here; ``None`` before the first piece is.
        self.is_here: bool | None = None

    async def take(self) -> bytes:
        """Take the next piece. Raises ``ConnectionResetError`` when the client has left."""
        message, self._message = self._message, None
        if message is None:
            coming, self._coming = self._coming, None
            message = await (coming or self._receive())
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client left")
        self.is_here = not message.get("more_body")
        piece: bytes = message.get("body", b"")
        return piece

    async def drop(self, most: int) -> None:
        """Read the rest and drop it, or about that many bytes of it."""
        while most > 0 and not self.is_here:
            most -= len(await self.take())

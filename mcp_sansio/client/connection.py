"""A duplex channel of whole messages — stdio, a WebSocket, a socket — with one server at its other end.

Facts in: `receive_message`, `receive_overlong`, `receive_eof`, `handle_timeout`. After each of them, and after each
command, take everything: `events`, `data_to_send` and `next_deadline`. A stream of bytes needs framing on top
(`mcp_sansio.wire.lines`); a channel that frames messages itself needs none.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from mcp_sansio import wire_log
from mcp_sansio.adapters.base import Adapter
from mcp_sansio.errors import McpError
from mcp_sansio.wire.json import JsonError, decode

from .calls import OutgoingRequest
from .engine import ClientEngine


class ClientConnection(ClientEngine):
    """The client's end of a channel. For its options see `ClientEngine`."""

    drops_negotiation = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._messages: deque[bytes] = deque()
        self._owed = 0  # bytes of responses that nobody has taken yet

    # Facts in

    def receive_message(self, data: bytes) -> None:
        """One whole message, or batch of them."""
        if self.closed:
            return
        if len(data) > self.config.max_message:
            self.receive_overlong(len(data))
            return
        try:
            message = decode(data, max_depth=self.config.max_depth)
        except JsonError as error:
            self.fault(f"a message that is not JSON: {error}")
            return
        self.received(message, size=len(data))

    def receive_overlong(self, size: int) -> None:
        """A message of more than `ClientConfig.max_message` bytes was skipped; `size` is what it had.

        Whose reply it was nobody knows: that call ends at its timeout.
        """
        if not self.closed:
            self.fault(f"a message of {size} bytes, where {self.config.max_message} may be")

    def receive_eof(self, reason: str = "") -> None:
        """The channel has ended: every call in flight ends with `ConnectionLost`.

        `reason` says why, where the transport knows, like a process's exit status and its last words.
        """
        self.lost(reason or "the server closed the connection")
        self._messages.clear()

    # Things to take

    def data_to_send(self) -> list[bytes]:
        """The messages to send, in order."""
        messages = list(self._messages)
        self._messages.clear()
        self._owed = 0
        if self.logs_wire:
            for message in messages:
                wire_log.sent(message)
        return messages

    # What a transport supplies

    def transmit(self, request: OutgoingRequest) -> None:
        """See `ClientEngine.transmit`."""
        self._messages.append(request.message)

    def notify(self, message: bytes, adapter: Adapter) -> None:
        """See `ClientEngine.notify`."""
        self._messages.append(message)

    def respond(self, message: bytes, adapter: Adapter, origin: OutgoingRequest | None) -> None:
        """See `ClientEngine.respond`. A server that asks on, and reads no answer, is left."""
        self._messages.append(message)
        self._owed += len(message)
        if self._owed > self.config.max_message:
            self.lost("the server goes on asking and does not read the answers")

    def release(self, request: OutgoingRequest, *, cancelled: bool, reason: str | None = None) -> None:
        """See `ClientEngine.release`. The handshake must not be cancelled (basic/utilities/cancellation)."""
        if cancelled and request.call is not None:
            self._messages.append(request.adapter.client_cancellation(request.id, reason))

    def disagreed(self, error: McpError) -> None:
        """See `ClientEngine.disagreed`: "disconnect" (basic/lifecycle, "Version Negotiation")."""
        super().disagreed(error)
        self.lost(str(error))

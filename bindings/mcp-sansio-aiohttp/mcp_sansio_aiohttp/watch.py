"""Learning that a client went away, without asking over and over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class Watch(asyncio.Protocol):
    """Calls `lost` when the connection of `transport` ends.

    aiohttp tells a request's handler of that only by failing its next write, which may be a long time off, or by
    cancelling it, where the operator chose so. So this stands in for the connection's protocol while a response is
    waited for, hands everything on, and steps back with `stop`. The event loop's own ``sendfile`` does the same.
    """

    def __init__(self, transport: asyncio.Transport, lost: Callable[[], None]) -> None:
        self._transport = transport
        self._protocol = cast("asyncio.Protocol", transport.get_protocol())
        self._lost = lost
        transport.set_protocol(self)

    def stop(self) -> None:
        """Let the connection's own protocol have its place again, unless the connection is ending."""
        if not self._transport.is_closing() and self._transport.get_protocol() is self:
            self._transport.set_protocol(self._protocol)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._protocol.connection_lost(exc)
        self._lost()

    def data_received(self, data: bytes) -> None:
        """Handed on: the rest of the body, or the next request."""
        self._protocol.data_received(data)

    def eof_received(self) -> bool | None:
        """Handed on."""
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        """Handed on: the client does not keep up."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Handed on: the client caught up."""
        self._protocol.resume_writing()

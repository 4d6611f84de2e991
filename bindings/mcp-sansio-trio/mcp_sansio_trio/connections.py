"""HTTP/1.1 connections of a client: how they are opened, what goes over one, and which are used again."""

from __future__ import annotations

import selectors
import ssl
from collections.abc import Awaitable, Callable

import h11
import trio

from mcp_sansio import HttpRequest
from mcp_sansio.wire.coding import ACCEPTED
from mcp_sansio.wire.urls import Target

Connect = Callable[[str, int], Awaitable[trio.abc.Stream]]
"""Opens a stream to a host and a port, without TLS."""

#: One read.
_PIECE = 64 * 2**10
#: Connections that are kept for the next requests, and for how many seconds. Servers keep them for as long, or longer.
_MOST_IDLE, _LONGEST_IDLE = 32, 15.0


class Connection:
    """One connection, with one request at a time."""

    def __init__(self, stream: trio.abc.Stream, max_headers: int) -> None:
        self.idle_since = 0.0
        self.stream = stream
        self._is_sending = False
        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=max_headers)

    async def begin(self, request: HttpRequest, target: Target) -> bytes:
        """The bytes of a request, which can be sent now. Raises ``h11.LocalProtocolError`` for what cannot be one."""
        if isinstance(self.stream, trio.SSLStream):
            await self.stream.do_handshake()
        headers = request.all_headers(target, {"user-agent": "mcp-sansio-trio", "accept-encoding": ACCEPTED})
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        head = h11.Request(method=request.method, target=target.path, headers=encoded)
        pieces = map(self.http.send, (head, h11.Data(data=request.body), h11.EndOfMessage()))
        return b"".join(piece for piece in pieces if piece)

    async def send(self, data: bytes) -> None:
        """Send a request. Where that goes wrong, what the server has said before can still be read."""
        self._is_sending = True
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
        self._is_sending = False

    async def receive(self) -> None:
        """Have the next bytes of the response."""
        data = await self.stream.receive_some(_PIECE)
        if not data and self.http.their_state is h11.SEND_RESPONSE:
            raise ConnectionError("the server closed the connection without a response")
        self.http.receive_data(bytes(data))

    def renew(self) -> bool:
        """Be ready for another request, where the last one and its response have left it so."""
        states = self.http.our_state, self.http.their_state
        if self._is_sending or states != (h11.DONE, h11.DONE) or self.http.trailing_data != (b"", False):
            return False
        self.http.start_next_cycle()
        self.idle_since = trio.current_time()
        return True

    def is_stale(self) -> bool:
        """Whether it was idle for too long, or is readable: that is its end, or something that nobody asked for."""
        return trio.current_time() - self.idle_since > _LONGEST_IDLE or _is_readable(self.stream)


class Connections:
    """Those of one client. Streams are opened by `connect`, and `context` is for TLS."""

    def __init__(self, connect: Connect | None, context: ssl.SSLContext | None, max_headers: int) -> None:
        self._connect: Connect = connect or trio.open_tcp_stream
        self._context = context
        self._max_headers = max_headers
        self._keeps = True
        self._idle: dict[tuple[str, str, int], list[Connection]] = {}

    async def take(self, target: Target) -> Connection:
        """A connection that leads there, for one request. Raises ``ConnectionError``."""
        idle = self._idle.get(target.origin, [])
        while idle:
            connection = idle.pop()
            if not connection.is_stale():
                return connection
            await trio.aclose_forcefully(connection.stream)
        return Connection(await self._open(target), self._max_headers)

    async def give_back(self, target: Target, connection: Connection) -> None:
        """That request is over. Its connection is kept, or else closed."""
        idle = self._idle.setdefault(target.origin, [])
        if self._keeps and len(idle) < _MOST_IDLE and connection.renew():
            idle.append(connection)
        else:
            await trio.aclose_forcefully(connection.stream)

    async def aclose(self) -> None:
        """Keep none any more, and close those that nobody uses."""
        self._keeps = False
        with trio.CancelScope(shield=True):
            for idle in self._idle.values():
                while idle:
                    await trio.aclose_forcefully(idle.pop().stream)

    async def _open(self, target: Target) -> trio.abc.Stream:
        stream = await self._connect(target.host, target.port)
        if target.scheme == "https":
            self._context = self._context or ssl.create_default_context()
            return trio.SSLStream(stream, self._context, server_hostname=target.host, https_compatible=True)
        return stream


def _is_readable(stream: trio.abc.Stream) -> bool:
    while isinstance(stream, trio.SSLStream):
        stream = stream.transport_stream
    if not isinstance(stream, trio.SocketStream):
        return False  # that can only be found out by reading
    with selectors.DefaultSelector() as selector:
        selector.register(stream.socket, selectors.EVENT_READ)
        return bool(selector.select(0))

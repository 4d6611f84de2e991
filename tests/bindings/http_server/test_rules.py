"""The rules of a transport, as an author would have them checked on a driver of their own, on real sockets."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import attrs

from hosting import serving
from mcp_sansio import Body, Config, End, Head, Part, Registry
from mcp_sansio.testing import check_http
from plugs import HttpServer, Serving
from talk import Connection, Response, request
from worlds import at_once


class SocketExchange:
    """See `mcp_sansio.testing.HttpExchange`. Nothing in it is awaited."""

    def __init__(self, connection: Connection, method: str) -> None:
        self.connection = connection
        self.method = method
        self.response: Response | None = None

    async def receive(self, seconds: float) -> Part | None:
        """The next part of the response."""
        is_whole = self.response is not None and self.response.is_whole
        if not is_whole and not self.connection.can_be_read(seconds):
            return None
        if self.response is None:
            self.response = Response(self.connection, method=self.method)
            return Head(self.response.status, tuple(self.response.raw_headers))
        data = self.response.piece()
        return Body(data) if data else End()

    async def disconnect(self) -> None:
        """Cut the connection."""
        self.connection.close()


@attrs.define(eq=False)
class SocketClient:
    """See `mcp_sansio.testing.HttpClient`."""

    place: Serving

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> SocketExchange:
        """Send a request."""
        connection = Connection(self.place.host, self.place.port)
        connection.send(request(method, target, headers, body if method == "POST" else None))
        return SocketExchange(connection, method)

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    async def shutdown(self) -> None:
        """Shut the server down."""
        server = self.place.server
        server.runtime.run_in_loop(server.shutdown)


def test_the_rules_of_a_transport_are_kept(http_server: HttpServer) -> None:
    @asynccontextmanager
    async def open_sockets(registry: Registry, config: Config) -> AsyncIterator[SocketClient]:
        soon = attrs.evolve(config, keep_alive=min(config.keep_alive, http_server.keep_alive))
        with serving(http_server, registry, config=soon, patience=0.1) as place:
            yield SocketClient(place)

    at_once(check_http(open_sockets, patience=30.0))

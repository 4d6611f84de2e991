"""What lies between a client and a server of one simulation: a channel, or HTTP."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol
from urllib.parse import urlsplit

from mcp_sansio.client.connection import ClientConnection
from mcp_sansio.client.driver import ClientDriver
from mcp_sansio.client.engine import ClientEngine
from mcp_sansio.client.http import HttpClientSession
from mcp_sansio.client.http_requests import HttpRequest
from mcp_sansio.events import Body, Head, Part
from mcp_sansio.server.connection import ServerConnection
from mcp_sansio.server.http import HttpTransaction

from .simulation import SimulatedChannel, SimulatedHttp, Simulation

#: The paths of the first HTTP transport.
STREAM_PATH, MESSAGE_PATH = "/sse", "/messages"


class Link(Protocol):
    """The client's end of what lies between the two. It is a `Peer` of the simulation."""

    @property
    def engine(self) -> ClientEngine:
        """The client's engine."""

    def take(self) -> bool:
        """See `Peer.take`."""

    def cut(self) -> None:
        """End the connection."""


class ChannelLink:
    """A channel. `client` drives `engine`, and the simulation's server is at the other end."""

    def __init__(
        self, simulation: Simulation, engine: ClientConnection, client: ClientDriver, principal: str | None
    ) -> None:
        self.engine = engine
        self._client = client
        connection = simulation.server.connection(wake=simulation.stir, principal=principal)
        self._server = _ServerEnd(simulation, connection, engine)
        simulation.add(self)
        simulation.add(self._server)

    def take(self) -> bool:
        """See `Peer.take`."""
        self._client._pump()
        messages = self.engine.data_to_send()
        for message in messages:
            self._server.engine.receive_message(message)
        return bool(messages)

    def cut(self) -> None:
        """See `Link.cut`."""
        self._server.close()


class _ServerEnd(SimulatedChannel):
    """The server's end of a channel, whose messages go to the client."""

    def __init__(self, simulation: Simulation, connection: ServerConnection, client: ClientConnection) -> None:
        super().__init__(simulation, connection)
        self._client = client

    def take_data(self) -> bool:
        """See `SimulatedChannel.take_data`."""
        messages = self.engine.data_to_send()
        self.sent += messages
        for message in messages:
            self._client.receive_message(message)
        return bool(messages)


class HttpLink:
    """HTTP. `client` drives `engine`, and the simulation's server has both transports, at the paths of its URLs."""

    def __init__(
        self, simulation: Simulation, engine: HttpClientSession, client: ClientDriver, principal: str | None
    ) -> None:
        self.engine = engine
        self._simulation = simulation
        self._client = client
        self._principal = principal
        self._open: dict[Hashable, _Response] = {}
        simulation.add(self)

    def take(self) -> bool:
        """See `Peer.take`."""
        self._client._pump()
        parts = self.engine.data_to_send()
        for part in parts:
            if isinstance(part, HttpRequest):
                self._send(part)
            elif part.exchange in self._open:
                self._open.pop(part.exchange).engine.receive_disconnect()
        self._forget()
        return bool(parts)

    def cut(self) -> None:
        """See `Link.cut`."""
        for response in self._open.values():
            response.disconnect()
        self._open.clear()

    def _send(self, request: HttpRequest) -> None:
        url = urlsplit(request.url)
        response = _Response(self._simulation, self._transaction(url.path), self.engine, request)
        self._open[request.exchange] = response
        self._simulation.add(response)
        target = f"{url.path}?{url.query}" if url.query else url.path
        response.engine.receive_request(request.method, target, request.headers)
        response.engine.receive_body(request.body)
        response.engine.receive_end()

    def _transaction(self, path: str) -> HttpTransaction:
        server, wake = self._simulation.server, self._simulation.stir
        if path in (STREAM_PATH, MESSAGE_PATH):
            return server.pair_transaction(message_path=MESSAGE_PATH, principal=self._principal, wake=wake)
        return server.http_transaction(principal=self._principal, wake=wake)

    def _forget(self) -> None:
        """Drive no longer what is over."""
        over = [number for number, response in self._open.items() if response.is_over]
        for number in over:
            self._simulation.remove(self._open.pop(number))


class _Response(SimulatedHttp):
    """A request on its way, whose response goes to the client as it comes."""

    def __init__(
        self, simulation: Simulation, transaction: HttpTransaction, client: HttpClientSession, request: HttpRequest
    ) -> None:
        super().__init__(simulation, transaction)
        self._client = client
        self._number = request.exchange

    @property
    def is_over(self) -> bool:
        """Whether nothing will happen here any more."""
        return self.ended and self.engine.next_deadline() is None

    def receive(self, part: Part) -> None:
        """See `SimulatedHttp.receive`."""
        super().receive(part)
        if isinstance(part, Head):
            self._client.receive_response(self._number, part.status, part.headers)
        elif isinstance(part, Body):
            self._client.receive_data(self._number, part.data)
        else:
            self._client.receive_end(self._number)

"""What lies between a client and a server of one simulation: a channel, or HTTP."""

from __future__ import annotations

from typing import Any, Protocol

from mcp_sansio.client.connection import ClientConnection
from mcp_sansio.client.driver import ClientDriver
from mcp_sansio.client.engine import ClientEngine
from mcp_sansio.server.connection import ServerConnection

from .simulation import SimulatedChannel, Simulation


class Link(Protocol):
    """The client's end of what lies between the two. It is a `Peer` of the simulation."""

    @property
    def engine(self) -> ClientEngine:
        """The client's engine."""

    def take(self) -> bool:
        """See `Peer.take`."""

    def close(self) -> None:
        """The client is done."""


class ChannelLink:
    """A channel. `client` drives `engine`, and the simulation's server is at the other end."""

    def __init__(self, simulation: Simulation, engine: ClientConnection, client: ClientDriver, **options: Any) -> None:
        self.engine = engine
        self._simulation = simulation
        self._client = client
        self._server = _ServerEnd(simulation, simulation.server.connection(wake=simulation.stir, **options), engine)
        simulation.add(self)
        simulation.add(self._server)

    def take(self) -> bool:
        """See `Peer.take`."""
        self._client._pump()
        messages = self.engine.data_to_send()
        for message in messages:
            self._server.engine.receive_message(message)
        return bool(messages)

    def close(self) -> None:
        """See `Link.close`."""
        self.engine.close()
        self._simulation.settle()
        self._server.close()


class _ServerEnd(SimulatedChannel):
    """The server's end, whose messages go to the client."""

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

"""What lies between a client and a server of one simulation: a channel, or HTTP."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from urllib.parse import urlsplit

from mcp_sansio.client.driver import ClientDriver
from mcp_sansio.client.http_requests import HttpAbort, HttpRequest

from .recorded import RecordedConnection, RecordedSession
from .server_replay import exchange_of
from .simulation import SimulatedChannel, SimulatedHttp, Simulation


class ChannelLink:
    """A channel. `client` drives `engine`, and the simulation's server is at the other end."""

    def __init__(
        self,
        simulation: Simulation,
        engine: RecordedConnection,
        client: ClientDriver,
        principal: str | None,
    ) -> None:
        self.engine = engine
        self._simulation = simulation
        self._client = client
        self._recorder = engine.recorder
        connection = simulation.server.connection(wake=simulation.stir, principal=principal)
        self._server = SimulatedChannel(simulation, connection)
        self._heard = 0
        self._unsent: deque[bytes] = deque()
        simulation.add(self._server)
        simulation.links.append(self)

    def carry(self) -> bool:
        """See `Link.carry`."""
        new, self._heard = self._server.sent[self._heard :], len(self._server.sent)
        for message in new:
            self._recorder.answered(None, message)
            self.engine.receive_message(message)
        self._client._pump()
        self._unsent += self.engine.data_to_send()
        if not new and self._unsent:
            message = self._unsent.popleft()
            self._recorder.said(message)
            self._server.engine.receive_message(message)
            return True
        return bool(new)

    def cut(self) -> None:
        """See `Link.cut`."""
        self._recorder.moved("@ eof")
        self._server.close()
        self._simulation.links.remove(self)
        self._simulation.remove(self._server)


class HttpLink:
    """HTTP. `client` drives `engine`, and the simulation's server has both transports, at the paths of its URLs."""

    def __init__(
        self,
        simulation: Simulation,
        engine: RecordedSession,
        client: ClientDriver,
        principal: str | None,
    ) -> None:
        self.engine = engine
        self._simulation = simulation
        self._client = client
        self._recorder = engine.recorder
        self._principal = principal
        self._responses: dict[Hashable, SimulatedHttp] = {}
        self._asked: Hashable = None
        self._unsent: deque[HttpRequest | HttpAbort] = deque()
        simulation.links.append(self)

    def carry(self) -> bool:
        """See `Link.carry`."""
        # The response to what was just asked comes first.
        order = sorted(self._responses, key=lambda exchange: exchange != self._asked)
        moved = [self._deliver(exchange) for exchange in order]
        self._asked = None
        self._client._pump()
        self._unsent += self.engine.data_to_send()
        if any(moved) or not self._unsent:
            return any(moved)
        part = self._unsent.popleft()
        if isinstance(part, HttpRequest):
            self._send(part)
        else:
            self._abort(part)
        return True

    def cut(self) -> None:
        """See `Link.cut`. Calls may go on without their connections."""
        for response in tuple(self._responses.values()):
            response.disconnect()
        self._simulation.links.remove(self)

    def _send(self, request: HttpRequest) -> None:
        url = urlsplit(request.url)
        target = f"{url.path}?{url.query}" if url.query else url.path
        self._recorder.requested(request.exchange, request.method, target, request.headers, request.body)
        asked, wake = (request.method, target, request.headers, request.body), self._simulation.stir
        self._asked = request.exchange
        self._responses[self._asked] = exchange_of(self._simulation, *asked, principal=self._principal, wake=wake)

    def _abort(self, abort: HttpAbort) -> None:
        response = self._responses.get(abort.exchange)
        if response is not None and not response.ended:
            self._recorder.left(abort.exchange)
            response.engine.receive_disconnect()

    def _deliver(self, exchange: Hashable) -> bool:
        """Bring the client what is new of a response. Where nothing will be, it is forgotten."""
        response = self._responses[exchange]
        new = response.unread()
        if new is not None and response.engine.connected:
            self._recorder.answered(exchange, new.data, new.head, is_stream=response.is_stream, ended=new.ended)
            if new.head is not None:
                self.engine.receive_response(exchange, new.head.status, new.head.headers)
            if new.data:
                self.engine.receive_data(exchange, new.data)
            if new.ended:
                self.engine.receive_end(exchange)
        if response.engine.ended and response.engine.next_deadline() is None:
            self._simulation.remove(self._responses.pop(exchange))
        return new is not None


def link_of(
    simulation: Simulation, engine: RecordedConnection | RecordedSession, client: ClientDriver, principal: str | None
) -> ChannelLink | HttpLink:
    """What joins `engine` to the simulation's server."""
    if isinstance(engine, RecordedSession):
        return HttpLink(simulation, engine, client, principal)
    return ChannelLink(simulation, engine, client, principal)

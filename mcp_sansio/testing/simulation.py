"""A server without a socket, an event loop or a clock: the same engines as the bindings drive, to the byte.

`Simulation` has a clock that moves when told to, tokens that count, and a scheduler that runs every handler as far as
it can go before a call returns. Nothing waits for real, so nothing sleeps and nothing is flaky, and what comes out can
be compared byte by byte.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from mcp_sansio.call import Call
from mcp_sansio.events import Body, CallCancelled, CallReceived, End, Event, Head, StoreNeeded
from mcp_sansio.registry import Registry
from mcp_sansio.runtime import Runtime
from mcp_sansio.server.connection import ServerConnection
from mcp_sansio.server.http import HttpTransaction
from mcp_sansio.server.server import Server
from mcp_sansio.types import JSON
from mcp_sansio.wire.json import decode, encode
from mcp_sansio.wire.sse import EventDecoder, Oversize, ServerSentEvent

from .clock import FakeClock
from .scheduler import FakeEvent, Scheduler, Task


class Simulation:
    """A `Server` of `registry` with a fake clock, counted tokens and a scheduler.

    `options` are those of `Server` (``adapters``, ``config``, ``store``). Every fact is followed at once by everything
    that it brings about, until all handlers wait or are done.
    """

    def __init__(self, registry: Registry, **options: Any) -> None:
        self.clock = FakeClock()
        self.scheduler = Scheduler()
        counter = itertools.count(1)
        self.runtime = Runtime(
            now=self.clock,
            token_bytes=lambda size: next(counter).to_bytes(size, "big"),
            event=lambda: FakeEvent(self.scheduler),
        )
        self.server = Server(registry, runtime=self.runtime, **options)
        self.peers: list[SimulatedHttp | SimulatedChannel] = []

    def http(
        self,
        body: JSON | bytes = b"",
        *,
        method: str = "POST",
        target: str = "/mcp",
        headers: Mapping[str, str] = {},
        **options: Any,
    ) -> SimulatedHttp:
        """Send an HTTP request. `body` is bytes, or a JSON value to encode; `options` are those of the transaction.

        ``Content-Type`` and ``Accept`` are what a client should send, unless `headers` say otherwise.
        """
        exchange = self._exchange(self.server.http_transaction(wake=lambda: None, **options))
        exchange.request(body, method=method, target=target, headers=headers)
        return exchange

    def pair(
        self,
        body: JSON | bytes = b"",
        *,
        method: str = "GET",
        target: str = "/sse",
        headers: Mapping[str, str] = {},
        message_path: str = "/messages",
        **options: Any,
    ) -> SimulatedHttp:
        """Send an HTTP request to the pair of endpoints of the first HTTP transport."""
        exchange = self._exchange(self.server.pair_transaction(message_path=message_path, **options))
        exchange.request(body, method=method, target=target, headers=headers)
        return exchange

    def channel(self, **options: Any) -> SimulatedChannel:
        """Open a duplex channel. `options` are those of `Server.connection`."""
        channel = SimulatedChannel(self, self.server.connection(**options))
        self.peers.append(channel)
        return channel

    def _exchange(self, transaction: HttpTransaction) -> SimulatedHttp:
        exchange = SimulatedHttp(self, transaction)
        self.peers.append(exchange)
        return exchange

    def advance(self, seconds: float) -> None:
        """Let time pass, stopping at every deadline on the way."""
        end = self.clock() + seconds
        while True:
            due = [(at, peer) for peer in self.peers if (at := peer.engine.next_deadline()) is not None]
            at, peer = min(due, key=lambda pair: pair[0], default=(end, None))
            if peer is None or at > end:
                break
            self.clock.advance(max(0.0, at - self.clock()))
            peer.engine.handle_timeout(self.clock())
            self.settle()
        self.clock.advance(end - self.clock())

    def settle(self) -> None:
        """Run everything that can run, on every request and channel."""
        self.scheduler.run()
        # Taking what there is to send lets a handler go on that waits for its client to keep up.
        while sum(peer.take() for peer in self.peers) or self.scheduler.ready:
            self.scheduler.run()


class _Peer:
    """What a simulated request and a simulated channel have in common: the events of their engine."""

    def __init__(self, simulation: Simulation, engine: Any) -> None:
        self.simulation = simulation
        self.engine = engine
        self.happened: list[Event] = []
        self._tasks: dict[Call, Task] = {}

    def take(self) -> bool:
        """Take everything from the engine. True where there was an event."""
        events: list[Event] = self.engine.events()
        for event in events:
            self.happened.append(event)
            self._handle(event)
        self.take_data()
        return bool(events)

    def take_data(self) -> None:
        """Take what the engine has to send."""
        raise NotImplementedError

    def _handle(self, event: Event) -> None:
        scheduler = self.simulation.scheduler
        if isinstance(event, CallReceived):
            self._tasks[event.call] = scheduler.spawn(_coroutine(event))
        elif isinstance(event, StoreNeeded):
            scheduler.spawn(_coroutine(event))
        elif isinstance(event, CallCancelled):
            scheduler.cancel(self._tasks.pop(event.call))


async def _coroutine(event: CallReceived | StoreNeeded) -> None:
    await event.run()


class SimulatedHttp(_Peer):
    """One HTTP request, and its response as far as it has come."""

    engine: HttpTransaction

    def __init__(self, simulation: Simulation, transaction: HttpTransaction) -> None:
        super().__init__(simulation, transaction)
        self.head: Head | None = None
        self.body = b""
        self.ended = False

    def request(self, body: JSON | bytes, *, method: str, target: str, headers: Mapping[str, str]) -> None:
        """Send the request."""
        given = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        given |= {name.lower(): value for name, value in headers.items()}
        self.engine.receive_request(method, target, given)
        if method == "POST":
            self.engine.receive_body(body if isinstance(body, bytes) else encode(body))
            self.engine.receive_end()
        self.simulation.settle()

    def disconnect(self) -> None:
        """The client goes away."""
        self.engine.receive_disconnect()
        self.simulation.settle()

    def take_data(self) -> None:
        """See `_Peer.take_data`."""
        for part in self.engine.data_to_send():
            if isinstance(part, Head):
                self.head = part
            elif isinstance(part, Body):
                self.body += part.data
            elif isinstance(part, End):
                self.ended = True

    @property
    def status(self) -> int | None:
        """The status of the response, once it has one."""
        return self.head.status if self.head else None

    def header(self, name: str) -> str | None:
        """A header of the response."""
        headers = self.head.headers if self.head else ()
        return next((value for held, value in headers if held.lower() == name.lower()), None)

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream of events."""
        return self.header("content-type") == "text/event-stream"

    def events(self) -> list[ServerSentEvent | Oversize]:
        """The events of a stream so far."""
        decoder = EventDecoder(2**30)
        decoder.receive_data(self.body)
        return list(decoder.events())

    @property
    def messages(self) -> list[JSON]:
        """The messages of the response so far: one of a JSON body (or a batch's array), or those of a stream."""
        if not self.is_stream:
            return [decode(self.body)] if self.body else []
        events = [event for event in self.events() if isinstance(event, ServerSentEvent)]
        # The first transport's stream begins with an event of another type, which is no message.
        return [decode(event.data) for event in events if event.event == "message" and event.data]


class SimulatedChannel(_Peer):
    """A duplex channel, and the messages that came out of it."""

    engine: ServerConnection

    def __init__(self, simulation: Simulation, connection: ServerConnection) -> None:
        super().__init__(simulation, connection)
        self.sent: list[bytes] = []

    def send(self, message: JSON | bytes) -> list[JSON]:
        """Send a message (bytes, or a JSON value to encode); the messages that came back by now."""
        before = len(self.sent)
        self.engine.receive_message(message if isinstance(message, bytes) else encode(message))
        self.simulation.settle()
        return [decode(data) for data in self.sent[before:]]

    def close(self) -> None:
        """The channel ends."""
        self.engine.receive_eof()
        self.simulation.settle()

    def take_data(self) -> None:
        """See `_Peer.take_data`."""
        self.sent += self.engine.data_to_send()

    @property
    def messages(self) -> list[JSON]:
        """Every message that came out so far."""
        return [decode(data) for data in self.sent]

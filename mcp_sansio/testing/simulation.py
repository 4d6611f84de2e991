"""A server without a socket, an event loop or a clock: the same engines as the bindings drive, to the byte.

`Simulation` has a clock that moves when told to, tokens that count, and a scheduler that runs every handler as far as
it can go before a call returns. Nothing waits for real, so nothing sleeps and nothing is flaky, and what comes out can
be compared byte by byte.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from mcp_sansio.call import Call
from mcp_sansio.events import Body, CallCancelled, CallReceived, Event, Head, Part, StoreNeeded
from mcp_sansio.registry import Registry
from mcp_sansio.runtime import Runtime
from mcp_sansio.server.connection import ServerConnection
from mcp_sansio.server.http import HttpTransaction
from mcp_sansio.server.server import Server
from mcp_sansio.types import JSON
from mcp_sansio.wire.json import decode, encode
from mcp_sansio.wire.sse import EventDecoder, Oversize, ServerSentEvent

from .clock import FakeClock
from .loops import LoopScheduler
from .scheduler import Scheduler

#: When every simulation begins, in seconds since the epoch; its clock begins with 0.
_EPOCH = 1_000_000_000.0


class Simulation:
    """A `Server` of `registry` with a fake clock, counted tokens and a scheduler.

    `options` are those of `Server` (``adapters``, ``config``, ``store``). Every fact is followed at once by everything
    that it brings about, until all handlers wait or are done.
    """

    def __init__(
        self, registry: Registry, *, scheduler: Scheduler | LoopScheduler | None = None, **options: Any
    ) -> None:
        self.clock = FakeClock()
        self.scheduler = Scheduler() if scheduler is None else scheduler
        self._stirred = False
        counter = itertools.count(1)
        self.runtime = Runtime(
            now=self.clock,
            token_bytes=lambda size: next(counter).to_bytes(size, "big"),
            event=self.scheduler.event,
            wall_clock=lambda: _EPOCH + self.clock(),
        )
        self.server = Server(registry, runtime=self.runtime, **options)
        self.peers: list[Peer] = []
        self.links: list[Link] = []

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
        exchange = self._exchange(self.server.http_transaction(wake=self.stir, **options))
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
        exchange = self._exchange(self.server.pair_transaction(message_path=message_path, wake=self.stir, **options))
        exchange.request(body, method=method, target=target, headers=headers)
        return exchange

    def channel(self, **options: Any) -> SimulatedChannel:
        """Open a duplex channel. `options` are those of `Server.connection`."""
        channel = SimulatedChannel(self, self.server.connection(wake=self.stir, **options))
        self.add(channel)
        return channel

    def add(self, peer: Peer) -> None:
        """Drive the engine of `peer`, too."""
        self.peers.append(peer)

    def remove(self, peer: Peer) -> None:
        """Let go of `peer`, which is over."""
        self.peers.remove(peer)

    def _exchange(self, transaction: HttpTransaction) -> SimulatedHttp:
        exchange = SimulatedHttp(self, transaction)
        self.add(exchange)
        return exchange

    def advance(self, seconds: float) -> None:
        """Let time pass, stopping at every deadline on the way."""
        end = self.clock() + seconds
        while True:
            due = self.next_deadline()
            if due is None or due > end:
                break
            self.advance_to(due)
        self.clock.advance(end - self.clock())

    def next_deadline(self) -> float | None:
        """The next time at which something is due by itself, in seconds of the clock."""
        engines = [*(peer.engine for peer in self.peers), *(link.engine for link in self.links)]
        due = [at for engine in engines if (at := engine.next_deadline()) is not None]
        return min(due, default=None)

    def advance_to(self, deadline: float) -> None:
        """Let the time of `next_deadline` come, and what is due with it happen: at the server first."""
        self.clock.advance(max(0.0, deadline - self.clock()))
        for peer in tuple(self.peers):
            if self._handle_timeout(peer.engine):
                self._settle_server()
        for link in self.links:
            self._handle_timeout(link.engine)
        self.settle()

    def _handle_timeout(self, engine: Engine) -> bool:
        now, due = self.clock(), engine.next_deadline()
        if due is None or due > now:
            return False
        engine.handle_timeout(now)
        return True

    def settle(self) -> None:
        """Run everything that can run, on every request and channel."""
        self._stirred = True  # whatever is stirred up meanwhile is seen to here
        try:
            self._settle_server()
            # A client hears all that the server has to say before the server hears the next thing from a client.
            while any(link.carry() for link in self.links):
                self._settle_server()
        finally:
            self._stirred = False

    def _settle_server(self) -> None:
        self.scheduler.run()
        # Taking what there is to send lets a handler go on that waits for its client to keep up.
        while sum([peer.take() for peer in tuple(self.peers)]) or self.scheduler.ready:
            self.scheduler.run()

    def stir(self) -> None:
        """An engine has something to take: on an event loop that is done in a moment, otherwise by `settle`."""
        if isinstance(self.scheduler, LoopScheduler) and not self._stirred:
            self._stirred = True
            self.scheduler.soon(self.settle)


class Engine(Protocol):
    """What the engines of both roles have in common."""

    def events(self) -> list[Any]:
        """See `HttpTransaction.events`."""

    def next_deadline(self) -> float | None:
        """See `HttpTransaction.next_deadline`."""

    def handle_timeout(self, now: float) -> None:
        """See `HttpTransaction.handle_timeout`."""


class Link(Protocol):
    """A client in a simulation, and what lies between it and the server."""

    @property
    def engine(self) -> Engine:
        """The client's engine."""

    def carry(self) -> bool:
        """Bring the client what the server has said, or else the server the next thing from the client.

        False where there was nothing to bring.
        """

    def cut(self) -> None:
        """End the connection."""


class Peer(Protocol):
    """An engine of the server in a simulation, and what drives it."""

    @property
    def engine(self) -> Engine:
        """The engine."""

    def take(self) -> bool:
        """Take everything from the engine. True where that may have brought something about."""


class _ServerPeer:
    """What a simulated request and a simulated channel have in common: the events of their engine."""

    def __init__(self, simulation: Simulation, engine: Any) -> None:
        self.simulation = simulation
        self.engine = engine
        self.happened: list[Event] = []
        self._tasks: dict[Call, Any] = {}

    def take(self) -> bool:
        """See `Peer.take`."""
        events: list[Event] = self.engine.events()
        for event in events:
            self.happened.append(event)
            self._handle(event)
        return self.take_data() or bool(events)

    def take_data(self) -> bool:
        """Take what the engine has to send. True where that brings something about."""
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


class Unread(NamedTuple):
    """What is new of a response: its head, which is so once, a piece of its body, and whether it has ended."""

    head: Head | None
    data: bytes
    ended: bool


class SimulatedHttp(_ServerPeer):
    """One HTTP request, and its response as far as it has come."""

    engine: HttpTransaction

    def __init__(self, simulation: Simulation, transaction: HttpTransaction) -> None:
        super().__init__(simulation, transaction)
        self.head: Head | None = None
        self.body = b""
        self.ended = False
        self._seen = 0  # nothing, or 1 for the head, and more for the body and the end

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

    def take_data(self) -> bool:
        """See `_ServerPeer.take_data`."""
        parts = self.engine.data_to_send()
        for part in parts:
            self.receive(part)
        return bool(parts)

    def receive(self, part: Part) -> None:
        """The client gets a part of the response."""
        if isinstance(part, Head):
            self.head = part
        elif isinstance(part, Body):
            self.body += part.data
        else:
            self.ended = True

    def unread(self) -> Unread | None:
        """What came of the response since the last time, or ``None``."""
        total = (self.head is not None) + len(self.body) + self.ended
        seen, self._seen = self._seen, total
        if total == seen:
            return None
        return Unread(self.head if not seen else None, self.body[max(0, seen - 1) :], self.ended)

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


class SimulatedChannel(_ServerPeer):
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

    def take_data(self) -> bool:
        """See `_ServerPeer.take_data`."""
        messages = self.engine.data_to_send()
        self.sent += messages
        return bool(messages)

    @property
    def messages(self) -> list[JSON]:
        """Every message that came out so far."""
        return [decode(data) for data in self.sent]

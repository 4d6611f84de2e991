"""Drivers of engines without an event loop, whose time is what they say it is: the rules and their checks need none."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mcp_sansio import CallCancelled, CallReceived, Config, Part, Registry, Runtime, Server, StoreNeeded
from mcp_sansio.testing import FakeClock, Scheduler


class World:
    """A server and all its engines. What is to be sent is taken when the client reads, and no sooner."""

    def __init__(self, registry: Registry, config: Config) -> None:
        self.clock = FakeClock()
        self.scheduler = Scheduler()
        numbers = itertools.count()
        runtime = Runtime(
            now=self.clock, token_bytes=lambda size: next(numbers).to_bytes(size, "big"), event=self.scheduler.event
        )
        self.server = Server(registry, runtime=runtime, config=config)
        self.engines: list[Any] = []
        self.tasks: dict[Any, Any] = {}

    def turn(self) -> None:
        """Do what there is to do."""
        self.scheduler.run()
        while events := [event for engine in self.engines for event in engine.events()]:
            for event in events:
                self._handle(event)
            self.scheduler.run()

    def _handle(self, event: Any) -> None:
        if isinstance(event, CallReceived):
            self.tasks[event.call] = self.scheduler.spawn(_awaited(event.run))
        elif isinstance(event, StoreNeeded):
            self.scheduler.spawn(_awaited(event.run))
        elif isinstance(event, CallCancelled):
            self.scheduler.cancel(self.tasks[event.call])

    def wait(self, seconds: float, until: Callable[[], Any] = lambda: False) -> None:
        """Let time pass, or less of it where `until` holds sooner."""
        end = self.clock() + seconds
        self.turn()
        while not until():
            due = min((at for engine in self.engines if (at := engine.next_deadline()) is not None), default=end)
            self.clock.advance(max(0.0, min(due, end) - self.clock()))
            if due >= end:
                return
            for engine in self.engines:
                engine.handle_timeout(self.clock())
            self.turn()

    def shutdown(self) -> None:
        """Shut the server down."""
        self.server.shutdown()
        self.turn()


async def _awaited(run: Callable[[], Any]) -> None:
    await run()


class Reading:
    """One engine as its client sees it."""

    def __init__(self, world: World, engine: Any) -> None:
        self.world = world
        self.engine = engine
        self._came: deque[Any] = deque()
        world.engines.append(engine)

    def _read(self) -> bool:
        if not self._came:
            self._came.extend(self.engine.data_to_send())
            self.world.turn()
        return bool(self._came)

    def receive(self, seconds: float) -> Any:
        """The next message, or part."""
        self.world.wait(seconds, until=self._read)
        return self._came.popleft() if self._came else None


class ChannelClient(Reading):
    """See `mcp_sansio.testing.ChannelClient`."""

    def send(self, message: bytes) -> None:
        """Send a message."""
        self.engine.receive_message(message)
        self.world.turn()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.world.wait(seconds)

    def close(self) -> None:
        """End the channel."""
        self.engine.receive_eof()
        self.world.turn()

    def shutdown(self) -> None:
        """Shut the server down."""
        self.world.shutdown()


class HttpExchange(Reading):
    """See `mcp_sansio.testing.HttpExchange`."""

    def receive(self, seconds: float) -> Part | None:
        """The next part."""
        part: Part | None = super().receive(seconds)
        return part

    def disconnect(self) -> None:
        """Cut the connection."""
        self.engine.receive_disconnect()
        self.world.turn()


class HttpClient:
    """See `mcp_sansio.testing.HttpClient`."""

    def __init__(self, world: World) -> None:
        self.world = world

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpExchange:
        """Send a request."""
        exchange = HttpExchange(self.world, self.world.server.http_transaction())
        exchange.engine.receive_request(method, target, headers)
        exchange.engine.receive_body(body)
        exchange.engine.receive_end()
        self.world.turn()
        return exchange

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.world.wait(seconds)

    def shutdown(self) -> None:
        """Shut the server down."""
        self.world.shutdown()


@contextmanager
def open_channel(registry: Registry, config: Config) -> Iterator[ChannelClient]:
    """A channel that is served here."""
    world = World(registry, config)
    try:
        yield ChannelClient(world, world.server.connection())
    finally:
        world.scheduler.close()


@contextmanager
def open_http(registry: Registry, config: Config) -> Iterator[HttpClient]:
    """A server of HTTP."""
    world = World(registry, config)
    try:
        yield HttpClient(world)
    finally:
        world.scheduler.close()

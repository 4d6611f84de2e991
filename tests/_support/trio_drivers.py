"""Drivers of engines on trio, in memory: that the rules and their checks know no event loop."""

from __future__ import annotations

import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import trio

from mcp_sansio import CallCancelled, CallReceived, Config, Part, Registry, Runtime, Server, StoreNeeded

T = TypeVar("T")


def runtime() -> Runtime:
    """What trio lends."""
    token = trio.lowlevel.current_trio_token()

    async def run_sync(function: Callable[[], T], /) -> T:
        return await trio.to_thread.run_sync(function, abandon_on_cancel=True)

    def run_in_loop(function: Callable[[], None], /) -> None:
        try:
            trio.lowlevel.current_task()
        except RuntimeError:
            token.run_sync_soon(function)
        else:
            function()

    return Runtime(
        now=trio.current_time,
        token_bytes=secrets.token_bytes,
        event=trio.Event,
        run_sync=run_sync,
        run_in_loop=run_in_loop,
    )


class Driver:
    """Keeps one engine going in `nursery`, and sends what it has to say by `send`."""

    def __init__(
        self, make_engine: Callable[..., Any], send: Callable[[Any], Awaitable[None]], nursery: trio.Nursery
    ) -> None:
        self.nursery = nursery
        self.send = send
        self.token = trio.lowlevel.current_trio_token()
        self.changed = trio.Event()
        self.scopes: dict[Any, trio.CancelScope] = {}
        self.engine = make_engine(wake=lambda: self.token.run_sync_soon(self.turn))

    def turn(self) -> None:
        """Do what the events say, and have the rest sent and the timer set."""
        for event in self.engine.events():
            if isinstance(event, CallReceived):
                self.start(event.call, event.run)
            elif isinstance(event, StoreNeeded):
                self.start(event, event.run)
            elif isinstance(event, CallCancelled) and event.call in self.scopes:
                self.scopes[event.call].cancel()
        changed, self.changed = self.changed, trio.Event()
        changed.set()

    def start(self, key: Any, run: Callable[[], Awaitable[None]]) -> None:
        """Run a call in a task of its own."""
        scope = self.scopes[key] = trio.CancelScope()

        async def ran() -> None:
            with scope:
                await run()
            del self.scopes[key]
            self.turn()

        self.nursery.start_soon(ran)

    async def mind_the_time(self) -> None:
        """Handle every deadline, for ever."""
        while True:
            changed, deadline = self.changed, self.engine.next_deadline()
            with trio.move_on_at(math.inf if deadline is None else deadline):
                await changed.wait()
                continue
            self.engine.handle_timeout(trio.current_time())
            self.turn()

    async def work(self, until: Callable[[], bool] = lambda: False) -> None:
        """Send what there is, until it is over and no task is left."""
        while True:
            changed, pieces = self.changed, self.engine.data_to_send()
            for piece in pieces:
                await self.send(piece)
            if not pieces:
                if until() and not self.scopes:
                    return
                await changed.wait()


class ChannelClient:
    """See `mcp_sansio.testing.ChannelClient`."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.to_server, self.inbox = trio.open_memory_channel[bytes](0)
        self.outbox, self.from_server = trio.open_memory_channel[bytes](0)

    async def send(self, message: bytes) -> None:
        """Send a message."""
        await self.to_server.send(message)

    async def receive(self, seconds: float) -> bytes | None:
        """The next message."""
        with trio.move_on_after(seconds):
            return await self.from_server.receive()
        return None

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await trio.sleep(seconds)

    def close(self) -> None:
        """End the channel."""
        self.to_server.close()

    def shutdown(self) -> None:
        """Shut the server down."""
        self.server.shutdown()


async def serve_channel(server: Server, client: ChannelClient) -> None:
    """Serve until the client closes."""
    async with trio.open_nursery() as nursery:
        driver = Driver(server.connection, client.outbox.send, nursery)
        nursery.start_soon(driver.work)
        nursery.start_soon(driver.mind_the_time)
        try:
            async for message in client.inbox:
                driver.engine.receive_message(message)
                driver.turn()
        finally:
            driver.engine.receive_eof()
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_channel(registry: Registry, config: Config) -> AsyncIterator[ChannelClient]:
    """A channel that is served here."""
    client = ChannelClient(Server(registry, runtime=runtime(), config=config))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_channel, client.server, client)
        yield client
        nursery.cancel_scope.cancel()


class HttpExchange:
    """See `mcp_sansio.testing.HttpExchange`."""

    def __init__(self) -> None:
        self.outgoing, self.incoming = trio.open_memory_channel[Part](0)
        self.gone = trio.Event()

    async def receive(self, seconds: float) -> Part | None:
        """The next part of the response."""
        with trio.move_on_after(seconds):
            return await self.incoming.receive()
        return None

    def disconnect(self) -> None:
        """Cut the connection."""
        self.gone.set()
        self.incoming.close()


class HttpClient:
    """See `mcp_sansio.testing.HttpClient`."""

    def __init__(self, server: Server, nursery: trio.Nursery) -> None:
        self.server = server
        self.nursery = nursery

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpExchange:
        """Send a request."""
        exchange = HttpExchange()
        self.nursery.start_soon(serve_request, self.server, exchange, method, target, headers, body)
        return exchange

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await trio.sleep(seconds)

    def shutdown(self) -> None:
        """Shut the server down."""
        self.server.shutdown()


async def serve_request(
    server: Server, exchange: HttpExchange, method: str, target: str, headers: Mapping[str, str], body: bytes
) -> None:
    """Serve one request, and the calls that outlive it."""

    async def send(part: Part) -> None:
        try:
            await exchange.outgoing.send(part)
        except trio.BrokenResourceError:
            driver.engine.receive_disconnect()

    async with trio.open_nursery() as nursery:
        driver = Driver(server.http_transaction, send, nursery)

        async def mind_the_connection() -> None:
            await exchange.gone.wait()
            driver.engine.receive_disconnect()
            driver.turn()

        nursery.start_soon(driver.mind_the_time)
        nursery.start_soon(mind_the_connection)
        driver.engine.receive_request(method, target, headers)
        driver.engine.receive_body(body)
        driver.engine.receive_end()
        driver.turn()
        await driver.work(until=lambda: bool(driver.engine.ended))
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def open_http(registry: Registry, config: Config) -> AsyncIterator[HttpClient]:
    """A server of HTTP, in memory."""
    async with trio.open_nursery() as nursery:
        yield HttpClient(Server(registry, runtime=runtime(), config=config), nursery)
        nursery.cancel_scope.cancel()

"""Drivers of engines on asyncio, in memory, for the tests of the checks that authors of transports run.

`Driver` keeps the rules of docs/write-a-transport.md; it is cut into methods so that a subclass can break one.
`channel_of` and `http_of` put a client in front of such a driver.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from mcp_sansio import (
    CallCancelled,
    CallReceived,
    Config,
    End,
    Event,
    Part,
    Registry,
    Runtime,
    Server,
    ServerConnection,
    StoreNeeded,
)


def runtime() -> Runtime:
    """What the running loop lends."""
    loop, thread = asyncio.get_running_loop(), threading.get_ident()

    def run_in_loop(function: Callable[[], None], /) -> None:
        function() if threading.get_ident() == thread else loop.call_soon_threadsafe(function)

    return Runtime(
        now=time.monotonic,
        token_bytes=secrets.token_bytes,
        event=asyncio.Event,
        run_sync=asyncio.to_thread,
        run_in_loop=run_in_loop,
    )


class Driver:
    """Keeps the engine of `make_engine` going, and sends what it has to say by `send`."""

    def __init__(self, make_engine: Callable[..., Any], send: Callable[[Any], Any]) -> None:
        self.loop = asyncio.get_running_loop()
        self.send = send
        self.to_send = asyncio.Event()
        self.timer: asyncio.TimerHandle | None = None
        self.tasks: dict[Any, asyncio.Future[None]] = {}
        self.engine = make_engine(wake=self.wake)

    def wake(self) -> None:
        """See `HttpTransaction`."""
        self.loop.call_soon_threadsafe(self.turn)

    def turn(self) -> None:
        """Do what the events say, and have the rest sent."""
        for event in self.take_events():
            self.handle(event)
        self.to_send.set()
        self.set_timer()

    def take_events(self) -> list[Event]:
        """All that happened."""
        events: list[Event] = self.engine.events()
        return events

    def handle(self, event: Event) -> None:
        """Do what one event says."""
        if isinstance(event, CallReceived):
            self.start(event.call, event.run)
        elif isinstance(event, StoreNeeded):
            self.start(event, event.run)
        elif isinstance(event, CallCancelled) and event.call in self.tasks:
            self.cancel(event.call)

    def cancel(self, key: Any) -> None:
        """End a task."""
        self.tasks[key].cancel()

    def start(self, key: Any, run: Callable[[], Any]) -> None:
        """Run a call in a task of its own."""
        task = self.tasks[key] = asyncio.ensure_future(run())
        task.add_done_callback(lambda _: (self.tasks.pop(key), self.ran()))

    def ran(self) -> None:
        """A task has ended."""
        self.turn()

    def set_timer(self) -> None:
        """Have one timer, for the next deadline."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        deadline = self.engine.next_deadline()
        if deadline is not None:
            self.timer = self.loop.call_later(deadline - time.monotonic(), self.time_out)

    def time_out(self) -> None:
        """The deadline has come."""
        self.engine.handle_timeout(time.monotonic())
        self.turn()

    async def work(self, until: Callable[[], bool] = lambda: False) -> None:
        """Send what there is, until it is over and no task is left."""
        while True:
            self.to_send.clear()
            while pieces := self.engine.data_to_send():
                await self.send_all(pieces)
            self.set_timer()
            if until() and not self.tasks:
                return
            await self.to_send.wait()

    async def send_all(self, pieces: list[Any]) -> None:
        """Send, and wait for the transport."""
        for piece in pieces:
            await self.send(piece)

    async def finish(self) -> None:
        """Leave no task behind."""
        self.turn()
        tasks = tuple(self.tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.timer is not None:
            self.timer.cancel()


# A channel


class ChannelClient:
    """See `mcp_sansio.testing.ChannelClient`."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.inbox: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self.outbox: asyncio.Queue[bytes] = asyncio.Queue(1)
        self.is_deaf = False

    async def take(self, message: bytes) -> None:
        """What the server sends."""
        if self.is_deaf:
            raise BrokenPipeError("the client reads no more")
        await self.outbox.put(message)

    def stop_reading(self) -> None:
        """Read no more."""
        self.is_deaf = True

    async def send(self, message: bytes) -> None:
        """Send a message."""
        await self.inbox.put(message)

    async def receive(self, seconds: float) -> bytes | None:
        """The next message."""
        try:
            return await asyncio.wait_for(self.outbox.get(), seconds)
        except TimeoutError:
            return None

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """End the channel."""
        await self.inbox.put(None)

    def shutdown(self) -> None:
        """Shut the server down."""
        self.server.shutdown()


class ChannelServing:
    """Serves a client. A subclass may break what `Driver` does, and what is done here."""

    driver_class: type[Driver] = Driver

    def __init__(self, server: Server, client: ChannelClient) -> None:
        self.client = client
        self.driver = self.driver_class(server.connection, client.take)

    @property
    def connection(self) -> ServerConnection:
        """The engine."""
        connection: ServerConnection = self.driver.engine
        return connection

    async def serve(self) -> None:
        """Serve until the client closes."""
        working = [asyncio.ensure_future(self.read()), asyncio.ensure_future(self.driver.work())]
        try:
            await self.first_ended(working)
        finally:
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
            await self.end()

    async def first_ended(self, working: list[asyncio.Future[None]]) -> None:
        """Return when nothing comes any more, or nothing can be sent."""
        await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)

    async def read(self) -> None:
        """Take what comes."""
        while (message := await self.client.inbox.get()) is not None:
            self.receive(message)

    def receive(self, message: bytes) -> None:
        """A message has come."""
        self.connection.receive_message(message)
        self.driver.turn()

    async def end(self) -> None:
        """The channel has ended."""
        self.connection.receive_eof()
        await self.driver.finish()


def channel_of(
    serving: type[ChannelServing] = ChannelServing,
) -> Callable[[Registry, Config], AbstractAsyncContextManager[ChannelClient]]:
    """What opens a channel that is served by `serving`."""

    @asynccontextmanager
    async def open_channel(registry: Registry, config: Config) -> AsyncIterator[ChannelClient]:
        server = Server(registry, runtime=runtime(), config=config)
        client = ChannelClient(server)
        task = asyncio.ensure_future(serving(server, client).serve())
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    return open_channel


# HTTP


class HttpExchange:
    """See `mcp_sansio.testing.HttpExchange`."""

    def __init__(self) -> None:
        self.parts: asyncio.Queue[Part] = asyncio.Queue(1)
        self.gone = asyncio.Event()

    async def receive(self, seconds: float) -> Part | None:
        """The next part of the response."""
        try:
            return await asyncio.wait_for(self.parts.get(), seconds)
        except TimeoutError:
            return None

    async def disconnect(self) -> None:
        """Cut the connection."""
        self.gone.set()


class HttpServing:
    """Serves one request. A subclass may break what `Driver` does, and what is done here."""

    driver_class: type[Driver] = Driver

    def __init__(self, server: Server, exchange: HttpExchange) -> None:
        self.exchange = exchange
        self.driver = self.driver_class(server.http_transaction, self.send)

    async def send(self, part: Part) -> None:
        """Send a part of the response, unless the client has gone."""
        sending = asyncio.ensure_future(self.exchange.parts.put(part))
        gone = asyncio.ensure_future(self.exchange.gone.wait())
        try:
            await asyncio.wait([sending, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            gone.cancel()

    async def serve(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        """Serve the request."""
        engine, driver = self.driver.engine, self.driver
        watcher = asyncio.ensure_future(self.watch())
        try:
            engine.receive_request(method, target, headers)
            for start in range(0, len(body), 2**16):
                engine.receive_body(body[start : start + 2**16])
            engine.receive_end()
            driver.turn()
            await driver.work(until=lambda: bool(engine.ended))
        finally:
            watcher.cancel()
            await self.end()

    async def watch(self) -> None:
        """Mind the connection."""
        await self.exchange.gone.wait()
        self.left()

    def left(self) -> None:
        """The client has gone."""
        self.driver.engine.receive_disconnect()
        self.driver.turn()

    async def end(self) -> None:
        """The request is over."""
        self.driver.engine.receive_disconnect()
        await self.driver.finish()


class HttpClient:
    """See `mcp_sansio.testing.HttpClient`."""

    def __init__(self, server: Server, serving: type[HttpServing]) -> None:
        self.server = server
        self.serving = serving
        self.tasks: list[asyncio.Future[None]] = []

    async def request(self, method: str, target: str, headers: dict[str, str], body: bytes) -> HttpExchange:
        """Send a request."""
        exchange = HttpExchange()
        serving = self.serving(self.server, exchange)
        self.tasks.append(asyncio.ensure_future(serving.serve(method, target, headers, body)))
        return exchange

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def shutdown(self) -> None:
        """Shut the server down."""
        self.server.shutdown()


def http_of(
    serving: type[HttpServing] = HttpServing,
) -> Callable[[Registry, Config], AbstractAsyncContextManager[HttpClient]]:
    """What opens a server each of whose requests is served by `serving`."""

    @asynccontextmanager
    async def open_http(registry: Registry, config: Config) -> AsyncIterator[HttpClient]:
        client = HttpClient(Server(registry, runtime=runtime(), config=config), serving)
        try:
            yield client
        finally:
            for task in client.tasks:
                task.cancel()
            if client.tasks:
                await asyncio.wait(client.tasks)
        for task in client.tasks:
            if not task.cancelled():
                task.result()

    return open_http


__all__ = ["ChannelServing", "Driver", "End", "HttpServing", "channel_of", "http_of", "runtime"]

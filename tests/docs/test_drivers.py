"""The drivers of docs/examples: each keeps the rules of a transport, and is short."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from multiprocessing import Pipe
from pathlib import Path
from threading import Event as Flag
from threading import Thread, current_thread
from types import ModuleType
from typing import Any

import pytest

import support
from counting import code_lines
from mcp_sansio import Body, Config, End, Head, Part, Registry, Server
from mcp_sansio.testing import Scheduler, check_channel, check_http
from mcp_sansio.wire.lines import LineDecoder

FOLDER = support.ROOT / "docs" / "examples"
#: How many lines of code each may have.
BUDGET = {
    "websocket_aiohttp": 60,
    "unix_socket_trio": 60,
    "lambda_function": 60,
    "asgi_app": 80,
    "tcp_lines_asyncio": 60,
    "tcp_prefixed_threads": 80,
    "pipe_threads": 60,
}
PATIENCE = 30.0


def example(name: str) -> Any:
    """The module of that name, made anew."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", BUDGET)
def test_it_is_short(name: str) -> None:
    assert code_lines((FOLDER / f"{name}.py").read_text("utf-8")) <= BUDGET[name]


class Lines:
    """Messages that came in as lines."""

    def __init__(self) -> None:
        self._decoder = LineDecoder(2**30)
        self.ready: list[bytes] = []

    def take(self, data: bytes) -> None:
        """Take what was read."""
        self._decoder.receive_data(data)
        self.ready += (line for line in self._decoder.lines() if isinstance(line, bytes))


# A WebSocket on aiohttp


class WebSocketClient:
    """See `mcp_sansio.testing.ChannelClient`."""

    def __init__(self, channel: Any, server: Server) -> None:
        self.channel = channel
        self.server = server

    async def send(self, message: bytes) -> None:
        try:
            await self.channel.send_str(message.decode())
        except UnicodeDecodeError:
            await self.channel.send_bytes(message)

    async def receive(self, seconds: float) -> bytes | None:
        try:
            message = await self.channel.receive(timeout=seconds)
        except TimeoutError:
            return None
        return message.data.encode() if isinstance(message.data, str) and message.data else b""

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self.channel.close()

    def shutdown(self) -> None:
        self.server.shutdown()


async def test_a_websocket_on_aiohttp_keeps_the_rules() -> None:
    support.need("aiohttp")
    from aiohttp import ClientSession, web

    driver = example("websocket_aiohttp")

    @asynccontextmanager
    async def serve(registry: Registry, config: Config) -> AsyncIterator[WebSocketClient]:
        app = await driver.app(registry, config=config)
        (server,) = [value for value in app.values() if isinstance(value, Server)]
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.01)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        async with ClientSession() as http, http.ws_connect(f"http://{host}:{port}/mcp", max_msg_size=0) as channel:
            yield WebSocketClient(channel, server)
        await runner.cleanup()

    await check_channel(serve, patience=PATIENCE)


# Lines on a socket


def test_a_unix_socket_on_trio_keeps_the_rules(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trio = support.need("trio")
    driver: Any = example("unix_socket_trio")
    servers: list[Server] = []
    monkeypatch.setattr(driver, "Server", _noting(servers))
    numbers = iter(range(1000))

    class Client:
        def __init__(self, stream: Any) -> None:
            self.stream, self.lines = stream, Lines()

        async def send(self, message: bytes) -> None:
            await self.stream.send_all(message + b"\n")

        async def receive(self, seconds: float) -> bytes | None:
            with trio.move_on_after(seconds):
                while not self.lines.ready:
                    data = await self.stream.receive_some()
                    if not data:
                        return b""
                    self.lines.take(data)
            return self.lines.ready.pop(0) if self.lines.ready else None

        async def wait(self, seconds: float) -> None:
            await trio.sleep(seconds)

        async def close(self) -> None:
            await self.stream.aclose()

        def stop_reading(self) -> None:
            self.stream.socket.shutdown(socket.SHUT_RD)

        def shutdown(self) -> None:
            servers[-1].shutdown()

    @asynccontextmanager
    async def serve(registry: Registry, config: Config) -> AsyncIterator[Client]:
        path = tmp_path / f"{next(numbers)}"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: driver.serve_unix(registry, str(path), config=config))
            stream = None
            while stream is None:
                await trio.sleep(0.001)
                try:
                    stream = await trio.open_unix_socket(str(path))
                except OSError:
                    pass  # it does not listen yet
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            try:
                yield Client(stream)
            finally:
                await stream.aclose()
                nursery.cancel_scope.cancel()

    async def check() -> None:
        await check_channel(serve, patience=PATIENCE)

    trio.run(check)


async def test_lines_on_tcp_keep_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    driver: Any = example("tcp_lines_asyncio")
    servers: list[Server] = []
    monkeypatch.setattr(driver, "Server", _noting(servers))

    class Client:
        def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.reader, self.writer, self.lines = reader, writer, Lines()

        async def send(self, message: bytes) -> None:
            self.writer.write(message + b"\n")
            await self.writer.drain()

        async def receive(self, seconds: float) -> bytes | None:
            try:
                async with asyncio.timeout(seconds):
                    while not self.lines.ready:
                        data = await self.reader.read(2**16)
                        if not data:
                            return b""
                        self.lines.take(data)
            except TimeoutError:
                return None
            return self.lines.ready.pop(0)

        async def wait(self, seconds: float) -> None:
            await asyncio.sleep(seconds)

        def close(self) -> None:
            self.writer.close()

        def shutdown(self) -> None:
            servers[-1].shutdown()

    @asynccontextmanager
    async def serve(registry: Registry, config: Config) -> AsyncIterator[Client]:
        listener = await driver.listen(registry, "127.0.0.1", 0, config=config)
        before = asyncio.all_tasks()
        reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname(), limit=2**12)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()
            listener.close()
            while asyncio.all_tasks() - before:
                await asyncio.sleep(0.001)

    await check_channel(serve, patience=PATIENCE)


class PrefixedClient:
    """See `mcp_sansio.testing.ChannelClient`."""

    def __init__(self, sock: socket.socket, server: Server, threads: Any) -> None:
        self.sock, self.server, self.threads = sock, server, threads
        self.unread = b""

    def send(self, message: bytes) -> None:
        self.sock.sendall(len(message).to_bytes(4) + message)

    def receive(self, seconds: float) -> bytes | None:
        end = time.monotonic() + seconds
        try:
            while len(self.unread) < (size := 4 + int.from_bytes(self.unread[:4])):
                self.sock.settimeout(max(0.001, end - time.monotonic()))
                data = self.sock.recv(2**16)
                if not data:
                    return b""
                self.unread += data
        except TimeoutError:
            return None
        finally:
            self.sock.settimeout(None)
        message, self.unread = self.unread[4:size], self.unread[size:]
        return message

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def stop_reading(self) -> None:
        self.sock.shutdown(socket.SHUT_RD)

    def shutdown(self) -> None:
        self.threads.run_in_loop(self.server.shutdown)


def test_prefixed_messages_with_threads_keep_the_rules() -> None:
    driver = example("tcp_prefixed_threads")

    @contextmanager
    def serve(registry: Registry, config: Config) -> Iterator[PrefixedClient]:
        threads = driver.Threads()
        server = Server(registry, runtime=threads.runtime(), config=config)
        ours, theirs = socket.socketpair()
        serving = Thread(target=threads.run, args=[driver.serve_socket(server, threads, theirs)], daemon=True)
        serving.start()
        with ours:
            yield PrefixedClient(ours, server, threads)
        serving.join(PATIENCE)
        assert not serving.is_alive()
        threads.close()

    Scheduler().complete(check_channel(serve, patience=PATIENCE))


def _noting(servers: list[Server]) -> type[Server]:
    class Noted(Server):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            servers.append(self)

    return Noted


# HTTP


class AsgiExchange:
    """See `mcp_sansio.testing.HttpExchange`."""

    def __init__(self, app: Any, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        path, _, query = target.partition("?")
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode()}
        scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self.gone = False
        self.incoming: asyncio.Queue[Any] = asyncio.Queue()
        self.outgoing: asyncio.Queue[Part] = asyncio.Queue(1)
        self.incoming.put_nowait({"type": "http.request", "body": body})
        self.serving = asyncio.ensure_future(app(scope, self.incoming.get, self._send))

    async def _send(self, message: Any) -> None:
        if self.gone:
            raise OSError("the client has gone")
        if message["type"] == "http.response.start":
            headers = tuple((name.decode(), value.decode()) for name, value in message["headers"])
            await self.outgoing.put(Head(message["status"], headers))
            return
        if message["body"]:
            await self.outgoing.put(Body(message["body"]))
        if not message["more_body"]:
            await self.outgoing.put(End())

    async def receive(self, seconds: float) -> Part | None:
        try:
            return await asyncio.wait_for(self.outgoing.get(), seconds)
        except TimeoutError:
            return None

    async def disconnect(self) -> None:
        self.gone = True
        self.incoming.put_nowait({"type": "http.disconnect"})
        while not self.outgoing.empty():
            self.outgoing.get_nowait()


class AsgiClient:
    """See `mcp_sansio.testing.HttpClient`."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.exchanges: list[AsgiExchange] = []

    def request(self, *request: Any) -> AsgiExchange:
        self.exchanges.append(AsgiExchange(self.app, *request))
        return self.exchanges[-1]

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def shutdown(self) -> None:
        self.app.server.shutdown()


async def test_an_asgi_application_keeps_the_rules() -> None:
    driver = example("asgi_app")

    @asynccontextmanager
    async def serve(registry: Registry, config: Config) -> AsyncIterator[AsgiClient]:
        client = AsgiClient(driver.App(registry, config=config))
        try:
            yield client
        finally:
            for exchange in client.exchanges:
                exchange.serving.cancel()
            await asyncio.gather(*(exchange.serving for exchange in client.exchanges), return_exceptions=True)
            await client.app.orphans.close(asyncio.Event)

    await check_http(serve, patience=PATIENCE)


class PipeExchange:
    """See `mcp_sansio.testing.HttpExchange`."""

    def __init__(self, app: Any, *request: Any) -> None:
        self.pipe, theirs = Pipe()
        self.serving = Thread(target=app.serve, args=[theirs], daemon=True)
        self.serving.start()
        self.pipe.send(request)

    def receive(self, seconds: float) -> Part | None:
        if not self.pipe.poll(seconds):
            return None
        try:
            part: Part = self.pipe.recv()
        except EOFError:
            raise OSError("the pipe was closed") from None
        return part

    def disconnect(self) -> None:
        self.pipe.close()


class PipeClient:
    """See `mcp_sansio.testing.HttpClient`."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.exchanges: list[PipeExchange] = []

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> PipeExchange:
        self.exchanges.append(PipeExchange(self.app, method, target, dict(headers), body))
        return self.exchanges[-1]

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def shutdown(self) -> None:
        self.app.threads.run_in_loop(self.app.server.shutdown)


def test_pipes_with_threads_keep_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(FOLDER)  # of the two examples on threads one imports the other
    driver = example("pipe_threads")

    @contextmanager
    def serve(registry: Registry, config: Config) -> Iterator[PipeClient]:
        client = PipeClient(driver.App(registry, config=config))
        yield client
        for exchange in client.exchanges:
            exchange.disconnect()
            exchange.serving.join(PATIENCE)
            assert not exchange.serving.is_alive()
        client.app.close()

    Scheduler().complete(check_http(serve, patience=PATIENCE))


class WatchedPipe:
    """A pipe that notes who uses it, and whether it was closed meanwhile."""

    def __init__(self, pipe: Any) -> None:
        self.pipe = pipe
        self.reads = 0
        self.readers = 0
        self.watched = Flag()
        self.senders: list[Thread] = []
        self.closed_with: list[int] = []

    def recv(self) -> Any:
        self.reads += 1
        self.readers += 1
        if self.reads == 2:
            self.watched.set()
        try:
            return self.pipe.recv()
        finally:
            self.readers -= 1

    def send(self, part: Part) -> None:
        self.senders.append(current_thread())
        self.pipe.send(part)

    def close(self) -> None:
        self.closed_with.append(self.readers)
        self.pipe.close()


def test_a_pipe_is_not_closed_while_a_thread_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number may be another pipe's by the time that thread reads."""
    monkeypatch.syspath_prepend(FOLDER)
    registry = Registry("pipes", "1.0")
    app = example("pipe_threads").App(registry)
    ours, theirs = Pipe()
    pipe = WatchedPipe(theirs)

    @registry.tool
    def look() -> str:
        """Answer once somebody watches the client."""
        return str(pipe.watched.wait(PATIENCE))

    async def nothing() -> None:
        pass

    serving = Thread(target=app.serve, args=[pipe], daemon=True)
    serving.start()
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","arguments":{}}}'
    accepted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    ours.send(("POST", "/mcp", accepted, body))
    parts = [ours.recv()]
    while parts[-1] != End():
        parts.append(ours.recv())
    assert b"".join(part.data for part in parts if isinstance(part, Body)).endswith(b'"text":"True"}]}}')
    for sender in pipe.senders:
        sender.join(PATIENCE)
    app.threads.run(nothing())  # and so it has seen that the last was sent
    ours.close()
    serving.join(PATIENCE)
    app.close()
    assert (pipe.reads, pipe.closed_with) == (2, [0])


class Invocation:
    """See `mcp_sansio.testing.HttpExchange`. All of them get on while one is looked at, as they would by themselves."""

    def __init__(self, client: FunctionClient, request: Any) -> None:
        self.client = client
        self.request = request
        self.parts: list[Part] = []

    def receive(self, seconds: float) -> Part | None:
        self.client.wait(seconds, until=self._take)
        return self.parts.pop(0) if self.parts else None

    def _take(self) -> bool:
        if not self.parts:
            self.parts += self.request.engine.data_to_send()
        return bool(self.parts)

    def disconnect(self) -> None:
        self.request.engine.receive_disconnect()
        self.request.advance()


class FunctionClient:
    """See `mcp_sansio.testing.HttpClient`."""

    def __init__(self, module: Any, function: Any) -> None:
        self.module, self.function = module, function
        self.requests: list[Any] = []

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Invocation:
        self.requests.append(self.module.Request(self.function, event(method, target, headers, body)))
        return Invocation(self, self.requests[-1])

    def wait(self, seconds: float, until: Any = lambda: False) -> None:
        end = time.monotonic() + seconds
        while True:
            for request in self.requests:
                request.advance()
            if until() or time.monotonic() > end:
                return
            time.sleep(0.0005)

    def shutdown(self) -> None:
        self.function.server.shutdown()


def event(method: str, target: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """A request as a gateway has it."""
    import base64

    path, _, query = target.partition("?")
    return {
        "requestContext": {"http": {"method": method}},
        "rawPath": path,
        "rawQueryString": query,
        "headers": dict(headers),
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
    }


def test_a_function_keeps_the_rules() -> None:
    module = example("lambda_function")

    @contextmanager
    def serve(registry: Registry, config: Config) -> Iterator[FunctionClient]:
        client = FunctionClient(module, module.Function(registry, config=config))
        yield client
        client.function.scheduler.close()

    Scheduler().complete(check_http(serve, patience=PATIENCE))


def test_a_function_answers_what_it_is_called_with() -> None:
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    response = example("lambda_function").handler(event("POST", "/mcp", headers, body))
    assert response["statusCode"] == 200
    assert json.loads(response["body"]) == {"jsonrpc": "2.0", "id": 1, "result": {}}

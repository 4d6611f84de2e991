"""`Endpoint` keeps the rules of a transport: what an author would run on a driver of their own, on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from io import BytesIO

import attrs

from mcp_sansio import Body, Config, End, Head, Part, Registry
from mcp_sansio.testing import check_http
from sockets import ClientSession, Endpoint, web

from aiohttp import ClientResponse, ClientTimeout, TCPConnector  # isort: skip


@attrs.define(eq=False)
class SocketExchange:
    """See `mcp_sansio.testing.HttpExchange`."""

    task: asyncio.Task[ClientResponse]
    has_head: bool = False

    async def receive(self, seconds: float) -> Part | None:
        """The next part of the response."""
        try:
            async with asyncio.timeout(seconds):
                response = await asyncio.shield(self.task)
                if not self.has_head:
                    self.has_head = True
                    return Head(response.status, tuple(response.headers.items()))
                data = await response.content.readany()
                return Body(data) if data else End()
        except TimeoutError:
            return None

    async def disconnect(self) -> None:
        """Cut the connection."""
        self.task.cancel()
        await asyncio.wait([self.task])
        if not self.task.cancelled() and self.task.exception() is None:
            self.task.result().close()


@attrs.define(eq=False)
class SocketClient:
    """See `mcp_sansio.testing.HttpClient`."""

    endpoint: Endpoint
    url: str
    http: ClientSession
    exchanges: list[SocketExchange] = attrs.field(factory=list)

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> SocketExchange:
        """Send a request."""
        sending = self.http.request(method, self.url + target, headers=headers, data=BytesIO(body) if body else None)
        self.exchanges.append(SocketExchange(asyncio.ensure_future(sending)))
        return self.exchanges[-1]

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    async def shutdown(self) -> None:
        """Shut the server down."""
        await self.endpoint.on_shutdown()


@asynccontextmanager
async def open_sockets(registry: Registry, config: Config) -> AsyncIterator[SocketClient]:
    """Serve on a socket in this process."""
    endpoint = Endpoint(registry, config=config)
    runner = web.AppRunner(endpoint.app("/mcp"), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    connector = TCPConnector(limit=0, force_close=True)
    async with ClientSession(connector=connector, timeout=ClientTimeout(), auto_decompress=False) as http:
        client = SocketClient(endpoint, f"http://{host}:{port}", http)
        try:
            yield client
        finally:
            for exchange in client.exchanges:
                await exchange.disconnect()
            await runner.cleanup()


async def test_an_endpoint_keeps_the_rules() -> None:
    await check_http(open_sockets, patience=30.0)

"""mcp_sansio_aiohttp, as a server and as a client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flags import Flag
from mcp_sansio import Registry
from plugs import HttpClient, HttpServer, Serving, Settings
from worlds import Asyncio, in_a_thread


class AiohttpServing(Serving):
    """An application that runs on a loop of its own."""

    def __init__(self, runner: Any, server: Any, stop: Callable[[], None]) -> None:
        self.host, self.port = runner.addresses[0][:2]
        self.server = server
        self.stop = stop  # type: ignore[method-assign]


class AiohttpServer(HttpServer):
    """`Endpoint` and `SseEndpoint`."""

    name = "aiohttp"
    needs = ("mcp_sansio_aiohttp",)

    @contextmanager
    def serve(self, registry: Registry, settings: Settings) -> Iterator[Serving]:
        """See `HttpServer.serve`."""
        stopped = Flag()

        async def serve(ready: Callable[[Any], None], stop: Flag) -> None:
            runner, server = await self._start(registry, settings)

            def stop_now() -> None:
                stop.set()
                stopped.seen()

            ready(AiohttpServing(runner, server, stop_now))
            await stop.wait()
            await runner.cleanup()
            stopped.set()

        with in_a_thread(Asyncio(), serve) as serving:
            yield serving

    async def _start(self, registry: Registry, settings: Settings) -> tuple[Any, Any]:
        from aiohttp import web

        from mcp_sansio_aiohttp import Endpoint, SseEndpoint

        header, options = settings.user_header, dict(settings.options)
        if header is not None:
            options["principal"] = lambda request: request.headers.get(header)
        endpoint, app = Endpoint(registry, **options), web.Application()
        endpoint.setup(app, settings.path)
        if settings.pair:
            SseEndpoint(endpoint).setup(app, "/sse", "/messages")
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=settings.patience)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        asyncio.get_running_loop().set_debug(False)
        return runner, endpoint.server


class AiohttpClient(HttpClient):
    """`Client`."""

    name = "aiohttp"
    needs = ("mcp_sansio_aiohttp",)

    def world(self) -> Asyncio:
        """See `HttpClient.world`."""
        return Asyncio()

    def client(self, url: str, adapter: Any = None, **options: Any) -> Any:
        """See `HttpClient.client`."""
        from mcp_sansio_aiohttp import Client

        return Client(url, adapter, **options)


PLUGS = [AiohttpServer(), AiohttpClient()]

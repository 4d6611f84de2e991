"""mcp_sansio_asgi, under the servers that its users run it on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, ClassVar

import pytest

from flags import Flag
from mcp_sansio import Registry
from plugs import HttpServer, Serving, Settings
from plugs.trio_http_server import threads_that_end
from worlds import Asyncio, Trio, World, in_a_thread


class AsgiServing(Serving):
    """An application under a server that runs on a loop of its own."""

    def __init__(self, server: Any, listener: socket.socket, stop: Callable[[], None]) -> None:
        self.host, self.port = listener.getsockname()
        self.server = server
        self.stop = stop  # type: ignore[method-assign]


class AsgiServer(HttpServer):
    """`Application`, under a server that a subclass runs."""

    lacks: ClassVar[Mapping[str, str]] = {"http": "HTTP is read by the ASGI server, whichever it is."}
    #: Whether the server runs on trio.
    on_trio: ClassVar[bool] = False

    @contextmanager
    def serve(self, registry: Registry, settings: Settings) -> Iterator[Serving]:
        """See `HttpServer.serve`."""
        app = application(registry, settings)
        with self.serve_app(app, app, settings.patience) as serving:
            yield serving

    @contextmanager
    def serve_app(self, app: Any, mcp: Any, patience: float = 10.0) -> Iterator[Serving]:
        """Serve `app`, which is `mcp` or has it somewhere in it, for the time of a block."""
        stopped = Flag()
        listener = socket.create_server(("127.0.0.1", 0))

        async def serve(ready: Callable[[Any], None], stop: Flag) -> None:
            def stop_now() -> None:
                stop.set()
                stopped.seen()

            ready_now = partial(ready, AsgiServing(mcp.server, listener, stop_now))
            await self.run(app, mcp, listener, patience, ready_now, stop)
            listener.close()
            stopped.set()

        with threads_that_end() if self.on_trio else nullcontext(), in_a_thread(self.world(), serve) as serving:
            yield serving

    def world(self) -> World:
        """Where the server runs."""
        return Trio() if self.on_trio else Asyncio()

    async def run(
        self, app: Any, mcp: Any, listener: socket.socket, patience: float, ready: Callable[[], None], stop: Flag
    ) -> None:
        """Serve `app`, call `ready` once it does, and go on until `stop` is raised."""
        raise NotImplementedError


class Uvicorn(AsgiServer):
    """Under uvicorn."""

    name = "asgi, uvicorn"
    needs = ("mcp_sansio_asgi", "uvicorn")

    async def run(
        self, app: Any, mcp: Any, listener: socket.socket, patience: float, ready: Callable[[], None], stop: Flag
    ) -> None:
        """See `AsgiServer.run`."""
        import uvicorn

        class Server(uvicorn.Server):
            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                mcp.shutdown()  # as docs/asgi.md has it
                await super().shutdown(sockets)

        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="on", timeout_graceful_shutdown=patience
        )
        server = Server(config)
        serving = asyncio.ensure_future(server.serve(sockets=[listener]))
        while not server.started:
            await asyncio.sleep(0.001)
        ready()
        await stop.wait()
        server.should_exit = True
        await serving


class Hypercorn(AsgiServer):
    """Under hypercorn."""

    name = "asgi, hypercorn"
    marks = (pytest.mark.thorough,)
    needs = ("mcp_sansio_asgi", "hypercorn")

    async def run(
        self, app: Any, mcp: Any, listener: socket.socket, patience: float, ready: Callable[[], None], stop: Flag
    ) -> None:
        """See `AsgiServer.run`."""
        from hypercorn.asyncio import serve

        await serve(app, hypercorn_config(listener, patience), shutdown_trigger=shutdown_trigger(mcp, ready, stop))


class HypercornOnTrio(Hypercorn):
    """Under hypercorn, on trio."""

    name = "asgi, hypercorn on trio"
    marks = (pytest.mark.thorough,)
    needs = ("mcp_sansio_asgi", "hypercorn", "trio")
    on_trio = True

    async def run(
        self, app: Any, mcp: Any, listener: socket.socket, patience: float, ready: Callable[[], None], stop: Flag
    ) -> None:
        """See `AsgiServer.run`."""
        from hypercorn.trio import serve

        await serve(app, hypercorn_config(listener, patience), shutdown_trigger=shutdown_trigger(mcp, ready, stop))


def application(registry: Registry, settings: Settings) -> Any:
    """The application that a test wants."""
    from mcp_sansio_asgi import Application

    header, options = settings.user_header, dict(settings.options)
    if header is not None:
        name = header.lower().encode()
        options["principal"] = lambda scope: dict(scope["headers"]).get(name, b"").decode() or None
    return Application(registry, path=settings.path, sse_path="/sse" if settings.pair else None, **options)


def hypercorn_config(listener: socket.socket, patience: float) -> Any:
    """What hypercorn is told."""
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.graceful_timeout = patience
    config.keep_alive_timeout = 0.5  # it is also how long a connection lasts on which there was no HTTP
    config.accesslog = config.errorlog = None
    return config


def shutdown_trigger(mcp: Any, ready: Callable[[], None], stop: Flag) -> Callable[[], Any]:
    """hypercorn waits for this, from when it serves until it is to stop."""

    async def trigger() -> None:
        ready()
        await stop.wait()
        mcp.shutdown()

    return trigger


PLUGS = [Uvicorn(), Hypercorn(), HypercornOnTrio()]

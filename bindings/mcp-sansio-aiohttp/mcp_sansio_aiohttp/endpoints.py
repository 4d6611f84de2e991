"""Where a server is mounted: the routes of Streamable HTTP, and those of the first HTTP transport."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from aiohttp import web

from mcp_sansio import AdapterSet, Config, Hub, Registry, Server, SessionStore, StateCodec

from .driver import Driver, at_once
from .facts import principal_of
from .host import Host, Principal, ServingLoop


class Mounted:
    """What an application has mounted: a server that starts and stops with it."""

    _host: Host

    @property
    def server(self) -> Server:
        """The core's server role, to publish changes with or to drive a transport of one's own."""
        return self._host.server

    async def on_startup(self, app: web.Application | None = None) -> None:
        """For ``app.on_startup``: with a `hub`, keep in touch with the other workers from now on."""
        await self._host.on_startup(app)

    async def on_shutdown(self, app: web.Application | None = None) -> None:
        """For ``app.on_shutdown``: open streams end as their revision wants it, and new requests are refused."""
        await self._host.on_shutdown(app)

    async def close(self, app: web.Application | None = None) -> None:
        """For ``app.on_cleanup``: `on_shutdown`, and calls that go on although their client left are cancelled."""
        await self._host.close(app)

    def _live_with(self, app: web.Application) -> None:
        app.on_startup.append(self.on_startup)
        app.on_shutdown.append(self.on_shutdown)
        app.on_cleanup.append(self.close)


class Endpoint(Mounted):
    """Serves `registry` over Streamable HTTP, on every revision of `adapters` that has it.

    `adapters`, `config`, `store`, `hub` and `states` are those of `mcp_sansio.Server`. `allowed_origins`
    (``https://app.example``) and `allowed_hosts` (``mcp.example``, with a port or without) replace the members of that
    name in `config`.

    `principal` is called with each request and gives the user whom it is from, or ``None``. Sessions, streams, and the
    state of questions belong to that user; to others they do not exist. Unless given, it is what a middleware put on
    the request: ``request[PRINCIPAL] = "user-17"``. It is a string that stays the same from request to request.

    Raises ``ValueError`` where one string is given in place of a collection of them.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        adapters: AdapterSet | None = None,
        config: Config | None = None,
        store: SessionStore | None = None,
        hub: Hub | None = None,
        states: StateCodec | None = None,
        allowed_origins: Collection[str] | None = None,
        allowed_hosts: Collection[str] | None = None,
        principal: Principal = principal_of,
    ) -> None:
        loop = ServingLoop()
        server = Server(
            registry,
            runtime=loop.runtime(),
            adapters=adapters,
            config=Config.of(config, allowed_origins=allowed_origins, allowed_hosts=allowed_hosts),
            store=store,
            hub=hub,
            states=states,
        )
        self._host = Host(server, loop, principal, has_hub=hub is not None)

    def routes(self, path: str = "/mcp") -> list[web.RouteDef]:
        """The routes for `path`, with and without a slash at its end, for ``app.add_routes``.

        An application that takes these alone should also have `on_startup`, `on_shutdown` and `close` among its
        signals, which `setup` sees to: open streams would keep aiohttp from stopping until its timeout.
        """
        return _both_spellings(path, self._serve)

    def setup(self, app: web.Application, path: str = "/mcp") -> None:
        """Serve at `path` of `app`, and start and stop with it."""
        app.add_routes(self.routes(path))
        self._live_with(app)

    def app(self, path: str = "/mcp") -> web.Application:
        """An application that serves at `path`, for ``web.run_app`` or ``add_subapp``."""
        app = web.Application()
        self.setup(app, path)
        return app

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        given = at_once(self._host, request)
        if isinstance(given, web.Response):
            return given
        driver = Driver(self._host, request)
        return await (driver.run(self._host.server.http_transaction) if given is None else driver.begin(given))


class SseEndpoint(Mounted):
    """Serves a registry over the transport that came before Streamable HTTP: a stream, and an address for messages.

    `source` is a `Registry`, with the same options as an `Endpoint` has, or an `Endpoint`, whose server is then shared:
    its limits count for both, and one shutdown ends both. Raises ``TypeError`` for options beside an `Endpoint`, and
    ``ValueError`` where no revision that is served has a handshake, since only those speak this transport.
    """

    def __init__(self, source: Registry | Endpoint, **options: Any) -> None:
        if isinstance(source, Endpoint) and options:
            raise TypeError(f"the Endpoint has its own {', '.join(options)}; give options to the one or the other")
        self._endpoint = source if isinstance(source, Endpoint) else Endpoint(source, **options)
        self._host = self._endpoint._host
        # Refuses here and now what every request would be refused for.
        self._host.server.pair_transaction(message_path="")

    def routes(self, sse_path: str = "/sse", message_path: str = "/messages") -> list[web.RouteDef]:
        """The routes of both addresses; see `Endpoint.routes`. The paths are literal: they take no variables.

        A client is told the second address with the prefix that the first was asked for under.
        """
        for path in (sse_path, message_path):
            if "{" in path:
                raise ValueError(f"the path {path!r} has a variable, which an SseEndpoint cannot tell its clients")
        return [
            route
            for path in (sse_path, message_path)
            for route in _both_spellings(path, partial(self._serve, path.rstrip("/"), message_path))
        ]

    def setup(self, app: web.Application, sse_path: str = "/sse", message_path: str = "/messages") -> None:
        """Serve at both paths of `app`, and start and stop with it."""
        app.add_routes(self.routes(sse_path, message_path))
        self._live_with(app)

    def app(self, sse_path: str = "/sse", message_path: str = "/messages") -> web.Application:
        """An application that serves at both paths, for ``web.run_app`` or ``add_subapp``."""
        app = web.Application()
        self.setup(app, sse_path, message_path)
        return app

    async def _serve(self, path: str, message_path: str, request: web.Request) -> web.StreamResponse:
        prefix = request.path.removesuffix("/").removesuffix(path)
        open_engine = partial(self._host.server.pair_transaction, message_path=prefix + message_path)
        return await Driver(self._host, request).run(open_engine)


def _both_spellings(path: str, handler: Any) -> list[web.RouteDef]:
    # Without a redirect, which clients do not follow with a POST.
    bare = path.rstrip("/")
    return [web.route("*", bare, handler), web.route("*", f"{bare}/", handler)]

"""The application: where it serves what, and what starts and stops with it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from mcp_sansio import AdapterSet, Config, Hub, Registry, Server, SessionStore, StateCodec, Whole
from mcp_sansio.driving import Orphans
from mcp_sansio.hosting import checked_principal, keep_up

from .body import Body
from .driver import Driver, send_at_once
from .facts import Principal, Receive, Scope, Send, is_on_loopback, path_below, principal_of, target_of
from .loops import Loops

logger = logging.getLogger("mcp_sansio_asgi")


Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


class Application:
    """Serves `registry` over HTTP, as an ASGI application.

    `adapters`, `config`, `store`, `hub` and `states` are those of `mcp_sansio.Server`. `allowed_origins`
    (``https://app.example``) and `allowed_hosts` (``mcp.example``, with a port or without) replace the members of that
    name in `config`.

    `path` is where Streamable HTTP is served, below wherever the application is mounted; unless given, that is at every
    path that is routed here. `sse_path` and `message_path` are the pair of addresses of the first HTTP transport, which
    is served where `sse_path` is given. Other paths are answered with 404.

    `principal` is called with each request's scope and gives the user whom it is from, or ``None``. Sessions, streams,
    and the state of questions belong to that user; to others they do not exist. Unless given, it is what a middleware
    put at ``scope["user"]``: a string, or an object whose ``identity`` is one. It stays the same from request to
    request.

    Raises ``ValueError`` where one string is given in place of a collection of them, and where `sse_path` is given and
    no revision that is served has a handshake, since only those speak that transport.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        path: str | None = None,
        sse_path: str | None = None,
        message_path: str = "/messages",
        adapters: AdapterSet | None = None,
        config: Config | None = None,
        store: SessionStore | None = None,
        hub: Hub | None = None,
        states: StateCodec | None = None,
        allowed_origins: Collection[str] | None = None,
        allowed_hosts: Collection[str] | None = None,
        principal: Principal = principal_of,
    ) -> None:
        self._loops = Loops()
        self._principal = principal
        self._orphans = Orphans()
        self._server = Server(
            registry,
            runtime=self._loops.runtime(),
            adapters=adapters,
            config=Config.of(config, allowed_origins=allowed_origins, allowed_hosts=allowed_hosts),
            store=store,
            hub=hub,
            states=states,
        )
        self._lines = (self._server.follow, self._server.relay) if hub is not None else ()
        #: What serves each path, and any other.
        self._served: dict[str, Serve] = {}
        if sse_path is not None:
            serve_pair = partial(self._serve_pair, message_path)
            self._served |= {sse_path.rstrip("/"): serve_pair, message_path.rstrip("/"): serve_pair}
            # Refuses here and now what every request would be refused for.
            self._server.pair_transaction(message_path="")
        self._elsewhere = self._serve if path is None else None
        if path is not None:
            self._served.setdefault(path.rstrip("/"), self._serve)

    @property
    def server(self) -> Server:
        """The core's server role, to publish changes with or to drive a transport of one's own."""
        return self._server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve what an ASGI server, or a framework, hands on."""
        kind = scope["type"]
        if kind == "http":
            serve = self._served.get(path_below(scope), self._elsewhere)
            if serve is None:
                await _not_found(send)
                return
            if self._lines:
                self.startup()
            await serve(scope, receive, send)
        elif kind == "lifespan":
            await self._live(receive, send)
        elif kind == "websocket":
            await send({"type": "websocket.close"})
        else:
            raise ValueError(f"an mcp_sansio_asgi.Application serves http and lifespan, not {kind}")

    def startup(self) -> None:
        """With a `hub`, keep in touch with the other workers from now on. The first request does so as well."""
        lines, self._lines = self._lines, ()
        loop = self._loops.here()
        for line in lines:
            self._orphans.adopt(loop.start(keep_up(line, loop.sleep, logger)))

    def shutdown(self) -> None:
        """Open streams end as their revision wants it, and new requests are refused. Calls are left to finish.

        For whatever knows first that the server is to stop: most ASGI servers tell their application only once every
        response has ended.
        """
        self._server.shutdown()

    async def close(self) -> None:
        """`shutdown`, and calls that go on although their client left are cancelled."""
        self._server.shutdown()
        await self._server.farewell()
        await self._orphans.close(self._loops.here().event)

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """For a framework's ``lifespan=``, where this is mounted: start and stop with the whole application."""
        self.startup()
        try:
            yield
        finally:
            await self.close()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to the Streamable HTTP endpoint."""
        server, loop, principal = self._server, self._loops.here(), checked_principal(self._principal(scope))
        head = message = coming = pending = None
        if scope["method"] == "POST":
            head = server.admit(target_of(scope), scope["headers"], loopback=is_on_loopback(scope))
        if head is not None:
            try:
                message, coming = loop.begun(receive())
            except ConnectionError:
                return  # the client left
            if message is not None and message["type"] == "http.request" and not message.get("more_body"):
                given = server.respond(head, message.get("body", b""), principal=principal, request=scope)
                if isinstance(given, Whole):  # mostly
                    await send_at_once(send, given)
                    return
                pending = given
        driver = Driver(loop, self._orphans, scope, receive, send, Body(receive, message, coming))
        await (driver.run(server.http_transaction, principal) if pending is None else driver.begin(pending))

    async def _serve_pair(self, message_path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request to either address of the pair. A client is told the second with the prefix of the first."""
        open_engine = partial(self._server.pair_transaction, message_path=scope.get("root_path", "") + message_path)
        driver = Driver(self._loops.here(), self._orphans, scope, receive, send, Body(receive))
        await driver.run(open_engine, checked_principal(self._principal(scope)))

    async def _live(self, receive: Receive, send: Send) -> None:
        """Start and stop as the ASGI server says."""
        await receive()
        async with self.lifespan():
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


async def _not_found(send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": b"404: nothing is served at this path"})

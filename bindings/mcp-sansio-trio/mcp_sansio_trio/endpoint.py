"""A registry, served over HTTP: which addresses there are, who is let in, and how serving ends."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Unpack

import h11
import trio

from mcp_sansio import HttpServerOptions, HttpTransaction, Registry, Server
from mcp_sansio.driving import plain_errors
from mcp_sansio.hosting import HttpRefusal, found_principal, is_loopback, keep_up
from mcp_sansio.wire.headers import Headers
from mcp_sansio.wire.hosts import split_target

from .driver import Driver, Request
from .http_server import HttpConnection, HttpLimits
from .runtime import ServingLoop, runtime_of

logger = logging.getLogger("mcp_sansio_trio")

Principal = Callable[[Request], str | Awaitable[str | None] | None]
Listeners = Sequence[trio.abc.Listener[Any]]
#: Seconds that calls have to finish once a shutdown has begun.
GRACE = 10.0


class EndpointOptions(HttpServerOptions, total=False):
    """What an `Endpoint` may be told, as keywords."""

    principal: Principal | None
    """Gives the user whom a `Request` is from."""
    limits: HttpLimits | None
    """How long clients may take."""
    sse_path: str | None
    """Where the transport that came before Streamable HTTP has its stream. It is not served unless given."""
    message_path: str
    """Where that transport takes messages: ``/messages`` unless given."""


class Endpoint:
    """Serves `registry` over Streamable HTTP at `path`, on every revision that has it; ``None`` leaves that out.

    The `options` are those of `EndpointOptions`. `principal` is called with each `Request` and gives the user whom it
    is from, or ``None``; it may be ``async``, and raises `HttpRefusal` for a request that is to go no further.
    Sessions, streams, and the state of questions belong to that user; to others they do not exist. It is a string that
    stays the same from request to request.

    Raises ``ValueError`` for paths that are none, where one string is given in place of a collection of them, and for
    an `sse_path` where no revision that is served has a handshake, since only those speak that transport.
    """

    def __init__(
        self,
        registry: Registry,
        path: str | None = "/mcp",
        *,
        principal: Principal | None = None,
        limits: HttpLimits | None = None,
        sse_path: str | None = None,
        message_path: str = "/messages",
        **options: Unpack[HttpServerOptions],
    ) -> None:
        #: One in the run of trio that serves, once it does, whose clock and whose way into it outlast it.
        self._loop = ServingLoop()
        runtime = runtime_of(lambda: self._loop.time(), lambda function: self._loop.run_in_loop(function))
        self._server = server = Server.for_http(registry, runtime, **options)
        self._lines = (server.follow, server.relay) if options.get("hub") is not None else ()
        self._principal = principal
        self._limits = limits or HttpLimits()
        self._routes = server.routes(path, sse_path=sse_path, message_path=message_path)
        #: What a shutdown calls: no more connections, and no more requests on those that there are.
        self._closers: set[Callable[[], None]] = set()

    @property
    def server(self) -> Server:
        """The core's server role, to publish changes with or to drive a transport of one's own."""
        return self._server

    async def serve_listeners(
        self,
        listeners: Listeners,
        *,
        grace: float = GRACE,
        task_status: trio.TaskStatus[Listeners] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve whoever connects to `listeners`, which are closed at the end.

        It returns some time after `shutdown` was called: calls have `grace` seconds to finish. Cancelled, it ends at
        once, with its calls and its connections. With a `hub`, it keeps in touch with the other workers meanwhile.
        ``await nursery.start(…)`` gives the `listeners`, as with ``trio.serve_listeners``.
        """
        async with ServingLoop() as loop:
            self._loop = loop
            for line in self._lines:
                loop.start(keep_up(line, trio.sleep, logger))
            with plain_errors(trio.Cancelled):
                async with trio.open_nursery() as connections:
                    with trio.CancelScope() as accepting:
                        self._closers.add(accepting.cancel)
                        await trio.serve_listeners(
                            self.serve_stream, [*listeners], handler_nursery=connections, task_status=task_status
                        )
                    connections.cancel_scope.deadline = trio.current_time() + grace
            await self._server.farewell()

    def shutdown(self) -> None:
        """End the open streams as their revision wants it, and refuse what comes from now on. Calls are left to finish.

        What serves returns when they have. Nothing is served any more after that.
        """
        self._server.shutdown()
        for close in self._closers:
            close()

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Serve the client at the other end of `stream`, and close that.

        It returns when the connection has ended, and with it, or after it, the calls that came in on it. Whatever the
        client does, and whatever becomes of a handler, nothing is raised.
        """
        connection = HttpConnection(stream, self._limits, self._server.config.max_headers)
        if self._server.closing:
            connection.retire()
        async with ServingLoop() as loop:
            self._loop = loop
            self._closers.add(connection.retire)
            try:
                await self._converse(connection, stream, loop)
            except trio.BrokenResourceError:
                pass
            finally:
                self._closers.discard(connection.retire)
                await connection.close()
            await loop.orphans.ended(trio.Event)

    async def _converse(self, connection: HttpConnection, stream: trio.abc.Stream, loop: ServingLoop) -> None:
        """Answer the requests of one connection, in order."""
        socket = getattr(getattr(stream, "transport_stream", stream), "socket", None)
        loopback, is_over = socket is not None and is_loopback(socket.getsockname()), False
        try:
            while not is_over and (head := await connection.next_request()) is not None:
                request = _request(head, stream)
                await Driver(connection, loop, await self._engine_for(request, loopback)).run(request)
                is_over = not connection.renew()
        except trio.BrokenResourceError:
            raise
        except HttpRefusal as refusal:
            await connection.refuse(refusal)
        except h11.RemoteProtocolError as error:
            await connection.refuse(HttpRefusal(error.error_status_hint))
        except Exception:
            logger.exception("a request could not be served")
            await connection.refuse(HttpRefusal(500))

    async def _engine_for(self, request: Request, loopback: bool) -> Callable[..., HttpTransaction]:
        """What makes the engine of `request`."""
        open_engine = self._routes.get(split_target(request.target)[0].rstrip("/"))
        if open_engine is None:
            raise HttpRefusal(404)
        principal = None
        if self._principal is not None and request.method != "OPTIONS":  # a browser's preflight brings no credentials
            principal = await found_principal(self._principal(request))
        return partial(open_engine, principal=principal, loopback=loopback, request=request)


async def serve_http(
    served: Registry | Endpoint,
    host: str | None,
    port: int,
    path: str | None = "/mcp",
    *,
    ssl_context: ssl.SSLContext | None = None,
    grace: float = GRACE,
    task_status: trio.TaskStatus[list[Any]] = trio.TASK_STATUS_IGNORED,
    **options: Unpack[EndpointOptions],
) -> None:
    """Serve a registry at `path`, with the `options` of an `Endpoint`, or an `Endpoint`, which has its own.

    It listens at `host` (``None`` is every address of the machine) and `port` (0 lets the system pick one);
    `ssl_context` makes it HTTPS. For `grace` see `Endpoint.serve_listeners`.
    ``await nursery.start(serve_http, …)`` gives the addresses that it listens at, as ``socket.getsockname()`` has them:
    one for each address that `host` has.

    Raises ``OSError`` where it cannot listen there, and what `Endpoint` does.
    """
    endpoint = served if isinstance(served, Endpoint) else Endpoint(served, path, **options)
    sockets = await trio.open_tcp_listeners(port, host=host)
    listeners: Listeners = sockets
    if ssl_context is not None:
        listeners = [trio.SSLListener(each, ssl_context, https_compatible=True) for each in sockets]
    task_status.started([each.socket.getsockname() for each in sockets])
    await endpoint.serve_listeners(listeners, grace=grace)


def _request(head: h11.Request, stream: trio.abc.Stream) -> Request:
    headers = Headers([(name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers])
    return Request(head.method.decode("latin-1"), head.target.decode("latin-1"), headers, stream)

"""mcp_sansio_sync: blocking clients over HTTP and stdio, and a WSGI application under the standard library's server."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, ClassVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from flags import PATIENCE
from mcp_sansio import Registry
from plugs import ChannelClient, HttpClient, HttpServer, Serving, Settings
from worlds import Blocking, Facade

_UNCANCELLED = "A thread cannot be told from outside to stop what it does; a call ends at its own timeout."


class ThreadedServer(ThreadingMixIn, WSGIServer):
    """A thread for each connection, none of which is left at the end."""

    request_queue_size = 1000
    daemon_threads = False
    block_on_close = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone is no error."""


class QuietHandler(WSGIRequestHandler):
    """Writes no log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class SyncServing(Serving):
    """An application in a server that runs in a thread."""

    def __init__(self, app: Any, httpd: ThreadedServer) -> None:
        self.host, self.port = httpd.server_address[:2]  # type: ignore[assignment]
        self.server = app.server
        self._app = app
        self._httpd = httpd
        self._thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), name="serving")
        self._thread.start()

    def stop(self) -> None:
        """See `Serving.stop`."""
        self._app.shutdown()
        self._httpd.shutdown()
        self._httpd.server_close()
        self._thread.join(PATIENCE)


class SyncServer(HttpServer):
    """`Application`."""

    name = "sync"
    needs = ("mcp_sansio_sync",)
    lacks: ClassVar[dict[str, str]] = {
        "cancel": "Under WSGI nobody can interrupt a handler, which has the thread of its request.",
        "waiting": "There is no event loop; one can be lent.",
        "pair": "Its stream would hold a thread for each client.",
        "trickling": "WSGI leaves the reading of a request to the server that it runs under.",
        "http": "HTTP is read by the WSGI server.",
        "shutdown": "It is the WSGI server that stops serving.",
    }

    @contextmanager
    def serve(self, registry: Registry, settings: Settings) -> Iterator[Serving]:
        """See `HttpServer.serve`."""
        from mcp_sansio_sync import Application

        header, options = settings.user_header, dict(settings.options)
        if header is not None:
            key = f"HTTP_{header.upper().replace('-', '_')}"
            options["principal"] = lambda environ: environ.get(key)
        app = Application(registry, path=settings.path, announces_changes=True, **options)
        httpd = ThreadedServer(("127.0.0.1", 0), QuietHandler)
        httpd.set_app(app)
        serving = SyncServing(app, httpd)
        try:
            yield serving
        finally:
            serving.stop()


class SyncClient(HttpClient):
    """`Client`."""

    name = "sync"
    needs = ("mcp_sansio_sync", "urllib3")
    lacks: ClassVar[dict[str, str]] = {
        "cancel": _UNCANCELLED,
        "http": "HTTP is read by Python's http.client, which takes a head that is cut off for a whole one.",
    }

    def world(self) -> Blocking:
        """See `HttpClient.world`."""
        return Blocking()

    def client(self, url: str, adapter: Any = None, **options: Any) -> Any:
        """See `HttpClient.client`."""
        from mcp_sansio_sync import Client

        return Facade.of(Client, url, adapter, **options)


class SyncStdioClient(ChannelClient):
    """`StdioClient`."""

    name = "sync"
    needs = ("mcp_sansio_sync", "mcp_sansio_stdio")
    lacks: ClassVar[dict[str, str]] = {"cancel": _UNCANCELLED}

    def world(self) -> Blocking:
        """See `ChannelClient.world`."""
        return Blocking()

    def client(self, command: str, args: Collection[str] = (), adapter: Any = None, **options: Any) -> Any:
        """See `ChannelClient.client`."""
        from mcp_sansio_sync import StdioClient

        return Facade.of(StdioClient, command, args, adapter, **options)


# `SyncServer` is not among them: a good part of that suite is about clients that leave, of which WSGI tells nobody, and
# about handlers that wait. What an application does is tried in tests/bindings/sync, under wsgiref and gunicorn.
PLUGS = [SyncClient(), SyncStdioClient()]

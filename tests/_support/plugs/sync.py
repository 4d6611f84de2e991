"""mcp_sansio_sync: blocking clients over HTTP and stdio, and its server on standard input and output."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from flags import Flag
from mcp_sansio import Registry, Server
from plugs import ChannelClient, ChannelServer, Ended, HttpClient
from worlds import Blocking, Facade, in_a_thread

_UNCANCELLED = "A thread cannot be told from outside to stop what it does; a call ends at its own timeout."


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


class SyncStdioServer(ChannelServer):
    """`run_stdio` and `serve_stdio`."""

    name = "sync"
    needs = ("mcp_sansio_sync", "mcp_sansio_stdio")
    run_stdio = "mcp_sansio_sync:run_stdio"

    @contextmanager
    def serve(self, served: Registry | Server, source: int, sink: int, options: Mapping[str, Any]) -> Iterator[Ended]:
        """See `ChannelServer.serve`."""
        from mcp_sansio_sync import serve_stdio

        ended = Ended()
        stops: list[Any] = []

        async def serve(ready: Any, stop: Flag) -> None:
            def begun(end: Any) -> None:
                stops.append(end)
                ready(ended)

            try:
                serve_stdio(served, source, sink, ready=begun, **options)
            finally:
                ended.flag.set()

        with in_a_thread(Blocking(), serve):
            try:
                yield ended
            finally:
                for stop in stops:
                    stop()


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


PLUGS = [SyncClient(), SyncStdioServer(), SyncStdioClient()]

"""mcp_sansio_sync: blocking clients over HTTP and stdio."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from plugs import ChannelClient, HttpClient
from worlds import Blocking, Facade

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


PLUGS = [SyncClient(), SyncStdioClient()]

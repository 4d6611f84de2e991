"""mcp_sansio_stdio, as a server and as a client: standard input and output on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flags import Flag
from mcp_sansio import Registry, Server
from plugs import ChannelClient, ChannelServer, Ended
from worlds import Asyncio, in_a_thread


class StdioServer(ChannelServer):
    """`run_stdio` and `serve_stdio`."""

    name = "stdio, asyncio"
    needs = ("mcp_sansio_stdio",)
    run_stdio = "mcp_sansio_stdio:run_stdio"

    @contextmanager
    def serve(self, served: Registry | Server, source: int, sink: int, options: Mapping[str, Any]) -> Iterator[Ended]:
        """See `ChannelServer.serve`."""
        from mcp_sansio_stdio import serve_stdio

        async def serve(ready: Any, stop: Flag) -> None:
            ended = Ended()
            serving = asyncio.ensure_future(serve_stdio(served, source, sink, **options))
            serving.add_done_callback(lambda _: ended.flag.set())
            ready(ended)
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in (serving, stopping):
                task.cancel()
            await asyncio.wait([serving, stopping])
            if not serving.cancelled():
                serving.result()

        with in_a_thread(Asyncio(), serve) as ended:
            yield ended


class AsyncioStdioClient(ChannelClient):
    """`StdioClient`."""

    name = "stdio, asyncio"
    needs = ("mcp_sansio_stdio",)

    def world(self) -> Asyncio:
        """See `ChannelClient.world`."""
        return Asyncio()

    def client(self, command: str, args: Collection[str] = (), adapter: Any = None, **options: Any) -> Any:
        """See `ChannelClient.client`."""
        from mcp_sansio_stdio import StdioClient

        return StdioClient(command, args, adapter, **options)


PLUGS = [StdioServer(), AsyncioStdioClient()]

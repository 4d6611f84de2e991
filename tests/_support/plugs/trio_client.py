"""mcp_sansio_trio's clients, and its server on standard input and output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flags import Flag
from mcp_sansio import Registry, Server
from plugs import ChannelClient, ChannelServer, Ended, HttpClient
from worlds import Trio, in_a_thread


class TrioClient(HttpClient):
    """`Client`."""

    name = "trio"
    needs = ("mcp_sansio_trio", "trio", "h11")

    def world(self) -> Trio:
        """See `HttpClient.world`."""
        return Trio()

    def client(self, url: str, adapter: Any = None, **options: Any) -> Any:
        """See `HttpClient.client`."""
        from mcp_sansio_trio import Client

        return Client(url, adapter, **options)


class TrioStdioServer(ChannelServer):
    """`run_stdio` and `serve_stdio`."""

    name = "stdio, trio"
    needs = ("mcp_sansio_trio", "mcp_sansio_stdio", "trio")
    run_stdio = "mcp_sansio_trio:run_stdio"

    @contextmanager
    def serve(self, served: Registry | Server, source: int, sink: int, options: Mapping[str, Any]) -> Iterator[Ended]:
        """See `ChannelServer.serve`."""
        import trio

        from mcp_sansio_trio import serve_stdio

        async def serve(ready: Callable[[Any], None], stop: Flag) -> None:
            ended = Ended()

            failed: list[Exception] = []

            async def serve_it() -> None:
                try:
                    await serve_stdio(served, source, sink, **options)
                except Exception as error:
                    failed.append(error)  # raised below: the nursery would put it in a group
                finally:
                    ended.flag.set()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve_it)
                ready(ended)
                await stop.wait()
                nursery.cancel_scope.cancel()
            if failed:
                raise failed[0]

        with in_a_thread(Trio(), serve) as ended:
            yield ended


class TrioStdioClient(ChannelClient):
    """`StdioClient`."""

    name = "stdio, trio"
    needs = ("mcp_sansio_trio", "mcp_sansio_stdio", "trio")

    def world(self) -> Trio:
        """See `ChannelClient.world`."""
        return Trio()

    def client(self, command: str, args: Collection[str] = (), adapter: Any = None, **options: Any) -> Any:
        """See `ChannelClient.client`."""
        from mcp_sansio_trio import StdioClient

        return StdioClient(command, args, adapter, **options)


PLUGS = [TrioClient(), TrioStdioServer(), TrioStdioClient()]

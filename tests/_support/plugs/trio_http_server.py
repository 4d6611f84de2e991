"""mcp_sansio_trio, as a server of HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from flags import Flag
from mcp_sansio import Registry
from plugs import HttpServer, Serving, Settings
from worlds import Trio, in_a_thread


class TrioServing(Serving):
    """An endpoint that is served in a run of trio of its own."""

    def __init__(self, address: Any, endpoint: Any, stop: Callable[[], None]) -> None:
        self.host, self.port = address[:2]
        self.server = endpoint.server
        self.stop = stop  # type: ignore[method-assign]


class TrioServer(HttpServer):
    """`serve_http`."""

    name = "trio"
    needs = ("mcp_sansio_trio", "trio", "h11")

    @contextmanager
    def serve(self, registry: Registry, settings: Settings) -> Iterator[Serving]:
        """See `HttpServer.serve`."""
        import trio

        from mcp_sansio_trio import Endpoint, serve_http

        header, options = settings.user_header, dict(settings.options)
        if header is not None:
            options["principal"] = lambda request: request.headers.get(header)
        if settings.pair:
            options["sse_path"] = "/sse"
        endpoint, stopped = Endpoint(registry, settings.path, **options), Flag()

        async def serve(ready: Callable[[Any], None], stop: Flag) -> None:
            def stop_now() -> None:
                stop.set()
                stopped.seen()

            async with trio.open_nursery() as nursery:
                start = partial(serve_http, endpoint, "127.0.0.1", 0, grace=settings.patience)
                [address] = await nursery.start(start)
                ready(TrioServing(address, endpoint, stop_now))
                await stop.wait()
                endpoint.shutdown()
            stopped.set()

        with threads_that_end(), in_a_thread(Trio(), serve) as serving:
            yield serving


@contextmanager
def threads_that_end() -> Iterator[None]:
    """trio keeps idle threads for ten seconds, which is a long time to look for what is left."""
    from trio._core import _thread_cache

    kept, _thread_cache.IDLE_TIMEOUT = _thread_cache.IDLE_TIMEOUT, 0.01
    try:
        yield
    finally:
        _thread_cache.IDLE_TIMEOUT = kept


PLUGS = [TrioServer()]

"""Calls a server over HTTP with urllib3, whichever revision and transport it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Unpack

from urllib3 import HTTPConnectionPool, PoolManager
from urllib3.exceptions import NewConnectionError

from mcp_sansio import Adapter, AdapterSet, ClientOptions, HttpClientApi, HttpRequest
from mcp_sansio.stepping import run_outside

from ._calling import BlockingClient, KeptApi, check_callbacks
from ._connections import Exchange
from ._keeper import Keeper

#: Connections that are kept for the next request. There may be more of them at once, of which urllib3 warns.
_KEPT = 256


class Client(BlockingClient):
    """Calls the server at `url`, and blocks whoever calls. Nothing is sent before the first call.

    `adapter` is the revision to speak, or an `AdapterSet` of those that may be; without it the client finds out what
    the server speaks. `options` are those of `ClientOptions`; callbacks are plain functions, and are called in threads
    of the client's own.

    `headers` go with every request. A function is called for each of them, so that a token may change. With `pools` of
    your own (a ``ProxyManager``, say), its proxies, certificates and limits apply, and closing them is yours; a limit
    on their connections also counts those on which the server is listened to.

    Raises ``ValueError`` for what is no http or https URL, and for what cannot be a header; ``TypeError`` for a
    callback that is ``async``.
    """

    def __init__(
        self,
        url: str,
        adapter: Adapter | AdapterSet | None = None,
        *,
        headers: Mapping[str, str] | Callable[[], Mapping[str, str]] | None = None,
        pools: PoolManager | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        check_callbacks({"headers": headers, **options})
        keeper = Keeper()
        api = _HttpApi(keeper, pools or PoolManager(maxsize=_KEPT), url, adapter, headers, options)
        self._used = api.used if pools is None else set()
        super().__init__(keeper, api)

    def close(self) -> None:
        """End everything in flight, with `ConnectionLost`, and the session, where the server has one."""
        super().close()
        while self._used:
            self._used.pop().close()


class _HttpApi(KeptApi, HttpClientApi):
    """The coroutines, run by `keeper`, with `pools` for their requests."""

    def __init__(self, keeper: Keeper, pools: Any, url: str, adapter: Any, headers: Any, options: Any) -> None:
        lent: Any = {"runtime": keeper.runtime, "call_at": keeper.call_at, "start": keeper.start}
        super().__init__(url, adapter, headers, options, **lent)
        self._keeper = keeper
        self._pools = pools
        self.used: set[HTTPConnectionPool] = set()

    async def _exchange(self, request: HttpRequest) -> None:
        exchange, engine = Exchange(self._pools, self.used), self._engine
        try:
            response = await run_outside(partial(exchange.open, request))
            engine.receive_response(request.exchange, response.status, response.headers.items())
            self._pump()
            while not response.closed:
                engine.receive_data(request.exchange, await run_outside(exchange.read))
                self._pump()
            engine.receive_end(request.exchange)
        except NewConnectionError as error:
            self._cannot_connect(request, error.__context__ or error)  # what urllib3 has wrapped
        except BaseException:
            exchange.cut()
            self._keeper.beside(exchange.close)
            raise

    async def close(self) -> None:
        self._begin_to_close(None)
        try:
            while running := tuple(self._tasks.running.values()):
                await running[0].ended.wait()
        finally:
            self._tasks.cancel_all()
            self._alarm.stop()

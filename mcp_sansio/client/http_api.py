"""What every asynchronous client of HTTP does alike, whatever its HTTP library and event loop."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.driving import Alarm, Handle, Place, Task, Tasks
from mcp_sansio.errors import HeadersFailed
from mcp_sansio.runtime import Runtime

from .api import ClientApi
from .callbacks import Work
from .calls import OutgoingCall
from .http import HttpClientSession
from .http_errors import shortened
from .http_requests import HttpRequest
from .options import ClientOptions, callbacks_of, engine_options_of

GivenHeaders = Mapping[str, str] | Callable[[], "Mapping[str, str] | Awaitable[Mapping[str, str]]"]
"""Headers of the caller's, or what gives them anew for each request."""


class HttpClientApi(ClientApi):
    """Calls the server at `url`. A binding subclasses it and supplies `_exchange` and `close`.

    `runtime`, `call_at` (see `Alarm`) and `start` (see `Tasks`) are lent by the event loop. So is ``here()``, where it
    can be had: the first request of a call is then sent and read by its caller, which spares a task and a turn of the
    loop.
    """

    _engine: HttpClientSession

    def __init__(
        self,
        url: str,
        adapters: Adapter | AdapterSet | None,
        headers: GivenHeaders | None,
        options: ClientOptions,
        *,
        runtime: Runtime,
        call_at: Callable[[float, Callable[[], None]], Handle],
        start: Callable[[Awaitable[None]], Task],
        here: Callable[[], Place] | None = None,
    ) -> None:
        given: Mapping[str, str] = {} if headers is None or callable(headers) else headers
        engine_options = engine_options_of(options)
        engine = HttpClientSession(url, headers=given, runtime=runtime, adapters=adapters, **engine_options)
        self._new_headers = headers if callable(headers) else None
        #: Those that `start` has made, and what a binding has put beside them.
        self._tasks: Tasks[Hashable, Any] = Tasks(start)
        self._alarm = Alarm(call_at, self._pass_time)
        self._here = here
        super().__init__(engine, **callbacks_of(options))

    # What a binding supplies

    async def _exchange(self, request: HttpRequest) -> None:
        """Send `request`, and hand all about its response to the engine, calling `_pump` before each wait.

        What is raised is the failure of the request; where there was no connection to send it on, give the error to
        `_cannot_connect` instead. A cancellation gives the request up, and its connection is closed.
        """
        raise NotImplementedError

    def _cannot_connect(self, request: HttpRequest, error: BaseException) -> None:
        """Nothing of `request` was sent, since `error` kept it from having a connection. For `_exchange` to call."""
        self._failed(request, error, connected=False)

    #: What went wrong with a request, in words. Some libraries have those in an exception's cause: see `words_of`.
    _words_of: Callable[[BaseException], str] = staticmethod(str)

    # What is supplied to the driver

    def _flush(self) -> None:
        for part in self._engine.data_to_send():
            if not isinstance(part, HttpRequest):
                self._tasks.cancel(part.exchange)
            else:
                self._tasks.start(part.exchange, self._work_on(part))
        self._alarm.set(self._engine.next_deadline())

    def _begin(self, call: OutgoingCall) -> Awaitable[None] | None:
        own = None if self._here is None else self._engine.request_to_send(call)
        self._pump()
        if own is None or self._here is None:
            return None
        place = self._tasks.running[own.exchange] = self._here()
        return place.run(self._work_on(own))

    def _spawn(self, work: Work) -> Callable[[], None]:
        return self._tasks.spawn(work())

    # What the binding calls as it closes

    def _begin_to_close(self, mine: object) -> None:
        """Give up all that is in flight, but the task that closes. What is to be waited for now tells the server."""
        if not self._engine.closed:
            # It may be an `on_ask`, whose question is withdrawn by that.
            self._tasks.spared = mine
            self._engine.close()
            self._pump()
            for key, task in tuple(self._tasks.running.items()):
                if task is not mine and key not in self._engine.exchanges:
                    task.cancel()

    # Inside

    async def _work_on(self, request: HttpRequest) -> None:
        try:
            if self._new_headers is not None:
                request = await self._with_headers_of(self._new_headers, request)
            await self._exchange(request)
        except Exception as error:
            # Whatever it is, somebody waits for a response that will not come now.
            self._failed(request, error)
        finally:
            self._tasks.running.pop(request.exchange, None)
        self._pump()

    async def _with_headers_of(self, function: Callable[[], Any], request: HttpRequest) -> HttpRequest:
        try:
            given = self._call_back(function)
            return request.with_headers(await given if inspect.isawaitable(given) else given)
        except Exception as error:
            raise HeadersFailed(f"the function that gives the headers failed: {shortened(repr(error))}") from error

    def _failed(self, request: HttpRequest, error: BaseException, *, connected: bool = True) -> None:
        reason = shortened(self._words_of(error)) or type(error).__name__
        self._engine.receive_failure(request.exchange, reason, error, connected=connected)

    def _pass_time(self) -> None:
        self._engine.handle_timeout(self._engine.runtime.now())
        self._pump()

"""What every asynchronous client at the end of a stream of bytes does alike, whatever its event loop and its stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Self, TypeVar

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.driving import Task, Tasks
from mcp_sansio.errors import LocalProtocolError
from mcp_sansio.runtime import Runtime
from mcp_sansio.stream_driver import StreamDriver

from .api import ClientApi
from .callbacks import Work
from .connection import ClientConnection
from .options import ClientOptions, callbacks_of, engine_options_of

T = TypeVar("T", bound=Task)

#: Seconds for what a server has said up to its end to be taken in. Whoever still holds its output may write for ever.
_AFTERMATH = 2.0


class StreamClientApi(ClientApi, Generic[T]):
    """Calls a server at the end of a stream. A binding subclasses it and supplies `_connect`, `_hang_up` and `_let_go`.

    `runtime` and `start` (see `Tasks`) are lent by the event loop. Used as a context manager, or by `open` and `close`.
    """

    _engine: ClientConnection
    _driver: StreamDriver | None = None
    #: How many seconds the server may take, as the client is closed, to read what was sent to it before.
    _grace = 2.0

    def __init__(
        self,
        adapters: Adapter | AdapterSet | None,
        options: ClientOptions,
        *,
        runtime: Runtime,
        start: Callable[[Awaitable[None]], T],
    ) -> None:
        engine = ClientConnection(runtime=runtime, adapters=adapters, **engine_options_of(options))
        self._tasks: Tasks[object, T] = Tasks(start)
        super().__init__(engine, **callbacks_of(options))

    async def open(self) -> Self:
        """Connect, which a client does once. Raises `ConnectionLost` where that is not possible."""
        if self._driver is not None:
            raise LocalProtocolError("a client is opened once; make another")
        driver = self._driver = self._connect()
        driver.holds_back = False
        self._gone = self._engine.runtime.event()
        self._spawn(partial(self._live, driver))
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def close(self) -> None:
        """End everything in flight, with `ConnectionLost`, and the connection. That goes on where this is cancelled."""
        self._engine.close()
        if self._driver is not None:
            self._pump()
            await self._gone.wait()

    # What a binding supplies

    def _connect(self) -> StreamDriver:
        """Have the streams, and what drives the engine between them. Raises `ConnectionLost`."""
        raise NotImplementedError

    async def _hang_up(self) -> str:
        """End what is at the other end, within a bounded time, and say in words what has become of it.

        Nothing is written any more, and the rest is still read. A cancellation ends it at once.
        """
        raise NotImplementedError

    def _let_go(self) -> None:
        """Close what is left of the streams."""
        raise NotImplementedError

    # What is supplied to the driver

    def _flush(self) -> None:
        if self._driver is not None:
            if self._engine.closed:
                self._driver.at_end.set()  # for what the server did, too
            self._driver.wake()
        elif not self._engine.closed:
            raise LocalProtocolError("the client is not open: use it as `async with`, or await `open`")

    def _spawn(self, work: Work) -> Callable[[], None]:
        return self._tasks.spawn(work())

    # Inside

    async def _live(self, driver: StreamDriver) -> None:
        """Be there until the server, or the caller, has had enough; then see to it that nothing of it is left."""
        reason = "the client was closed"
        try:
            await driver.at_end.wait()
            await driver.sent(self._grace)
        finally:
            try:
                driver.sink.close()
                reason = await self._hang_up()
                await driver.taken_in(_AFTERMATH)
            finally:
                driver.finish(partial(self._engine.receive_eof, reason))
                driver.stop()
                self._let_go()
                self._gone.set()

"""A driver of a channel's client on asyncio, in memory, see docs/write-a-transport.md; each subclass breaks a rule."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import drivers
from mcp_sansio import Adapter, ClientApi, ClientConnection, ClientOptions
from mcp_sansio.client.options import callbacks_of, engine_options_of

Work = Callable[[], Awaitable[None]]


class QueueClient(ClientApi):
    """A client whose server is at the other end of two queues. ``b""`` is the end of either."""

    def __init__(self, adapter: Adapter, options: ClientOptions) -> None:
        self.incoming: asyncio.Queue[bytes] = asyncio.Queue()
        self.outgoing: asyncio.Queue[bytes] = asyncio.Queue()
        self.timer: asyncio.TimerHandle | None = None
        self.tasks: set[asyncio.Future[None]] = set()
        engine = ClientConnection(runtime=drivers.runtime(), adapters=adapter, **engine_options_of(options))
        super().__init__(engine, **callbacks_of(options))
        self._spawn(self.read)

    def _flush(self) -> None:
        for message in self._engine.data_to_send():
            self.outgoing.put_nowait(message)
        self.set_timer()

    def set_timer(self) -> None:
        """Have one timer, for the next deadline."""
        if self.timer is not None:
            self.timer.cancel()
        deadline = self._engine.next_deadline()
        if deadline is not None:
            delay = deadline - self._engine.runtime.now()
            self.timer = asyncio.get_running_loop().call_later(delay, self.time_out)

    def time_out(self) -> None:
        """The deadline has come."""
        self._engine.handle_timeout(self._engine.runtime.now())
        self._pump()

    def _spawn(self, work: Work) -> Callable[[], None]:
        task = asyncio.ensure_future(work())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return lambda: self.cancel(task)

    def cancel(self, task: asyncio.Future[None]) -> None:
        """End a task."""
        task.cancel()

    async def read(self) -> None:
        """Hand in what comes."""
        while message := await self.incoming.get():
            self.receive(message)
        self.end()

    def receive(self, message: bytes) -> None:
        """A message has come."""
        self.engine.receive_message(message)
        self._pump()

    def end(self) -> None:
        """The channel has ended."""
        self.engine.receive_eof("the other end was closed")
        self._pump()

    @property
    def engine(self) -> ClientConnection:
        """The engine."""
        assert isinstance(self._engine, ClientConnection)
        return self._engine

    async def close(self) -> None:
        """See `ClientApi.close`."""
        self._engine.close()
        self._pump()
        self.outgoing.put_nowait(b"")
        mine = asyncio.current_task()
        others = [task for task in self.tasks if task is not mine]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self.timer is not None:
            self.timer.cancel()


class QueueServer:
    """See `mcp_sansio.testing.ChannelServer`."""

    def __init__(self, client: QueueClient) -> None:
        self.client = client

    async def receive(self, seconds: float) -> bytes | None:
        """The next message."""
        try:
            return await asyncio.wait_for(self.client.outgoing.get(), seconds)
        except TimeoutError:
            return None

    def send(self, message: bytes) -> None:
        """Send a message."""
        self.client.incoming.put_nowait(message)

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """End the channel."""
        self.client.incoming.put_nowait(b"")


def client_of(
    kind: type[QueueClient] = QueueClient,
) -> Callable[[Adapter, ClientOptions], AbstractAsyncContextManager[QueueServer]]:
    """What opens a channel to a client of that kind."""

    @asynccontextmanager
    async def open_client(adapter: Adapter, options: ClientOptions) -> AsyncIterator[QueueServer]:
        client = kind(adapter, options)
        try:
            yield QueueServer(client)
        finally:
            await client.close()

    return open_client

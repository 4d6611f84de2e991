"""A client that starts its server as a process."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Self, Unpack

from mcp_sansio import Adapter, AdapterSet, ClientApi, ClientConnection, ClientOptions, LocalProtocolError, Runtime
from mcp_sansio.child_process import LastWords
from mcp_sansio.client.options import callbacks_of, engine_options_of
from mcp_sansio.driving import Tasks

from ._channel import Channel
from ._process import Child, start


class StdioClient(ClientApi):
    """Calls a server that it starts as a process: `command` with `args`, over standard input and output.

    `command` is found on the PATH of the server's environment. That is what programs need of this process's own (PATH,
    HOME, LANG and the like, and nothing that may be a secret) and all of `env`. `cwd` is the server's working
    directory.

    What the server writes to its error output is read all the time. Its end is kept, as `last_words`, and goes into the
    error of the calls in flight when the server dies. `on_stderr` gets the text as it comes:
    ``on_stderr=sys.stderr.write`` lets it through.

    `options` are those of `ClientOptions`. Use it as an asynchronous context manager, or `open` and `close` it; any
    task may do either. Closing ends the server's input, waits `grace` seconds for its exit, terminates it, waits as
    long again, and kills what is left: the process and all that it started.

    Source: basic/transports, "stdio"; basic/lifecycle, "Shutdown".
    """

    _engine: ClientConnection
    _channel: Channel | None = None

    def __init__(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        adapter: Adapter | AdapterSet | None = None,
        on_stderr: Callable[[str], object] | None = None,
        grace: float = 2.0,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._tasks: Tasks[object, asyncio.Future[None]] = Tasks(asyncio.ensure_future)
        runtime = Runtime(now=_now, token_bytes=secrets.token_bytes, event=asyncio.Event)
        engine = ClientConnection(runtime=runtime, adapters=adapter, **engine_options_of(options))
        super().__init__(engine, **callbacks_of(options))
        self._start = partial(start, command, args, env, cwd)
        self._last_words = LastWords(on_stderr)
        self._grace = grace

    @property
    def last_words(self) -> str:
        """The end of what the server has written to its error output, 8 KiB at most."""
        return str(self._last_words)

    async def open(self) -> Self:
        """Start the server. Raises `ConnectionLost` for a command that cannot be started."""
        if self._channel is not None:
            raise LocalProtocolError("a client is opened once; make another")
        child, engine = Child(self._start(), self._last_words), self._engine
        channel = Channel(engine, engine.config.max_message, child.output, child.input, self._pump)
        channel.holds_back = False
        child.gone.add_done_callback(lambda _: channel.at_end.set())
        self._channel, self._life = channel, asyncio.ensure_future(self._live(channel, child))
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def close(self) -> None:
        """End what is in flight with `ConnectionLost`, and the server's process. It goes on where this is cancelled."""
        self._engine.close()
        if self._channel is not None:
            self._pump()
            self._channel.at_end.set()
            await asyncio.shield(self._life)

    async def _live(self, channel: Channel, child: Child) -> None:
        """Be there until the server, or this client, has had enough; then see to it that nothing of it is left."""
        reason = "the client was closed"
        try:
            await channel.at_end.wait()
            await channel.sent()
        finally:
            try:
                channel.sink.close()
                reason = child.last_words.after(f"the server {await child.end(self._grace, channel.silent.wait())}")
                await channel.taken_in()
            finally:
                channel.finish(lambda: self._engine.receive_eof(reason))
                channel.stop()
                child.close()

    # What the core has a binding supply

    def _flush(self) -> None:
        if self._channel is not None:
            self._channel.wake()
        elif not self._engine.closed:
            raise LocalProtocolError("the client is not open: use it as `async with`, or await `open`")

    def _spawn(self, work: Callable[[], Awaitable[None]]) -> Callable[[], None]:
        key = object()
        self._tasks.start(key, work())
        return lambda: self._tasks.cancel(key)


def _now() -> float:
    return asyncio.get_running_loop().time()

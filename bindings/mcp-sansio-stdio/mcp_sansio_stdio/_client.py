"""A client that starts its server as a process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Unpack

from mcp_sansio import Adapter, AdapterSet, ClientOptions, Runtime, StreamClientApi
from mcp_sansio.child_process import LastWords, end, words_of
from mcp_sansio.stream_driver import StreamDriver

from ._loop import Loop, attach
from ._process import Child
from .processes import start


class StdioClient(StreamClientApi["asyncio.Future[None]"]):
    """Calls a server that it starts as a process: `command` with `args`, over standard input and output.

    `command` is found on the PATH of the server's environment. That is what programs need of this process's own (PATH,
    HOME, LANG and the like, and nothing that may be a secret) and all of `env`. `cwd` is the server's working
    directory.

    `adapter` is the revision to speak, or an `AdapterSet` of those that may be; without it the client finds out what
    the server speaks.

    What the server writes to its error output is read all the time. Its end is kept, as `last_words`, and goes into the
    error of the calls in flight when the server dies. `on_stderr` gets the text as it comes:
    ``on_stderr=sys.stderr.write`` lets it through.

    `options` are those of `ClientOptions`. Use it as an asynchronous context manager, or `open` and `close` it; any
    task may do either. Closing ends the server's input, waits `grace` seconds for its exit, terminates it, waits as
    long again, and kills what is left: the process and all that it started.

    Source: basic/transports, "stdio"; basic/lifecycle, "Shutdown".
    """

    def __init__(
        self,
        command: str,
        args: Sequence[str] = (),
        adapter: Adapter | AdapterSet | None = None,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        grace: float = 2.0,
        **options: Unpack[ClientOptions],
    ) -> None:
        runtime = Runtime(now=time.monotonic, token_bytes=os.urandom, event=asyncio.Event)
        super().__init__(adapter, options, runtime=runtime, start=asyncio.ensure_future)
        self._start = partial(start, command, words_of(args), env, cwd)
        self._last_words = LastWords(on_stderr)
        self._grace = grace

    @property
    def last_words(self) -> str:
        """The end of what the server has written to its error output, 8 KiB at most."""
        return str(self._last_words)

    def _connect(self) -> StreamDriver:
        child, engine = Child(self._start(), self._last_words), self._engine
        limit = engine.config.max_message
        driver = StreamDriver(engine, limit, Loop(), take_events=self._pump, event=asyncio.Event)
        attach(driver, child.output, child.input)
        child.gone.add_done_callback(lambda _: driver.at_end.set())
        self._child, self._silent = child, driver.silent
        return driver

    async def _hang_up(self) -> str:
        return self._last_words.after(await end(self._child, self._grace, self._silent.wait))

    def _let_go(self) -> None:
        self._child.close()

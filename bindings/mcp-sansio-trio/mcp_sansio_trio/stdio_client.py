"""A client that starts its server as a process, on trio."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from functools import partial
from subprocess import Popen
from typing import Any

import trio

from mcp_sansio import ChildClientApi, Runtime
from mcp_sansio.child_process import LastWords
from mcp_sansio.stream_driver import StreamDriver
from mcp_sansio_stdio.processes import ChildPipes, start, wait_for

from .descriptors import attach, in_a_thread, open_source
from .loop import Loop, Task
from .scoped import Scoped


class StdioClient(Scoped, ChildClientApi[Task]):
    """Calls a server that it starts as a process: `command` with `args`, over standard input and output.

    `command` is found on the PATH of the server's environment. That is what programs need of this process's own (PATH,
    HOME, LANG and the like, and nothing that may be a secret) and all of `env`. `cwd` is the server's working
    directory.

    `adapter` is the revision to speak, or an `AdapterSet` of those that may be; without it the client finds out what
    the server speaks.

    What the server writes to its error output is read all the time. Its end is kept, as `last_words`, and goes into the
    error of the calls in flight when the server dies. `on_stderr` gets the text as it comes:
    ``on_stderr=sys.stderr.write`` lets it through.

    `options` are those of `ClientOptions`. Use it as ``async with``. Leaving the block, also by a cancellation, ends
    the server's input, waits `grace` seconds for its exit, terminates it, waits as long again, and kills what is left:
    the process and all that it started.

    Source: basic/transports, "stdio"; basic/lifecycle, "Shutdown".
    """

    def _lend(self) -> tuple[Runtime, Callable[..., Task]]:
        self._loop = loop = Loop()
        return Runtime(now=loop.time, token_bytes=os.urandom, event=trio.Event), loop.start

    def _launch(self, *command: Any) -> tuple[StreamDriver, Child]:
        loop = self._loop.opened
        child, driver = Child(start(*command), self._last_words, loop), self._drive(loop)
        attach(driver, loop, child.output, child.input)
        loop.start(child.watch(driver.at_end.set))
        return driver, child

    async def close(self) -> None:
        """See `ClientApi.close`. It takes the time that it needs, also where it is cancelled."""
        with trio.CancelScope(shield=True):
            await super().close()


class Child(ChildPipes):
    """A process of which everything is known that its client needs: what it says on its error output, and its end.

    See `mcp_sansio.child_process.Child`.
    """

    def __init__(self, popen: Popen[bytes], last_words: LastWords, loop: Loop) -> None:
        super().__init__(popen, last_words)
        self._gone, self._silent = trio.Event(), trio.Event()
        self._source = open_source(loop, self.errors, self._hear)

    async def watch(self, when_gone: Callable[[], object]) -> None:
        """Wait for the end of the process, and tell of it."""
        await in_a_thread(partial(wait_for, self._popen))
        self._gone.set()
        when_gone()

    async def has_gone(self, within: float) -> bool:
        """Whether the process has ended, which it has so many seconds for."""
        with trio.move_on_after(within):
            await self._gone.wait()
        return self._gone.is_set()

    async def is_silent(self, within: float, silent: Callable[[], Awaitable[object]]) -> None:
        """Wait for the end of its error output, after `silent`."""
        with trio.move_on_after(within):
            await silent()
            await self._silent.wait()

    async def reaped(self, within: float) -> None:
        """Wait for the status of the process, after which its number is no longer its own."""
        with trio.move_on_after(within):
            await in_a_thread(self._popen.wait)

    def close(self) -> None:
        """See `ChildPipes.close`."""
        self._source.close()
        super().close()

    def _hear(self, data: bytes) -> None:
        """Take everything, all the time: a server that cannot write its errors does not answer either."""
        self.last_words.receive(data)
        if not data:
            self._silent.set()

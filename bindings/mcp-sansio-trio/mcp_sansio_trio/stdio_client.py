"""A client that starts its server as a process, on trio."""

from __future__ import annotations

import os
from collections.abc import Callable

import trio

from mcp_sansio import Runtime
from mcp_sansio_stdio.processes import ProcessClient

from .descriptors import StdioLoop
from .loop import Task
from .scoped import Scoped


class StdioClient(Scoped[StdioLoop], ProcessClient[Task]):
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
        self._loop = loop = StdioLoop()
        return Runtime(now=loop.time, token_bytes=os.urandom, event=trio.Event), loop.start

    def means(self) -> StdioLoop:
        """See `mcp_sansio_stdio.processes.ProcessClient`."""
        return self._loop.opened

    async def close(self) -> None:
        """See `ClientApi.close`. It takes the time that it needs, also where it is cancelled."""
        with trio.CancelScope(shield=True):
            await super().close()

"""A client that starts its server as a process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable

from mcp_sansio import Runtime

from ._loop import Loop
from .processes import ProcessClient


class StdioClient(ProcessClient["asyncio.Future[None]"]):
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

    def _lend(self) -> tuple[Runtime, Callable[..., asyncio.Future[None]]]:
        return Runtime(now=time.monotonic, token_bytes=os.urandom, event=asyncio.Event), asyncio.ensure_future

    def means(self) -> Loop:
        """See `ProcessClient.means`."""
        return Loop()

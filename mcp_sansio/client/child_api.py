"""What every asynchronous client does alike that starts its server as a process, whatever its event loop.

Source: basic/transports, "stdio"; basic/lifecycle, "Shutdown".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar, Unpack

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.child_process import Child, LastWords, end, words_of
from mcp_sansio.driving import Task
from mcp_sansio.runtime import Runtime
from mcp_sansio.stream_driver import Loop, StreamDriver

from .options import ClientOptions
from .stream_api import StreamClientApi

T = TypeVar("T", bound=Task)


class PathLike(Protocol):
    """A path that is no string: ``pathlib.Path``."""

    def __fspath__(self) -> str:
        """The path."""


class ChildClientApi(StreamClientApi[T]):
    """Calls a server that it starts as a process: `command` with `args`, over standard input and output.

    `command` is found on the PATH of the server's environment. That is what programs need of this process's own (PATH,
    HOME, LANG and the like, and nothing that may be a secret) and all of `env`. `cwd` is the server's working
    directory.

    `adapter` is the revision to speak, or an `AdapterSet` of those that may be; without it the client finds out what
    the server speaks. `options` are those of `ClientOptions`.

    What the server writes to its error output is read all the time. Its end is kept, as `last_words`, and goes into the
    error of the calls in flight when the server dies. `on_stderr` gets the text as it comes:
    ``on_stderr=sys.stderr.write`` lets it through.

    Closing ends the server's input, waits `grace` seconds for its exit, terminates it, waits as long again, and kills
    what is left: the process and all that it started.

    A binding subclasses it and supplies `_lend` and `_launch`.
    """

    def __init__(
        self,
        command: str,
        args: Sequence[str] = (),
        adapter: Adapter | AdapterSet | None = None,
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | PathLike | None = None,
        on_stderr: Callable[[str], object] | None = None,
        grace: float = 2.0,
        **options: Unpack[ClientOptions],
    ) -> None:
        runtime, start = self._lend()
        super().__init__(adapter, options, runtime=runtime, start=start)
        self._command = command, words_of(args), env, cwd
        self._last_words = LastWords(on_stderr)
        self._grace = grace

    @property
    def last_words(self) -> str:
        """The end of what the server has written to its error output, 8 KiB at most."""
        return str(self._last_words)

    # What a binding supplies

    def _lend(self) -> tuple[Runtime, Callable[[Awaitable[None]], T]]:
        """What the event loop lends, and how it starts a task."""
        raise NotImplementedError

    def _launch(
        self, command: str, args: Sequence[str], env: Mapping[str, str] | None, cwd: str | PathLike | None
    ) -> tuple[StreamDriver, Child]:
        """Start the process, listen to what it says on its error output, and connect `_drive` with the other two.

        Its end is the driver's, too. Raises `ConnectionLost`.
        """
        raise NotImplementedError

    # For the binding

    def _drive(self, loop: Loop) -> StreamDriver:
        """What drives the engine on `loop`, for `_launch` to give it a source and a sink."""
        engine = self._engine
        limit, event = engine.config.max_message, engine.runtime.event
        return StreamDriver(engine, limit, loop, take_events=self._pump, event=event)

    # What is supplied to the stream's client

    def _connect(self) -> StreamDriver:
        driver, self._child = self._launch(*self._command)
        self._silent = driver.silent
        return driver

    async def _hang_up(self) -> str:
        return self._last_words.after(await end(self._child, self._grace, self._silent.wait))

    def _let_go(self) -> None:
        self._child.close()

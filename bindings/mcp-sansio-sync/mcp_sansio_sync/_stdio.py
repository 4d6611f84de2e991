"""A blocking client that starts its server as a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, Unpack

from mcp_sansio import Adapter, AdapterSet, ClientOptions, LocalProtocolError
from mcp_sansio.stepping import Event, Task, run_outside
from mcp_sansio.stream_driver import Sink, Source, TaskSink, TaskSource
from mcp_sansio_stdio.descriptors import PIECE, write_piece
from mcp_sansio_stdio.processes import ProcessClient

from ._calling import BlockingClient, KeptApi, check_callbacks
from ._keeper import Keeper


class StdioClient(BlockingClient):
    """Calls a server that it starts as a process, `command` with `args`, and blocks whoever calls.

    `command` is found on the PATH of the server's environment. That is what programs need of this process's own (PATH,
    HOME, LANG and the like, and nothing that may be a secret) and all of `env`. `cwd` is the server's working
    directory.

    `adapter` is the revision to speak, or an `AdapterSet` of those that may be; without it the client finds out what
    the server speaks.

    What the server writes to its error output is read all the time. Its end is kept, as `last_words`, and goes into the
    error of the calls in flight when the server dies. `on_stderr` gets the text as it comes:
    ``on_stderr=sys.stderr.write`` lets it through.

    `options` are those of `ClientOptions`; callbacks are plain functions, and are called in threads of the client's
    own. Use it as a context manager, or `open` and `close` it; any thread may do either. Closing ends the server's
    input, waits `grace` seconds for its exit, terminates it, waits as long again, and kills what is left: the process
    and all that it started.

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
        check_callbacks({"on_stderr": on_stderr, **options})
        keeper = StdioKeeper()
        self._stdio = _StdioApi(keeper, on_stderr, command, args, adapter, env=env, cwd=cwd, grace=grace, **options)
        super().__init__(keeper, self._stdio)

    @property
    def last_words(self) -> str:
        """The end of what the server has written to its error output, 8 KiB at most."""
        return self._stdio.last_words

    def open(self) -> Self:
        """Start the server, which a client does once. Raises `ConnectionLost` where that is not possible."""
        try:
            self._run(self._stdio.open())
        except LocalProtocolError:
            raise
        except BaseException:
            self.close()
            raise
        return self

    def __enter__(self) -> Self:
        return self.open()


class StdioKeeper(Keeper):
    """A keeper that has descriptors read and written, and processes waited for: `mcp_sansio_stdio.means.Means`."""

    in_a_thread = staticmethod(run_outside)

    def open_source(self, descriptor: int, receive: Callable[[bytes], None], /) -> Source:
        """See `Means.open_source`."""
        read = partial(run_outside, partial(os.read, descriptor, PIECE))
        return TaskSource(read, receive, start=self.start, event=Event)

    def open_sink(self, descriptor: int, written: Callable[[], None], broken: Callable[[], None], /) -> Sink:
        """See `Means.open_sink`."""
        return TaskSink(
            lambda data: run_outside(partial(write_piece, descriptor, data)), written, broken, start=self.start
        )


class _StdioApi(KeptApi, ProcessClient[Task]):
    """The coroutines, run by `keeper`."""

    def __init__(
        self, keeper: StdioKeeper, on_stderr: Callable[[str], object] | None, *command: Any, **options: Any
    ) -> None:
        self._keeper = keeper
        # In their order, and apart from the keeper, like all callbacks.
        heard = None if on_stderr is None else lambda text: self._callbacks.run(on_stderr, text)
        super().__init__(*command, on_stderr=heard, **options)

    def _lend(self) -> Any:
        return self._keeper.runtime, self._keeper.start

    def means(self) -> StdioKeeper:
        """See `ProcessClient.means`."""
        return self._keeper

"""A server that is a child process, whatever the event loop: how it is started and signalled, and what it says."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from subprocess import PIPE, Popen
from typing import Any, TypeVar

from mcp_sansio import ChildClientApi, ConnectionLost
from mcp_sansio.child_process import LastWords, child_environment
from mcp_sansio.driving import Task
from mcp_sansio.stream_driver import StreamDriver

from .means import Means, attach

__all__ = ["Child", "ProcessClient", "start", "wait_for"]

T = TypeVar("T", bound=Task)


#: What Windows would open for a console program.
_NO_WINDOW = 0x08000000 if sys.platform == "win32" else 0


def start(
    command: str, args: Sequence[str], env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None
) -> Popen[bytes]:
    """The process of `command`, in a session of its own. Raises `ConnectionLost` for what cannot be started."""
    import shutil  # only a client needs it

    environment = child_environment(os.environ, env)
    # Popen would look on the PATH of the parent, and on Windows for nothing but .exe.
    found = command if os.path.dirname(command) else shutil.which(command, path=environment.get("PATH"))
    try:
        if found is None:
            raise FileNotFoundError("there is no such command on the PATH")
        argv = [os.path.abspath(found) if found != command else command, *args]
        return Popen(
            argv, 0, None, PIPE, PIPE, PIPE, cwd=cwd, env=environment, start_new_session=True, creationflags=_NO_WINDOW
        )
    except (OSError, ValueError) as error:
        raise ConnectionLost(f"cannot start {command!r}: {error}") from error


class ProcessClient(ChildClientApi[T]):
    """A client of a server that this process starts, with the `means` of any event loop."""

    def means(self) -> Means:
        """What the event loop lends."""
        raise NotImplementedError

    def _launch(self, *command: Any) -> tuple[StreamDriver, Child]:
        loop = self.means()
        driver = self._drive(loop)
        child = Child(start(*command), self._last_words, loop, driver.at_end.set)
        attach(driver, loop, child.output, child.input)
        return driver, child


class Child:
    """The process `popen` and its pipes: what it says on its error output, and its end, of which `when_gone` is told.

    `input` and `output` are the descriptors of two of them. See `mcp_sansio.child_process.Child`.
    """

    def __init__(
        self, popen: Popen[bytes], last_words: LastWords, loop: Means, when_gone: Callable[[], object]
    ) -> None:
        self._pipes = [pipe for pipe in (popen.stdin, popen.stdout, popen.stderr) if pipe is not None]
        self.input, self.output, errors = (pipe.fileno() for pipe in self._pipes)
        self._popen = popen
        self._last_words = last_words
        self._loop = loop
        self._when_gone = when_gone
        self._has_gone = False
        self._gone, self._silent = loop.event(), loop.event()
        self._errors = loop.open_source(errors, self._hear)
        loop.start(self._watch())

    @property
    def status(self) -> int | str | None:
        """With what it ended, once that is known: its exit status, or the name of a signal."""
        code = self._popen.returncode
        return code if code is None or code >= 0 else signal.Signals(-code).name

    def close_input(self) -> None:
        """Write no more to it."""
        self._pipes[0].close()

    def signal(self, name: str) -> None:
        """Send a signal to the process and all that it started, as far as they did not leave its session."""
        try:
            if sys.platform == "win32":
                self._popen.kill()  # there are no groups to signal, and nothing between asking and killing
            else:
                os.killpg(self._popen.pid, getattr(signal, name))
        except OSError:
            pass  # there is nobody left

    def close(self) -> None:
        """Let go of the pipes, which nothing else may use any more."""
        self._errors.close()
        for pipe in self._pipes:
            pipe.close()

    async def has_gone(self, within: float) -> bool:
        """Whether the process has ended, which it has so many seconds for."""
        await self._loop.within(within, self._gone.wait)
        return self._has_gone

    async def is_silent(self, within: float, silent: Callable[[], Awaitable[object]]) -> None:
        """Wait for the end of its error output, after `silent`. Who holds the pipes has a moment to let go."""

        async def both() -> None:
            await silent()
            await self._silent.wait()

        await self._loop.within(within, both)

    async def reaped(self, within: float) -> None:
        """Wait for the status of the process, after which its number is no longer its own."""
        await self._loop.within(within, lambda: self._loop.in_a_thread(self._popen.wait))

    async def _watch(self) -> None:
        await self._loop.in_a_thread(partial(wait_for, self._popen))
        self._has_gone = True
        self._gone.set()
        self._when_gone()

    def _hear(self, data: bytes) -> None:
        """Take everything, all the time: a server that cannot write its errors does not answer either."""
        self._last_words.receive(data)
        if not data:
            self._silent.set()


def wait_for(popen: Popen[bytes]) -> None:
    """Return once the process has ended. Where the system can wait without that, its number is not given away."""
    try:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
        else:
            popen.wait()
    except ChildProcessError:
        pass  # somebody else has waited for it

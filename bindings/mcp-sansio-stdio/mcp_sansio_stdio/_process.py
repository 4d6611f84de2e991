"""A server that is a child process: how it is started, listened to, and ended with everything that it started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from subprocess import PIPE, Popen

from mcp_sansio import ConnectionLost
from mcp_sansio.child_process import LastWords, child_environment

from ._streams import open_source
from ._threads import DaemonThreads

#: Seconds for what a process left behind to let go of its pipes.
_AFTERMATH = 0.5
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


class Child:
    """A process of which everything is known that its client needs: what it says on its error output, and its end.

    `gone` is done once the process has ended.
    """

    def __init__(self, popen: Popen[bytes], last_words: LastWords) -> None:
        self._pipes = [pipe for pipe in (popen.stdin, popen.stdout, popen.stderr) if pipe is not None]
        self.input, self.output, errors = (pipe.fileno() for pipe in self._pipes)
        self.last_words = last_words
        self._popen = popen
        self._silent = asyncio.Event()
        self._errors = open_source(errors, self._hear)
        self._threads = DaemonThreads(1)
        self.gone = asyncio.wrap_future(self._threads.submit(_wait_for, popen))

    async def end(self, grace: float, silent: Callable[[], Awaitable[object]]) -> str:
        """Close the input, wait, terminate, wait, kill: for `grace` seconds each, and for the whole process group.

        `silent` waits until nobody can write to the output any more. Returns what has become of the process, in words.
        Cancelling this coroutine kills the group at once.

        Source: basic/lifecycle, "Shutdown"; basic/transports, "stdio".
        """
        ended_by_itself = False
        try:
            self._pipes[0].close()
            await asyncio.wait([self.gone], timeout=grace)
            ended_by_itself = self.gone.done()
            # Also to a group whose first process has ended: what that left behind may hold the pipes, and outlive it.
            self._signal("SIGTERM")
            await asyncio.wait([self.gone], timeout=grace)
            async with asyncio.timeout(_AFTERMATH):
                await silent()
                await self._silent.wait()
        except TimeoutError:
            pass  # who holds the pipes has had a moment to let go
        finally:
            self._signal("SIGKILL")
            # Not before: until now its number is its own and its group's, and no stranger's.
            reaped = asyncio.wrap_future(self._threads.submit(self._popen.wait))
            self._threads.shutdown()
        await asyncio.wait([reaped], timeout=grace)
        status = self._popen.returncode
        if not ended_by_itself or status is None:
            return "did not end by itself"
        return f"exited with status {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"

    def close(self) -> None:
        """Let go of the pipes, which nothing else may use any more."""
        self._errors.close()
        for pipe in self._pipes:
            pipe.close()

    def _hear(self, data: bytes) -> None:
        """Take everything, all the time: a server that cannot write its errors does not answer either."""
        self.last_words.receive(data)
        if not data:
            self._silent.set()

    def _signal(self, name: str) -> None:
        """Send a signal to the process and all that it started, as far as they did not leave its session."""
        try:
            if sys.platform == "win32":
                self._popen.kill()  # there are no groups to signal, and nothing between asking and killing
            else:
                os.killpg(self._popen.pid, getattr(signal, name))
        except OSError:
            pass  # there is nobody left


def _wait_for(popen: Popen[bytes]) -> None:
    """Return once the process has ended. Where the system can wait without that, its number is not given away."""
    try:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
        else:
            popen.wait()
    except ChildProcessError:
        pass  # somebody else has waited for it

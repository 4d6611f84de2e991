"""A server that is a child process, whatever the event loop: how it is started and signalled, and what it says."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from subprocess import PIPE, Popen

from mcp_sansio import ConnectionLost
from mcp_sansio.child_process import LastWords, child_environment

__all__ = ["ChildPipes", "start", "wait_for"]

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


class ChildPipes:
    """The process `popen` and its pipes, of which `input`, `output` and `errors` are the descriptors."""

    def __init__(self, popen: Popen[bytes], last_words: LastWords) -> None:
        self._pipes = [pipe for pipe in (popen.stdin, popen.stdout, popen.stderr) if pipe is not None]
        self.input, self.output, self.errors = (pipe.fileno() for pipe in self._pipes)
        self.last_words = last_words
        self._popen = popen

    @property
    def status(self) -> int | str | None:
        """See `mcp_sansio.child_process.Child`."""
        code = self._popen.returncode
        return code if code is None or code >= 0 else signal.Signals(-code).name

    def close_input(self) -> None:
        """Write no more to it."""
        self._pipes[0].close()

    def close(self) -> None:
        """Let go of the pipes, which nothing else may use any more."""
        for pipe in self._pipes:
            pipe.close()

    def signal(self, name: str) -> None:
        """Send a signal to the process and all that it started, as far as they did not leave its session."""
        try:
            if sys.platform == "win32":
                self._popen.kill()  # there are no groups to signal, and nothing between asking and killing
            else:
                os.killpg(self._popen.pid, getattr(signal, name))
        except OSError:
            pass  # there is nobody left


def wait_for(popen: Popen[bytes]) -> None:
    """Return once the process has ended. Where the system can wait without that, its number is not given away."""
    try:
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOWAIT)
        else:
            popen.wait()
    except ChildProcessError:
        pass  # somebody else has waited for it

"""What a client knows of a server that is its child process, apart from how a process is run.

Source: basic/transports, "stdio": the client launches the server as a subprocess.
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

__all__ = ["Child", "LastWords", "child_environment", "end", "words_of"]

logger = logging.getLogger("mcp_sansio.client")

#: What programs need of their surroundings to find each other, their home, their language and the time; on Windows, to
#: run at all. Whatever else a client has in its environment may be a secret, and is none of a server's business.
_INHERITED = frozenset(
    {
        "HOME", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
        "ALLUSERSPROFILE", "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT",
        "PROCESSOR_ARCHITECTURE", "PROGRAMDATA", "PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME",
        "USERPROFILE", "WINDIR",
    }
)  # fmt: skip
#: Bytes of the error output that are kept.
_KEPT = 8 * 2**10
#: Seconds for what a process left behind to let go of its pipes.
_AFTERMATH = 0.5
#: Characters of it that go into an error's text.
_QUOTED = 2000
_ENDS_WITH = "; its error output ends with:\n"


def child_environment(own: Mapping[str, str], added: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a server: what is harmless and needed of the client's `own`, and all of `added`."""
    return {name: value for name, value in own.items() if name in _INHERITED} | dict(added or {})


def words_of(args: Sequence[str]) -> list[str]:
    """The arguments of a server's command. Raises ``TypeError`` for one string, which is a sequence of letters too."""
    if isinstance(args, str):
        raise TypeError(f"args must be a list of strings, not the string {args!r}")
    return list(args)


class LastWords:
    """The end of what a server writes to its error output: 8 KiB of it, whatever comes and however it is cut.

    `heard` is called with the text as it comes; what is no UTF-8 is replaced. What it raises is logged.
    """

    def __init__(self, heard: Callable[[str], object] | None = None) -> None:
        self._heard = heard
        self._kept = bytearray()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def receive(self, data: bytes) -> None:
        """Take the next bytes, none at all at the end."""
        self._kept += data
        del self._kept[:-_KEPT]
        text = self._decoder.decode(data, final=not data)
        if text and self._heard is not None:
            try:
                self._heard(text)
            except Exception:
                logger.exception("what is called with a server's errors failed")

    def __str__(self) -> str:
        return self._kept.decode("utf-8", "replace")

    def after(self, event: str) -> str:
        """What has happened to the server, in words for people, with the last of what it said."""
        said = str(self).strip()[-_QUOTED:]
        return f"{event}{_ENDS_WITH}{said}" if said else f"{event}; it wrote no errors"


def without_last_words(text: str) -> str:
    """What `LastWords.after` says has happened, for somebody who has read the error output as it came."""
    return text.partition(_ENDS_WITH)[0]


class Child(Protocol):
    """A process that can be ended, and waited for."""

    @property
    def status(self) -> int | str | None:
        """With what it ended, once that is known: its exit status, or the name of a signal."""

    def close_input(self) -> None:
        """Write no more to it."""

    def signal(self, name: str) -> None:
        """Send a signal, "SIGTERM" or "SIGKILL", to the process and all that it started."""

    def close(self) -> None:
        """Let go of its pipes, which nothing else may use any more."""

    async def has_gone(self, within: float) -> bool:
        """Whether it has ended, which it has so many seconds for. Its number is still its own then."""

    async def is_silent(self, within: float, silent: Callable[[], Awaitable[object]]) -> None:
        """Wait until nobody can write to its outputs, for so many seconds. `silent` does that for one of the two."""

    async def reaped(self, within: float) -> None:
        """Wait for its status, for so many seconds. It is as good as killed."""


async def end(child: Child, grace: float, silent: Callable[[], Awaitable[object]]) -> str:
    """Close the input, wait, terminate, wait, kill: for `grace` seconds each, and for the whole process group.

    `silent` waits until nobody can write to the output any more. Returns what has become of the server, in words.
    Cancelling this coroutine kills the group at once.

    Source: basic/lifecycle, "Shutdown"; basic/transports, "stdio".
    """
    ended_by_itself = False
    try:
        child.close_input()
        ended_by_itself = await child.has_gone(grace)
        # Also to a group whose first process has ended: what that left behind may hold the pipes, and outlive it.
        child.signal("SIGTERM")
        await child.has_gone(grace)
        await child.is_silent(_AFTERMATH, silent)
    finally:
        child.signal("SIGKILL")
        # Not before: until now its number is its own and its group's, and no stranger's.
        await child.reaped(grace)
    status = child.status
    if not ended_by_itself or status is None:
        return "the server did not end by itself"
    return f"the server was ended by {status}" if isinstance(status, str) else f"the server exited with status {status}"

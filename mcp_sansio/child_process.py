"""What a client knows of a server that is its child process, apart from how a process is run.

Source: basic/transports, "stdio": the client launches the server as a subprocess.
"""

from __future__ import annotations

import codecs
import logging
from collections.abc import Callable, Mapping, Sequence

__all__ = ["LastWords", "child_environment", "words_of"]

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
#: Characters of it that go into an error's text.
_QUOTED = 2000


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
        return f"{event}; its error output ends with:\n{said}" if said else f"{event}; it wrote no errors"

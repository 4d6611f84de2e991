"""Bytes as they are handed in: a body out of its pieces, of which most have one, and those are not copied."""

from __future__ import annotations

from io import BytesIO
from typing import Any


def octets(data: Any) -> bytes:
    """The bytes that `data` holds, copied where it is none. Raises ``TypeError`` for what holds none, as a text."""
    if type(data) is bytes:
        return data
    try:
        return bytes(memoryview(data))
    except TypeError:
        hint = ": encode it as UTF-8" if isinstance(data, str) else ""
        raise TypeError(f"what comes in is bytes, not {type(data).__name__}{hint}") from None


class Pieces:
    """What has come of a body so far. `size` is in bytes."""

    __slots__ = ("_all", "_first", "size")

    def __init__(self) -> None:
        self.size = 0
        self._first = b""
        #: All of it where there are more. No list: pieces may be small, and then each costs more than it holds.
        self._all: BytesIO | None = None

    def add(self, data: bytes) -> None:
        """A further piece."""
        if not self.size:
            self._first = octets(data)
        else:
            if self._all is None:
                self._all = BytesIO()
                self._all.write(self._first)
                self._first = b""
            self._all.write(octets(data))
        self.size += len(data)

    def whole(self) -> bytes:
        """All of it."""
        return self._first if self._all is None else self._all.getvalue()

    def clear(self) -> None:
        """Let go of it."""
        self.size, self._first, self._all = 0, b"", None

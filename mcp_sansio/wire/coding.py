"""Content encodings of HTTP: what a compressed body holds, a piece at a time, for those whose HTTP library leaves that.

Source: RFC 9110 section 8.4; RFC 1950, 1951 and 1952.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

__all__ = ["ACCEPTED", "ContentDecoder", "ContentFault"]

ACCEPTED = "gzip, deflate"
"""What ``Accept-Encoding`` may say of a `ContentDecoder`."""
#: One piece of what comes out, however little went in.
_PIECE = 64 * 2**10
#: For zlib: a header of gzip or of zlib, and none. Servers are known to mean either by "deflate".
_WITH_HEADER, _RAW = 32 + zlib.MAX_WBITS, -zlib.MAX_WBITS
#: The bytes of zlib's header, which are checked together.
_HEADER = 2
_PLAIN = frozenset({"", "identity"})
_ZIPPED = frozenset({"gzip", "x-gzip", "deflate"})


class ContentFault(Exception):
    """A body is not what its ``Content-Encoding`` says. The text says why."""


class ContentDecoder:
    """Undoes the `encoding` of one body, the value of its ``Content-Encoding``.

    Raises `ContentFault` for one that is not among the `ACCEPTED`.
    """

    def __init__(self, encoding: str) -> None:
        named = encoding.strip().lower()
        if named not in _PLAIN | _ZIPPED:
            raise ContentFault(f"its content is encoded as {named[:100]!r}, which was not asked for")
        #: The first bytes, as long as they may still turn out to be no header of zlib's.
        self._head: bytes | None = b"" if named == "deflate" else None
        self._zipped = zlib.decompressobj(_WITH_HEADER) if named in _ZIPPED else None

    def receive_data(self, data: bytes) -> Iterator[bytes]:
        """What the next bytes hold, in pieces of 64 KiB at most. Raises `ContentFault`."""
        if self._zipped is None:
            yield data
            return
        while data and not self._zipped.eof:
            piece = self._unzipped(data)
            data = self._zipped.unconsumed_tail
            if piece:
                yield piece

    def receive_end(self) -> None:
        """The body is complete. Raises `ContentFault` where its content is not."""
        if self._zipped is not None and not self._zipped.eof:
            raise ContentFault("its compressed content ends too early")

    def _unzipped(self, data: bytes) -> bytes:
        assert self._zipped is not None
        head = None if self._head is None else self._head + data
        self._head = head if head is not None and len(head) < _HEADER else None
        try:
            return self._zipped.decompress(data, _PIECE)
        except zlib.error as error:
            if head is None:
                raise ContentFault(f"its content cannot be decompressed: {error}") from None
        self._zipped = zlib.decompressobj(_RAW)
        return self._unzipped(head)

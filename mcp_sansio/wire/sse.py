"""Event streams (``text/event-stream``), both ways.

Source: the HTML standard, "Server-sent events": "Parsing an event stream" and "Interpreting an event stream".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from io import BytesIO

import msgspec

from mcp_sansio.errors import LocalProtocolError
from mcp_sansio.pieces import octets

_BOM = b"\xef\xbb\xbf"
_LF, _CR, _SPACE = b"\n\r "
#: A delay of more digits than this (of milliseconds) is nonsense, and int() need not look at it.
_MAX_RETRY_DIGITS = 15


class ServerSentEvent(msgspec.Struct, frozen=True):
    """One event. `data` is its data lines joined by LF.

    `id` is the last event id that the stream had set when the event ended, by this event or by an earlier one, or None.
    `retry` is the reconnection delay in milliseconds that this very event asked for, or None.
    """

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class Oversize(msgspec.Struct, frozen=True):
    """In place of an event over the limit, which was skipped. `size` is the number of bytes that it had, about."""

    size: int


class EventDecoder:
    """Events out of chunks of bytes, however the chunks are cut.

    `max_event` limits the bytes of an event's data lines, field names included, together with the line being read; an
    event over it is skipped to its blank line without being kept, and reported as :class:`Oversize`. Comments and the
    length of the stream count for nothing.
    """

    def __init__(self, max_event: int) -> None:
        self._max_event = max_event
        self._ready: deque[ServerSentEvent | Oversize] = deque()
        self._at_eof = False
        self._at_start = True  # nothing of the first line is read yet, which alone may begin with a byte order mark
        self._skip_lf = False  # the last chunk ended with CR, so that a LF now belongs to it
        # The line that is not finished: what was kept of it, and its full size.
        self._kept = BytesIO()
        self._size = 0
        # The event that is not finished.
        self._id: str | None = None
        self._start_event()
        self.last_event_id: str | None = None
        """The last event id of the stream, for resumption; set also by an event without data."""
        self.retry: int | None = None
        """The last reconnection delay that the stream asked for, in milliseconds."""

    def _start_event(self) -> None:
        self._data: list[bytes] = []
        self._used = 0
        self._skipping = False
        self._type = "message"
        self._event_retry: int | None = None

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes. Raises :class:`LocalProtocolError` after :meth:`receive_eof`."""
        if self._at_eof:
            raise LocalProtocolError("data was received after the end of the stream")
        if not data:
            return
        if type(data) is not bytes:
            data = octets(data)
        start = 1 if self._skip_lf and data[0] == _LF else 0
        self._skip_lf = data[-1] == _CR
        size = len(data)
        lf, cr = _find(data, b"\n", start), _find(data, b"\r", start)
        while (end := min(lf, cr)) < size:
            self._end_line(data, start, end)
            start = end + 1
            if end == cr:
                if lf == start:
                    start += 1
                cr = _find(data, b"\r", start)
            if lf < start:
                lf = _find(data, b"\n", start)
        if start < size:
            self._keep(data, start, size)

    def receive_eof(self) -> None:
        """Note the end of the stream. An event without its blank line is dropped, as the standard has it."""
        self._at_eof = True

    def events(self) -> Iterator[ServerSentEvent | Oversize]:
        """Take what is complete, in order."""
        while self._ready:
            yield self._ready.popleft()

    def _keep(self, data: bytes, start: int, end: int) -> None:
        """Add a piece to the unfinished line, or only its size once the event is over the limit."""
        self._size += end - start
        if self._used + self._size <= self._max_event:
            self._kept.write(memoryview(data)[start:end])
        elif self._kept.tell():
            self._kept = BytesIO()

    def _end_line(self, data: bytes, start: int, end: int) -> None:
        size = end - start
        if self._size:
            self._keep(data, start, end)
            size = self._size
            data, start, end = self._kept.getvalue(), 0, self._kept.tell()
            self._kept = BytesIO()
            self._size = 0
        if size and self._used + size > self._max_event:  # which stays so until the event ends
            self._skipping = True
            self._used += size
            self._data.clear()
            return
        if self._at_start:
            self._at_start = False
            if data.startswith(_BOM, start):
                start += len(_BOM)
        if start == end:
            self._end_event()
        else:
            self._take_field(data, start, end)

    def _take_field(self, data: bytes, start: int, end: int) -> None:
        colon = data.find(b":", start, end)
        if colon < 0:
            name, value = data[start:end], end
        else:
            name, value = data[start:colon], colon + 1  # a comment has no name, which is none of those below
            if value < end and data[value] == _SPACE:
                value += 1
        if name == b"data":
            self._used += end - start + 1
            self._data.append(data[value:end])
        elif name in _OTHER_FIELDS:
            self._take_other(name, data[value:end])

    def _take_other(self, name: bytes, raw: bytes) -> None:
        try:
            value = raw.decode()
        except UnicodeDecodeError:
            return
        if name == b"event":
            self._type = value or "message"
        elif name == b"id":
            if "\0" not in value:
                self._id = value or None
        elif raw.isdigit() and len(raw) <= _MAX_RETRY_DIGITS:
            self.retry = self._event_retry = int(raw)

    def _end_event(self) -> None:
        self.last_event_id = self._id
        if self._skipping:
            self._ready.append(Oversize(self._used))
        elif self._data:
            data = b"\n".join(self._data)  # of one line that is the line itself, and not a copy
            self._ready.append(ServerSentEvent(data, self._type, self._id, self._event_retry))
        self._start_event()


_OTHER_FIELDS = frozenset({b"event", b"id", b"retry"})


def _find(data: bytes, byte: bytes, start: int) -> int:
    """The next position of the byte, or the end of the data."""
    position = data.find(byte, start)
    return position if position >= 0 else len(data)


_LINE_END = re.compile(rb"\r\n|\r|\n")
_UNSAFE = re.compile(r"[\r\n\0]")


def encode_event(data: bytes, *, id: str | None = None, event: str | None = None, retry: int | None = None) -> bytes:  # noqa: A002
    """One event, with its blank line. Line ends within `data` arrive as LF. `retry` is in milliseconds.

    Raises ValueError for an `id` or `event` with CR, LF or NUL, and for a negative `retry`.
    """
    head = _field("id", id) + _field("event", event)
    if retry is not None:
        if retry < 0:
            raise ValueError("'retry' must not be negative")
        head += b"retry: %d\n" % retry
    if b"\n" not in data and b"\r" not in data:
        return b"".join((head, b"data: " if data else b"data:", data, b"\n\n"))
    return head + b"".join(b"data: %b\n" % line for line in _LINE_END.split(data)) + b"\n"


def encode_comment(text: str = "") -> bytes:
    """A comment, which keeps an idle connection open. Raises ValueError for a text with CR, LF or NUL."""
    return _field("", text) + b"\n" if text else b":\n\n"


def _field(name: str, value: str | None) -> bytes:
    if value is None:
        return b""
    if _UNSAFE.search(value):
        raise ValueError(f"{repr(name) if name else 'a comment'} must not contain CR, LF or NUL")
    return f"{name}: {value}\n".encode()

"""Newline framing, for channels that carry a stream of bytes: standard input and output, TCP, unix sockets.

Source: basic/transports, "stdio" (messages are delimited by newlines and hold none).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import Any, Protocol

import attrs

from mcp_sansio.errors import LocalProtocolError
from mcp_sansio.pieces import octets

__all__ = ["DuplexEngine", "LineChannel", "LineDecoder", "Overlong", "encode_line"]

# A number is found in bytes in a fifth of the time that a piece is found in.
_LF, _CR = ord("\n"), ord("\r")


@attrs.frozen
class Overlong:
    """In place of a line over the limit, which was skipped. `size` is its length in bytes, without the line end."""

    size: int


class LineDecoder:
    """Lines out of chunks of bytes, however the chunks are cut.

    LF and CRLF end a line, and nothing else does. Blank lines are dropped. A line of more than `max_line` bytes, the
    line end not counted, is skipped to its end without being kept, and reported as :class:`Overlong`.
    """

    def __init__(self, max_line: int) -> None:
        self.ready: deque[bytes | Overlong] = deque()
        """What is complete, in order, to be taken out at the left: see `lines`."""
        self._max_line = max_line
        self.unfinished = 0
        """How many bytes there are of a line that has no end yet."""
        # What was kept of that line, and whether a CR ends it so far.
        self._kept = BytesIO()
        self._ends_with_cr = False
        self._at_eof = False

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        """Take the next bytes. Raises :class:`LocalProtocolError` after :meth:`receive_eof`."""
        if self._at_eof:
            raise LocalProtocolError("data was received after the end of the input")
        if type(data) is not bytes:
            data = octets(data)
        if _LF not in data:  # a piece of a long line: this is seen in a tenth of the time that a split takes
            self._keep(data)
            return
        ended = data.split(b"\n")
        rest = ended.pop()
        if self.unfinished or len(data) > self._max_line or _CR in data:
            for line in ended:
                self._end_line(line)
        else:  # nothing to join, to measure or to cut off
            for line in ended:
                if line and not line.isspace():
                    self.ready.append(line)
        if rest:
            self._keep(rest)

    def receive_eof(self) -> None:
        """Note the end of the input. A last line without a line end counts as a line."""
        self._at_eof = True
        self._flush()

    def lines(self) -> Iterator[bytes | Overlong]:
        """Take what is complete, in order; each line without its line end."""
        while self.ready:
            yield self.ready.popleft()

    def _end_line(self, line: bytes) -> None:
        if self.unfinished:
            self._keep(line)
            self._flush()
            return
        line = line.removesuffix(b"\r")
        if len(line) > self._max_line:
            self.ready.append(Overlong(len(line)))
        else:
            self._deliver(line)

    def _keep(self, piece: bytes) -> None:
        """Add a piece to the unfinished line, or only its size once the line cannot come within the limit any more."""
        if not piece:
            return
        self.unfinished += len(piece)
        self._ends_with_cr = piece.endswith(b"\r")
        if self.unfinished - self._ends_with_cr <= self._max_line:
            self._kept.write(piece)
        elif self._kept.tell():
            self._kept = BytesIO()

    def _flush(self) -> None:
        """End the unfinished line."""
        length = self.unfinished - self._ends_with_cr
        if length > self._max_line:
            self.ready.append(Overlong(length))
        else:
            self._kept.truncate(length)
            self._deliver(self._kept.getvalue())  # the buffer itself and not a copy: it is not written to again
        self._kept = BytesIO()
        self.unfinished = 0
        self._ends_with_cr = False

    def _deliver(self, line: bytes) -> None:
        if line and not line.isspace():
            self.ready.append(line)


def encode_line(message: bytes) -> bytes:
    """The message as one line. Raises ValueError for a message with a raw LF or CR, which would be read as two."""
    if b"\n" in message or b"\r" in message:
        raise ValueError("a message must not contain a raw line end")
    return message + b"\n"


class DuplexEngine(Protocol):
    """An engine for a duplex channel of whole messages, of either role."""

    def receive_message(self, data: bytes) -> None:
        """One whole message came in."""

    def receive_overlong(self, size: int) -> None:
        """A message over the limit was skipped; `size` bytes were in it."""

    def events(self) -> Iterable[Any]:
        """What has happened, taken out."""

    def data_to_send(self) -> list[bytes]:
        """The messages to be sent, taken out."""

    def next_deadline(self) -> float | None:
        """When `handle_timeout` is due, in seconds of the runtime's clock."""

    def handle_timeout(self, now: float) -> None:
        """That time has come."""


class LineChannel:
    """An engine at the end of a stream of bytes, which takes in no more than its driver wants it to.

    Bytes come in by `receive_data`, messages go on to `engine` by `feed`, and out comes `data_to_send`. A line may have
    `max_line` bytes. Stop reading while `wants_data` is false, and what waits is bounded, however fast the peer writes.
    """

    def __init__(self, engine: DuplexEngine, max_line: int) -> None:
        self.fed = 0
        """How many messages the engine has had."""
        self.held = 0
        """Bytes that came in since the engine last had everything."""
        self.at_eof = False
        """Whether nothing more comes in."""
        self._engine = engine
        self._max_line = max_line
        self._lines = LineDecoder(max_line)

    @property
    def wants_data(self) -> bool:
        """Whether more should be read: what waits is not more than one line may be long."""
        return self.held <= self._max_line

    def receive_data(self, data: bytes) -> None:
        """Take the next bytes; none at all are the end, as a read gives it. Nothing goes to the engine yet."""
        if data:
            self._lines.receive_data(data)
        else:
            self._lines.receive_eof()
            self.at_eof = True
        self.held += len(data) or 1  # the end may complete a line as well

    def alone(self, data: bytes) -> bytes | None:
        """The message that `data` is, if it is a whole line and nothing waits before it: the engine is to have it now.

        Most messages come alone. For those it does what `receive_data` and `feed` do, with a third of the code.
        """
        if self.held or self._lines.unfinished or not data.endswith(b"}\n") or data.count(b"\n") != 1:
            return None
        if len(data) > self._max_line:
            return None
        self.fed += 1
        return data[:-1]

    def feed(self, most: int) -> bool:
        """Hand the next messages to the engine, `most` at a time. Whether that many were there, and so may be more."""
        ready, count = self._lines.ready, 0
        while ready and count < most:
            line = ready.popleft()
            count += 1
            if isinstance(line, bytes):
                self._engine.receive_message(line)
            else:
                self._engine.receive_overlong(line.size)
        self.fed += count
        if count < most:
            self.held = 0
        return count == most

    def drop(self) -> None:
        """Forget what the engine has not had. Nothing more comes in."""
        self._lines = LineDecoder(self._max_line)
        self.held = 0
        self.at_eof = True

    def data_to_send(self) -> bytes:
        """What the engine has to say, as lines; ``b""`` where it has nothing."""
        messages = self._engine.data_to_send()
        # An engine's messages are JSON on one line each. Joined at once, a large one is copied once.
        return b"\n".join([*messages, b""]) if messages else b""

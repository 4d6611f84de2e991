"""The wire as a log, for people who look for what went wrong: the logger ``mcp_sansio.wire``, at level DEBUG.

What comes in is shown behind ``<``, what goes out behind ``>``, at a server's end and at a client's. Whether it is
wanted is seen when a server or a client is made. Headers that hold secrets are not shown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from .events import Body, Head, Part
from .types import JSON
from .wire.headers import SECRET
from .wire.json import encode

Headers = Mapping[str, str] | Iterable[tuple[str, str]]

logger = logging.getLogger("mcp_sansio.wire")

#: Characters of a message that are shown.
_SHOWN = 4_000


def is_wanted() -> bool:
    """Whether anybody reads it."""
    return logger.isEnabledFor(logging.DEBUG)


def sent(message: bytes) -> None:
    """A message goes out."""
    logger.debug("> %s", _clipped(message))


def received(message: bytes | JSON) -> None:
    """A message, or a batch of them, came in: its bytes, or what they stand for."""
    held = isinstance(message, bytes | bytearray | memoryview)
    logger.debug("< %s", _clipped(bytes(message) if held else encode(message)))


def head_sent(line: str, headers: Headers) -> None:
    """The head of an HTTP request or response goes out. `line` is its first one."""
    logger.debug("> %s%s", line, _lines("> ", headers))


def head_received(line: str, headers: Headers) -> None:
    """The head of an HTTP request or response came in. `line` is its first one."""
    logger.debug("< %s%s", line, _lines("< ", headers))


def part_sent(part: Part) -> None:
    """A part of an HTTP response goes out."""
    if isinstance(part, Head):
        head_sent(str(part.status), part.headers)
    elif isinstance(part, Body):
        sent(part.data)


def _lines(mark: str, headers: Headers) -> str:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    shown = [(name, "…" if name.lower() in SECRET else value) for name, value in pairs]
    return "".join(f"\n{mark}{name}: {value}" for name, value in shown)


def _clipped(message: bytes) -> str:
    text = message.decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(message)} bytes)"

"""The wire as a log, for people who look for what went wrong: the logger ``mcp_sansio.wire``, at level DEBUG.

Whether it is wanted is seen when a client is made. Headers that hold secrets are not shown.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from mcp_sansio.types import JSON
from mcp_sansio.wire.json import encode

logger = logging.getLogger("mcp_sansio.wire")

#: Characters of a message that are shown.
_SHOWN = 4_000
_SECRET = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})


def is_wanted() -> bool:
    """Whether anybody reads it."""
    return logger.isEnabledFor(logging.DEBUG)


def sent(message: bytes) -> None:
    """A message goes out."""
    logger.debug("> %s", _clipped(message))


def received(message: JSON) -> None:
    """A message, or a batch of them, came in."""
    logger.debug("< %s", _clipped(encode(message)))


def requested(method: str, url: str, headers: Mapping[str, str], body: bytes) -> None:
    """An HTTP request goes out."""
    logger.debug("> %s %s%s", method, url, _lines("> ", headers.items()))
    if body:
        sent(body)


def responded(status: int, headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
    """An HTTP response begins."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    logger.debug("< %s%s", status, _lines("< ", pairs))


def _lines(mark: str, headers: Iterable[tuple[str, str]]) -> str:
    shown = [(name, "…" if name.lower() in _SECRET else value) for name, value in headers]
    return "".join(f"\n{mark}{name}: {value}" for name, value in shown)


def _clipped(message: bytes) -> str:
    text = message.decode("utf-8", "replace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(message)} bytes)"

"""JSON texts as people read them: long ones in several lines, which stand for the same text without whitespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_sansio.wire.json import decode, encode

WIDTH = 110


def folded(text: str) -> list[str]:
    """`text` in one line; a JSON text that is too long for that and has no whitespace, in several."""
    if len(text) <= WIDTH:
        return [text]
    try:
        value = decode(text.encode())
    except ValueError:
        return [text]
    return _folded(value) if encode(value).decode() == text else [text]


def _folded(value: Any, indent: str = "", name: str = "", after: str = "") -> list[str]:
    whole = indent + name + _spaced(value) + after
    if len(whole) <= WIDTH or not isinstance(value, dict | list) or not value:
        return [whole]
    if isinstance(value, dict):
        brackets, members = "{}", [(f"{_spaced(key)}: ", held) for key, held in value.items()]
    else:
        brackets, members = "[]", [("", held) for held in value]
    lines = [indent + name + brackets[0]]
    for position, (key, held) in enumerate(members, 1):
        lines += _folded(held, indent + "  ", key, "," if position < len(members) else "")
    return [*lines, indent + brackets[1] + after]


def _spaced(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_spaced(name)}: {_spaced(held)}" for name, held in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_spaced, value)) + "]"
    return encode(value).decode()


def unfolded(lines: Sequence[str]) -> bytes:
    """The bytes that `lines` stand for."""
    text = "\n".join(lines).encode()
    if len(lines) == 1:
        return text
    try:
        return encode(decode(text))
    except ValueError:
        return text


def texts(lines: Sequence[str]) -> list[bytes]:
    """The texts that `lines` stand for, one after the other: a line each, or a folded text each."""
    found, rest = [], list(lines)
    while rest:
        size = length(rest)
        found.append(unfolded(rest[:size]))
        del rest[:size]
    return found


def length(lines: Sequence[str]) -> int:
    """How many of `lines` the first text takes: a folded one begins and ends with a bracket alone."""
    closing = {"{": "}", "[": "]"}.get(lines[0])
    return lines.index(closing) + 1 if closing in lines else 1

"""URI templates: which URI belongs to which template, and with which values.

Matching runs backwards from RFC 6570: a ``{name}`` stands for one segment and ``{+name}`` for any path. A value is
percent-decoded once, and the rule of its kind is enforced on what came out, so that an encoded slash or ``..`` cannot
bring back what the template forbids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

import attrs

from .errors import DeclarationError

_EXPRESSION = re.compile(r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}")
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")


def is_template(uri: str) -> bool:
    """Whether `uri` holds an expression."""
    return "{" in uri or "}" in uri


@attrs.frozen
class UriTemplate:
    """A parsed template. `names` are its variables, in order."""

    text: str
    names: tuple[str, ...]
    _pattern: re.Pattern[str]
    _paths: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> UriTemplate:
        """Parse `text`. Raises `DeclarationError` for an expression other than ``{name}`` and ``{+name}``."""
        pieces: list[str] = []
        names: list[str] = []
        paths: set[str] = set()
        end = 0
        for found in _EXPRESSION.finditer(text):
            plus, name = found.groups()
            if name in names:
                raise DeclarationError(f"the URI template {text!r} uses {{{name}}} twice")
            pieces += [re.escape(text[end : found.start()]), f"(?P<{name}>{'.+' if plus else '[^/?#]+'})"]
            names.append(name)
            paths.update([name] if plus else [])
            end = found.end()
        rest = text[end:]
        if is_template("".join(_EXPRESSION.split(text)[::3])):
            raise DeclarationError(
                f"the URI template {text!r} may only use {{name}} (one segment) and {{+name}} (a path)"
            )
        pattern = re.compile("".join(pieces) + re.escape(rest), re.DOTALL)
        return cls(text, tuple(names), pattern, frozenset(paths))

    def match(self, uri: str) -> Mapping[str, str] | None:
        """The decoded value of each variable, or ``None`` where `uri` does not belong to this template."""
        found = self._pattern.fullmatch(uri)
        if found is None:
            return None
        values: dict[str, str] = {}
        for name, raw in found.groupdict().items():
            value = _decoded(raw)
            if value is None or not _allowed(value, path=name in self._paths):
                return None
            values[name] = value
        return values


def _decoded(raw: str) -> str | None:
    if _BAD_PERCENT.search(raw):
        return None
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _allowed(value: str, *, path: bool) -> bool:
    if _FORBIDDEN.search(value):
        return False
    segments = value.split("/")
    if not path and len(segments) > 1:
        return False
    return not any(segment in (".", "..") for segment in segments)

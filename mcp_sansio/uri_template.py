"""URI templates: which URI belongs to which template, and with which values.

Matching runs backwards from RFC 6570: a ``{name}`` stands for one segment and ``{+name}`` for any path. A value is
percent-decoded once, and the rule of its kind is enforced on what came out, so that an encoded slash or ``..`` cannot
bring back what the template forbids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from .errors import DeclarationError

#: A longer URI belongs to no template.
MAX_LENGTH = 8192

_EXPRESSION = r"\{(\+?)([A-Za-z_][A-Za-z0-9_]*)\}"
_BAD_PERCENT = r"%(?![0-9A-Fa-f]{2})"
_FORBIDDEN = r"[\x00-\x1f\x7f\\]"


def is_template(uri: str) -> bool:
    """Whether `uri` holds an expression."""
    return "{" in uri or "}" in uri


class _Variable(msgspec.Struct, frozen=True):
    """A variable, and the text that follows it. A path may hold what separates segments."""

    name: str
    is_path: bool
    literal: str


class UriTemplate(msgspec.Struct, frozen=True):
    """A parsed template. `names` are its variables, in order."""

    text: str
    names: tuple[str, ...]
    _prefix: str
    _variables: tuple[_Variable, ...]

    @classmethod
    def parse(cls, text: str) -> UriTemplate:
        """Parse `text`. Raises `DeclarationError` for an expression other than ``{name}`` and ``{+name}``."""
        prefix, *rest = re.split(_EXPRESSION, text)
        names, literals = tuple(rest[1::3]), rest[2::3]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DeclarationError(f"the URI template {text!r} uses {{{twice}}} twice")
        if is_template("".join([prefix, *literals])):
            raise DeclarationError(
                f"the URI template {text!r} may only use {{name}} (one segment) and {{+name}} (a path)"
            )
        return cls(text, names, prefix, tuple(map(_Variable, names, map(bool, rest[0::3]), literals)))

    def match(self, uri: str) -> Mapping[str, str] | None:
        """The decoded value of each variable, or ``None`` where `uri` does not belong to this template.

        Where a URI can be divided in several ways, an earlier variable takes as much as it can.
        """
        values: dict[str, str] = {}
        for variable, raw in self._divided(uri):
            value = _decoded(raw)
            if value is None or not _allowed(value, path=variable.is_path):
                return None
            values[variable.name] = value
        return values or None

    def _divided(self, uri: str) -> Iterator[tuple[_Variable, str]]:
        # A regular expression would do, but where one variable may end in many places and the next as well, it tries
        # them all: a long URI would cost its length to the power of the variables. This costs their product.
        if len(uri) > MAX_LENGTH or not (uri.startswith(self._prefix) and uri.endswith(self._variables[-1].literal)):
            return
        ends: list[list[int]] = []
        fits = [False] * len(uri) + [True]
        for variable in reversed(self._variables):
            ends.append(_ends(variable, uri, fits))
            fits = [end > 0 for end in ends[-1]]
        start = len(self._prefix)
        if not fits[start]:
            return
        for variable, held in zip(self._variables, reversed(ends), strict=True):
            yield variable, uri[start : held[start]]
            start = held[start] + len(variable.literal)


def _ends(variable: _Variable, uri: str, fits: Sequence[bool]) -> list[int]:
    """For each place in `uri`, the last one where `variable` may end if it starts there, or 0.

    `fits` says of each place whether the rest of the template fits what follows it.
    """
    ends = [0] * (len(uri) + 1)
    last, literal = 0, variable.literal
    for start in range(len(uri) - 1, -1, -1):
        if not variable.is_path and uri[start] in "/?#":
            last = 0
            continue
        end = start + 1
        if not last and uri.startswith(literal, end) and fits[end + len(literal)]:
            last = end
        ends[start] = last
    return ends


def _decoded(raw: str) -> str | None:
    if re.search(_BAD_PERCENT, raw):
        return None
    if raw.isascii() and "%" not in raw:
        return raw
    from urllib.parse import unquote_to_bytes  # 2 ms to load, for which every server would wait

    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _allowed(value: str, *, path: bool) -> bool:
    if re.search(_FORBIDDEN, value):
        return False
    segments = value.split("/")
    if not path and len(segments) > 1:
        return False
    return not any(segment in (".", "..") for segment in segments)

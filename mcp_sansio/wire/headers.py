"""HTTP header fields: case-insensitive look-up, media types, mirrored values.

Source: RFC 9110 sections 5, 8.3 and 12.5.1; basic/transports/streamable-http, "Value Encoding".
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeVar, overload

from .json import mend

__all__ = [
    "JSON_TYPE",
    "SECRET",
    "STREAM_TYPE",
    "Headers",
    "accepts",
    "check_headers",
    "decode_value",
    "encode_value",
    "is_printable",
    "json_headers",
    "media_type",
]

_T = TypeVar("_T")

#: Headers whose values are secrets: they are in no log, and not kept for longer than their request.
SECRET = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_NAME = re.compile(_TOKEN)
_UNSAFE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Headers(Mapping[str, str]):
    """Header fields, looked up without regard to case; iteration gives lower-case names. Not to be changed.

    Built from a mapping or from pairs of name and value. The values of a name that is there more than once are joined
    by ", " (RFC 9110 section 5.3).
    """

    __slots__ = ("_size", "fields", "is_kept")

    #: The values by lower-case name: for who knows the names that way, and has many to look up.
    fields: dict[str, str]
    #: Whether whoever brings the same pairs gets this very object, see `of_bytes`.
    is_kept: bool
    _size: int

    def __init__(self, source: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        given: Any = source
        self._size = -1
        self.is_kept = False
        # Whether it has items is quicker to ask than whether it is a mapping.
        if not hasattr(given, "items"):
            self.fields = _joined(given)
            return
        self.fields = dict(zip(map(str.lower, given), given.values(), strict=True))
        if len(self.fields) < len(given):
            self.fields = _joined(given.items())

    @classmethod
    def of_bytes(cls, pairs: Iterable[tuple[bytes, bytes]], charset: str = "latin-1") -> Headers:
        """The header fields of pairs as they came over the wire, names in whatever case.

        What `charset` cannot read comes as halves of surrogate pairs, one for each byte. Raises ``TypeError`` for what
        is no such pairs, as strings and mappings.

        The same object for the same pairs, of which a peer sends many; but none that holds a secret is kept.
        """
        key = charset, tuple(pairs)
        try:
            held = _known.get(key)
        except TypeError:  # they are lists, as an ASGI server may have them
            key = charset, tuple([(name, value) for name, value in key[1]])
            held = _known.get(key)
        if held is None:
            held = cls(_decoded(key[1], charset))
            is_small = held.size <= _MAX_KNOWN_SIZE and len(key[1]) <= _MAX_KNOWN_PAIRS
            if is_small and SECRET.isdisjoint(held.fields):
                held.is_kept = True
                _remember(key, held)
        return held

    @classmethod
    def of(cls, source: Mapping[str, str] | Iterable[tuple[str, str]]) -> Headers:
        """The source itself where it is :class:`Headers` already, and otherwise headers built from it."""
        return source if type(source) is cls else cls(source)

    def __getitem__(self, name: str) -> str:
        value = self.fields.get(name)
        return self.fields[name.lower()] if value is None else value

    @overload
    def get(self, name: str, /) -> str | None: ...
    @overload
    def get(self, name: str, /, default: str | _T) -> str | _T: ...
    def get(self, name: str, /, default: str | _T | None = None) -> str | _T | None:
        """The value of a name, or `default`."""
        value = self.fields.get(name)
        return self.fields.get(name.lower(), default) if value is None else value

    def __contains__(self, name: object) -> bool:
        return name in self.fields or (isinstance(name, str) and name.lower() in self.fields)

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def size(self) -> int:
        """The characters of all names and values together."""
        if self._size < 0:
            self._size = len("".join(self.fields)) + len("".join(self.fields.values()))
        return self._size

    def __repr__(self) -> str:
        # Names only: values hold credentials and session ids, and a repr ends up in logs.
        return f"<Headers {', '.join(self.fields)}>"


# A peer's messages have the same headers again and again, and these know their size. To read them anew took a tenth of
# what a call costs over ASGI. What is kept outlives its request: so it is little, and nobody's credentials, of which
# those that change would fill it besides.
_Key = tuple[str, tuple[tuple[bytes, bytes], ...]]
_known: dict[_Key, Headers] = {}
_MAX_KNOWN, _MAX_KNOWN_PAIRS, _MAX_KNOWN_SIZE = 256, 64, 4096


def _remember(key: _Key, headers: Headers) -> None:
    if len(_known) >= _MAX_KNOWN:
        _known.clear()  # in one step, since threads share it
    _known[key] = headers


def _decoded(pairs: Iterable[tuple[bytes, bytes]], charset: str) -> list[tuple[str, str]]:
    errors = "surrogateescape"
    try:
        return [(name.decode(charset, errors), value.decode(charset, errors)) for name, value in pairs]
    except (AttributeError, ValueError, TypeError):
        raise TypeError("header fields are pairs of bytes here, as they came over the wire") from None


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in pairs:
        lower = name.lower()
        values[lower] = f"{values[lower]}, {value}" if lower in values else value
    return values


# Mirrored values ------------------------------------------------------------------------------------------------------

_PREFIX, _SUFFIX = "=?base64?", "?="
_SAFE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_PRINTABLE = re.compile(r"[ -~]*")


@lru_cache(maxsize=64, typed=True)  # a tool has the same name in each call
def encode_value(value: str | int | bool) -> str:
    """The header value that mirrors a value of the body.

    Text goes as it is where it is printable ASCII without blanks at its edges; other text, and text that looks like the
    encoded form, goes as base64 of its UTF-8. Half a surrogate pair becomes U+FFFD, as it does in the body.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if _SAFE.fullmatch(value) and not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return value
    return f"{_PREFIX}{base64.b64encode(mend(value).encode()).decode()}{_SUFFIX}"


@lru_cache(maxsize=64)  # as for the other headers below: a peer sends the same few values again and again
def decode_value(text: str) -> str | None:
    """The value that a mirrored header stands for, or None where the header is malformed.

    Malformed is a value with characters that are not printable ASCII, and one in the encoded form (whose markers are
    case-sensitive) that is not base64, with its padding, of UTF-8. Blanks around a header's value do not belong to it.
    """
    text = text.strip(" \t")
    if not (text.startswith(_PREFIX) and text.endswith(_SUFFIX, len(_PREFIX))):
        return text if _PRINTABLE.fullmatch(text) else None
    encoded = text[len(_PREFIX) : -len(_SUFFIX)]
    try:
        raw = base64.b64decode(encoded)
        # Python's decoder passes over foreign characters, excess padding, and bits that a correct encoder never sets.
        return raw.decode() if base64.b64encode(raw).decode() == encoded else None
    except ValueError:
        return None


def is_printable(value: str) -> bool:
    """Whether a header's value is printable ASCII, so that it may be sent back as it came."""
    return _PRINTABLE.fullmatch(value) is not None


@lru_cache(maxsize=256)  # most answers are of few sizes
def json_headers(size: int) -> tuple[tuple[str, str], ...]:
    """The headers of a message whose body is JSON, of so many bytes."""
    return ("Content-Type", JSON_TYPE), ("Content-Length", str(size))


def check_headers(headers: Mapping[Any, Any]) -> None:
    """Raises ``ValueError`` for what cannot be a header, so that nobody can write a second one into its value."""
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"not the name of a header: {name!r}")
        if not isinstance(value, str) or _UNSAFE.search(value):
            raise ValueError(f"the header {name} must be a string without line ends and control characters")


# Media types ----------------------------------------------------------------------------------------------------------

#: The forms of the messages of MCP over HTTP.
JSON_TYPE, STREAM_TYPE = "application/json", "text/event-stream"

_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}")
_QUOTED = re.compile(r'"(?:[^"\\]+|\\.)*+"?', re.DOTALL)  # an unclosed one goes on to the end


@lru_cache(maxsize=64)  # as below
def media_type(content_type: str | None) -> str | None:
    """The type and subtype of a ``Content-Type`` in lower case, without parameters; None where there is none."""
    essence = (content_type or "").partition(";")[0].strip(" \t")
    return essence.lower() if _MEDIA_TYPE.fullmatch(essence) else None


def accepts(accept: str | None, media_type: str) -> bool:
    """Whether an ``Accept`` header admits a media type (given in lower case, without parameters).

    No header, or an empty one, admits everything. The most specific range decides; ``q=0`` refuses; parameters of a
    range other than ``q`` are passed over.
    """
    return True if accept is None else _accepts(accept, media_type)


@lru_cache(maxsize=64)  # a peer sends the same few headers again and again
def _accepts(accept: str, media_type: str) -> bool:
    ranges = [_media_range(part) for part in _QUOTED.sub("", accept).split(",") if part.strip(" \t")]
    if not ranges:
        return True
    for pattern in (media_type, media_type.partition("/")[0] + "/*", "*/*"):
        verdicts = [admitted for name, admitted in ranges if name == pattern]
        if verdicts:
            return any(verdicts)
    return False


_ZERO_WEIGHT = re.compile(r"q\s*=\s*(?:0+(?:\.0*)?|\.0+)")


def _media_range(text: str) -> tuple[str, bool]:
    """A media range in lower case, and whether its weight is more than zero."""
    name, *parameters = (part.strip(" \t").lower() for part in text.split(";"))
    refused = any(_ZERO_WEIGHT.fullmatch(parameter) for parameter in parameters)
    return ("*/*" if name == "*" else name), not refused  # a lone * is what some HTTP stacks send

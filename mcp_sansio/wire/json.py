"""JSON text to values and back: strict on what peers send, total on what handlers return.

Decoding is msgspec's, which is strict already, with a limit on nesting and with better words for faults. Encoding never
fails on text that UTF-8 cannot hold, and :func:`fault_of` finds what an encoder would get wrong in silence.

Source: RFC 8259; basic/transports (messages are UTF-8 and hold no raw newlines).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from math import isfinite, isinf
from typing import Final

import msgspec

from mcp_sansio.pieces import octets
from mcp_sansio.types import JSON

#: How many arrays and objects may lie inside one another.
MAX_DEPTH: Final = 128

_decode = msgspec.json.Decoder().decode


class JsonError(ValueError):
    """A text is not JSON. The message says what is wrong and where, quotes nothing, and may be sent to a peer."""


class TooDeep(JsonError):
    """A text nests arrays and objects deeper than the limit."""


def decode(data: bytes | bytearray | memoryview, *, max_depth: int = MAX_DEPTH) -> JSON:
    """The value that a whole JSON text stands for; integers keep every digit, of equal keys the last one counts.

    `data` is UTF-8 without a byte order mark. What is not ``bytes`` is copied once.

    Raises :class:`TooDeep` for a text that nests more than `max_depth` arrays and objects, and :class:`JsonError` for
    every other fault: bad syntax, anything after the value, NaN and Infinity, numbers out of range, bad UTF-8, and
    escapes of half a surrogate pair. What does not hold bytes, as a text, is a ``TypeError``.
    """
    if type(data) is not bytes:
        data = octets(data)
    # A text with few brackets cannot be deep, and counting them costs next to nothing.
    if data.count(b"[") + data.count(b"{") > max_depth and _is_deeper(data, max_depth):
        raise TooDeep(f"nested deeper than {max_depth} levels")
    try:
        return _decode(data)
    except msgspec.DecodeError as error:
        raise JsonError(_explain(data, str(error))) from None
    except RecursionError:
        raise TooDeep("nested deeper than this reader can follow") from None


_STRUCTURE = b'"[]{}'
_ALL_BUT_STRUCTURE = bytes(set(range(256)) - set(_STRUCTURE))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def _is_deeper(data: bytes | bytearray, limit: int) -> bool:
    """Whether brackets outside strings open more than `limit` levels. It looks before the decoder recurses.

    Exact for JSON, and for bad JSON up to the fault, which is as far as the decoder gets. Only operations on the whole
    buffer that run in C are used: the cost is about that of decoding, and no input makes it worse than linear.
    """
    text = data
    if b"\\" in data:
        text = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    text = text.translate(None, _ALL_BUT_STRUCTURE)
    # Two quotes side by side never change which of the other characters lie inside a string: most strings go here.
    outside = b"".join(text.replace(b'""', b"").split(b'"')[::2])
    depths = accumulate(memoryview(outside.translate(_STEPS)).cast("b"))
    return next(filter(limit.__lt__, depths), None) is not None


_BOM = b"\xef\xbb\xbf"
# Patterns are compiled when they are first needed, which most processes never do; `re` keeps them.
_ESCAPES = (
    rb"(?s)\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)
_NUMBERS = rb'(?s)"(?:[^"\\]+|\\.)*+"|(?P<number>-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)'
#: Longer integers, sign included, are refused by msgspec or by the interpreter (``sys.set_int_max_str_digits``).
_MAX_DIGITS: Final = 4300


def _explain(data: bytes | bytearray, reason: str) -> str:
    """What is wrong with a text that did not decode, with the position where msgspec gives none or blames another."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8 (byte {error.start})"
    if data.startswith(_BOM):
        return "a byte order mark is not allowed (byte 0)"
    if "truncated" in reason or "surrogate" in reason:
        lone = next((match.start() for match in re.finditer(_ESCAPES, data) if match.lastgroup), None)
        if lone is not None:
            return f"escape of half a surrogate pair (byte {lone})"
        return f"the JSON text ends too early (byte {len(data)})"
    if "out of range" in reason:
        position = next(
            (match.start() for match in re.finditer(_NUMBERS, data) if _out_of_range(match["number"])), None
        )
        return "number out of range" if position is None else f"number out of range (byte {position})"
    return reason


def _out_of_range(number: bytes | None) -> bool:
    if number is None:
        return False
    if number.removeprefix(b"-").isdigit():
        return len(number) > _MAX_DIGITS
    return isinf(float(number))


def plain(value: object) -> JSON:
    """A str, int or float for an instance of a subclass, which msgspec would not take. Raises TypeError for others."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


_encode = msgspec.json.Encoder(enc_hook=plain).encode


def encode(value: JSON) -> bytes:
    """The JSON text of a value, in UTF-8, on one line.

    Half a surrogate pair in a string or a key cannot be written in UTF-8; it is replaced by U+FFFD, see :func:`mend`.
    What is no JSON value is the business of :func:`fault_of`: here a number that is not finite becomes null, and a type
    that has no JSON form is a TypeError.
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_mended(msgspec.to_builtins(value, enc_hook=plain)))


def mend(text: str) -> str:
    """The text with each half of a surrogate pair replaced by U+FFFD, and two halves that belong together joined."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _mended(value: JSON) -> JSON:
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mended(item) for item in value]
    return value


_ATOMS = frozenset({str, bool, type(None)})
_KEYS = frozenset({str})
_TOP = 10**_MAX_DIGITS
_BOTTOM = -(10 ** (_MAX_DIGITS - 1))


def fault_of(value: JSON, *, max_depth: int = MAX_DEPTH) -> str | None:
    """Why a value is not JSON, with the path to the first such place (``$.items[2]: …``), or None where it is.

    JSON values are None, bool, int, float, str, list, tuple and dict with keys that are strings, and instances of
    subclasses of these. Faults are other types and keys, numbers that are not finite, integers of over 4300 characters,
    and more than `max_depth` containers inside one another, which a container that holds itself always has.
    """
    if _is_plain(value, min(_FEW_LEVELS, max_depth)):
        return None
    path: list[str | int] = []
    open_containers: list[Iterator[tuple[str | int, JSON]]] = [iter((("", value),))]
    while open_containers:
        for key, child in open_containers[-1]:
            kind = type(child)
            if kind in _ATOMS or (kind is float and isfinite(child)) or (kind is int and _BOTTOM < child < _TOP):
                continue
            path.append(key)
            fault = _fault_of_one(child)
            if fault is None and len(open_containers) > max_depth and isinstance(child, _CONTAINERS):
                fault = f"nested deeper than {max_depth} levels, or holds itself"
            if fault is not None:
                return f"{_spell(path)}: {fault}"
            open_containers.append(_members(child))
            break
        else:
            open_containers.pop()
            if path:
                path.pop()
    return None


#: Most values nest no deeper, schemas of arguments included, and have members of the plain types alone.
_FEW_LEVELS = 8


def _is_plain(value: JSON, levels: int) -> bool:
    """Whether a value is certainly JSON, of at most so many `levels`. It is quick to say so, and cannot say why not."""
    kind = type(value)
    if kind is dict:
        if levels == 0 or not _KEYS.issuperset(map(type, value)):
            return False
        for item in value.values():
            kind = type(item)
            if not (kind in _ATOMS or (kind is int and _BOTTOM < item < _TOP) or _is_plain(item, levels - 1)):
                return False
        return True
    if kind is list:
        return levels > 0 and all(_is_plain(item, levels - 1) for item in value)
    return kind in _ATOMS or (kind is int and _BOTTOM < value < _TOP) or (kind is float and isfinite(value))


_CONTAINERS = (dict, list, tuple)


def _fault_of_one(value: JSON) -> str | None:
    """Why a value is not JSON, whatever its members are."""
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return f"a key of type {type(key).__name__}, not a string"
        return None
    if isinstance(value, int):
        return None if _BOTTOM < value < _TOP else f"an integer of more than {_MAX_DIGITS} characters"
    if isinstance(value, float):
        return None if isfinite(value) else "a number that is not finite"
    return None if isinstance(value, (str, list, tuple)) else f"a value of type {type(value).__name__}"


def _members(value: JSON) -> Iterator[tuple[str | int, JSON]]:
    """The members of a container with their keys; none for what is no container."""
    if isinstance(value, dict):
        return iter(value.items())
    return enumerate(value if isinstance(value, (list, tuple)) else ())


_NAME = r"[A-Za-z_$][\w$-]*"


def _spell(path: list[str | int]) -> str:
    """A path in the manner of JSONPath. Its first element stands for the whole value."""
    return "$" + "".join(
        f"[{key}]" if isinstance(key, int) else f".{key}" if re.fullmatch(_NAME, key) else f"[{key!r}]"
        for key in path[1:]
    )

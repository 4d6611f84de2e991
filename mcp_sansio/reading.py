"""The records of `mcp_sansio.types` out of the specification's JSON, as a client reads what a server sends.

Lenient where the future may add something: members that nobody knows are passed over, and content of an unknown type
stays the mapping that it came as. Strict where guessing would change what was said: a number is not taken for text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import attrs

from .types import CONTENT_BLOCKS, JSON, BlobResourceContents, TextResourceContents, camel

T = TypeVar("T")
Reader = Callable[[JSON], Any]


class WireFault(ValueError):
    """What came is not what the specification says. The text names the place and what it must hold."""

    def __init__(self, words: str, path: str = "") -> None:
        super().__init__(f"{path} {words}" if path else words)
        self._words = words
        self._path = path

    def below(self, place: str) -> WireFault:
        """The same, seen from further out."""
        return WireFault(self._words, f"{place}{self._path}")


def from_wire(cls: type[T], wire: JSON, where: str = "result") -> T:
    """The record of class `cls` for the JSON object `wire`. Raises `WireFault`, with paths that start at `where`."""
    kind: Any = cls
    try:
        record: T = _reader_of(kind)(wire)
    except WireFault as fault:
        raise fault.below(where) from None
    return record


def _scalar(kind: type | tuple[type, ...], words: str) -> Reader:
    def read(wire: JSON) -> Any:
        if type(wire) is kind:
            return wire
        # A boolean is a number to Python alone.
        if not isinstance(wire, kind) or (isinstance(wire, bool) and kind is not bool):
            raise WireFault(f"must be {words}")
        return wire

    return read


def _sequence(item: Reader) -> Reader:
    def read(wire: JSON) -> Any:
        if not isinstance(wire, list):
            raise WireFault("must be a list")
        items: list[Any] = []
        try:
            for each in wire:
                items.append(item(each))  # as many as are there, so it is known where a fault is
        except WireFault as fault:
            raise fault.below(f"[{len(items)}]") from None
        return items

    return read


def _content(wire: JSON) -> Any:
    if not isinstance(wire, dict) or not isinstance(wire.get("type"), str):
        raise WireFault("must be an object with a type")
    cls = _BLOCKS.get(wire["type"])
    return wire if cls is None else _reader_of(cls)(wire)


def _resource_contents(wire: JSON) -> Any:
    _object(wire)
    return _reader_of(TextResourceContents if "text" in wire else BlobResourceContents)(wire)


def _anything(wire: JSON) -> Any:
    return wire


_object = _scalar(dict, "an object")
_BLOCKS = {attrs.fields_dict(cls)["type"].default: cls for cls in CONTENT_BLOCKS}
_SCALARS: Mapping[Any, Reader] = {
    str: _scalar(str, "a string"),
    int: _scalar(int, "an integer"),
    float: _scalar((int, float), "a number"),
    bool: _scalar(bool, "a boolean"),
    Any: _anything,
}
#: What needs no reader where it is of its type.
_TAKEN_AS_THEY_ARE: Mapping[Reader, type] = {_SCALARS[kind]: kind for kind in (str, int, bool)}


@cache
def _reader_of(tp: Any) -> Reader:
    """How a value of the type `tp` is read, made once for each type."""
    if tp in _SCALARS:
        return _SCALARS[tp]
    if attrs.has(tp):
        return _record(tp)
    origin, args = get_origin(tp), get_args(tp)
    if origin in (Union, UnionType):
        return _union(args)
    if origin is Literal:
        # A value that the specification may add later is kept: it is the caller's to know.
        return _SCALARS[str]
    return _sequence(_reader_of(args[0])) if origin is Sequence else _object


def _union(args: tuple[Any, ...]) -> Reader:
    members = [arg for arg in args if arg is not NoneType]
    if len(members) == 1:
        return _reader_of(members[0])
    return _resource_contents if TextResourceContents in members else _content


def _record(cls: Any) -> Reader:
    hints = get_type_hints(cls)
    fields = [
        (field.name, camel(field.name), field.default is attrs.NOTHING) for field in attrs.fields(cls) if field.init
    ]
    readers: dict[str, tuple[str, type | None, Reader]] = {}
    for name, member, _ in fields:
        reader = _reader_of(hints[name])
        readers[member] = name, _TAKEN_AS_THEY_ARE.get(reader), reader
    required = {name: member for name, member, needed in fields if needed}

    def read(wire: JSON) -> Any:
        if type(wire) is not dict:
            _object(wire)
        given = {}
        member = ""
        try:
            for member, value in wire.items():
                known = readers.get(member)
                if known is None:
                    continue
                name, plain, reader = known
                if type(value) is plain:
                    given[name] = value
                # For most members null is as good as nothing; only structured content may be null and mean it.
                elif value is not None or reader is _anything:
                    given[name] = reader(value)
        except WireFault as fault:
            raise fault.below(f".{member}") from None
        if not required.keys() <= given.keys():
            raise WireFault("is missing", next(f".{required[name]}" for name in required if name not in given))
        return cls(**given)

    return read

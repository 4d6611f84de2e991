"""The words in which faults are told: places, kinds of values, bounds, and texts of a known form."""

from __future__ import annotations

import datetime
import decimal
import operator
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import inspect as mi

from .types import JSON

_MAX_TEXT = 200
_MAX_OPTIONS = 20
_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"


def short(text: str) -> str:
    """`text`, or its beginning: nothing huge is echoed."""
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def json_text(value: JSON) -> str:
    """`value` as a reader would write it in JSON, with the blanks that the wire leaves out."""
    import json  # for words about faults alone, which most processes never need

    return json.dumps(value)


def path_text(path: Iterable[str | int]) -> str:
    """A path as a reader would write it: ``("items", 2, "a b")`` → ``$.items[2]["a b"]``."""
    return "$" + "".join(_step(part) for part in path)


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    shown = short(part)
    return f".{shown}" if re.fullmatch(_IDENTIFIER, shown) else f"[{json_text(shown)}]"


def one_of(values: Sequence[JSON]) -> str:
    """That a value must be one of `values`."""
    shown = ", ".join(json_text(value)[:_MAX_TEXT] for value in values[:_MAX_OPTIONS])
    more = ", …" if len(values) > _MAX_OPTIONS else ""
    return f"must be {shown}" if len(values) == 1 else f"must be one of {shown}{more}"


# Kinds of JSON values

_KINDS: Mapping[type, str] = {
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    str: "a string",
    list: "an array",
    tuple: "an array",
    dict: "an object",
    type(None): "null",
}
#: The types of `msgspec.inspect` that have a form in JSON, and its kind.
KINDS_OF_TYPES: Mapping[type, str] = {
    mi.NoneType: "null",
    mi.BoolType: "a boolean",
    mi.IntType: "an integer",
    mi.FloatType: "a number",
    **dict.fromkeys((mi.StrType, mi.BytesType, mi.ByteArrayType, mi.MemoryViewType), "a string"),
    **dict.fromkeys((mi.DateTimeType, mi.DateType, mi.TimeType, mi.TimeDeltaType), "a string"),
    **dict.fromkeys((mi.UUIDType, mi.DecimalType), "a string"),
    **dict.fromkeys((mi.ListType, mi.SetType, mi.FrozenSetType, mi.VarTupleType), "an array"),
    **dict.fromkeys((mi.TupleType, mi.NamedTupleType), "an array"),
    **dict.fromkeys((mi.DictType, mi.TypedDictType, mi.DataclassType, mi.StructType, mi.CustomType), "an object"),
}


def kind_of(value: JSON) -> str:
    """What JSON calls the kind of `value`, with its article."""
    return _KINDS.get(type(value), type(value).__name__)


def readings(value: JSON) -> tuple[str, ...]:
    """The kinds that `value` may pass for, the best first: JSON Schema calls 1.0 an integer, and 1 is a number."""
    if isinstance(value, float) and value.is_integer():
        return "a number", "an integer"
    kind = kind_of(value)
    return (kind, "a number") if kind == "an integer" else (kind,)


def options_of(info: mi.Type) -> list[JSON] | None:
    """The values of a Literal or an Enum, or ``None`` for any other type."""
    if isinstance(info, mi.EnumType):
        return [member.value for member in info.cls.__members__.values()]
    return list(info.values) if isinstance(info, mi.LiteralType) else None


def kinds_of(info: mi.Type) -> list[str]:
    """The kinds of JSON values that a type takes."""
    if isinstance(info, mi.Metadata):
        return kinds_of(info.type)
    if isinstance(info, mi.UnionType):
        return list(dict.fromkeys(kind for member in info.types for kind in kinds_of(member)))
    if isinstance(info, mi.AnyType):
        return list(_KINDS.values())
    options = options_of(info)
    return [KINDS_OF_TYPES[type(info)]] if options is None else list(dict.fromkeys(map(kind_of, options)))


# Bounds


class Rule(NamedTuple):
    """A bound: its name in `msgspec.inspect`, the values that it is about, and what to say when it is broken."""

    attribute: str
    values: tuple[type, ...]
    holds: Callable[[Any, Any], bool]
    text: str


def _is_long(value: Any, bound: int) -> bool:
    return len(value) >= bound


def _is_short(value: Any, bound: int) -> bool:
    return len(value) <= bound


_NUMBER, _TEXT, _LIST, _TABLE = (int, float), (str,), (list, tuple), (dict,)
_RULES: Mapping[str, Rule] = {
    "minimum": Rule("ge", _NUMBER, operator.ge, "must be at least {}"),
    "exclusiveMinimum": Rule("gt", _NUMBER, operator.gt, "must be greater than {}"),
    "maximum": Rule("le", _NUMBER, operator.le, "must be at most {}"),
    "exclusiveMaximum": Rule("lt", _NUMBER, operator.lt, "must be less than {}"),
    "multipleOf": Rule("multiple_of", _NUMBER, lambda value, step: value % step == 0, "must be a multiple of {}"),
    "minLength": Rule("min_length", _TEXT, _is_long, "must have at least {} characters"),
    "maxLength": Rule("max_length", _TEXT, _is_short, "must have at most {} characters"),
    "pattern": Rule("pattern", _TEXT, lambda value, text: bool(re.search(text, value)), "must match the pattern {}"),
    "minItems": Rule("min_length", _LIST, _is_long, "must have at least {} items"),
    "maxItems": Rule("max_length", _LIST, _is_short, "must have at most {} items"),
    "minProperties": Rule("min_length", _TABLE, _is_long, "must have at least {} properties"),
    "maxProperties": Rule("max_length", _TABLE, _is_short, "must have at most {} properties"),
}
#: The same, by the type of the value.
RULES: Mapping[type, Sequence[Rule]] = {
    kind: [rule for rule in _RULES.values() if kind in rule.values] for kind in (*_NUMBER, *_TEXT, *_LIST, *_TABLE)
}


def rule_text(keyword: str, bound: JSON) -> str | None:
    """What to say when the bound of a `keyword` of JSON Schema is broken, or ``None`` for a keyword that has none."""
    return _RULES[keyword].text.format(bound) if keyword in _RULES else None


# Types that are written as text


class Text(NamedTuple):
    """How a type is written. There is a pattern where msgspec would read more than the published format says."""

    type: Any
    what: str
    pattern: str = ""


_TIME = r"\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?"
TEXTS: Mapping[type, Text] = {
    mi.DateTimeType: Text(
        datetime.datetime, "a date and time, like 1999-12-31T12:00:00", rf"\d{{4}}-\d\d-\d\d[Tt]{_TIME}"
    ),
    mi.DateType: Text(datetime.date, "a date, like 1999-12-31"),
    mi.TimeType: Text(datetime.time, "a time, like 12:00:00", _TIME),
    mi.TimeDeltaType: Text(
        datetime.timedelta, "a duration, like P1DT12H30M", r"-?P(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?"
    ),
    mi.UUIDType: Text(uuid.UUID, "a UUID, like 123e4567-e89b-12d3-a456-426614174000", r"\w{8}(-\w{4}){3}-\w{12}"),
    mi.DecimalType: Text(decimal.Decimal, "a decimal number as text, like 12.50", r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?"),
    **dict.fromkeys((mi.BytesType, mi.ByteArrayType, mi.MemoryViewType), Text(bytes, "base64 text")),
}

"""From a type to its shape.

The front end is `msgspec.inspect`, which knows every spelling of a type. What JSON cannot hold, or what could be
published but not enforced, is refused here with a text that names the place and says what is allowed.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args, get_origin

import attrs
import msgspec
from msgspec import inspect as mi

from .errors import DeclarationError
from .shapes import (
    BAD,
    INTEGER_TEXT,
    Anything,
    Array,
    Boolean,
    Choice,
    Described,
    Field,
    Formatted,
    Integer,
    IntegerText,
    Null,
    Number,
    Pydantic,
    Record,
    Shape,
    Table,
    Text,
    Tuple,
    Union,
    frozen,
    is_pydantic,
    rule_text,
)
from .types import JSON

ALLOWED = (
    "Allowed are str, int, float, bool, None, bytes, Literal, Enum, datetime types, UUID, Decimal, list, set, tuple, "
    "dict with text keys, unions of those, Any, and attrs classes, dataclasses, TypedDicts, NamedTuples, msgspec "
    "Structs and pydantic models of them"
)

#: Keywords that may stand in ``Meta(extra_json_schema=…)`` because they accept and refuse nothing.
_ANNOTATIONS = {
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"),
    *("format", "contentEncoding", "contentMediaType"),
}

_DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]+)?"
_OFFSET = r"([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
_DURATION = r"-?P(?=[0-9T])([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]+)?S)?)?"
_BASE64 = r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
_DECIMAL = r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_HEX = "[0-9A-Fa-f]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"


@attrs.define
class Reading:
    """Reads types into shapes.

    With `output`, the shapes describe what `msgspec.to_builtins` makes of values, and build nothing. `exact` turns
    false when a type was read for which msgspec's conversion accepts or builds something else than its shape.
    """

    output: bool = False
    exact: bool = True
    _known: dict[Any, Record] = attrs.field(factory=dict, init=False)

    def shape(self, tp: Any, where: str) -> Shape:
        """The shape of the type `tp`. Raises `DeclarationError`, which begins with `where`."""
        if is_pydantic(tp):
            return self._custom(mi.CustomType(tp), where)
        try:
            info = mi.type_info(tp)
        except NameError as error:
            raise DeclarationError(
                f"{where}: {type_text(tp)} refers to {error.name!r}, which cannot be found from the module of that "
                "class; define or import it at module level, not under TYPE_CHECKING"
            ) from error
        except (TypeError, NotImplementedError, RecursionError) as error:
            raise DeclarationError(f"{where}: {type_text(tp)} cannot be used: {error}. {ALLOWED}.") from error
        return self._read(info, where)

    def _read(self, info: mi.Type, where: str) -> Shape:
        reader = _READERS.get(type(info))
        if reader is None:
            raise DeclarationError(
                f"{where}: {type(info).__name__.removesuffix('Type')} has no form in JSON. {ALLOWED}."
            )
        return reader(self, info, where)

    def _metadata(self, info: Any, where: str) -> Shape:
        inner = self._read(info.type, where)
        extra = info.extra_json_schema or {}
        rules = {key: value for key, value in extra.items() if rule_text(key, value)}
        notes = {key: value for key, value in extra.items() if key not in rules}
        strange = sorted(key for key in notes if key not in _ANNOTATIONS and not key.startswith("x-"))
        if strange:
            raise DeclarationError(
                f"{where}: extra_json_schema may hold annotations and bounds only; {strange[0]!r} would be published "
                "but not enforced. Say it by the type, or give the whole tool an input_schema"
            )
        self.exact = self.exact and not rules
        return Described(inner, notes, rules=rules) if extra else inner

    def _custom(self, info: Any, where: str) -> Shape:
        if info.cls is object:
            self.exact = False
            return Anything()
        if is_pydantic(info.cls):
            self.exact = False
            return Pydantic(info.cls, self.output)
        raise DeclarationError(f"{where}: {type_text(info.cls)} cannot be used. {ALLOWED}.")

    def _integer(self, info: Any, where: str) -> Shape:
        return Integer(rules=_bounds(info))

    def _number(self, info: Any, where: str) -> Shape:
        return Number(rules=_bounds(info))

    def _text(self, info: Any, where: str) -> Shape:
        rules = {"minLength": info.min_length, "maxLength": info.max_length, "pattern": info.pattern}
        return Text(rules=_given(rules))

    def _formatted(self, kind: Any, what: str, pattern: str, **annotations: JSON) -> Shape:
        # msgspec reads more than the format says (dates without an offset, UUIDs without dashes, numbers for Decimals).
        self.exact = False
        return Formatted(kind, what, f"^{pattern}$", annotations)

    def _bytes(self, info: Any, where: str) -> Shape:
        if info.min_length is not None or info.max_length is not None:
            raise DeclarationError(
                f"{where}: a bound on bytes cannot be said of their base64 text; check it in the handler"
            )
        kind = {mi.BytesType: bytes, mi.ByteArrayType: bytearray, mi.MemoryViewType: memoryview}[type(info)]
        return self._formatted(kind, "base64 text", _BASE64, contentEncoding="base64")

    def _datetime(self, info: Any, where: str) -> Shape:
        # "date-time" is a moment, so it has an offset (RFC 3339 5.6); a type that asks for none cannot be called that.
        if info.tz is False:
            what = "a date and time without offset, like 1999-12-31T12:00:00"
            return self._formatted(datetime.datetime, what, f"{_DATE}[Tt]{_TIME}")
        what = "a date and time with offset, like 1999-12-31T12:00:00Z"
        pattern = f"{_DATE}[Tt]{_TIME}{_OFFSET}"
        return self._formatted(datetime.datetime, what, pattern, format="date-time")

    def _time(self, info: Any, where: str) -> Shape:
        offset = {True: _OFFSET, False: "", None: f"{_OFFSET}?"}[info.tz]
        return self._formatted(datetime.time, "a time, like 12:00:00", f"{_TIME}{offset}")

    def _date(self, info: Any, where: str) -> Shape:
        return self._formatted(datetime.date, "a date, like 1999-12-31", _DATE, format="date")

    def _duration(self, info: Any, where: str) -> Shape:
        return self._formatted(datetime.timedelta, "a duration, like P1DT12H30M", _DURATION)

    def _uuid(self, info: Any, where: str) -> Shape:
        return self._formatted(uuid.UUID, "a UUID, like 123e4567-e89b-12d3-a456-426614174000", _UUID, format="uuid")

    def _decimal(self, info: Any, where: str) -> Shape:
        return self._formatted(decimal.Decimal, "a decimal number as text, like 12.50", _DECIMAL)

    def _literal(self, info: Any, where: str) -> Shape:
        self.exact = self.exact and not any(isinstance(value, bool) for value in info.values)
        return Choice(info.values, {frozen(value): value for value in info.values})

    def _enum(self, info: Any, where: str) -> Shape:
        if info.cls._missing_.__func__ is not enum.Enum._missing_.__func__:  # type: ignore[attr-defined]
            self.exact = False  # it would take values that are not published
        members = list(info.cls)
        values = [member.value for member in members]
        made = values if self.output else members
        return Choice(values, {frozen(value): result for value, result in zip(values, made, strict=True)})

    def _union(self, info: Any, where: str) -> Shape:
        return Union([self._read(member, where) for member in info.types])

    def _array(self, info: Any, where: str) -> Shape:
        item = self._read(info.item_type, where)
        bounds = {"minItems": info.min_length, "maxItems": info.max_length}
        collection = {mi.VarTupleType: tuple, mi.SetType: set, mi.FrozenSetType: frozenset}.get(type(info), list)
        if collection in (set, frozenset):
            self.exact = False  # msgspec drops a second item in silence
            bounds["uniqueItems"] = True
        return Array(item, list if self.output else collection, rules=_given(bounds))

    def _tuple(self, info: Any, where: str) -> Shape:
        items = [self._read(item, where) for item in info.item_types]
        return Tuple(items, 0, lambda *parts: parts, rules={"minItems": len(items), "maxItems": len(items)})

    def _named_tuple(self, info: Any, where: str) -> Shape:
        items = [self._read(field.type, f"{where}, field {field.name!r}") for field in info.fields]
        optional = sum(not field.required for field in info.fields)
        rules = {"minItems": len(items) - optional, "maxItems": len(items)}
        return Tuple(items, optional, (lambda *parts: parts) if self.output else info.cls, rules=rules)

    def _table(self, info: Any, where: str) -> Shape:
        key = self._key(self._read(info.key_type, where), where)
        bounds = {"minProperties": info.min_length, "maxProperties": info.max_length}
        return Table(key, self._read(info.value_type, where), rules=_given(bounds))

    def _key(self, key: Shape, where: str) -> Shape:
        if isinstance(key, Anything):
            return Text()
        if isinstance(key, Integer) and not key.rules:
            self.exact = False
            return IntegerText(rules={"pattern": INTEGER_TEXT})
        textual = isinstance(key, Choice) and all(isinstance(value, str) for value in key.values)
        if not isinstance(key, Text) and not textual:
            raise DeclarationError(f"{where}: the keys of a JSON object are text: use dict[str, …]")
        return key

    def _typed_dict(self, info: Any, where: str) -> Shape:
        return self._record(info, where, dict)

    def _struct(self, info: Any, where: str) -> Shape:
        if info.array_like:
            raise DeclarationError(
                f"{where}: {type_text(info.cls)} is array_like, which tells a reader nothing; leave that out"
            )
        # msgspec takes a single tagged struct without its tag, which the schema requires.
        self.exact = self.exact and info.tag_field is None
        return self._record(
            info, where, info.cls, closed=info.forbid_unknown_fields, tag_field=info.tag_field, tag=info.tag
        )

    def _class(self, info: Any, where: str) -> Shape:
        return self._record(info, where, info.cls)

    def _record(self, info: Any, where: str, build: Any, **options: Any) -> Shape:
        if info.cls in self._known:
            return self._known[info.cls]
        origin = get_origin(info.cls) or info.cls
        self.exact = self.exact and not _has_own_init(origin)
        made = dict if self.output else get_origin(build) or build
        record = Record(type_text(info.cls), made, _doc(origin), **options)
        self._known[info.cls] = record  # before its fields, which may be of this very type
        fields = (self._field(origin, field, where) for field in info.fields)
        record.fields = tuple(field for field in fields if field is not None)
        return record

    def _field(self, owner: Any, field: mi.Field, where: str) -> Field | None:
        seen = _argument_of(owner, field)
        # A field that no constructor takes, or takes by another name or through a converter, is not msgspec's to set.
        self.exact = self.exact and seen.same
        shape = self._read(field.type, f"{where}, field {field.name!r}")
        default = _default(field)
        if not self.output:
            return Field(seen.key, seen.attribute, shape, field.required, default=default) if seen.init else None
        if attrs.has(owner) and field.name.startswith("_"):
            return None  # to_builtins leaves it out
        return Field(field.encode_name, field.encode_name, shape, field.required and seen.init, default=default)


def _has_own_init(cls: Any) -> bool:
    """Whether instances are made by an ``__init__`` of their own, or pydantic's: msgspec would go around it."""
    if attrs.has(cls):
        return hasattr(cls, "__attrs_init__")
    generated = getattr(cls, "__dataclass_params__", None)
    return hasattr(cls, "__pydantic_validator__") or (generated is not None and not generated.init)


class _Argument(NamedTuple):
    """How a constructor takes a field: at all, by which key in JSON and name, and whether msgspec does the same."""

    init: bool
    key: str
    attribute: str
    same: bool


def _argument_of(owner: Any, field: mi.Field) -> _Argument:
    if attrs.has(owner):
        attribute = attrs.fields_dict(owner)[field.name]
        name = attribute.alias or field.name
        return _Argument(attribute.init, name, name, attribute.init and not attribute.converter and name == field.name)
    if dataclasses.is_dataclass(owner):
        init = next(item.init for item in dataclasses.fields(owner) if item.name == field.name)
        return _Argument(init, field.name, field.name, init)
    return _Argument(True, field.encode_name, field.name, True)


def _default(field: mi.Field) -> JSON:
    """The default of a field as JSON, or `BAD` where it has none that can be published."""
    if field.default_factory in (list, tuple, set, frozenset):
        return []
    if field.default_factory is dict:
        return {}
    return BAD if field.default is msgspec.NODEFAULT else json_of(field.default)


def json_of(value: Any) -> JSON:
    """`value` as JSON, or `BAD` where it has no such form."""
    try:
        wire = msgspec.to_builtins(value, str_keys=True)
        json.dumps(wire, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return BAD
    return wire


def _given(rules: Mapping[str, JSON]) -> dict[str, JSON]:
    return {keyword: bound for keyword, bound in rules.items() if bound is not None}


def _bounds(info: Any) -> dict[str, JSON]:
    return _given(
        {
            "minimum": info.ge,
            "exclusiveMinimum": info.gt,
            "maximum": info.le,
            "exclusiveMaximum": info.lt,
            "multipleOf": info.multiple_of,
        }
    )


def type_text(tp: Any) -> str:
    """A type as a reader would write it."""
    origin, args = get_origin(tp), get_args(tp)
    if isinstance(origin, type) and args and origin.__module__ not in ("builtins", "types"):
        return f"{origin.__name__}[{', '.join(map(type_text, args))}]"
    return tp.__name__ if isinstance(tp, type) and origin is None else repr(tp).replace("typing.", "")


def _doc(cls: Any) -> str | None:
    text = cls.__dict__.get("__doc__")
    # dataclass and NamedTuple write a docstring of their own, which only repeats the fields.
    if not isinstance(text, str) or not text.strip() or text.startswith(f"{cls.__name__}("):
        return None
    return inspect.cleandoc(text)


_READERS: dict[type, Callable[[Reading, Any, str], Shape]] = {
    mi.AnyType: lambda reading, info, where: Anything(),
    mi.NoneType: lambda reading, info, where: Null(),
    mi.BoolType: lambda reading, info, where: Boolean(),
    mi.IntType: Reading._integer,
    mi.FloatType: Reading._number,
    mi.StrType: Reading._text,
    mi.BytesType: Reading._bytes,
    mi.ByteArrayType: Reading._bytes,
    mi.MemoryViewType: Reading._bytes,
    mi.DateTimeType: Reading._datetime,
    mi.TimeType: Reading._time,
    mi.DateType: Reading._date,
    mi.TimeDeltaType: Reading._duration,
    mi.UUIDType: Reading._uuid,
    mi.DecimalType: Reading._decimal,
    mi.LiteralType: Reading._literal,
    mi.EnumType: Reading._enum,
    mi.CustomType: Reading._custom,
    mi.UnionType: Reading._union,
    mi.ListType: Reading._array,
    mi.VarTupleType: Reading._array,
    mi.SetType: Reading._array,
    mi.FrozenSetType: Reading._array,
    mi.TupleType: Reading._tuple,
    mi.NamedTupleType: Reading._named_tuple,
    mi.DictType: Reading._table,
    mi.TypedDictType: Reading._typed_dict,
    mi.DataclassType: Reading._class,
    mi.StructType: Reading._struct,
    mi.Metadata: Reading._metadata,
}

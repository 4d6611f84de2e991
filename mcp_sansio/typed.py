"""Which types may be declared: those for which msgspec's schema and msgspec's validation say the same.

Where validation takes more than the schema says, the type is not *exact*, and `mcp_sansio.faults` looks at every value.
Where it takes less, or sets something that the schema should not offer, the type is refused with a way out.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, NoReturn, Union, get_args, get_origin

import attrs
import msgspec
from msgspec import inspect as mi

from . import foreign
from .errors import DeclarationError
from .faults import ArgumentsInvalid, Fault, examined, fault_of, has_verdict
from .types import JSON
from .wording import KINDS_OF_TYPES, TEXTS, kinds_of, options_of

ALLOWED = (
    "Allowed are str, int, float, bool, None, bytes, Literal, Enum, datetime types, UUID, Decimal, list, set, tuple, "
    "dict with text keys, unions of those, Any, and attrs classes, dataclasses, TypedDicts, NamedTuples, msgspec "
    "Structs and pydantic models of them"
)

#: What msgspec raises for a value, after which a walk says what is wrong with it.
REFUSED = (msgspec.ValidationError, RecursionError)


def spelled(annotation: Any) -> Any:
    """`annotation` in msgspec's words: text beside a type is its description, and a datetime has an offset.

    Only with an offset is a datetime a moment, so that its schema may say ``date-time`` (RFC 3339, section 5.6).
    """
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        said = [_described(note) if isinstance(note, str) else note for note in args[1:]]
        settled = any(getattr(note, "tz", None) is not None for note in said)
        return Annotated[(args[0] if settled else spelled(args[0]), *said)]
    if origin in (Union, UnionType):
        return Union[tuple(map(spelled, args))]  # noqa: UP007 - made of a list
    return Annotated[datetime.datetime, msgspec.Meta(tz=True)] if annotation is datetime.datetime else annotation


def _described(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=inspect.cleandoc(text))


#: What most arguments are, which msgspec would be asked again for each: 2 ms for those of a hundred tools.
_SCALARS = {kind: mi.type_info(kind) for kind in (str, int, float, bool)}


class Typed(msgspec.Struct, frozen=True):
    """A type that JSON is read as, or (with `output`) that becomes JSON.

    `info` is how msgspec describes it, `exact` whether msgspec's word is final, `models` whether models of pydantic are
    in it, and `shares` whether what is read may hold parts of what it was read from.
    """

    type: Any
    info: mi.Type
    exact: bool
    models: bool
    shares: bool
    output: bool

    @classmethod
    def of(cls, annotation: Any, where: str, *, output: bool = False) -> Typed:
        """Inspect a type. Raises `DeclarationError`, which begins with `where`."""
        if type(annotation) is type and annotation in _SCALARS:
            return cls(annotation, _SCALARS[annotation], exact=True, models=False, shares=False, output=output)
        try:
            info = mi.type_info(annotation)
            check = _Check(output)
            check.look(info, where)
            msgspec.json.Decoder(annotation)
        except NameError as error:
            raise DeclarationError(
                f"{where}: {type_text(annotation)} refers to {error.name!r}, which cannot be found from the module of "
                "that class; define or import it at module level, not under TYPE_CHECKING"
            ) from error
        except (TypeError, NotImplementedError, RecursionError) as error:
            raise DeclarationError(f"{where}: {type_text(annotation)} cannot be used: {error}. {ALLOWED}.") from error
        while isinstance(info, mi.Metadata):  # it holds annotations alone
            info = info.type
        return cls(annotation, info, check.exact, check.models, check.shares, output)

    @classmethod
    def of_arguments(cls, struct: type[msgspec.Struct], parts: Mapping[str, Typed], required: Sequence[str]) -> Typed:
        """The type of `struct`, which has a field for each of `parts`. They were inspected: it costs them no more."""
        fields = tuple(mi.Field(name, name, typed.info, name in required) for name, typed in parts.items())
        types = parts.values()
        return cls(
            type=struct,
            info=mi.StructType(struct, fields),
            exact=all(typed.exact for typed in types),
            models=any(typed.models for typed in types),
            shares=any(typed.shares for typed in types),
            output=False,
        )

    @property
    def is_model(self) -> bool:
        """Whether the type is one class of named properties, and not a type of a single argument."""
        return type(self.info) in _MODELS

    @property
    def convert(self) -> Callable[..., Any]:
        """msgspec's conversion, called with a value and the type."""
        # A hook doubles the time of a small conversion, so it is there only for those who need it.
        return functools.partial(msgspec.convert, dec_hook=foreign.validated) if self.models else msgspec.convert

    def built(self, value: JSON) -> Any:
        """What `value` is read as, with a full look at it. Raises `ArgumentsInvalid`."""
        ready, faults = examined(self.info, value)
        if faults:
            raise ArgumentsInvalid(faults)
        try:
            return self.convert(ready, self.type)
        except msgspec.ValidationError as error:
            raise ArgumentsInvalid([fault_of(error)]) from error

    def faults(self, value: JSON) -> list[Fault]:
        """The faults of a `value` that is to be sent."""
        if self.exact:
            try:
                msgspec.convert(value, self.type, str_keys=True)
                return []
            except REFUSED:
                pass  # the walk says why
        return examined(self.info, value, output=True)[1]


_MODELS = (mi.StructType, mi.TypedDictType, mi.DataclassType, mi.CustomType)


# What is allowed

#: Keywords that may stand in ``Meta(extra_json_schema=…)`` because they accept and refuse nothing.
_ANNOTATIONS = {
    *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment"),
    *("format", "contentEncoding", "contentMediaType"),
}
#: What msgspec reads more generously than it publishes: a date without a T, a UUID without dashes, an item set twice.
_LOOSE = {kind for kind, text in TEXTS.items() if text.pattern} | {mi.SetType, mi.FrozenSetType}
_KNOWN = {*KINDS_OF_TYPES, mi.AnyType, mi.LiteralType}
_TAKEN_AS_IS = {mi.AnyType, mi.CustomType}


@functools.cache
def _parts_of(kind: type[mi.Type]) -> tuple[str, ...]:
    """Where types of this kind hold those that they are made of."""
    holders = ("type", "item_type", "key_type", "value_type", "item_types", "types")
    return tuple(name for name in kind.__struct_fields__ if name in holders)


class _Check(msgspec.Struct):
    """Looks at everything that a type is made of."""

    output: bool
    exact: bool = True
    models: bool = False
    shares: bool = False
    _seen: set[int] = msgspec.field(default_factory=set)

    def look(self, info: Any, where: str) -> None:
        if id(info) in self._seen:
            return
        self._seen.add(id(info))
        kind: type[mi.Type] = type(info)
        check = _CHECKS.get(kind)
        if check is not None:
            check(self, info, where)
        elif kind not in _KNOWN:
            _refuse(where, f"{kind.__name__.removesuffix('Type')} has no form in JSON. {ALLOWED}.")
        # What may be anything is taken as it is, by pydantic too.
        self.shares = self.shares or kind in _TAKEN_AS_IS
        # A result is not made a second time by code of the application, which may count or log what it makes.
        runs_code = self.output and has_verdict(getattr(info, "cls", None))
        self.exact = self.exact and kind not in _LOOSE and not runs_code
        for name in _parts_of(kind):
            held = getattr(info, name)
            for part in held if type(held) is tuple else (held,):
                self.look(part, where)
        for field in getattr(info, "fields", ()):
            self.look(field.type, f"{where}, field {field.name!r}")

    def metadata(self, info: mi.Metadata, where: str) -> None:
        for key in info.extra_json_schema or {}:
            if key not in _ANNOTATIONS and not key.startswith("x-"):
                _refuse(
                    where,
                    f"extra_json_schema may hold annotations only; {key!r} would be published but not enforced. "
                    "Say it by the type or by msgspec.Meta, or give the whole tool an input_schema",
                )

    def number(self, info: mi.IntType | mi.FloatType, where: str) -> None:
        if info.multiple_of is not None and info.multiple_of != int(info.multiple_of):
            _refuse(where, "multiple_of must be whole: what divides 0.3 depends on rounding; check it in the handler")

    def binary(self, info: mi.BytesType | mi.ByteArrayType | mi.MemoryViewType, where: str) -> None:
        if info.min_length is not None or info.max_length is not None:
            _refuse(where, "a bound on bytes cannot be said of their base64 text; check it in the handler")

    def enumeration(self, info: mi.EnumType, where: str) -> None:
        missing = info.cls._missing_.__func__  # type: ignore[attr-defined]
        self.exact = self.exact and missing is enum.Enum._missing_.__func__  # type: ignore[attr-defined]

    def custom(self, info: mi.CustomType, where: str) -> None:
        if not foreign.is_pydantic(info.cls):
            hint = " The Exchange and a dependency are annotated by that type alone; provide() a dependency first."
            _refuse(where, f"{type_text(info.cls)} cannot be used. {ALLOWED}.{'' if self.output else hint}")
        self.models = True

    def table(self, info: mi.DictType, where: str) -> None:
        key = info.key_type.type if isinstance(info.key_type, mi.Metadata) else info.key_type
        is_text = isinstance(key, mi.AnyType | mi.StrType) or (options_of(key) and kinds_of(key) == ["a string"])
        if not self.output and not is_text:
            _refuse(where, "the keys of a JSON object are text: use dict[str, …]")

    def union(self, info: mi.UnionType, where: str) -> None:
        members = [member.type if isinstance(member, mi.Metadata) else member for member in info.types]
        if any(isinstance(member, mi.FloatType) for member in members):
            integers = [member for member in members if "an integer" in kinds_of(member)]
            if any(member != mi.IntType() for member in integers):
                _refuse(where, "beside float, every integer is allowed already; drop the bounded or listed integers")

    def struct(self, info: mi.StructType, where: str) -> None:
        if info.array_like:
            _refuse(where, f"{type_text(info.cls)} is array_like, which tells a reader nothing; leave that out")
        # msgspec takes a single tagged struct without its tag, which the schema requires.
        self.exact = self.exact and info.tag_field is None

    def instance(self, info: mi.DataclassType, where: str) -> None:
        cls = get_origin(info.cls) or info.cls
        if not self.output and _has_own_init(cls):
            _refuse(where, f"{type_text(cls)} has an __init__ of its own, and msgspec makes instances without it")
        for field in info.fields:
            reason = _why_not_sent(field) if self.output else _why_not_read(cls, field)
            if reason:
                _refuse(where, f"the field {field.name!r} of {type_text(cls)} {reason}")


_CHECKS: Mapping[type, Callable[[_Check, Any, str], None]] = {
    mi.Metadata: _Check.metadata,
    **dict.fromkeys((mi.IntType, mi.FloatType), _Check.number),
    **dict.fromkeys((mi.BytesType, mi.ByteArrayType, mi.MemoryViewType), _Check.binary),
    mi.EnumType: _Check.enumeration,
    mi.CustomType: _Check.custom,
    mi.DictType: _Check.table,
    mi.UnionType: _Check.union,
    mi.StructType: _Check.struct,
    mi.DataclassType: _Check.instance,
}


def _has_own_init(cls: Any) -> bool:
    """Whether instances are made by an ``__init__`` of their own, or pydantic's: msgspec would go around it."""
    if attrs.has(cls):
        return hasattr(cls, "__attrs_init__")
    generated = getattr(cls, "__dataclass_params__", None)
    return hasattr(cls, "__pydantic_validator__") or (generated is not None and not generated.init)


def _why_not_read(cls: Any, field: mi.Field) -> str | None:
    """Why a field cannot be published: msgspec sets all fields, by their own names, past the constructor."""
    known = {item.name: item for item in (attrs.fields(cls) if attrs.has(cls) else dataclasses.fields(cls))}[field.name]
    if not known.init:
        return "is not for the constructor, but would be published and set; use a model without it"
    if getattr(known, "converter", None):
        return "has a converter, which would not run; declare the type that arguments have"
    alias = getattr(known, "alias", None) or field.name
    return None if alias == field.name else f"is {alias!r} to the constructor, and would not be published so; rename it"


def _why_not_sent(field: mi.Field) -> str | None:
    is_kept_back = field.required and field.name.startswith("_")
    return "would be published as required, but fields with an underscore are not sent" if is_kept_back else None


def _refuse(where: str, reason: str) -> NoReturn:
    raise DeclarationError(f"{where}: {reason}")


def type_text(tp: Any) -> str:
    """A type as a reader would write it."""
    origin, args = get_origin(tp), get_args(tp)
    if isinstance(origin, type) and args and origin.__module__ not in ("builtins", "types"):
        return f"{origin.__name__}[{', '.join(map(type_text, args))}]"
    return tp.__name__ if isinstance(tp, type) and origin is None else repr(tp).replace("typing.", "")

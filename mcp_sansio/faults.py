"""Every fault of a value that msgspec refused, each with its path.

msgspec decides what is valid, and stops at the first fault. A caller that is a program or a model needs all of them at
once, in its own words. So a refused value is walked along the type, as `msgspec.inspect` describes it. The walk also
gives back the value as it is to be tried again: JSON Schema calls 1.0 an integer, and msgspec does not.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

import attrs
import msgspec
from msgspec import inspect as mi

from . import foreign
from .errors import McpError
from .types import JSON
from .wording import RULES, TEXTS, kind_of, kinds_of, one_of, options_of, path_text, readings, short

Fault = tuple[str, str]
"""A path in the arguments (``$.items[2].price``) and what is wrong there."""
Path = tuple[str | int, ...]

#: How many faults of one value are reported; the rest adds nothing that a reader could use.
MAX_FAULTS = 100


class ArgumentsInvalid(McpError):
    """Arguments that do not fit the schema. `faults` lists them all (up to 100), in words meant for the peer."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(f"{path}: {message}" for path, message in self.faults))


def examined(info: mi.Type, value: JSON, *, output: bool = False) -> tuple[JSON, list[Fault]]:
    """`value` with the integers that its type wants, and all of its faults.

    With `output`, what classes say of their instances does not count, since those were there before.
    """
    walk = _Walk(output)
    try:
        return walk.look(info, value, ()), walk.faults
    except RecursionError:
        return value, [("$", "is nested too deeply")]


_PLACE = r" - at `(?:key` in `)?(\$[^`]*)`$"


def fault_of(error: msgspec.ValidationError) -> Fault:
    """What msgspec, or a class behind it, says of a value."""
    place = re.search(_PLACE, str(error))
    # attrs' validators put the message first and then the attribute and the value, which must not be echoed.
    said = error.__cause__.args[:1] if error.__cause__ else [re.sub(_PLACE, "", str(error))]
    text = said[0] if said and isinstance(said[0], str) else "is not valid"
    return (place[1] if place else "$"), short(text)


class _Walk(msgspec.Struct):
    """One walk. Each method adds the faults of `value`, and gives it back with the integers that the type wants."""

    output: bool
    faults: list[Fault] = msgspec.field(default_factory=list)

    def add(self, path: Path, message: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append((path_text(path), message))

    def look(self, info: mi.Type, value: JSON, path: Path) -> JSON:
        if len(self.faults) >= MAX_FAULTS:
            return value  # which is refused already, and may be huge
        while isinstance(info, mi.Metadata):
            info = info.type
        options = options_of(info)
        if options is not None:
            return self.choice(options, value, path)
        if not isinstance(info, mi.CustomType) and not any(kind in kinds_of(info) for kind in readings(value)):
            self.add(path, f"must be {' or '.join(kinds_of(info))}, not {kind_of(value)}")
            return value
        for rule in RULES.get(type(value), ()):
            bound = getattr(info, rule.attribute, None)
            if bound is not None and not rule.holds(value, bound):
                self.add(path, rule.text.format(bound))
        look = _LOOKS.get(type(info))
        return look(self, info, value, path) if look else value

    def choice(self, options: Sequence[JSON], value: JSON, path: Path) -> JSON:
        for option in options:
            if value == option and set(readings(value)) == set(readings(option)):
                return option
        self.add(path, one_of(options))
        return value

    def union(self, info: mi.UnionType, value: JSON, path: Path) -> JSON:
        # No two members are of one kind (msgspec allows none), but for structs with tags and for choices beside text.
        if any(isinstance(member, mi.AnyType) for member in info.types):
            return value
        fits = [member for kind in readings(value) for member in info.types if kind in kinds_of(member)]
        tagged = [member for member in fits if isinstance(member, mi.StructType)]
        if len(tagged) > 1:
            fits = [member for member in tagged if value.get(member.tag_field) == member.tag]
            if not fits:
                self.add((*path, tagged[0].tag_field or ""), one_of([member.tag for member in tagged]))
                return value
        named = [member for member in fits if value in (options_of(member) or ())]
        plain = [member for member in fits if options_of(member) is None]
        return self.look([*named, *plain, *fits][0], value, path)

    def integer(self, info: mi.IntType, value: JSON, path: Path) -> JSON:
        return int(value)

    def number(self, info: mi.FloatType, value: JSON, path: Path) -> JSON:
        try:
            float(value)
        except OverflowError:
            self.add(path, "is out of the range of a floating-point number")
        return value

    def text(self, info: Any, value: JSON, path: Path) -> JSON:
        text, tz = TEXTS[type(info)], getattr(info, "tz", None)
        try:
            sound = re.fullmatch(text.pattern or ".*", value, re.ASCII | re.DOTALL) is not None
            msgspec.convert(value, _with_offset(text.type, tz))
        except msgspec.ValidationError:
            sound = False
        if not sound:
            self.add(path, f"must be {text.what}{'Z' if tz else ''}")
        return value

    def array(self, info: Any, value: JSON, path: Path) -> JSON:
        return [self.look(info.item_type, item, (*path, index)) for index, item in enumerate(value)]

    def unique(self, info: Any, value: JSON, path: Path) -> JSON:
        seen = {msgspec.json.encode(foreign.integral_numbers(item), order="sorted") for item in value}
        if len(seen) < len(value):
            self.add(path, "must not hold an item twice")
        return self.array(info, value, path)

    def parts(self, info: Any, value: JSON, path: Path) -> JSON:
        fields = getattr(info, "fields", ())
        items = [field.type for field in fields] or info.item_types
        least = len(items) - sum(not field.required for field in fields)
        if len(value) < least:
            self.add(path, f"must have at least {least} items")
        if len(value) > len(items):
            self.add(path, f"must have at most {len(items)} items")
        pairs = enumerate(zip(items, value, strict=False))
        return [self.look(item, part, (*path, index)) for index, (item, part) in pairs]

    def table(self, info: mi.DictType, value: JSON, path: Path) -> JSON:
        for name in value if "a string" in kinds_of(info.key_type) else ():
            for _, message in examined(info.key_type, name)[1]:
                self.add((*path, name), f"its key {message}")
        return {name: self.look(info.value_type, item, (*path, name)) for name, item in value.items()}

    def record(self, info: Any, value: JSON, path: Path) -> JSON:
        before, made = len(self.faults), dict(value)
        for field in info.fields:
            name = field.encode_name
            if name in value:
                made[name] = self.look(field.type, value[name], (*path, name))
            elif field.required:
                self.add((*path, name), "is required")
        if len(self.faults) == before and not self.output and has_verdict(info.cls):
            self.verdict(info.cls, made, path)
        return made

    def struct(self, info: mi.StructType, value: JSON, path: Path) -> JSON:
        if info.tag_field and value.get(info.tag_field) != info.tag:
            self.add((*path, info.tag_field), one_of([info.tag]))
        known = {field.encode_name for field in info.fields} | {info.tag_field}
        for name in value if info.forbid_unknown_fields else ():
            if name not in known:
                self.add((*path, name), "is not a known property")
        return self.record(info, value, path)

    def model(self, info: mi.CustomType, value: JSON, path: Path) -> JSON:
        try:
            if not self.output:
                foreign.validated(info.cls, value)
        except ValueError as error:
            for steps, message in foreign.faults_of(error):
                self.add((*path, *steps), short(message))
        return value

    def verdict(self, cls: Any, value: JSON, path: Path) -> None:
        """Ask the class itself, whose validators may know more than its types say."""
        try:
            msgspec.convert(value, cls, dec_hook=foreign.validated)
        except msgspec.ValidationError as error:
            self.add(path, fault_of(error)[1])


@functools.cache
def _with_offset(tp: Any, tz: bool | None) -> Any:
    """A type that is written as text; one that is made anew would be read anew at each conversion."""
    return Annotated[tp, msgspec.Meta(tz=tz)]


def has_verdict(cls: Any) -> bool:
    """Whether making an instance of `cls` runs code of the application, which may refuse it."""
    hooks = any(hasattr(cls, name) for name in ("__post_init__", "__attrs_post_init__"))
    return hooks or (attrs.has(cls) and any(field.validator for field in attrs.fields(cls)))


_LOOKS: Mapping[type, Callable[[_Walk, Any, JSON, Path], JSON]] = {
    mi.UnionType: _Walk.union,
    mi.IntType: _Walk.integer,
    mi.FloatType: _Walk.number,
    **dict.fromkeys(TEXTS, _Walk.text),
    **dict.fromkeys((mi.ListType, mi.VarTupleType), _Walk.array),
    **dict.fromkeys((mi.SetType, mi.FrozenSetType), _Walk.unique),
    **dict.fromkeys((mi.TupleType, mi.NamedTupleType), _Walk.parts),
    mi.DictType: _Walk.table,
    **dict.fromkeys((mi.TypedDictType, mi.DataclassType), _Walk.record),
    mi.StructType: _Walk.struct,
    mi.CustomType: _Walk.model,
}

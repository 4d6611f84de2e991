"""Types as shapes: each shape publishes its JSON Schema and builds the value that the schema describes.

One object does both, so that what is published and what is accepted cannot drift apart. A shape is the reference: it
finds every fault of a value, takes 1.0 for an integer as JSON Schema does, and calls constructors as a program would.
msgspec's own conversion is several times faster and means the same for most types; `mcp_sansio.reading` says for which,
and `mcp_sansio.binding` then tries it first and comes here only with what it refused.

Which shape a type has is read in `mcp_sansio.reading`.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import attrs
import msgspec

from .errors import McpError
from .types import JSON

Fault = tuple[str, str]
"""A path in the arguments (``$.items[2].price``) and what is wrong there."""
Path = tuple[str | int, ...]

#: How many faults of one value are reported; the rest adds nothing that a reader could use.
MAX_FAULTS = 100
_MAX_TEXT = 200
_MAX_OPTIONS = 20

BAD: Any = object()
"""What `Shape.take` gives for a value that has a fault."""


class ArgumentsInvalid(McpError):
    """Arguments that do not fit the schema. `faults` lists them all (up to 100), in words meant for the peer."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(f"{path}: {message}" for path, message in self.faults))


class Faults:
    """Collects the faults of one value."""

    def __init__(self) -> None:
        self.found: list[Fault] = []

    def add(self, path: Path, message: str) -> None:
        """Note that the value at `path` has a fault."""
        if len(self.found) < MAX_FAULTS:
            self.found.append((path_text(path), message))


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def path_text(path: Iterable[str | int]) -> str:
    """A path as a reader would write it: ``("items", 2, "a b")`` → ``$.items[2]["a b"]``."""
    return "$" + "".join(_step(part) for part in path)


def _step(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    shown = part if len(part) <= _MAX_TEXT else part[:_MAX_TEXT] + "…"
    return f".{shown}" if _IDENTIFIER.fullmatch(shown) else f"[{json.dumps(shown)}]"


# Rules: the validation keywords of JSON Schema that bound a value, enforced exactly as they are published.


def is_integer(value: JSON) -> bool:
    """Whether JSON Schema calls `value` an integer: 1 and 1.0 are, ``True`` is not."""
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_multiple(value: float, divisor: float) -> bool:
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor == 0
    try:
        quotient = value / divisor
    except OverflowError:
        return False
    return math.isfinite(quotient) and quotient == math.floor(quotient)


def frozen(value: JSON) -> Any:
    """A hashable stand-in, equal where JSON Schema calls two values equal: 1 and 1.0 are, 1 and ``True`` are not."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list | tuple):
        return ("list", *map(frozen, value))
    if isinstance(value, dict):
        return ("dict", frozenset((key, frozen(item)) for key, item in value.items()))
    return value


def _is_unique(items: list[JSON], wanted: bool) -> bool:
    return not wanted or len({frozen(item) for item in items}) == len(items)


_NUMBER, _TEXT, _LIST, _DICT = (int, float), (str,), (list, tuple), (dict,)
_RULES: dict[str, tuple[tuple[type, ...], Callable[[Any, Any], bool], str]] = {
    "minimum": (_NUMBER, operator.ge, "must be at least {}"),
    "exclusiveMinimum": (_NUMBER, operator.gt, "must be greater than {}"),
    "maximum": (_NUMBER, operator.le, "must be at most {}"),
    "exclusiveMaximum": (_NUMBER, operator.lt, "must be less than {}"),
    "multipleOf": (_NUMBER, _is_multiple, "must be a multiple of {}"),
    "minLength": (_TEXT, lambda value, bound: len(value) >= bound, "must have at least {} characters"),
    "maxLength": (_TEXT, lambda value, bound: len(value) <= bound, "must have at most {} characters"),
    "pattern": (_TEXT, lambda value, pattern: re.search(pattern, value) is not None, "must match the pattern {}"),
    "minItems": (_LIST, lambda value, bound: len(value) >= bound, "must have at least {} items"),
    "maxItems": (_LIST, lambda value, bound: len(value) <= bound, "must have at most {} items"),
    "uniqueItems": (_LIST, _is_unique, "must not hold an item twice"),
    "minProperties": (_DICT, lambda value, bound: len(value) >= bound, "must have at least {} properties"),
    "maxProperties": (_DICT, lambda value, bound: len(value) <= bound, "must have at most {} properties"),
}


def rule_text(keyword: str, bound: JSON) -> str | None:
    """What to say when the rule `keyword` is broken, or ``None`` for a keyword that is no such rule."""
    return _RULES[keyword][2].format(bound) if keyword in _RULES else None


def _broken(rules: Mapping[str, JSON], value: JSON) -> list[str]:
    found = []
    for keyword, bound in rules.items():
        kinds, holds, message = _RULES[keyword]
        if isinstance(value, kinds) and not isinstance(value, bool) and not holds(value, bound):
            found.append(message.format(bound))
    return found


_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (bool, "a boolean"),
    (int, "an integer"),
    (float, "a number"),
    (str, "a string"),
    (list, "an array"),
    (dict, "an object"),
    (type(None), "null"),
)


def kind_of(value: JSON) -> str:
    """What JSON calls the kind of `value`, with its article."""
    return next((name for kind, name in _KINDS if isinstance(value, kind)), type(value).__name__)


class Defs:
    """The named schemas of one document, as they are collected."""

    def __init__(self) -> None:
        self.schemas: dict[str, dict[str, JSON]] = {}
        self._names: dict[int, str] = {}

    def ref(self, shape: Record) -> dict[str, JSON]:
        """A reference to `shape`'s schema, which is made on the first use, and so may refer to itself."""
        name = self._names.get(id(shape))
        if name is None:
            name = self._names[id(shape)] = self.free(shape.title)
            self.schemas[name] = {}
            self.schemas[name].update(shape.body(self))
        return {"$ref": f"#/$defs/{name}"}

    def free(self, title: str) -> str:
        """A name for `title` that needs no escaping in a pointer and is not taken."""
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", title).strip("_") or "Object"
        name, number = base, 2
        while name in self.schemas:
            name, number = f"{base}_{number}", number + 1
        return name


@attrs.define(eq=False)
class Shape:
    """What a type looks like in JSON. `rules` are published and enforced as they are."""

    noun: ClassVar[str] = "a JSON value"
    rules: Mapping[str, JSON] = attrs.field(factory=dict, kw_only=True)

    def schema(self, defs: Defs) -> dict[str, JSON]:
        """The JSON Schema."""
        raise NotImplementedError

    def rank(self, value: JSON) -> int | None:
        """How well the kind of `value` fits: 0 is best, ``None`` is not at all. Unions choose by it."""
        raise NotImplementedError

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        """The Python value for a `value` of the right kind that breaks no rule, or `BAD` and faults."""
        return value

    def take(self, value: JSON, path: Path, faults: Faults) -> Any:
        """The Python value for `value`, or `BAD`, having added every fault to `faults`."""
        if self.rank(value) is None:
            faults.add(path, f"must be {self.noun}, not {kind_of(value)}")
            return BAD
        broken = _broken(self.rules, value)
        for message in broken:
            faults.add(path, message)
        made = self.make(value, path, faults)
        return BAD if broken else made


@attrs.define(eq=False)
class Anything(Shape):
    """Any JSON value."""

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return {}

    def rank(self, value: JSON) -> int | None:
        return 2  # behind every branch of a union that says more


@attrs.define(eq=False)
class Null(Shape):
    """Null."""

    noun = "null"

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return {"type": "null"}

    def rank(self, value: JSON) -> int | None:
        return 0 if value is None else None


@attrs.define(eq=False)
class Boolean(Shape):
    """True or false."""

    noun = "a boolean"

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return {"type": "boolean"}

    def rank(self, value: JSON) -> int | None:
        return 0 if isinstance(value, bool) else None


@attrs.define(eq=False)
class Integer(Shape):
    """An integer of any size. 1.0 is one too (JSON Schema core 4.2.3)."""

    noun = "an integer"

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return {"type": "integer", **self.rules}

    def rank(self, value: JSON) -> int | None:
        return (1 if isinstance(value, float) else 0) if is_integer(value) else None

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        return int(value)


@attrs.define(eq=False)
class Number(Shape):
    """A float; an integer is taken for one."""

    noun = "a number"

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return {"type": "number", **self.rules}

    def rank(self, value: JSON) -> int | None:
        if isinstance(value, float):
            return 0
        return 1 if is_integer(value) else None

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        try:
            return float(value)
        except OverflowError:
            faults.add(path, "is out of the range of a floating-point number")
            return BAD


@attrs.define(eq=False)
class Text(Shape):
    """A string."""

    noun = "a string"

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return {"type": "string", **self.rules}

    def rank(self, value: JSON) -> int | None:
        return 0 if isinstance(value, str) else None


@attrs.define(eq=False)
class Formatted(Text):
    """A string of a known format, read into a type of its own.

    The pattern is published where no ``format`` of JSON Schema says the same, and is enforced either way.
    """

    type: Any
    what: str
    pattern: str
    annotations: Mapping[str, JSON]

    def schema(self, defs: Defs) -> dict[str, JSON]:
        said = self.annotations if "format" in self.annotations else {**self.annotations, "pattern": self.pattern}
        return {"type": "string", **said}

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        if re.search(self.pattern, value):
            try:
                return msgspec.convert(value, self.type)
            except (msgspec.ValidationError, ValueError, OverflowError):
                pass  # the pattern let through what the type has no room for, such as the 30th of February
        faults.add(path, f"must be {self.what}")
        return BAD


@attrs.define(eq=False)
class Choice(Shape):
    """One of a few values: a Literal or an Enum. `options` maps each JSON value, frozen, to the Python value."""

    values: Sequence[JSON]
    options: Mapping[Any, Any]

    def schema(self, defs: Defs) -> dict[str, JSON]:
        types = {_JSON_TYPES.get(type(value)) for value in self.values}
        (only,) = types if len(types) == 1 else (None,)
        return {"enum": list(self.values)} if only is None else {"type": only, "enum": list(self.values)}

    def rank(self, value: JSON) -> int | None:
        return 0 if any(kind_of(value) == kind_of(option) for option in self.values) or self._has(value) else None

    def _has(self, value: JSON) -> bool:
        return not isinstance(value, list | tuple | dict) and frozen(value) in self.options

    def take(self, value: JSON, path: Path, faults: Faults) -> Any:
        if self._has(value):
            return self.options[frozen(value)]
        faults.add(path, _one_of(self.values))
        return BAD


_JSON_TYPES = {str: "string", int: "integer", bool: "boolean"}


def _one_of(values: Sequence[JSON]) -> str:
    shown = ", ".join(json.dumps(value)[:_MAX_TEXT] for value in values[:_MAX_OPTIONS])
    more = ", …" if len(values) > _MAX_OPTIONS else ""
    return f"must be {shown}" if len(values) == 1 else f"must be one of {shown}{more}"


@attrs.define(eq=False)
class Array(Shape):
    """Items of one shape, built into `collection`."""

    noun = "an array"
    item: Shape
    collection: Callable[[list[Any]], Any]

    def schema(self, defs: Defs) -> dict[str, JSON]:
        item = self.item.schema(defs)
        return {"type": "array", **({"items": item} if item else {}), **self.rules}

    def rank(self, value: JSON) -> int | None:
        return 0 if isinstance(value, list | tuple) else None

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        built = [self.item.take(item, (*path, index), faults) for index, item in enumerate(value)]
        if any(item is BAD for item in built):
            return BAD
        return _construct(self.collection, (built,), {}, path, faults)


@attrs.define(eq=False)
class Tuple(Shape):
    """Items of their own shapes, of which the last `optional` may be missing."""

    noun = "an array"
    items: Sequence[Shape]
    optional: int
    collection: Callable[..., Any]

    def schema(self, defs: Defs) -> dict[str, JSON]:
        # The old form of `items` is a list in earlier drafts; this is the form of 2020-12, the default dialect.
        prefix = [item.schema(defs) for item in self.items]
        return {"type": "array", "prefixItems": prefix, "items": False, **self.rules}

    def rank(self, value: JSON) -> int | None:
        return 0 if isinstance(value, list | tuple) else None

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        pairs = zip(self.items, value, strict=False)
        built = [item.take(part, (*path, index), faults) for index, (item, part) in enumerate(pairs)]
        if len(value) > len(self.items) or len(value) < len(self.items) - self.optional:
            return BAD  # the rules have said so
        if any(item is BAD for item in built):
            return BAD
        return _construct(self.collection, built, {}, path, faults)


@attrs.define(eq=False)
class Table(Shape):
    """An object of any keys, with values of one shape."""

    noun = "an object"
    key: Shape
    value: Shape

    def schema(self, defs: Defs) -> dict[str, JSON]:
        key, value = self.key.schema(defs), self.value.schema(defs)
        names = {name: rule for name, rule in key.items() if name != "type"}
        return {
            "type": "object",
            **({"propertyNames": names} if names else {}),
            **({"additionalProperties": value} if value else {}),
            **self.rules,
        }

    def rank(self, value: JSON) -> int | None:
        return 0 if isinstance(value, dict) else None

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        built = {}
        sound = True
        for name, item in value.items():
            at = (*path, name)
            key = self.key.take(name, at, _Prefixed(faults, "its key "))
            made = self.value.take(item, at, faults)
            sound = sound and key is not BAD and made is not BAD
            if sound:
                built[key] = made
        return built if sound else BAD


class _Prefixed(Faults):
    """Faults with something put before each message."""

    def __init__(self, faults: Faults, prefix: str) -> None:
        self._faults, self._prefix = faults, prefix

    def add(self, path: Path, message: str) -> None:
        self._faults.add(path, self._prefix + message)


INTEGER_TEXT = r"^-?(0|[1-9][0-9]*)$"


@attrs.define(eq=False)
class IntegerText(Text):
    """An integer as the key of an object, which can only be text."""

    noun = "an integer in decimal digits"

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        return int(value) if re.search(INTEGER_TEXT, value) else BAD


@attrs.frozen(eq=False)
class Field:
    """One property of a record. `name` is its key in JSON, `attribute` what the constructor calls it."""

    name: str
    attribute: str
    shape: Shape
    required: bool
    default: JSON = attrs.field(default=BAD, kw_only=True)

    def schema(self, defs: Defs) -> dict[str, JSON]:
        schema = self.shape.schema(defs)
        # A default that the schema itself refuses (`x: int = None`) is the function's own affair.
        if self.default is BAD or self.shape.take(self.default, (), Faults()) is BAD:
            return schema
        return {**schema, "default": self.default}


@attrs.define(eq=False)
class Record(Shape):
    """An object with known properties. Further ones are ignored unless it is `closed`, as its schema says."""

    noun = "an object"
    title: str
    build: Callable[..., Any]
    description: str | None = None
    closed: bool = False
    tag_field: str | None = None
    tag: JSON = None
    fields: Sequence[Field] = ()

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return defs.ref(self)

    def body(self, defs: Defs) -> dict[str, JSON]:
        """The schema itself, where `schema` gives a reference to it."""
        tags = {} if self.tag_field is None else {self.tag_field: {"enum": [self.tag]}}
        required = [*tags, *(field.name for field in self.fields if field.required)]
        return {
            **({"title": self.title} if self.title else {}),
            **({"description": self.description} if self.description else {}),
            "type": "object",
            "properties": {**tags, **{field.name: field.schema(defs) for field in self.fields}},
            **({"required": required} if required else {}),
            **({"additionalProperties": False} if self.closed else {}),
        }

    def rank(self, value: JSON) -> int | None:
        if not isinstance(value, dict):
            return None
        return 0 if self.tag_field is None or frozen(value.get(self.tag_field)) == frozen(self.tag) else 1

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        built: dict[str, Any] = {}
        sound = self._check_tag(value, path, faults) & self._check_names(value, path, faults)
        for field in self.fields:
            at = (*path, field.name)
            if field.name in value:
                made = built[field.attribute] = field.shape.take(value[field.name], at, faults)
                sound = sound and made is not BAD
            elif field.required:
                faults.add(at, "is required")
                sound = False
        return _construct(self.build, (), built, path, faults) if sound else BAD

    def _check_tag(self, value: Mapping[str, JSON], path: Path, faults: Faults) -> bool:
        if self.tag_field is None:
            return True
        sound = bool(frozen(value.get(self.tag_field, BAD)) == frozen(self.tag))
        if not sound:
            faults.add((*path, self.tag_field), _one_of([self.tag]))
        return sound

    def _check_names(self, value: Mapping[str, JSON], path: Path, faults: Faults) -> bool:
        if not self.closed:
            return True
        known = {field.name for field in self.fields} | {self.tag_field}
        extra = [name for name in value if name not in known]
        for name in extra:
            faults.add((*path, name), "is not a known property")
        return not extra


def _construct(
    build: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], path: Path, faults: Faults
) -> Any:
    """Call a constructor. Its ValueError or TypeError is a validator's verdict: a fault like the schema's own."""
    try:
        return build(*args, **kwargs)
    except (ValueError, TypeError) as error:
        faults.add(path, _verdict(error))
        return BAD


def _verdict(error: Exception) -> str:
    # attrs' validators put the message first and then the attribute and the value, which must not be echoed.
    text = error.args[0] if error.args and isinstance(error.args[0], str) else "is not valid"
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


@attrs.define(eq=False)
class Union(Shape):
    """Any of several shapes."""

    branches: Sequence[Shape]

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return {"anyOf": [branch.schema(defs) for branch in self.branches]}

    def rank(self, value: JSON) -> int | None:
        ranks = [rank for branch in self.branches if (rank := branch.rank(value)) is not None]
        return min(ranks, default=None)

    def take(self, value: JSON, path: Path, faults: Faults) -> Any:
        ranked = [(rank, branch) for branch in self.branches if (rank := branch.rank(value)) is not None]
        if not ranked:
            nouns = " or ".join(dict.fromkeys(_noun(branch) for branch in self.branches))
            faults.add(path, f"must be {nouns}, not {kind_of(value)}")
            return BAD
        trials = [_trial(branch, value, path) for _, branch in sorted(ranked, key=lambda pair: pair[0])]
        for made, _ in trials:
            if made is not BAD:
                return made
        self._tell(min(rank for rank, _ in ranked), trials[0][1], path, faults)
        return BAD

    def _tell(self, best: int, closest: Faults, path: Path, faults: Faults) -> None:
        tagged = [branch for branch in self.branches if isinstance(branch, Record) and branch.tag_field]
        if best > 0 and len(tagged) > 1:
            faults.add((*path, tagged[0].tag_field or ""), _one_of([branch.tag for branch in tagged]))
            return
        faults.found.extend(closest.found[: MAX_FAULTS - len(faults.found)])


def _trial(branch: Shape, value: JSON, path: Path) -> tuple[Any, Faults]:
    faults = Faults()
    return branch.take(value, path, faults), faults


def _noun(shape: Shape) -> str:
    return (
        shape.what
        if isinstance(shape, Formatted)
        else "one of its options"
        if isinstance(shape, Choice)
        else shape.noun
    )


@attrs.define(eq=False)
class Described(Shape):
    """A shape with annotations, and rules, of its own."""

    inner: Shape
    annotations: Mapping[str, JSON]

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return {**self.inner.schema(defs), **self.annotations, **self.rules}

    def rank(self, value: JSON) -> int | None:
        return self.inner.rank(value)

    def take(self, value: JSON, path: Path, faults: Faults) -> Any:
        broken = _broken(self.rules, value)
        for message in broken:
            faults.add(path, message)
        made = self.inner.take(value, path, faults)
        return BAD if broken else made


@attrs.define(eq=False)
class Spoken(Shape):
    """A shape whose value may come as text, where the wire has nothing else (the arguments of prompts and templates).

    A shape that takes text gets it as it is; for any other, the text is read as a JSON number or boolean.
    """

    inner: Shape

    def schema(self, defs: Defs) -> dict[str, JSON]:
        return self.inner.schema(defs)

    def rank(self, value: JSON) -> int | None:
        return self.inner.rank(value)

    def take(self, value: JSON, path: Path, faults: Faults) -> Any:
        if not isinstance(value, str) or self._takes_text(value):
            return self.inner.take(value, path, faults)
        return self.inner.take(_scalar(value), path, faults)

    def _takes_text(self, value: str) -> bool:
        return self.inner.rank(value) is not None


def _scalar(text: str) -> JSON:
    """The number or boolean that `text` spells, or `text` itself."""
    try:
        value = msgspec.json.decode(text.strip().lower())
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, int | float) else text


def speaks(shape: Shape) -> bool:
    """Whether text can spell a value of `shape`, as `Spoken` reads it."""
    return any(shape.rank(probe) is not None for probe in ("", 0, 0.5, True))


def bare(shape: Shape) -> Shape:
    """`shape` without what was only said about it."""
    while isinstance(shape, Described | Spoken):
        shape = shape.inner
    return shape


def is_pydantic(tp: Any) -> bool:
    """Whether `tp` is a pydantic model, told by what it can do, since this library never imports pydantic."""
    return isinstance(tp, type) and all(
        callable(getattr(tp, name, None)) for name in ("model_json_schema", "model_validate_json")
    )


@attrs.define(eq=False)
class Pydantic(Shape):
    """A pydantic model, which publishes and validates itself.

    With `output` it is trusted, having been built before; with `spoken` the values of its fields come as text.
    """

    noun = "an object"
    model: Any
    output: bool
    spoken: bool = False

    def schema(self, defs: Defs) -> dict[str, JSON]:
        mode = "serialization" if self.output else "validation"
        schema: dict[str, JSON] = self.model.model_json_schema(mode=mode)
        nested = schema.pop("$defs", {})
        if any(defs.schemas.get(name, own) != own for name, own in nested.items()):
            prefix = defs.free(self.model.__name__ + "_")
            schema = self.model.model_json_schema(mode=mode, ref_template=f"#/$defs/{prefix}.{{model}}")
            nested = {f"{prefix}.{name}": own for name, own in schema.pop("$defs", {}).items()}
        defs.schemas.update(nested)
        return schema

    def rank(self, value: JSON) -> int | None:
        return 0 if isinstance(value, dict) else None

    def make(self, value: JSON, path: Path, faults: Faults) -> Any:
        if self.output:
            return value
        try:
            return self._validate(value)
        except ValueError as error:
            for item in error.errors(include_url=False, include_input=False):  # type: ignore[attr-defined]
                faults.add((*path, *item["loc"]), _verdict(ValueError(item["msg"])))
        return BAD

    def _validate(self, value: JSON) -> Any:
        if self.spoken:
            return self.model.model_validate_strings(value)
        # The JSON mode is strict in JSON's terms: "2" is no integer, but a date may be text.
        given = msgspec.json.encode(value)
        try:
            return self.model.model_validate_json(given, strict=True)
        except ValueError:
            # pydantic takes 1.0 for no integer and JSON Schema does; as JSON, the two are one value elsewhere as well.
            integral = msgspec.json.encode(_integral(value))
            if integral == given:
                raise
        return self.model.model_validate_json(integral, strict=True)


def _integral(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _integral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_integral(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


# From shapes to documents

_DEF = "#/$defs/"


def document(shape: Shape) -> dict[str, JSON]:
    """The whole schema of `shape`: the root is the schema itself, and what it refers to is under ``$defs``."""
    defs = Defs()
    schema = shape.schema(defs)
    root = schema.get("$ref", "").removeprefix(_DEF)
    if root:
        schema = {**defs.schemas[root], **{key: value for key, value in schema.items() if key != "$ref"}}
        others = [own for name, own in defs.schemas.items() if name != root]
        if f"{_DEF}{root}" not in set(_refs([schema, *others])):
            del defs.schemas[root]
    return {**schema, "$defs": defs.schemas} if defs.schemas else schema


def _refs(value: JSON) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _refs(item)

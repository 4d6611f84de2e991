"""JSON Schemas: from types, checked when they are declared, and cut down to what an old client can read.

Schemas are plain JSON objects here. They are walked by their keywords, since a property may well be called ``$ref`` or
``x-mcp-header``, and values under ``default`` or ``enum`` are data. Every walk is bounded: a peer may have sent it.

Source: basic ("JSON Schema Usage"), basic/transports/streamable-http ("Schema Extension"), server/tools.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import attrs

from .errors import DeclarationError
from .reading import Reading
from .shapes import MAX_FAULTS, Fault, document, path_text, rule_text
from .types import JSON

HEADER_KEYWORD = "x-mcp-header"

#: How deep a schema may nest (objects and arrays), how many of those it may hold, and how large it may grow when every
#: reference is written out (basic, "Composition-Keyword Resource Use").
MAX_DEPTH = 128
MAX_CONTAINERS = 10_000
MAX_EXPANDED = 10_000

# Where the subschemas of a schema are, by keyword.
_MAPS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_SINGLES = frozenset(
    (
        *("additionalProperties", "unevaluatedProperties", "propertyNames", "items", "additionalItems", "contains"),
        *("unevaluatedItems", "not", "if", "then", "else", "contentSchema"),
    )
)
#: Keywords whose subschemas look at the same value as the schema around them.
_IN_PLACE = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"))
_TYPES = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))

Pointer = tuple[str, ...]


def schema_of(tp: Any) -> dict[str, JSON]:
    """The JSON Schema (2020-12) of a type, the root being the schema itself and nested classes under ``$defs``.

    `tp` may be made of all that `mcp_sansio.reading.ALLOWED` lists; ``Annotated[…, msgspec.Meta(…)]`` adds bounds and a
    description. Raises `DeclarationError`.
    """
    return document(Reading().shape(tp, f"type {tp!r}"))


def is_object_schema(schema: JSON) -> bool:
    """Whether `schema` says that its root is an object, as input schemas must, and old revisions' output schemas."""
    return isinstance(schema, Mapping) and schema.get("type") == "object"


# Walking


class _Node(NamedTuple):
    """A subschema and where it is."""

    pointer: Pointer
    schema: Mapping[str, JSON]


def _children(schema: Mapping[str, JSON]) -> Iterator[tuple[Pointer, JSON]]:
    """The subschemas directly in `schema`, with the steps that lead to each."""
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, Mapping):
            yield from (((keyword, name), child) for name, child in value.items())
        elif (keyword in _LISTS or keyword == "items") and isinstance(value, list):
            yield from (((keyword, str(index)), child) for index, child in enumerate(value))
        elif keyword in _MAPS | _LISTS:
            raise DeclarationError(f"{_shown((keyword,))} has the wrong type: {_KIND_OF_HOLDER[keyword in _MAPS]}")
        elif keyword in _SINGLES:
            yield (keyword,), value


_KIND_OF_HOLDER = {True: "it must be an object of schemas", False: "it must be a list of schemas"}


def _nodes(schema: Mapping[str, JSON]) -> list[_Node]:
    """Every subschema that is an object, the root first. Raises `DeclarationError` for what is no schema."""
    _check_size(schema)
    found = [_Node((), schema)]
    for node in found:
        for steps, child in _children(node.schema):
            pointer = (*node.pointer, *steps)
            if isinstance(child, Mapping):
                found.append(_Node(pointer, child))
            elif not isinstance(child, bool):
                raise DeclarationError(f"{_shown(pointer)} is no schema: it must be an object or a boolean")
    return found


def _check_size(value: JSON) -> None:
    level, count = [value], 0
    for _ in range(MAX_DEPTH + 1):
        level = [item for item in level if isinstance(item, Mapping | list)]
        if not level:
            return
        count += len(level)
        if count > MAX_CONTAINERS:
            raise DeclarationError(f"the schema holds more than {MAX_CONTAINERS} objects and arrays")
        level = [item for holder in level for item in (holder.values() if isinstance(holder, Mapping) else holder)]
    raise DeclarationError(f"the schema is nested more than {MAX_DEPTH} levels deep")


def _shown(pointer: Pointer) -> str:
    return "#" + "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in pointer)


def _pointer_of(ref: str) -> Pointer | None:
    """The steps of a ``$ref`` that is a JSON pointer (RFC 6901, section 6), or ``None`` for any other."""
    fragment = unquote(ref[1:]) if ref.startswith("#") else "?"
    if fragment == "":
        return ()
    if not fragment.startswith("/"):
        return None
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in fragment[1:].split("/"))


_MISSING: Any = object()


def _at(root: JSON, pointer: Pointer) -> JSON:
    value = root
    for step in pointer:
        if isinstance(value, Mapping):
            value = value.get(step, _MISSING)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return _MISSING
    return value


def _resolve(root: Mapping[str, JSON], ref: JSON) -> tuple[Pointer, JSON]:
    """Where the local reference `ref` leads, and the schema there. Raises `DeclarationError`."""
    if not isinstance(ref, str):
        raise DeclarationError("a $ref must be text")
    if not ref.startswith("#"):
        raise DeclarationError(
            f"the $ref {ref[:200]!r} leaves the schema: only references within it (#/…) are followed"
        )
    pointer = _pointer_of(ref)
    if pointer is None:
        return _anchored(root, ref)
    target = _at(root, pointer)
    if not isinstance(target, Mapping | bool):
        raise DeclarationError(f"the $ref {ref[:200]!r} leads to no schema")
    return pointer, target


def _anchored(root: Mapping[str, JSON], ref: str) -> tuple[Pointer, JSON]:
    name = unquote(ref[1:])
    for node in _nodes(root):
        if name in (node.schema.get("$anchor"), node.schema.get("$dynamicAnchor")):
            return node.pointer, node.schema
    raise DeclarationError(f"the $ref {ref[:200]!r} leads to no schema")


# Checking


def check_input_schema(schema: JSON) -> None:
    """Check the schema of a tool's arguments. Raises `DeclarationError`, which says what is wrong and where.

    The root must have ``"type": "object"`` (schema, Tool.inputSchema), references must stay within the schema and lead
    somewhere else than to themselves, and ``x-mcp-header`` must keep the rules of `header_plan`.
    """
    if not is_object_schema(schema):
        raise DeclarationError('the root of an input schema must have "type": "object"')
    check_schema(schema)
    header_plan(schema)


def check_schema(schema: JSON) -> None:
    """Check any schema: its size, its types, and its references. Raises `DeclarationError`."""
    if not isinstance(schema, Mapping):
        raise DeclarationError("a schema must be an object")
    nodes = _nodes(schema)
    for node in nodes:
        _check_node(node)
    _check_references(schema, nodes)


def _check_node(node: _Node) -> None:
    at = _shown(node.pointer)
    types = node.schema.get("type", [])
    for name in types if isinstance(types, list) else [types]:
        if not isinstance(name, str) or name not in _TYPES:
            raise DeclarationError(f"{at}: {str(name)[:50]!r} is no type; there are {', '.join(sorted(_TYPES))}")
    required = node.schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise DeclarationError(f"{at}: required must be a list of names")
    if node.pointer and "$id" in node.schema:
        raise DeclarationError(
            f"{at}: a schema within a schema must not have an $id, which would change what $ref means"
        )


def _check_references(root: Mapping[str, JSON], nodes: Sequence[_Node]) -> None:
    """References must resolve, and checking a value by a schema must not need checking that same value by it again."""
    edges: dict[int, list[JSON]] = {id(node.schema): [] for node in nodes}
    for node in nodes:
        targets = edges[id(node.schema)]
        targets.extend(child for steps, child in _children(node.schema) if steps[0] in _IN_PLACE)
        if "$ref" in node.schema:
            _, target = _resolve(root, node.schema["$ref"])
            if isinstance(target, Mapping) and id(target) not in edges:
                raise DeclarationError(f"{_shown(node.pointer)}: the $ref leads to a place that holds no schema")
            targets.append(target)
    done: set[int] = set()
    for node in nodes:
        _check_ends(node, edges, done)


def _check_ends(start: _Node, edges: Mapping[int, list[JSON]], done: set[int]) -> None:
    # Depth first, with a stack of our own: a chain of references may be as long as the schema is large.
    trail: dict[int, None] = {}
    stack: list[tuple[JSON, bool]] = [(start.schema, False)]
    while stack:
        schema, left = stack.pop()
        key = id(schema)
        if left:
            done.add(trail.popitem()[0])
        elif key in trail:
            raise DeclarationError(f"{_shown(start.pointer)}: a $ref leads back to itself without going into the value")
        elif key not in done:
            trail[key] = None
            stack.append((schema, True))
            stack.extend((target, False) for target in edges.get(key, ()))


# Headers that mirror arguments


@attrs.frozen
class HeaderParam:
    """An argument that HTTP clients repeat in the header ``Mcp-Param-<name>``.

    `path` is the chain of properties that leads to it, `type` one of ``string``, ``integer`` and ``boolean``.
    """

    name: str
    path: tuple[str, ...]
    type: str


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_TYPES = ("string", "integer", "boolean")


def header_plan(schema: Mapping[str, JSON]) -> tuple[HeaderParam, ...]:
    """The arguments that are mirrored into headers, in the order of the schema. Raises `DeclarationError`.

    An ``x-mcp-header`` must be a header token, unique whatever its case, on a property of type string, integer or
    boolean that is reached from the root through ``properties`` alone.

    Source: basic/transports/streamable-http, "Schema Extension".
    """
    plan: dict[str, HeaderParam] = {}
    for node in _nodes(schema):
        if HEADER_KEYWORD not in node.schema:
            continue
        param = _header_param(node)
        if param.name.lower() in plan:
            raise DeclarationError(f"{_shown(node.pointer)}: the {HEADER_KEYWORD} {param.name!r} is used twice")
        plan[param.name.lower()] = param
    return tuple(plan.values())


def _header_param(node: _Node) -> HeaderParam:
    at, name = _shown(node.pointer), node.schema[HEADER_KEYWORD]
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise DeclarationError(
            f"{at}: the {HEADER_KEYWORD} {str(name)[:50]!r} is no header name: use letters, digits and - alone"
        )
    if not node.pointer or any(step != "properties" for step in node.pointer[::2]):
        raise DeclarationError(
            f"{at}: {HEADER_KEYWORD} works only on a property that is reached through properties alone"
        )
    if node.schema.get("type") not in _HEADER_TYPES:
        raise DeclarationError(f'{at}: {HEADER_KEYWORD} needs a property with one "type" of {", ".join(_HEADER_TYPES)}')
    return HeaderParam(name, node.pointer[1::2], node.schema["type"])


# Cutting down


def stripped(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """A copy of a checked `schema` without ``x-mcp-header``, which an old client would not act on."""
    return {key: _map_children(key, value, _strip_child) for key, value in schema.items() if key != HEADER_KEYWORD}


def _strip_child(keyword: str, child: JSON) -> JSON:
    return stripped(child) if isinstance(child, Mapping) else child


def _map_children(keyword: str, value: JSON, change: Callable[[str, JSON], JSON]) -> JSON:
    """A copy of a keyword's `value` with `change` applied to each subschema in it."""
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: change(keyword, child) for name, child in value.items()}
    if (keyword in _LISTS or keyword == "items") and isinstance(value, list):
        return [change(keyword, child) for child in value]
    return change(keyword, value) if keyword in _SINGLES else copy.deepcopy(value)


def simplified(schema: Mapping[str, JSON], *, nullable: bool = False) -> dict[str, JSON] | None:
    """The form of `schema` for clients of the revisions with a handshake, or ``None`` where that would lose something.

    References are written out, nullable unions lose the null branch (such clients would hide the tool; an argument
    stays optional by not being required), and ``x-mcp-header`` is left out. A cycle, a reference out of the schema and
    a result of more than 10,000 parts cannot be simplified. `schema` is not changed.

    With `nullable` the null branches stay: that is for the schema of what is sent, which clients hold results against.
    """
    try:
        _nodes(schema)
        return _as_object(_Simplifier(schema).schema(schema, ((),), nullable=nullable))
    except (DeclarationError, _Lossy):
        return None


class _Lossy(Exception):
    """The schema says something that its simple form cannot."""


#: References that depend on how a schema was reached, and a keyword of old drafts that is half data, half schemas.
_OPAQUE = ("$dynamicRef", "$recursiveRef", "dependencies")
_DROPPED = frozenset(("$ref", "$defs", "definitions", "$anchor", "$dynamicAnchor", "discriminator", HEADER_KEYWORD))
#: Keywords that say nothing about validity, so that they may be put beside the keywords of another schema.
_NOTES = frozenset(
    (
        *("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly"),
        *("$comment", "$schema", "$id"),
    )
)


@attrs.define
class _Simplifier:
    """Writes out one schema. `size` counts what was written."""

    root: Mapping[str, JSON]
    size: int = 0

    def schema(self, schema: JSON, trail: tuple[Pointer, ...], *, nullable: bool) -> JSON:
        """The simple form. `trail` holds the references being written out; with `nullable`, null branches stay."""
        if not isinstance(schema, Mapping):
            return schema
        self.size += 1 + len(schema)
        if self.size > MAX_EXPANDED or any(keyword in schema for keyword in _OPAQUE):
            raise _Lossy

        def child(keyword: str, inner: JSON) -> JSON:
            # What must not hold would grow by losing a branch, and so would the case that an "if" picks out.
            simple = self.schema(inner, trail, nullable=nullable or keyword in ("not", "if"))
            return _as_object(simple) if keyword == "properties" else simple

        simple = {key: _map_children(key, value, child) for key, value in schema.items() if key not in _DROPPED}
        if "$ref" in schema:
            pointer, target = _resolve(self.root, schema["$ref"])
            if pointer in trail:
                raise _Lossy
            simple = _joined(self.schema(target, (*trail, pointer), nullable=nullable), simple)
        return simple if nullable else _without_null(simple)


def _as_object(schema: JSON) -> dict[str, JSON]:
    """A boolean schema as the object that means the same: the old revisions have no other in ``properties``."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    whole: dict[str, JSON] = schema
    return whole


def _joins(inner: Mapping[str, JSON], outer: Mapping[str, JSON]) -> bool:
    return all(
        key in _NOTES or key.startswith("x-") or inner.get(key, _MISSING) == value for key, value in outer.items()
    )


def _joined(inner: JSON, outer: dict[str, JSON]) -> dict[str, JSON]:
    """One schema for both: flat where `outer` only annotates, since additionalProperties and others see siblings."""
    whole = _as_object(inner)
    if _joins(whole, outer):
        return {**whole, **outer}
    return {**outer, "allOf": [*outer.get("allOf", ()), whole]}


def _is_null(schema: JSON) -> bool:
    if not isinstance(schema, Mapping):
        return False
    return schema.get("type") == "null" or schema.get("enum") == [None] or schema.get("const", _MISSING) is None


def _without_null(schema: dict[str, JSON]) -> dict[str, JSON]:
    simple = dict(schema)
    types = simple.get("type")
    if isinstance(types, list) and "null" in types and len(types) > 1:
        kept = [name for name in types if name != "null"]
        simple["type"] = kept[0] if len(kept) == 1 else kept
    options = simple.get("enum")
    if isinstance(options, list) and None in options and len(options) > 1:
        simple["enum"] = [option for option in options if option is not None]
    for keyword in ("anyOf", "oneOf"):
        simple = _without_null_branch(simple, keyword)
    if simple.get("default", _MISSING) is None and not _takes_null(simple):
        del simple["default"]
    return simple


def _without_null_branch(schema: dict[str, JSON], keyword: str) -> dict[str, JSON]:
    branches = schema.get(keyword)
    if not isinstance(branches, list):
        return schema
    kept = [branch for branch in branches if not _is_null(branch)]
    if not kept or len(kept) == len(branches):
        return schema
    rest = {key: value for key, value in schema.items() if key != keyword}
    if len(kept) == 1 and isinstance(kept[0], Mapping) and _joins(kept[0], rest):
        return {**kept[0], **rest}
    return {**rest, keyword: kept}


def _takes_null(schema: Mapping[str, JSON]) -> bool:
    """Whether null may be valid, as far as the keywords tell that `_without_null` changes."""
    types = schema.get("type", "null")
    branches = [branch for keyword in ("anyOf", "oneOf") for branch in schema.get(keyword, ())]
    return (
        "null" in (types if isinstance(types, list) else [types])
        and None in schema.get("enum", [None])
        and (not branches or any(_is_null(branch) or branch in (True, {}) for branch in branches))
    )


# Validation by a raw schema


def judge_of(schema: Mapping[str, JSON], where: str) -> Callable[[JSON], list[Fault]]:
    """What finds the faults of a value by a raw `schema`, sorted by their path and at most 100.

    It is the work of the jsonschema package, in the dialect that ``$schema`` names (2020-12 if none). Nothing is ever
    fetched. Raises `DeclarationError`, which begins with `where`, for a schema that is not valid in its dialect, and
    where the package is missing.
    """
    try:
        from jsonschema import exceptions, validators  # type: ignore[import-untyped]
    except ImportError as error:
        raise DeclarationError(
            f"{where}: validation by a raw schema needs the jsonschema package; install mcp-sansio[jsonschema], "
            "or declare the arguments by types"
        ) from error
    check_schema(schema)
    dialect = validators.validator_for(schema, default=None if "$schema" in schema else validators.Draft202012Validator)
    if dialect is None:
        raise DeclarationError(f"{where}: the dialect {schema['$schema']!r} is not supported")
    try:
        dialect.check_schema(schema)
    except exceptions.SchemaError as error:
        at = _shown(tuple(map(str, error.absolute_path)))
        raise DeclarationError(f"{where}: the schema is not valid at {at}: {error.message[:200]}") from error
    # A registry of the dialects alone: the default one goes to the network for what it does not know.
    validator = dialect(schema, registry=validators.SPECIFICATIONS)

    def judge(value: JSON) -> list[Fault]:
        errors = [(tuple(error.absolute_path), _said(error)) for error in validator.iter_errors(value)]
        errors.sort(key=lambda pair: [str(step) for step in pair[0]])
        return [(path_text(path), text) for path, text in errors[:MAX_FAULTS]]

    return judge


_SAYINGS: dict[str, Callable[[Any], str]] = {
    "type": lambda types: f"must be of type {' or '.join(types) if isinstance(types, list) else types}",
    "enum": lambda values: f"must be one of {json.dumps(values)[:200]}",
    "const": lambda value: f"must be {json.dumps(value)[:200]}",
    "additionalProperties": lambda _: "has properties that are not allowed",
    "unevaluatedProperties": lambda _: "has properties that are not allowed",
    "anyOf": lambda _: "fits none of the alternatives",
    "oneOf": lambda _: "must fit exactly one of the alternatives",
    "not": lambda _: "is of a form that is not allowed",
}


def _said(error: Any) -> str:
    """An error in words for the peer. jsonschema's own text echoes the value, which may be huge or private."""
    keyword, bound = error.validator, error.validator_value
    if keyword == "required":
        return str(error.message)  # it names a property of the schema
    if keyword in _SAYINGS:
        return _SAYINGS[keyword](bound)
    return rule_text(str(keyword), bound) or f"breaks the rule {keyword!r} of the schema"

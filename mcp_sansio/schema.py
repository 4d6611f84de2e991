"""JSON Schemas: from types, and checked when they are declared.

Source: basic ("JSON Schema Usage"), basic/transports/streamable-http ("Schema Extension"), server/tools.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec

from . import foreign
from .errors import DeclarationError
from .nodes import Node, children, nodes_of, resolve, shown
from .typed import Typed, spelled
from .types import JSON

HEADER_KEYWORD = "x-mcp-header"

#: Keywords whose subschemas look at the same value as the schema around them.
_IN_PLACE = frozenset(("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"))
_TYPES = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))


def schema_of(tp: Any) -> dict[str, JSON]:
    """The JSON Schema (2020-12) of a type, the root being the schema itself and nested classes under ``$defs``.

    `tp` may be made of all that `mcp_sansio.typed.ALLOWED` lists; ``Annotated[…, msgspec.Meta(…)]`` adds bounds and a
    description. Raises `DeclarationError`.
    """
    where = f"type {tp!r}"
    return published(Typed.of(spelled(tp), where), where)


def published(typed: Typed, where: str) -> dict[str, JSON]:
    """The schema that msgspec generates for a type, as `schema_of` describes it.

    Raises `DeclarationError`, which begins with `where`.
    """
    return _whole(_nodes_of_model(typed, where))


class InputSchema(NamedTuple):
    """The checked schema of a tool's arguments, and the plan for those that HTTP mirrors (see `header_plan`)."""

    schema: dict[str, JSON]
    headers: tuple[HeaderParam, ...]


def schema_of_model(typed: Typed, where: str) -> InputSchema:
    """The schema of arguments that are all of one type, whose properties they are; see `published`."""
    return _checked_input(_nodes_of_model(typed, where), where)


def schema_of_arguments(parts: Mapping[str, Typed], required: Sequence[str], where: str) -> InputSchema:
    """The schema of arguments of a type each, by their names, of which some are `required`; see `published`."""
    schemas, defs = _generated([typed.type for typed in parts.values()], where)
    root = {"type": "object", "properties": dict(zip(parts, schemas, strict=True)), "required": required}
    return _checked_input(_nodes_as_read({**root, "$defs": defs} if defs else root), where)


def schema_as_given(raw: Mapping[str, JSON], where: str) -> InputSchema:
    """A copy of the `raw` schema of arguments. Raises `DeclarationError`, which begins with `where`."""
    with _begun_with(where):
        headers = check_input_schema(raw)
    return InputSchema(copy.deepcopy(dict(raw)), headers)


def _checked_input(nodes: Sequence[Node], where: str) -> InputSchema:
    whole = _whole(nodes)
    with _begun_with(where):
        _check_root(whole)
        return InputSchema(whole, _plan_of(_checked(nodes)))


@contextmanager
def _begun_with(where: str) -> Iterator[None]:
    try:
        yield
    except DeclarationError as error:
        raise DeclarationError(f"{where}: {error}") from error


def _nodes_of_model(typed: Typed, where: str) -> list[Node]:
    (root,), defs = _generated([typed.type], where, output=typed.output, root=getattr(typed.info, "cls", None))
    return _nodes_as_read(_rooted(root, defs))


def _generated(
    types: Sequence[Any], where: str, *, output: bool = False, root: type | None = None
) -> tuple[Sequence[dict[str, JSON]], dict[str, JSON]]:
    """A schema for each type, and those of the classes that they refer to. The model `root` is the whole schema."""
    models: dict[str, Any] = {}
    defs: dict[str, JSON] = {}

    def hook(cls: Any) -> dict[str, JSON]:
        if models.setdefault(cls.__name__, cls) is not cls:
            raise DeclarationError(f"{where}: two pydantic models are called {cls.__name__}; rename one")
        prefix = "" if cls is root else re.sub(r"[^\w.-]", "_", f"{cls.__name__}.")
        schema, own = foreign.schema_and_defs(cls, output=output, prefix=prefix)
        defs.update(own)
        return schema

    try:
        schemas, classes = msgspec.json.schema_components(types, schema_hook=hook)
    except (TypeError, NotImplementedError) as error:  # a default that has no form in JSON
        raise DeclarationError(f"{where}: the schema cannot be made: {error}") from error
    return schemas, {**defs, **classes}


def _nodes_as_read(schema: Mapping[str, JSON]) -> list[Node]:
    """The parts of `schema` as a client reads it: msgspec leaves the tuples in defaults as they are."""
    nodes = nodes_of(msgspec.json.decode(msgspec.json.encode(schema)))
    for node in nodes:
        if "enum" in node.schema:
            _add_type(node.schema)
    return nodes


def _whole(nodes: Sequence[Node]) -> dict[str, JSON]:
    whole: dict[str, JSON] = nodes[0].schema  # type: ignore[assignment]
    return whole


_TYPES_OF_OPTIONS = {str: "string", int: "integer", bool: "boolean"}


def _add_type(schema: Any) -> None:
    """Say the type of a choice, which msgspec leaves out: headers need it, and many clients go by it."""
    types = {_TYPES_OF_OPTIONS.get(type(option)) for option in schema["enum"]}
    if len(types) == 1 and None not in types:
        schema.setdefault("type", types.pop())


def _rooted(root: Mapping[str, JSON], defs: Mapping[str, JSON]) -> dict[str, JSON]:
    """One schema of `root` and `defs`. Where `root` only refers, it becomes what it refers to: a root says its type."""
    ref = root.get("$ref")
    if ref is not None:
        name = ref.removeprefix("#/$defs/")
        root = {**defs[name], **{key: value for key, value in root.items() if key != "$ref"}}
        others = {other: schema for other, schema in defs.items() if other != name}
        is_recursive = any(node.schema.get("$ref") == ref for node in nodes_of({**root, "$defs": others}))
        defs = defs if is_recursive else others
    return {**root, "$defs": dict(defs)} if defs else dict(root)


def is_object_schema(schema: JSON) -> bool:
    """Whether `schema` says that its root is an object, as input schemas must, and old revisions' output schemas."""
    return isinstance(schema, Mapping) and schema.get("type") == "object"


# Checking


def check_input_schema(schema: JSON) -> tuple[HeaderParam, ...]:
    """Check the schema of a tool's arguments. Gives its `header_plan`.

    The root must have ``"type": "object"`` (schema, Tool.inputSchema), references must stay within the schema and lead
    somewhere else than to themselves, and ``x-mcp-header`` must keep the rules of `header_plan`.

    Raises `DeclarationError`, which says what is wrong and where.
    """
    _check_root(schema)
    return _plan_of(_checked(nodes_of(schema)))


def check_schema(schema: JSON) -> None:
    """Check any schema: its size, its types, and its references. Raises `DeclarationError`."""
    if not isinstance(schema, Mapping):
        raise DeclarationError("a schema must be an object")
    _checked(nodes_of(schema))


def _check_root(schema: JSON) -> None:
    if not is_object_schema(schema):
        raise DeclarationError('the root of an input schema must have "type": "object"')


def _checked(nodes: Sequence[Node]) -> Sequence[Node]:
    for node in nodes:
        fault = _fault_of_node(node)
        if fault is not None:
            raise DeclarationError(f"{shown(node.pointer)}: {fault}")
    _check_references(nodes[0].schema, nodes)
    return nodes


def _fault_of_node(node: Node) -> str | None:
    schema = node.schema
    types = schema.get("type", [])
    for name in types if isinstance(types, list) else [types]:
        if not isinstance(name, str) or name not in _TYPES:
            return f"{str(name)[:50]!r} is no type; there are {', '.join(sorted(_TYPES))}"
    if "required" in schema and not _is_list_of_names(schema["required"]):
        return "required must be a list of names"
    if "enum" in schema and not isinstance(schema["enum"], list):
        return "enum must be a list of values"
    if "$id" in schema and node.pointer:
        return "a schema within a schema must not have an $id, which would change what $ref means"
    return None


def _is_list_of_names(value: JSON) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _check_references(root: Mapping[str, JSON], nodes: Sequence[Node]) -> None:
    """References must resolve, and checking a value by a schema must not need checking that same value by it again."""
    if not any("$ref" in node.schema for node in nodes):
        return  # it can go round by references alone
    edges: dict[int, list[JSON]] = {id(node.schema): [] for node in nodes}
    for node in nodes:
        targets = edges[id(node.schema)]
        targets.extend(child for steps, child in children(node.schema) if steps[0] in _IN_PLACE)
        if "$ref" in node.schema:
            _, target = resolve(root, node.schema["$ref"])
            if isinstance(target, Mapping) and id(target) not in edges:
                raise DeclarationError(f"{shown(node.pointer)}: the $ref leads to a place that holds no schema")
            targets.append(target)
    done: set[int] = set()
    for node in nodes:
        _check_ends(node, edges, done)


def _check_ends(start: Node, edges: Mapping[int, list[JSON]], done: set[int]) -> None:
    # Depth first, with a stack of our own: a chain of references may be as long as the schema is large.
    trail: dict[int, None] = {}
    stack: list[tuple[JSON, bool]] = [(start.schema, False)]
    while stack:
        schema, left = stack.pop()
        key = id(schema)
        if left:
            done.add(trail.popitem()[0])
        elif key in trail:
            raise DeclarationError(f"{shown(start.pointer)}: a $ref leads back to itself without going into the value")
        elif key not in done:
            trail[key] = None
            stack.append((schema, True))
            stack.extend((target, False) for target in edges.get(key, ()))


# Headers that mirror arguments


class HeaderParam(msgspec.Struct, frozen=True):
    """An argument that HTTP clients repeat in the header ``Mcp-Param-<name>``.

    `path` is the chain of properties that leads to it, `type` one of ``string``, ``integer`` and ``boolean``.
    """

    name: str
    path: tuple[str, ...]
    type: str


_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADER_TYPES = ("string", "integer", "boolean")


def header_plan(schema: Mapping[str, JSON]) -> tuple[HeaderParam, ...]:
    """The arguments that are mirrored into headers, in the order of the schema. Raises `DeclarationError`.

    An ``x-mcp-header`` must be a header token, unique whatever its case, on a property of type string, integer or
    boolean that is reached from the root through ``properties`` alone.

    Source: basic/transports/streamable-http, "Schema Extension".
    """
    return _plan_of(nodes_of(schema))


def _plan_of(nodes: Sequence[Node]) -> tuple[HeaderParam, ...]:
    plan: dict[str, HeaderParam] = {}
    for node in nodes:
        if HEADER_KEYWORD not in node.schema:
            continue
        param = _header_param(node)
        if param.name.lower() in plan:
            raise DeclarationError(f"{shown(node.pointer)}: the {HEADER_KEYWORD} {param.name!r} is used twice")
        plan[param.name.lower()] = param
    return tuple(plan.values())


def _header_param(node: Node) -> HeaderParam:
    at, name = shown(node.pointer), node.schema[HEADER_KEYWORD]
    if not isinstance(name, str) or not re.fullmatch(_TOKEN, name):
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

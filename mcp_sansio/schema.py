"""JSON Schemas: from types, and checked when they are declared.

Source: basic ("JSON Schema Usage"), basic/transports/streamable-http ("Schema Extension"), server/tools.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

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
    models: dict[str, Any] = {}
    defs: dict[str, JSON] = {}

    def hook(cls: Any) -> dict[str, JSON]:
        if models.setdefault(cls.__name__, cls) is not cls:
            raise DeclarationError(f"{where}: two pydantic models are called {cls.__name__}; rename one")
        prefix = "" if cls is getattr(typed.info, "cls", None) else re.sub(r"[^\w.-]", "_", f"{cls.__name__}.")
        schema, own = foreign.schema_and_defs(cls, output=typed.output, prefix=prefix)
        defs.update(own)
        return schema

    try:
        (root,), classes = msgspec.json.schema_components([typed.type], schema_hook=hook)
    except (TypeError, NotImplementedError) as error:  # a default that has no form in JSON
        raise DeclarationError(f"{where}: the schema cannot be made: {error}") from error
    # As a client reads it: msgspec leaves the tuples in defaults as they are.
    whole: dict[str, JSON] = msgspec.json.decode(msgspec.json.encode(_rooted(root, {**defs, **classes})))
    _add_types(whole)
    return whole


_TYPES_OF_OPTIONS = {str: "string", int: "integer", bool: "boolean"}


def _add_types(schema: dict[str, JSON]) -> None:
    """Say the type of every choice, which msgspec leaves out: headers need it, and many clients go by it."""
    for _, node in nodes_of(schema):
        types = {_TYPES_OF_OPTIONS.get(type(option)) for option in node.get("enum", ())}
        if len(types) == 1 and None not in types:
            node.setdefault("type", types.pop())  # type: ignore[attr-defined]


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


def check_input_schema(schema: JSON) -> None:
    """Check the schema of a tool's arguments. Raises `DeclarationError`, which says what is wrong and where.

    The root must have ``"type": "object"`` (schema, Tool.inputSchema), references must stay within the schema and lead
    somewhere else than to themselves, and ``x-mcp-header`` must keep the rules of `header_plan`.
    """
    if not is_object_schema(schema):
        raise DeclarationError('the root of an input schema must have "type": "object"')
    _plan_of(_checked_nodes(schema))


def check_schema(schema: JSON) -> None:
    """Check any schema: its size, its types, and its references. Raises `DeclarationError`."""
    if not isinstance(schema, Mapping):
        raise DeclarationError("a schema must be an object")
    _checked_nodes(schema)


def _checked_nodes(schema: Mapping[str, JSON]) -> list[Node]:
    nodes = nodes_of(schema)
    for node in nodes:
        _check_node(node)
    _check_references(schema, nodes)
    return nodes


def _check_node(node: Node) -> None:
    at = shown(node.pointer)
    types = node.schema.get("type", [])
    for name in types if isinstance(types, list) else [types]:
        if not isinstance(name, str) or name not in _TYPES:
            raise DeclarationError(f"{at}: {str(name)[:50]!r} is no type; there are {', '.join(sorted(_TYPES))}")
    required = node.schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        raise DeclarationError(f"{at}: required must be a list of names")
    if not isinstance(node.schema.get("enum", []), list):
        raise DeclarationError(f"{at}: enum must be a list of values")
    if node.pointer and "$id" in node.schema:
        raise DeclarationError(
            f"{at}: a schema within a schema must not have an $id, which would change what $ref means"
        )


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

"""Walking a JSON Schema: which parts of it are schemas, how they are addressed, and where references lead.

Schemas are plain JSON objects here. They are walked by their keywords, since a property may well be called ``$ref`` or
``x-mcp-header``, and values under ``default`` or ``enum`` are data. Every walk is bounded: a peer may have sent it.

Source: basic ("JSON Schema Usage").
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from .errors import DeclarationError
from .types import JSON

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
_HOLDERS = _MAPS | _LISTS
# The plain types come first: asking the abstract class about each value was a sixth of a tool's declaration.
_OBJECT = (dict, Mapping)
_CONTAINER = (dict, list, Mapping)

Pointer = tuple[str, ...]


class Node(NamedTuple):
    """A subschema and where it is."""

    pointer: Pointer
    schema: Mapping[str, JSON]


def children(schema: Mapping[str, JSON]) -> Iterator[tuple[Pointer, JSON]]:
    """The subschemas directly in `schema`, with the steps that lead to each."""
    for keyword, value in schema.items():
        if keyword in _MAPS and isinstance(value, _OBJECT):
            yield from (((keyword, name), child) for name, child in value.items())
        elif (keyword in _LISTS or keyword == "items") and isinstance(value, list):
            yield from (((keyword, str(index)), child) for index, child in enumerate(value))
        elif keyword in _HOLDERS:
            raise DeclarationError(f"{shown((keyword,))} has the wrong type: {_KIND_OF_HOLDER[keyword in _MAPS]}")
        elif keyword in _SINGLES:
            yield (keyword,), value


_KIND_OF_HOLDER = {True: "it must be an object of schemas", False: "it must be a list of schemas"}


def nodes_of(schema: Mapping[str, JSON]) -> list[Node]:
    """Every subschema that is an object, the root first. Raises `DeclarationError` for what is no schema."""
    _check_size(schema)
    found = [Node((), schema)]
    for node in found:
        for steps, child in children(node.schema):
            pointer = (*node.pointer, *steps)
            if isinstance(child, _OBJECT):
                found.append(Node(pointer, child))
            elif not isinstance(child, bool):
                raise DeclarationError(f"{shown(pointer)} is no schema: it must be an object or a boolean")
    return found


def _check_size(value: JSON) -> None:
    level, count = [value], 0
    for _ in range(MAX_DEPTH + 1):
        level = [item for item in level if type(item) is not str and isinstance(item, _CONTAINER)]
        if not level:
            return
        count += len(level)
        if count > MAX_CONTAINERS:
            raise DeclarationError(f"the schema holds more than {MAX_CONTAINERS} objects and arrays")
        level = [item for holder in level for item in (holder if isinstance(holder, list) else holder.values())]
    raise DeclarationError(f"the schema is nested more than {MAX_DEPTH} levels deep")


def shown(pointer: Pointer) -> str:
    return "#" + "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in pointer)


def _pointer_of(ref: str) -> Pointer | None:
    """The steps of a ``$ref`` that is a JSON pointer (RFC 6901, section 6), or ``None`` for any other."""
    fragment = _unquoted(ref[1:]) if ref.startswith("#") else "?"
    if fragment == "":
        return ()
    if not fragment.startswith("/"):
        return None
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in fragment[1:].split("/"))


def _unquoted(fragment: str) -> str:
    if "%" not in fragment:
        return fragment
    from urllib.parse import unquote  # 2 ms to load, for which every server would wait

    return unquote(fragment)


MISSING: Any = object()


def _at(root: JSON, pointer: Pointer) -> JSON:
    value = root
    for step in pointer:
        if isinstance(value, Mapping):
            value = value.get(step, MISSING)
        elif isinstance(value, list) and step.isascii() and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return MISSING
    return value


def resolve(root: Mapping[str, JSON], ref: JSON) -> tuple[Pointer, JSON]:
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
    name = _unquoted(ref[1:])
    for node in nodes_of(root):
        if name in (node.schema.get("$anchor"), node.schema.get("$dynamicAnchor")):
            return node.pointer, node.schema
    raise DeclarationError(f"the $ref {ref[:200]!r} leads to no schema")


def map_children(keyword: str, value: JSON, change: Callable[[str, JSON], JSON]) -> JSON:
    """A copy of a keyword's `value` with `change` applied to each subschema in it."""
    if keyword in _MAPS and isinstance(value, Mapping):
        return {name: change(keyword, child) for name, child in value.items()}
    if (keyword in _LISTS or keyword == "items") and isinstance(value, list):
        return [change(keyword, child) for child in value]
    return change(keyword, value) if keyword in _SINGLES else copy.deepcopy(value)

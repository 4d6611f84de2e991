"""Schemas for old clients: without what they would not act on, and cut down to what they can read."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from .errors import DeclarationError
from .nodes import MAX_EXPANDED, MISSING, Pointer, map_children, nodes_of, resolve
from .schema import HEADER_KEYWORD
from .types import JSON


def stripped(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """A copy of a checked `schema` without ``x-mcp-header``, which an old client would not act on."""
    return {key: map_children(key, value, _strip_child) for key, value in schema.items() if key != HEADER_KEYWORD}


def _strip_child(keyword: str, child: JSON) -> JSON:
    return stripped(child) if isinstance(child, Mapping) else child


def simplified(schema: Mapping[str, JSON], *, nullable: bool = False) -> dict[str, JSON] | None:
    """The form of `schema` for clients of the revisions with a handshake, or ``None`` where that would lose something.

    References are written out, nullable unions lose the null branch (such clients would hide the tool; an argument
    stays optional by not being required), and ``x-mcp-header`` is left out. A cycle, a reference out of the schema and
    a result of more than 10,000 parts cannot be simplified. `schema` is not changed.

    With `nullable` the null branches stay: that is for the schema of what is sent, which clients hold results against.
    """
    try:
        nodes_of(schema)
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


class _Simplifier(msgspec.Struct):
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

        simple = {key: map_children(key, value, child) for key, value in schema.items() if key not in _DROPPED}
        if "$ref" in schema:
            pointer, target = resolve(self.root, schema["$ref"])
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
        key in _NOTES or key.startswith("x-") or inner.get(key, MISSING) == value for key, value in outer.items()
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
    return schema.get("type") == "null" or schema.get("enum") == [None] or schema.get("const", MISSING) is None


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
    if simple.get("default", MISSING) is None and not _takes_null(simple):
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

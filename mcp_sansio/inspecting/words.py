"""Arguments from the words of a command line, by the JSON Schema that says what they are."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_sansio.types import JSON
from mcp_sansio.wire.json import JsonError, decode

#: How many references are followed from one to the next; those of a circle are more.
_MOST_REFERENCES = 16
#: Where a schema may have further properties, besides ``properties``.
_MORE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "patternProperties"})


class WordFault(ValueError):
    """A word is no argument. The text says which, and what it should be."""


def arguments_of(words: Sequence[str], schema: Mapping[str, JSON] | None) -> dict[str, JSON]:
    """The arguments that `words` give: ``name=value`` each, or a JSON object with several.

    A value is text where `schema` (that of the arguments' object, ``None`` where it is not known) lets the argument be
    text, and JSON elsewhere; where the schema says nothing, it is JSON if it can be. Raises `WordFault`.
    """
    properties = (schema or {}).get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    other = (schema or {}).get("additionalProperties")
    arguments: dict[str, JSON] = {}
    for word in words:
        if word.startswith("{"):
            arguments |= _object(word)
            continue
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise WordFault(f"{word!r} is no argument: write name=value, or a JSON object")
        arguments[name] = value_of(value, resolved(known.get(name, other), schema), name)
    return arguments


def doubt_of(arguments: Mapping[str, JSON], schema: Mapping[str, JSON] | None) -> str | None:
    """Which of `arguments` is none that `schema` names, if there is one: misspelt, as a rule, and left aside.

    A schema that has others, or may have them in another place, says nothing of it.
    """
    schema = schema or {}
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or schema.get("additionalProperties") or schema.keys() & _MORE:
        return None
    unknown = next((name for name in arguments if name not in properties), None)
    if unknown is None:
        return None
    return (
        f"there is no argument {unknown!r}; there are {', '.join(properties)}" if properties else "it has no arguments"
    )


def pair_of(word: str, mark: str) -> tuple[str, str]:
    """The two sides of `mark` in `word`, for an option that names something and says what it is.

    Raises ``ArgumentTypeError``, which is for `argparse`.
    """
    name, found, value = word.partition(mark)
    if not (name and found):
        raise argparse.ArgumentTypeError(f"{word!r} has no {mark!r} after a name")
    return name, value


def value_of(text: str, schema: JSON, name: str) -> JSON:
    """The value of the argument `name`, of which `text` was written. Raises `WordFault`."""
    kinds = kinds_of(schema)
    if "string" in kinds:
        return text
    try:
        return decode(text.encode("utf-8", "surrogateescape"))
    except JsonError:
        if kinds:
            wanted = " or ".join(sorted(kinds))
            raise WordFault(f"{name}={text}: {name!r} must be {wanted}, written as JSON") from None
        return text


def resolved(schema: JSON, root: JSON) -> JSON:
    """`schema` with what it refers to in `root` put in its place. A reference that leads nowhere says nothing."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(schema, Mapping) or not isinstance(schema.get("$ref"), str):
            return schema
        target = root if schema["$ref"].startswith("#/") else None
        for part in schema["$ref"].removeprefix("#/").split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) else None
        beside = {name: value for name, value in schema.items() if name != "$ref"}
        schema = {**target, **beside} if isinstance(target, Mapping) else beside
    return {}


def kinds_of(schema: JSON) -> frozenset[str]:
    """The JSON types that `schema` allows, none where it does not say."""
    if not isinstance(schema, Mapping):
        return frozenset()
    kind = schema.get("type")
    if isinstance(kind, str):
        return frozenset({kind})
    if isinstance(kind, list):
        return frozenset(each for each in kind if isinstance(each, str))
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(choices, list):
        return frozenset(map(_kind, choices))
    for several in ("anyOf", "oneOf"):
        if isinstance(schema.get(several), list):
            kinds = [kinds_of(each) for each in schema[several]]
            return frozenset().union(*kinds) if all(kinds) else frozenset()
    return frozenset()


def _kind(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _object(word: str) -> dict[str, JSON]:
    try:
        given = decode(word.encode("utf-8", "surrogateescape"))
    except JsonError as error:
        raise WordFault(f"{word!r} is no JSON object: {error}") from None
    assert isinstance(given, dict), "it starts with a brace"
    return given

"""Validation by a raw schema: the work of the jsonschema package, said in words for the peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .errors import DeclarationError
from .faults import MAX_FAULTS, Fault
from .nodes import shown
from .schema import check_schema
from .types import JSON
from .wording import json_text, path_text, rule_text


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
        at = shown(tuple(map(str, error.absolute_path)))
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
    "enum": lambda values: f"must be one of {json_text(values)[:200]}",
    "const": lambda value: f"must be {json_text(value)[:200]}",
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

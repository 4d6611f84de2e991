"""The forms of elicitation: which schemas a client can show, and whether what came back fits the one that was sent.

A form is flat, and its fields are strings, numbers, booleans and choices (client/elicitation, "Requested Schema").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .types import JSON

_FORMATS = frozenset({"email", "uri", "date", "date-time"})


def fault_of_form(schema: Mapping[str, JSON]) -> str | None:
    """Why `schema` is no form that a client can show, naming the field, or ``None``."""
    properties = schema.get("properties", {})
    if schema.get("type") != "object" or not isinstance(properties, Mapping):
        return "a form's schema must be an object with properties"
    for name, field in properties.items():
        fault = _fault_of_field(field)
        if fault is not None:
            return f"the field {name!r} {fault}"
    unknown = next((name for name in schema.get("required", ()) if name not in properties), None)
    return None if unknown is None else f"the required field {unknown!r} is not among the properties"


def _fault_of_field(field: JSON) -> str | None:
    if not isinstance(field, Mapping):
        return "must be a schema"
    kind = field.get("type")
    if kind == "array":
        items = field.get("items")
        choices = _choices(items) if isinstance(items, Mapping) else None
        return None if choices else "must offer a choice: items with an enum, or with anyOf of const and title"
    if not isinstance(kind, str) or kind not in _TYPES:
        return "must be a string, number, integer, boolean or a choice of strings; forms are flat"
    if kind == "string" and field.get("format", "email") not in _FORMATS:
        return f"has an unknown format; known are {', '.join(sorted(_FORMATS))}"
    chosen = any(key in field for key in ("enum", "oneOf", "anyOf"))
    return "must list its choices as strings" if chosen and not _choices(field) else None


def _choices(schema: Mapping[str, JSON]) -> list[str] | None:
    """The values that a choice offers, or ``None`` where it is not one that clients know."""
    options = schema.get("enum")
    if options is None:
        listed = schema.get("oneOf", schema.get("anyOf"))
        known = isinstance(listed, list) and all(isinstance(option, Mapping) for option in listed)
        options = [option.get("const") for option in listed] if known else None
    strings = isinstance(options, list) and options and all(isinstance(option, str) for option in options)
    return options if strings else None


def _number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _integer(value: JSON) -> bool:
    return _number(value) and value == int(value)


_TYPES: Mapping[str, Callable[[JSON], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _number,
    "integer": _integer,
    "boolean": lambda value: isinstance(value, bool),
}


def fault_of_content(schema: Mapping[str, JSON], content: Mapping[str, JSON]) -> str | None:
    """Why `content` does not fill in the form `schema`, naming the field, or ``None``.

    Fields that the form does not have are let be: a client may know more than was asked.
    """
    missing = next((name for name in schema.get("required", ()) if content.get(name) is None), None)
    if missing is not None:
        return f"{missing} is required"
    for name, field in schema.get("properties", {}).items():
        value = content.get(name)
        fault = None if value is None else _fault_of_value(field, value)
        if fault is not None:
            return f"{name} {fault}"
    return None


def _fault_of_value(field: Mapping[str, JSON], value: JSON) -> str | None:
    if field["type"] == "array":
        return _fault_of_choices(field, value)
    if not _TYPES[field["type"]](value):
        return f"must be of type {field['type']}"
    choices = _choices(field)
    if choices is not None and value not in choices:
        return "must be one of the choices"
    size = len(value) if isinstance(value, str) else value
    low, high = ("minLength", "maxLength") if isinstance(value, str) else ("minimum", "maximum")
    if size < field.get(low, size) or size > field.get(high, size):
        return f"must be within {low} and {high}"
    return None


def _fault_of_choices(field: Mapping[str, JSON], value: JSON) -> str | None:
    choices = _choices(field["items"]) or []
    if not isinstance(value, list) or not all(item in choices for item in value):
        return "must be a list of the choices"
    if len(value) < field.get("minItems", 0) or len(value) > field.get("maxItems", len(value)):
        return "must be within minItems and maxItems"
    return None

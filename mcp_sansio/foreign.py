"""Models that publish and validate themselves, as those of pydantic do, which this library never imports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from .types import JSON


def is_pydantic(tp: Any) -> bool:
    """Whether `tp` is a pydantic model, told by what it can do."""
    return isinstance(tp, type) and all(
        callable(getattr(tp, name, None)) for name in ("model_json_schema", "model_validate_json")
    )


def schema_and_defs(model: Any, *, output: bool, prefix: str) -> tuple[dict[str, JSON], dict[str, JSON]]:
    """The schema of `model`, and what it refers to under ``$defs``, by names that begin with `prefix`."""
    mode = "serialization" if output else "validation"
    schema = model.model_json_schema(mode=mode, ref_template=f"#/$defs/{prefix}{{model}}")
    return schema, {f"{prefix}{name}": own for name, own in schema.pop("$defs", {}).items()}


def validated(model: Any, value: JSON) -> Any:
    """An instance of `model`. Raises pydantic's ``ValidationError``, a ``ValueError``.

    The JSON mode is strict in JSON's terms: ``"2"`` is no integer, but a date may be text.
    """
    given = msgspec.json.encode(value)
    try:
        return model.model_validate_json(given, strict=True)
    except ValueError:
        # pydantic takes 1.0 for no integer and JSON Schema does; as JSON, the two are one value elsewhere as well.
        integral = msgspec.json.encode(integral_numbers(value))
        if integral == given:
            raise
    return model.model_validate_json(integral, strict=True)


def validated_text(model: Any, value: JSON) -> Any:
    """The same where every field came as text."""
    return model.model_validate_strings(value)


def faults_of(error: ValueError) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """The place and the message of everything that pydantic's `error` complains of. The values are not among it."""
    for item in error.errors(include_url=False, include_input=False):  # type: ignore[attr-defined]
        yield item["loc"], item["msg"]


def integral_numbers(value: JSON) -> JSON:
    """`value` with integers for the floats that are whole: JSON Schema makes no difference between 1 and 1.0."""
    if isinstance(value, dict):
        return {key: integral_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [integral_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

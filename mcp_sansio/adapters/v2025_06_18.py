"""Revision 2025-06-18: the first with elicitation (form mode), structured content, titles and the version header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from mcp_sansio.asking import ELICIT
from mcp_sansio.outcome import InputRequest
from mcp_sansio.types import JSON, RequestId

from ._handshake import HandshakeAdapter
from .projection import FULL, Shape


class Adapter2025_06_18(HandshakeAdapter):
    """The revision of 2025-06-18."""

    version: ClassVar[str] = "2025-06-18"
    can_push_ask: ClassVar[bool] = True
    askable: ClassVar[Mapping[str, JSON]] = {"elicitation": {}, "sampling": {}, "roots": {}}

    shape: ClassVar[Shape] = msgspec.structs.replace(
        FULL.without("icons"),
        implementation=frozenset({"name", "title", "version"}),
        structured_content="object",
        simplifies_schemas=True,
    )

    def can_carry(self, request: InputRequest) -> bool:
        """There is no URL mode yet, no choice of several (PrimitiveSchemaDefinition), no sampling with tools."""
        params = request.get("params", {})
        if request["method"] != ELICIT:
            return "tools" not in params
        fields = params.get("requestedSchema", {}).get("properties", {})
        return "url" not in params and all(field.get("type") != "array" for field in fields.values())

    def encode_question(self, question_id: RequestId, request: InputRequest) -> bytes:
        """Elicitation has no mode yet, and a choice is an ``enum`` with ``enumNames`` (schema, EnumSchema)."""
        if request["method"] != ELICIT:
            return super().encode_question(question_id, request)
        params = {name: value for name, value in request["params"].items() if name != "mode"}
        schema = params["requestedSchema"]
        fields = {name: _plain_choice(field) for name, field in schema.get("properties", {}).items()}
        params["requestedSchema"] = {**schema, "properties": fields}
        return super().encode_question(question_id, {**request, "params": params})


def _plain_choice(field: Mapping[str, JSON]) -> Mapping[str, JSON]:
    options = field.get("oneOf")
    if not isinstance(options, list):
        return field
    rest = {name: value for name, value in field.items() if name != "oneOf"}
    return {
        **rest,
        "enum": [option["const"] for option in options],
        "enumNames": [option.get("title", option["const"]) for option in options],
    }

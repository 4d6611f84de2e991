"""Revision 2025-06-18: the first with elicitation (form mode), structured content, titles and the version header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mcp_sansio.asking import ELICIT
from mcp_sansio.outcome import InputRequest
from mcp_sansio.types import JSON, RequestId

from ._handshake import HandshakeAdapter
from .projection import Shape


class Adapter2025_06_18(HandshakeAdapter):
    """The revision of 2025-06-18."""

    version: ClassVar[str] = "2025-06-18"
    can_push_ask: ClassVar[bool] = True

    shape: ClassVar[Shape] = Shape(
        implementation=frozenset({"name", "title", "version"}),
        tool=frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta"}),
        resource=frozenset({"uri", "name", "title", "description", "mimeType", "size", "annotations", "_meta"}),
        resource_template=frozenset(
            {"uriTemplate", "name", "title", "description", "mimeType", "annotations", "_meta"}
        ),
        prompt=frozenset({"name", "title", "description", "arguments", "_meta"}),
        prompt_argument=frozenset({"name", "title", "description", "required"}),
        tool_annotations=frozenset({"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}),
        annotations=frozenset({"audience", "priority", "lastModified"}),
        content=frozenset(
            {
                *("type", "text", "data", "mimeType", "resource", "annotations", "_meta"),
                *("uri", "name", "title", "description", "size"),
            }
        ),
        contents=frozenset({"uri", "mimeType", "text", "blob", "_meta"}),
        content_types=frozenset({"text", "image", "audio", "resource", "resource_link"}),
        structured_content="object",
        has_completions=True,
        progress=frozenset({"progressToken", "progress", "total", "message"}),
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

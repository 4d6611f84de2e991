"""Revision 2025-11-25: sessions and pushed questions, URL elicitation, streams that a server may let go of."""

from __future__ import annotations

from typing import ClassVar

from ._handshake import HandshakeAdapter
from .projection import Shape


class Adapter2025_11_25(HandshakeAdapter):
    """The revision of 2025-11-25."""

    version: ClassVar[str] = "2025-11-25"
    can_push_ask: ClassVar[bool] = True
    primes_streams: ClassVar[bool] = True
    # The schema made the id of an error optional, and still does not take null.
    null_error_id: ClassVar[bool] = False

    shape: ClassVar[Shape] = Shape(
        implementation=frozenset({"name", "title", "version", "description", "websiteUrl", "icons"}),
        tool=frozenset(
            {"name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta"}
        ),
        resource=frozenset(
            {"uri", "name", "title", "description", "mimeType", "size", "annotations", "icons", "_meta"}
        ),
        resource_template=frozenset(
            {"uriTemplate", "name", "title", "description", "mimeType", "annotations", "icons", "_meta"}
        ),
        prompt=frozenset({"name", "title", "description", "arguments", "icons", "_meta"}),
        prompt_argument=frozenset({"name", "title", "description", "required"}),
        tool_annotations=frozenset({"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}),
        annotations=frozenset({"audience", "priority", "lastModified"}),
        content=frozenset(
            {
                *("type", "text", "data", "mimeType", "resource", "annotations", "_meta"),
                *("uri", "name", "title", "description", "size", "icons"),
            }
        ),
        contents=frozenset({"uri", "mimeType", "text", "blob", "_meta"}),
        content_types=frozenset({"text", "image", "audio", "resource", "resource_link"}),
        structured_content="object",
        has_completions=True,
        progress=frozenset({"progressToken", "progress", "total", "message"}),
        simplifies_schemas=True,
    )

"""Revision 2025-03-26: the first Streamable HTTP, the only one with batches, and the one that silence implies.

It has no elicitation, so questions of every kind ride in the tool call.
"""

from __future__ import annotations

from typing import ClassVar

from ._handshake import HandshakeAdapter
from .projection import Shape


class Adapter2025_03_26(HandshakeAdapter):
    """The revision of 2025-03-26."""

    version: ClassVar[str] = "2025-03-26"
    asks_in_arguments: ClassVar[bool] = True
    allows_batch: ClassVar[bool] = True
    is_implied: ClassVar[bool] = True

    shape: ClassVar[Shape] = Shape(
        implementation=frozenset({"name", "version"}),
        tool=frozenset({"name", "description", "inputSchema", "annotations"}),
        resource=frozenset({"uri", "name", "description", "mimeType", "size", "annotations"}),
        resource_template=frozenset({"uriTemplate", "name", "description", "mimeType", "annotations"}),
        prompt=frozenset({"name", "description", "arguments"}),
        prompt_argument=frozenset({"name", "description", "required"}),
        tool_annotations=frozenset({"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}),
        annotations=frozenset({"audience", "priority"}),
        content=frozenset({"type", "text", "data", "mimeType", "resource", "annotations"}),
        contents=frozenset({"uri", "mimeType", "text", "blob"}),
        content_types=frozenset({"text", "image", "audio", "resource"}),
        structured_content="none",
        has_completions=True,
        progress=frozenset({"progressToken", "progress", "total", "message"}),
        simplifies_schemas=True,
    )

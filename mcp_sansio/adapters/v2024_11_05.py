"""Revision 2024-11-05: the first. Over HTTP it is a pair of endpoints, over stdio it is spoken like its successors.

Questions of every kind ride in the tool call, as in the revision after it.
"""

from __future__ import annotations

from typing import ClassVar

from ._handshake import HandshakeAdapter
from .projection import Shape


class Adapter2024_11_05(HandshakeAdapter):
    """The revision of 2024-11-05."""

    version: ClassVar[str] = "2024-11-05"
    asks_in_arguments: ClassVar[bool] = True

    shape: ClassVar[Shape] = Shape(
        implementation=frozenset({"name", "version"}),
        tool=frozenset({"name", "description", "inputSchema"}),
        resource=frozenset({"uri", "name", "description", "mimeType", "size", "annotations"}),
        resource_template=frozenset({"uriTemplate", "name", "description", "mimeType", "annotations"}),
        prompt=frozenset({"name", "description", "arguments"}),
        prompt_argument=frozenset({"name", "description", "required"}),
        tool_annotations=frozenset(),
        annotations=frozenset({"audience", "priority"}),
        content=frozenset({"type", "text", "data", "mimeType", "resource", "annotations"}),
        contents=frozenset({"uri", "mimeType", "text", "blob"}),
        content_types=frozenset({"text", "image", "resource"}),
        structured_content="none",
        has_completions=False,
        progress=frozenset({"progressToken", "progress", "total"}),
        simplifies_schemas=True,
    )

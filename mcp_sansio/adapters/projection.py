"""What a revision can hold of a declaration or a piece of content: tables of members, and what happens to the rest.

Each adapter has one `Shape`. A member that is not in it is left out; content of a type that is not in it becomes text
that says what it was, so that nothing disappears unseen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from mcp_sansio.types import (
    JSON,
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    PromptMessage,
    ResourceLink,
    TextContent,
    TextResourceContents,
    to_wire,
)

Members = frozenset[str]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The members that a revision's schema defines, one set for each kind of object. The names are the schema's.

    `structured_content` is what a tool's structured content may be: ``"none"``, ``"object"`` or ``"any"``.
    """

    implementation: Members
    tool: Members
    resource: Members
    resource_template: Members
    prompt: Members
    prompt_argument: Members
    tool_annotations: Members
    annotations: Members
    content: Members
    contents: Members
    content_types: Members
    structured_content: str
    has_completions: bool
    progress: Members
    simplifies_schemas: bool

    def without(self, *members: str) -> Self:
        """This shape where none of `members` exists, in any object."""
        held: dict[str, Any] = msgspec.structs.asdict(self)
        sets: dict[str, Any] = {
            name: value - {*members} for name, value in held.items() if isinstance(value, frozenset)
        }
        return msgspec.structs.replace(self, **sets)


_HINTS = {"title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
_DESCRIBED = {"name", "title", "description", "icons", "_meta"}

#: Every member that the revisions so far define. An older revision is this without what came after it; a newer one adds
#: what it brings, in its own file.
FULL = Shape(
    implementation=frozenset({"name", "title", "version", "description", "websiteUrl", "icons"}),
    tool=frozenset({*_DESCRIBED, "inputSchema", "outputSchema", "annotations"}),
    resource=frozenset({*_DESCRIBED, "uri", "mimeType", "size", "annotations"}),
    resource_template=frozenset({*_DESCRIBED, "uriTemplate", "mimeType", "annotations"}),
    prompt=frozenset({*_DESCRIBED, "arguments"}),
    prompt_argument=frozenset({"name", "title", "description", "required"}),
    tool_annotations=frozenset(_HINTS),
    annotations=frozenset({"audience", "priority", "lastModified"}),
    content=frozenset({*_DESCRIBED, "type", "text", "data", "mimeType", "resource", "uri", "size", "annotations"}),
    contents=frozenset({"uri", "mimeType", "text", "blob", "_meta"}),
    content_types=frozenset({"text", "image", "audio", "resource", "resource_link"}),
    structured_content="any",
    has_completions=True,
    progress=frozenset({"progressToken", "progress", "total", "message"}),
    simplifies_schemas=False,
)


def pick(wire: Mapping[str, JSON], members: Members) -> dict[str, JSON]:
    """`wire` without what is not in `members`."""
    return {name: value for name, value in wire.items() if name in members}


def project_annotated(shape: Shape, wire: Mapping[str, JSON], members: Members) -> dict[str, JSON]:
    """`pick`, with the annotations within projected too."""
    picked = pick(wire, members)
    if "annotations" in picked:
        picked["annotations"] = pick(picked["annotations"], shape.annotations)
    return picked


def project_content(shape: Shape, block: ContentBlock) -> dict[str, JSON]:
    """The JSON object of a content block, or of the text that stands for it where the revision lacks its type."""
    if type(block) is TextContent and block.annotations is None and block.meta is None:
        return {"type": "text", "text": block.text}
    if block.type not in shape.content_types:
        return {"type": "text", "text": _stand_in(block)}
    wire = project_annotated(shape, to_wire(block), shape.content)
    if isinstance(block, EmbeddedResource):
        wire["resource"] = project_contents(shape, block.resource)
    return wire


def project_contents(shape: Shape, contents: TextResourceContents | BlobResourceContents) -> dict[str, JSON]:
    """The JSON object of a resource's contents."""
    return pick(to_wire(contents), shape.contents)


def project_message(shape: Shape, message: PromptMessage) -> dict[str, JSON]:
    """The JSON object of a prompt's message."""
    return {"role": message.role, "content": project_content(shape, message.content)}


def _stand_in(block: Any) -> str:
    if isinstance(block, ResourceLink):
        return f"{block.title or block.name}: {block.uri}"
    if isinstance(block, AudioContent):
        return f"[audio of type {block.mime_type}, which this client's protocol revision cannot carry]"
    return f"[content of type {block.type}, which this client's protocol revision cannot carry]"

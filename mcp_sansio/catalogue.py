"""What a server says that it is and offers, as its clients read it.

Beside `types`, which a server needs: this is loaded with the client role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from .types import JSON, Annotations, Icon, ToolAnnotations


@attrs.frozen(kw_only=True)
class ServerDescription:
    """What a server says it is. Nothing may be decided by its name: it is not verified.

    `capabilities` is open: members that nobody knows are kept. `revision` is the protocol's that is spoken with it, and
    `adapter` the adapter of that.
    """

    name: str | None = None
    version: str | None = None
    title: str | None = None
    instructions: str | None = None
    capabilities: Mapping[str, JSON] = attrs.field(factory=dict)
    revision: str = ""
    adapter: Any = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Tool:
    """A tool that a server lists. `input_schema` and `output_schema` are JSON Schema, as they came."""

    name: str
    input_schema: Mapping[str, JSON]
    title: str | None = None
    description: str | None = None
    output_schema: Mapping[str, JSON] | None = None
    annotations: ToolAnnotations | None = None
    icons: Sequence[Icon] | None = None
    meta: Mapping[str, JSON] | None = None


@attrs.frozen(kw_only=True)
class Resource:
    """A resource that a server lists. `uri` is exactly as it was sent; `size` is in bytes."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    icons: Sequence[Icon] | None = None
    meta: Mapping[str, JSON] | None = None


@attrs.frozen(kw_only=True)
class ResourceTemplate:
    """A family of resources that a server lists. `uri_template` is a URI Template (RFC 6570)."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: Sequence[Icon] | None = None
    meta: Mapping[str, JSON] | None = None


@attrs.frozen(kw_only=True)
class PromptArgument:
    """An argument of a prompt. All of them are text."""

    name: str
    title: str | None = None
    description: str | None = None
    required: bool = False


@attrs.frozen(kw_only=True)
class Prompt:
    """A prompt that a server lists."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: Sequence[PromptArgument] = ()
    icons: Sequence[Icon] | None = None
    meta: Mapping[str, JSON] | None = None

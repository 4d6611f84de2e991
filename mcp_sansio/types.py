"""The values that handlers take and give: content, results and descriptions, in no revision's words.

Each class is a plain attrs record with the specification's fields in snake_case. :func:`to_wire` turns a record into
the specification's JSON object (camelCase, absent fields left out); what an older revision cannot hold is dropped
later, by its adapter.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import attrs

if TYPE_CHECKING:
    from cattrs import Converter

Role = Literal["user", "assistant"]
JSON = Any
"""A JSON value: what :func:`msgspec.json.decode` gives."""
RequestId = str | int
ProgressToken = str | int

#: The severities of log messages, least severe first (RFC 5424, server/utilities/logging).
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
"""How severe a log message is."""


class _Unset:
    """The type of :data:`UNSET`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Any = _Unset()
"""No value at all, where ``None`` is one."""


@attrs.frozen(kw_only=True)
class Icon:
    """A picture for user interfaces. `src` is an ``https:`` or ``data:`` URI."""

    src: str
    mime_type: str | None = None
    sizes: Sequence[str] | None = None
    theme: Literal["light", "dark"] | None = None


@attrs.frozen(kw_only=True)
class Implementation:
    """Who a peer says it is, unverified: nothing may be decided by it (basic, "Per-response protocol fields")."""

    name: str
    version: str
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Sequence[Icon] | None = None


@attrs.frozen(kw_only=True)
class Annotations:
    """Hints on how to use content. `priority` runs from 0.0 to 1.0, `last_modified` is an ISO 8601 timestamp."""

    audience: Sequence[Role] | None = None
    priority: float | None = None
    last_modified: str | None = None


@attrs.frozen(kw_only=True)
class ToolAnnotations:
    """Hints about a tool's behaviour, which a client must not trust (server/tools)."""

    title: str | None = None
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


def _base64(value: str | bytes) -> str:
    return b64encode(value).decode("ascii") if isinstance(value, bytes) else value


@attrs.frozen
class TextContent:
    """A block of text."""

    text: str
    annotations: Annotations | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)
    type: Literal["text"] = attrs.field(default="text", init=False)


@attrs.frozen
class ImageContent:
    """A picture. `data` is bytes, or their base64 text."""

    data: str = attrs.field(converter=_base64)
    mime_type: str
    annotations: Annotations | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)
    type: Literal["image"] = attrs.field(default="image", init=False)


@attrs.frozen
class AudioContent:
    """A sound. `data` is bytes, or their base64 text."""

    data: str = attrs.field(converter=_base64)
    mime_type: str
    annotations: Annotations | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)
    type: Literal["audio"] = attrs.field(default="audio", init=False)


@attrs.frozen
class TextResourceContents:
    """What a resource holds, as text."""

    uri: str
    text: str
    mime_type: str | None = None
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)


@attrs.frozen
class BlobResourceContents:
    """What a resource holds, as bytes. `blob` is bytes, or their base64 text."""

    uri: str
    blob: str = attrs.field(converter=_base64)
    mime_type: str | None = None
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)


ResourceContents = TextResourceContents | BlobResourceContents


@attrs.frozen
class EmbeddedResource:
    """A resource carried within a result."""

    resource: ResourceContents
    annotations: Annotations | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)
    type: Literal["resource"] = attrs.field(default="resource", init=False)


@attrs.frozen
class ResourceLink:
    """A pointer to a resource, which the client may read or subscribe to. `size` is in bytes."""

    uri: str
    name: str
    title: str | None = attrs.field(default=None, kw_only=True)
    description: str | None = attrs.field(default=None, kw_only=True)
    mime_type: str | None = attrs.field(default=None, kw_only=True)
    size: int | None = attrs.field(default=None, kw_only=True)
    annotations: Annotations | None = attrs.field(default=None, kw_only=True)
    icons: Sequence[Icon] | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)
    type: Literal["resource_link"] = attrs.field(default="resource_link", init=False)


ContentBlock = TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink
CONTENT_BLOCKS = (TextContent, ImageContent, AudioContent, EmbeddedResource, ResourceLink)


@attrs.frozen
class PromptMessage:
    """One message of a prompt."""

    role: Role
    content: ContentBlock


@attrs.define
class CallToolResult:
    """What a tool gives. `structured_content` is :data:`UNSET` where there is none, since null is a JSON value too."""

    content: Sequence[ContentBlock] = ()
    structured_content: JSON = attrs.field(default=UNSET, kw_only=True)
    is_error: bool = attrs.field(default=False, kw_only=True)
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)


@attrs.define
class ReadResourceResult:
    """What reading a resource gives."""

    contents: Sequence[ResourceContents]
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)


@attrs.define
class GetPromptResult:
    """What getting a prompt gives."""

    messages: Sequence[PromptMessage]
    description: str | None = attrs.field(default=None, kw_only=True)
    meta: Mapping[str, JSON] | None = attrs.field(default=None, kw_only=True)


@attrs.define
class Completion:
    """Suggestions for one argument, best first; at most 100 are sent (server/utilities/completion)."""

    values: Sequence[str]
    total: int | None = None
    has_more: bool | None = None


_CAMEL_EXCEPTIONS = {"meta": "_meta"}


def camel(name: str) -> str:
    """The specification's spelling of a field: ``mime_type`` → ``mimeType``, ``meta`` → ``_meta``."""
    head, *rest = name.split("_")
    return _CAMEL_EXCEPTIONS.get(name) or head + "".join(part.capitalize() for part in rest)


@cache
def _converter() -> Converter:
    # cattrs takes as long to load as a quarter of this package, and a server whose tools give texts never needs it.
    from cattrs import Converter
    from cattrs.gen import make_dict_unstructure_fn, override

    def unstructure_record(cls: type) -> Any:
        overrides = {
            field.name: override(
                rename=camel(field.name),
                omit_if_default=field.name != "type" and field.default is not attrs.NOTHING,
            )
            for field in attrs.fields(cls)
        }
        return make_dict_unstructure_fn(cls, converter, _cattrs_include_init_false=True, **overrides)  # type: ignore[arg-type]

    converter = Converter()
    converter.register_unstructure_hook_factory(attrs.has, unstructure_record)
    return converter


def to_wire(record: Any) -> dict[str, JSON]:
    """The JSON object of the specification for a record of this module; fields that are ``None`` are left out."""
    # Every peer says who it is in its first message, and it spares 9 ms of 155 to do that without loading cattrs.
    if type(record) is Implementation and record.icons is None:
        said = {camel(field.name): getattr(record, field.name) for field in attrs.fields(Implementation)}
        return {name: value for name, value in said.items() if value is not None}
    wire: dict[str, JSON] = _converter().unstructure(record)
    return wire

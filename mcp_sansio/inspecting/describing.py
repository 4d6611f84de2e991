"""What a server is and gives, as text for people: lines that a terminal can show, whatever a server put into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mcp_sansio.catalogue import Prompt, Resource, ResourceTemplate, ServerDescription, Tool
from mcp_sansio.types import (
    JSON,
    UNSET,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ReadResourceResult,
    ResourceLink,
    TextContent,
    TextResourceContents,
    to_wire,
)
from mcp_sansio.wire.json import encode

from .words import kinds_of, resolved

#: What could move a cursor, change colours or ring a bell (C0 without tab and line feed, DEL, C1).
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_LIMITS = ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "pattern", "format")


def printable(text: str) -> str:
    """`text` for a terminal: control characters and halves of characters are shown and not obeyed."""
    shown = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n"))
    return shown.encode("utf-8", "backslashreplace").decode()


def server_lines(server: ServerDescription) -> Iterator[str]:
    """What the server says it is."""
    name = " ".join(filter(None, (server.name or "a server without a name", server.version)))
    yield f"{name} — {server.title}" if server.title else name
    yield f"  revision      {server.revision}"
    yield f"  capabilities  {', '.join(map(_capability, server.capabilities.items())) or 'none'}"
    if server.instructions:
        yield ""
        yield from server.instructions.splitlines()


def _capability(item: tuple[str, JSON]) -> str:
    name, value = item
    more = [key for key, held in value.items() if held not in (False, None)] if isinstance(value, Mapping) else []
    return f"{name} ({', '.join(more)})" if more else name


def tool_lines(tool: Tool) -> Iterator[str]:
    """A tool and its arguments."""
    yield from _heading(tool.name, tool.title, tool.description)
    properties = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    wanted = required if isinstance(required, list) else []
    for name, schema in properties.items() if isinstance(properties, Mapping) else ():
        yield _argument(name, resolved(schema, tool.input_schema), name in wanted)


def prompt_lines(prompt: Prompt) -> Iterator[str]:
    """A prompt and its arguments."""
    yield from _heading(prompt.name, prompt.title, prompt.description)
    for argument in prompt.arguments:
        yield _argument(argument.name, {"description": argument.description or argument.title}, argument.required)


def resource_lines(resource: Resource | ResourceTemplate) -> Iterator[str]:
    """A resource, or a template of resources."""
    uri = resource.uri if isinstance(resource, Resource) else resource.uri_template
    kind = f" ({resource.mime_type})" if resource.mime_type else ""
    yield from _heading(f"{uri}{kind}", resource.title or resource.name, resource.description)


def _heading(name: str, title: str | None, description: str | None) -> Iterator[str]:
    yield f"  {name} — {title}" if title and title != name else f"  {name}"
    for line in (description or "").strip().splitlines():
        yield f"      {line}".rstrip()


def _argument(name: str, schema: JSON, required: bool) -> str:
    about = schema.get("description") if isinstance(schema, Mapping) else None
    words = ", ".join(filter(None, (words_of(schema), "" if required else "optional")))
    line = f"      - {name}{f' ({words})' if words else ''}"
    return f"{line}: {' '.join(about.split())}" if isinstance(about, str) and about else line


def words_of(schema: JSON) -> str:
    """What a value may be, in a few words; nothing where `schema` does not say."""
    if not isinstance(schema, Mapping):
        return ""
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    words = "|".join(map(_json, choices)) if isinstance(choices, list) else "|".join(sorted(kinds_of(schema)))
    items = words_of(schema.get("items"))
    more = [f"{limit} {_json(schema[limit])}" for limit in _LIMITS if limit in schema]
    more += [f"default {_json(schema['default'])}"] if "default" in schema else []
    return ", ".join(filter(None, (f"{words} of {items}" if items else words, *more)))


def result_lines(result: CallToolResult | ReadResourceResult | GetPromptResult) -> Iterator[str]:
    """What a call gave."""
    if isinstance(result, ReadResourceResult):
        for contents in result.contents:
            yield from contents.text.split("\n") if isinstance(contents, TextResourceContents) else [_blob(contents)]
    elif isinstance(result, GetPromptResult):
        for message in result.messages:
            yield f"{message.role}:"
            yield from (f"  {line}" for line in _content(message.content))
    else:
        for block in result.content:
            yield from _content(block)
        if not result.content and result.structured_content is not UNSET:
            yield _json(result.structured_content)


def _content(block: Any) -> Iterator[str]:
    if isinstance(block, TextContent):
        yield from block.text.split("\n")
    elif isinstance(block, EmbeddedResource):
        yield f"[{block.resource.uri}]"
        yield from result_lines(ReadResourceResult([block.resource]))
    elif isinstance(block, ResourceLink):
        yield f"[{block.uri}] {block.title or block.name}"
    elif isinstance(block, Mapping):
        yield _json(block)  # of a kind that nobody here knows
    else:
        yield f"[{block.type} {block.mime_type}, {_size(block.data)} bytes]"


def _blob(contents: Any) -> str:
    return f"[{contents.mime_type or 'binary'}, {_size(contents.blob)} bytes]"


def _size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _json(value: JSON) -> str:
    return encode(value).decode()


def as_json(record: Any) -> JSON:
    """A record, a list of them or JSON, as JSON."""
    if isinstance(record, ServerDescription):
        members = ("name", "version", "title", "revision", "capabilities", "instructions")
        return {name: value for name in members if (value := getattr(record, name)) is not None}
    if isinstance(record, Mapping):
        return dict(record)
    if isinstance(record, Sequence):
        return [as_json(each) for each in record]
    return to_wire(record)


def section(title: str, entries: Iterable[Iterable[str]]) -> Iterator[str]:
    """A heading, and what is below it."""
    yield ""
    yield title
    for entry in entries:
        yield from entry

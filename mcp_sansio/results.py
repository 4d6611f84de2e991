"""From what a handler returned to a result: the conversions that let a handler return plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .outcome import Text, Value
from .specs import ResourceSpec, ToolSpec
from .types import (
    CONTENT_BLOCKS,
    JSON,
    UNSET,
    BlobResourceContents,
    CallToolResult,
    Completion,
    ContentBlock,
    GetPromptResult,
    PromptMessage,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
    to_wire,
)
from .wire.json import encode, fault_of

MAX_COMPLETIONS = 100


class Unfit(Exception):
    """A handler returned what cannot be sent. The text says what, for the log."""


def tool_value(spec: ToolSpec, value: Any) -> Value:
    """The outcome of a tool that returned `value`. Raises `Unfit`, also for what is in it and is not JSON.

    Where an output schema is declared, the value is the structured content, mirrored as text for clients that read only
    text (server/tools, "Structured Content").
    """
    return Text(value) if type(value) is str and spec.output_schema is None else Value(_tool_result(spec, value))


def _tool_result(spec: ToolSpec, value: Any) -> CallToolResult:
    result = _whole_tool_result(spec, value) if isinstance(value, CallToolResult) else _plain_tool_result(spec, value)
    if result.structured_content is not UNSET:
        fault = fault_of(result.structured_content)
        if fault is not None:
            raise Unfit(f"the structured content is not JSON: {fault}")
    elif spec.output_schema is not None and not result.is_error:
        raise Unfit("an output schema is declared but no structured content was returned")
    for block in result.content:
        _check_block(block)
    _check("_meta", result.meta)
    return result


def tool_error(text: str) -> CallToolResult:
    """The result of a tool that failed, with what the peer is told of it."""
    return CallToolResult((TextContent(text),), is_error=True)


def _check(where: str, value: Mapping[str, JSON] | None) -> None:
    # The encoder would make null of a number that is not finite, which is another value.
    fault = None if value is None else fault_of(dict(value))
    if fault is not None:
        raise Unfit(f"the {where} of the result is not JSON: {fault}")


def _check_block(block: ContentBlock) -> None:
    # A text on its own cannot be wrong, and is what nearly every result is made of.
    if type(block) is not TextContent or block.annotations is not None or block.meta is not None:
        _check("content", to_wire(block))


def _whole_tool_result(spec: ToolSpec, result: CallToolResult) -> CallToolResult:
    """A result that the handler made itself: kept to the output schema, and mirrored where it has no content."""
    structured = result.structured_content
    if structured is UNSET:
        return result
    if spec.output_schema is not None and not result.is_error:
        structured = spec.bound.structured(structured)
    content = result.content or (TextContent(_json_text(structured)),)
    return attrs.evolve(result, content=content, structured_content=structured)


def _plain_tool_result(spec: ToolSpec, value: Any) -> CallToolResult:
    if spec.output_schema is not None:
        return _structured(spec, value)
    if value is None:
        return CallToolResult()
    if isinstance(value, str):
        return CallToolResult((TextContent(value),))
    if isinstance(value, CONTENT_BLOCKS):
        return CallToolResult((value,))
    if isinstance(value, list | tuple) and all(isinstance(item, (str, *CONTENT_BLOCKS)) for item in value):
        return CallToolResult([TextContent(item) if isinstance(item, str) else item for item in value])
    if isinstance(value, bytes):
        raise Unfit("bytes need a type: return ImageContent, AudioContent or an EmbeddedResource")
    return _structured(spec, value)


def _structured(spec: ToolSpec, value: Any) -> CallToolResult:
    structured = spec.bound.structured(value)
    return CallToolResult((TextContent(_json_text(structured)),), structured_content=structured)


def _json_text(value: JSON) -> str:
    fault = fault_of(value)
    if fault is not None:
        raise Unfit(f"the returned value is not JSON: {fault}")
    return encode(value).decode()


def resource_result(spec: ResourceSpec, uri: str, value: Any) -> ReadResourceResult:
    """The result of a resource that returned `value`. Raises `Unfit`."""
    result = _resource_result(spec, uri, value)
    for contents in result.contents:
        _check("contents", contents.meta)
    _check("_meta", result.meta)
    return result


def _resource_result(spec: ResourceSpec, uri: str, value: Any) -> ReadResourceResult:
    if isinstance(value, ReadResourceResult):
        return value
    items = value if isinstance(value, list | tuple) else [value]
    if all(isinstance(item, TextResourceContents | BlobResourceContents) for item in items):
        return ReadResourceResult(items)
    return ReadResourceResult([_contents(spec, uri, value)])


def _contents(spec: ResourceSpec, uri: str, value: Any) -> TextResourceContents | BlobResourceContents:
    if isinstance(value, str):
        return TextResourceContents(uri, value, spec.mime_type)
    if isinstance(value, bytes | bytearray):
        return BlobResourceContents(uri, bytes(value), spec.mime_type)
    if value is None:
        raise Unfit("a resource must return its contents; raise ResourceNotFound where there are none")
    return TextResourceContents(uri, _json_text(spec.bound.structured(value)), spec.mime_type or "application/json")


def prompt_result(value: Any) -> GetPromptResult:
    """The result of a prompt that returned `value`: text, a message, ``(role, content)``, or a list of those.

    Raises `Unfit`.
    """
    items = value if isinstance(value, list) else [value]
    result = value if isinstance(value, GetPromptResult) else GetPromptResult([_message(item) for item in items])
    for message in result.messages:
        _check_block(message.content)
    _check("_meta", result.meta)
    return result


def _message(item: Any) -> PromptMessage:
    if isinstance(item, PromptMessage):
        return item
    role, content = item if isinstance(item, tuple) and len(item) == 2 else ("user", item)
    if isinstance(content, str):
        content = TextContent(content)
    if role not in ("user", "assistant") or not isinstance(content, CONTENT_BLOCKS):
        raise Unfit(f"a prompt must return messages, not {type(item).__name__}")
    return PromptMessage("user" if role == "user" else "assistant", content)


def completion_result(value: Any) -> Completion:
    """The result of a completion; what is over the specification's 100 is left out, and said so."""
    if isinstance(value, str):
        raise TypeError("a completion must return a list of strings or a Completion, not one string")
    made = value if isinstance(value, Completion) else Completion(list(value or ()))
    if len(made.values) <= MAX_COMPLETIONS:
        return made
    total = made.total if made.total is not None else len(made.values)
    return attrs.evolve(made, values=list(made.values)[:MAX_COMPLETIONS], total=total, has_more=True)

"""The records of the specification out of JSON: all there, with what may be missing, and with what is wrong."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from mcp_sansio import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    Completion,
    EmbeddedResource,
    GetPromptResult,
    Icon,
    ImageContent,
    Implementation,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    Tool,
    ToolAnnotations,
)
from mcp_sansio.reading import WireFault, from_wire
from mcp_sansio.types import UNSET, to_wire

ICONS = [Icon(src="https://i.example", mime_type="image/png", sizes=["48x48"], theme="dark")]
HINTS = Annotations(audience=["user"], priority=0.5, last_modified="2026-01-01T00:00:00Z")
SHARED: dict[str, Any] = {"annotations": HINTS, "meta": {"a": [1]}}
WHOLE = [
    Tool(
        name="t",
        input_schema={"type": "object"},
        title="T",
        description="d",
        output_schema={"type": "array"},
        annotations=ToolAnnotations(title="x", read_only_hint=True, open_world_hint=False),
        icons=ICONS,
        meta={"a": 1},
    ),
    Resource(
        uri="x://a b", name="r", title="R", description="d", mime_type="text/plain", size=5, icons=ICONS, **SHARED
    ),
    ResourceTemplate(
        uri_template="x://{a}", name="r", title="R", description="d", mime_type="a/b", icons=ICONS, **SHARED
    ),
    Prompt(name="p", title="P", arguments=[PromptArgument(name="a", title="A", required=True)], icons=ICONS),
    Implementation(name="s", version="1", title="S", description="d", website_url="https://s.example", icons=ICONS),
    CallToolResult(
        [
            TextContent("t", **SHARED),
            ImageContent("AAEC", "image/png", **SHARED),
            AudioContent("AAEC", "audio/wav", **SHARED),
            EmbeddedResource(TextResourceContents("x://a", "t", "text/plain", meta={"a": 1}), **SHARED),
            EmbeddedResource(BlobResourceContents("x://a", "AAEC")),
            ResourceLink("x://a", "a", title="A", description="d", mime_type="a/b", size=7, icons=ICONS, **SHARED),
        ],
        structured_content={"a": None},
        is_error=True,
        meta={"m": 1},
    ),
    ReadResourceResult([TextResourceContents("x://a", "t"), BlobResourceContents("x://b", "AAEC")], meta={"m": 1}),
    GetPromptResult([PromptMessage("user", TextContent("t"))], description="d", meta={"m": 1}),
    Completion(["a", "b"], total=5, has_more=True),
]


@pytest.mark.parametrize("record", WHOLE, ids=lambda record: type(record).__name__)
def test_what_is_written_is_read(record: Any) -> None:
    """Members that nobody knows are passed over, and so is null where something may be missing."""
    wire = to_wire(record)
    assert from_wire(type(record), wire) == record
    assert from_wire(type(record), {**wire, "future": {"a": 1}}) == record


@pytest.mark.parametrize("record", WHOLE, ids=lambda record: type(record).__name__)
def test_what_may_be_missing_may_be_null(record: Any) -> None:
    required = {field.name for field in attrs.fields(type(record)) if field.default is attrs.NOTHING}
    bare = to_wire(type(record)(**{name: getattr(record, name) for name in required}))
    optional = set(to_wire(record)) - set(bare) - {"structuredContent", "content"}
    assert from_wire(type(record), {**bare, **dict.fromkeys(optional)}) == from_wire(type(record), bare)


@pytest.mark.parametrize("record", WHOLE, ids=lambda record: type(record).__name__)
def test_what_must_be_there(record: Any) -> None:
    required = {field.name for field in attrs.fields(type(record)) if field.default is attrs.NOTHING}
    bare = to_wire(type(record)(**{name: getattr(record, name) for name in required}))
    for name in bare:
        with pytest.raises(WireFault, match=rf"^it\.{name} is missing$"):
            from_wire(type(record), {key: value for key, value in bare.items() if key != name}, "it")


def test_null_is_structured_content_and_nothing_is_none() -> None:
    assert from_wire(CallToolResult, {"content": [], "structuredContent": None}).structured_content is None
    assert from_wire(CallToolResult, {"content": []}).structured_content is UNSET


def test_content_of_an_unknown_type_stays_what_it_is() -> None:
    odd = {"type": "hologram", "data": [1]}
    assert from_wire(CallToolResult, {"content": [odd]}).content == [odd]
    assert from_wire(PromptMessage, {"role": "user", "content": odd}).content == odd


def test_a_value_that_the_specification_may_add_later_is_kept() -> None:
    assert from_wire(Icon, {"src": "x", "theme": "sepia"}).theme == "sepia"


@pytest.mark.parametrize("uri", ["users/me", "note:Ä b", "x://HOST", "file:///a%2Fb", "data:,x", "urn:a:b", "http://h"])
def test_case_95_a_uri_is_exactly_as_it_was_sent(uri: str) -> None:
    assert from_wire(Resource, {"uri": uri, "name": "n"}).uri == uri


@pytest.mark.parametrize(
    ("cls", "wire", "fault"),
    [
        (Tool, [], "it must be an object"),
        (Tool, None, "it must be an object"),
        (Tool, {"name": 5, "inputSchema": {}}, "it.name must be a string"),
        (Tool, {"name": "t", "inputSchema": []}, "it.inputSchema must be an object"),
        (
            Tool,
            {"name": "t", "inputSchema": {}, "annotations": {"readOnlyHint": 1}},
            "it.annotations.readOnlyHint must be a boolean",
        ),
        (Tool, {"name": "t", "inputSchema": {}, "icons": {}}, "it.icons must be a list"),
        (Tool, {"name": "t", "inputSchema": {}, "icons": [{}]}, "it.icons[0].src is missing"),
        (Resource, {"uri": "u", "name": "n", "size": 1.5}, "it.size must be an integer"),
        (Resource, {"uri": "u", "name": "n", "size": True}, "it.size must be an integer"),
        (TextContent, {"text": "t", "annotations": {"priority": "high"}}, "it.annotations.priority must be a number"),
        (EmbeddedResource, {"resource": 5}, "it.resource must be an object"),
        (EmbeddedResource, {"resource": {"uri": "u"}}, "it.resource.blob is missing"),
        (ReadResourceResult, {"contents": {}}, "it.contents must be a list"),
        (ReadResourceResult, {"contents": [{"uri": 5, "text": "t"}]}, "it.contents[0].uri must be a string"),
        (Completion, {"values": ["a", 5]}, "it.values[1] must be a string"),
        (CallToolResult, {"content": [{"type": 5}]}, "it.content[0] must be an object with a type"),
    ],
)
def test_what_is_not_as_it_should_be_is_named(cls: Any, wire: Any, fault: str) -> None:
    with pytest.raises(WireFault) as caught:
        from_wire(cls, wire, "it")
    assert str(caught.value) == fault

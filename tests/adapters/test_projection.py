"""What each revision shows of a declaration and of content: whole objects, for every revision."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Annotated, Any

import attrs
import msgspec
import pytest

from mcp_sansio import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CacheHint,
    CallToolResult,
    Completion,
    CompletionRequest,
    EmbeddedResource,
    Exchange,
    GetPromptResult,
    Icon,
    ImageContent,
    PromptMessage,
    ReadResourceResult,
    Registry,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp_sansio.adapters.projection import FULL, project_content
from speak import HANDSHAKE, VERSIONS, Channel, Http

FIRST_TWO = ("2024-11-05", "2025-03-26")


@attrs.define
class Place:
    city: str
    code: int | None = None


@attrs.define
class Node:
    name: str
    child: Node | None = None


def listed(version: str, registry: Registry, method: str = "tools/list") -> list[dict[str, Any]]:
    [answered] = Channel(version, registry).request(method)
    [overhttp] = Http(version, registry).request(method).messages
    assert answered == overhttp
    member = {"tools/list": "tools", "resources/list": "resources", "prompts/list": "prompts"}
    return answered["result"][member.get(method, "resourceTemplates")]  # type: ignore[no-any-return]


def called(version: str, registry: Registry, name: str, arguments: Any = None) -> dict[str, Any]:
    [answered] = Channel(version, registry).call(name, arguments)
    assert Http(version, registry).call(name, arguments).messages == [answered]
    return {name: value for name, value in answered["result"].items() if name not in ("resultType", "_meta")}


# inputSchema ----------------------------------------------------------------------------------------------------------

FULL_PLACE = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "code": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    },
    "required": ["city"],
}
SIMPLE_PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "code": {"type": "integer"}},
    "required": ["city"],
}


def without(schema: Any, *names: str) -> Any:
    """A schema without some keywords, anywhere."""
    if isinstance(schema, list):
        return [without(item, *names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without(value, *names) for key, value in schema.items() if key not in names}


@pytest.mark.parametrize("version", VERSIONS)
def test_references_are_inlined_and_null_is_dropped(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def go(start: Place, end: Place, via: str | None = None) -> str:
        """Go."""
        return start.city

    [tool] = listed(version, registry)
    schema = without(tool["inputSchema"], "title", "additionalProperties", "$schema")
    if version in HANDSHAKE:
        properties = {"start": SIMPLE_PLACE, "end": SIMPLE_PLACE, "via": {"type": "string"}}
        assert schema == {"type": "object", "properties": properties, "required": ["start", "end"]}
    else:
        reference = {"$ref": "#/$defs/Place"}
        via = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
        assert schema == {
            "type": "object",
            "properties": {"start": reference, "end": reference, "via": via},
            "required": ["start", "end"],
            "$defs": {"Place": FULL_PLACE},
        }


@pytest.mark.parametrize("version", VERSIONS)
def test_null_is_taken_all_the_same(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def go(via: str | None = None) -> str:
        """Go."""
        return repr(via)

    assert called(version, registry, "go", {"via": None}) == {"content": [{"type": "text", "text": "None"}]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cycle_hides_the_tool_where_it_cannot_be_said(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def walk(tree: Node) -> str:
        """Walk."""
        return tree.name

    @registry.tool
    async def other() -> str:
        """Other."""
        return "x"

    names = [tool["name"] for tool in listed(version, registry)]
    [answered] = Channel(version, registry).call("walk", {"name": "a"})
    if version in HANDSHAKE:
        assert names == ["other"]
        assert answered["error"] == {"code": -32602, "message": "there is no tool named 'walk'"}
    else:
        assert names == ["walk", "other"]
        assert answered["result"]["content"] == [{"type": "text", "text": "a"}]


@pytest.mark.parametrize("version", VERSIONS)
def test_verbatim_schemas_are_only_stripped_of_headers(version: str) -> None:
    pytest.importorskip("jsonschema")
    registry = Registry("s", "1")
    part = {"type": ["string", "null"], "description": "x"}
    schema = {
        "type": "object",
        "$defs": {"Part": part},
        "properties": {"a": {"$ref": "#/$defs/Part"}, "b": {"type": "string", "x-mcp-header": "B"}},
    }

    @registry.tool(input_schema=schema, verbatim_schema=True)
    async def go(arguments: dict) -> str:  # type: ignore[type-arg]
        """Go."""
        return "x"

    [tool] = listed(version, registry)
    stripped = {**schema, "properties": {"a": {"$ref": "#/$defs/Part"}, "b": {"type": "string"}}}
    assert tool["inputSchema"] == (stripped if version in HANDSHAKE else schema)


@pytest.mark.parametrize("version", VERSIONS)
def test_since_hides_from_older_clients(version: str) -> None:
    registry = Registry("s", "1")
    since = VERSIONS[1]

    @registry.tool(since=since)
    async def new() -> str:
        """New."""
        return "x"

    @registry.prompt(since=since)
    async def fresh() -> str:
        return "x"

    @registry.resource("a:b", since=since)
    async def res() -> str:
        return "x"

    offered = version >= since
    for method in ("tools/list", "prompts/list", "resources/list"):
        assert bool(listed(version, registry, method)) is offered
    channel = Channel(version, registry)
    answers = [
        channel.call("new"),
        channel.request("prompts/get", {"name": "fresh"}),
        channel.request("resources/read", {"uri": "a:b"}),
    ]
    assert all(("result" in answer) is offered for [answer] in answers)


# outputSchema and structuredContent -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_an_object_is_structured_where_there_is_structure(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def place() -> Place:
        """Place."""
        return Place("Łódź", None)

    [tool] = listed(version, registry)
    result = called(version, registry, "place")
    text = {"type": "text", "text": '{"city":"Łódź","code":null}'}
    if version in FIRST_TWO:
        assert ("outputSchema" in tool, result) == (False, {"content": [text]})
        return
    assert result == {"content": [text], "structuredContent": {"city": "Łódź", "code": None}}
    schema = without(tool["outputSchema"], "title", "additionalProperties", "$schema", "default")
    assert schema["properties"]["city"] == {"type": "string"}
    assert schema["type"] == "object"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("value", [[1, 2], 5, "text", None, True, {"a": 1}])
def test_other_values_are_structured_where_any_json_is(version: str, value: Any) -> None:
    pytest.importorskip("jsonschema")
    registry = Registry("s", "1")
    kind = (
        {"type": "object"} if isinstance(value, dict) else {"type": ["array", "integer", "string", "null", "boolean"]}
    )

    @registry.tool(output_schema=kind)
    async def give() -> Any:
        """Give."""
        return value

    [tool] = listed(version, registry)
    result = called(version, registry, "give")
    assert [block["type"] for block in result["content"]] == ["text"]
    is_object = isinstance(value, dict)
    if version in FIRST_TWO or (version in HANDSHAKE and not is_object):
        assert ("outputSchema" in tool, "structuredContent" in result) == (False, False)
    else:
        assert result["structuredContent"] == value
        assert tool["outputSchema"] == kind


# Titles, icons, _meta, annotations ------------------------------------------------------------------------------------

ICON = Icon(src="https://e.example/i.png", mime_type="image/png", sizes=["48x48"], theme="dark")
ICON_WIRE = {"src": "https://e.example/i.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}
MARKS = {"title": "Title", "icons": [ICON], "meta": MappingProxyType({"com.example/k": 1})}
ANNOTATIONS = Annotations(audience=["user"], priority=0.5, last_modified="2025-01-12T15:00:58Z")

#: What of title, icons and _meta each revision has.
EXTRAS: dict[str, dict[str, Any]] = {
    "2026-07-28": {"title": "Title", "icons": [ICON_WIRE], "_meta": {"com.example/k": 1}},
    "2025-11-25": {"title": "Title", "icons": [ICON_WIRE], "_meta": {"com.example/k": 1}},
    "2025-06-18": {"title": "Title", "_meta": {"com.example/k": 1}},
    "2025-03-26": {},
    "2024-11-05": {},
}
HINTS = {
    "title": "Hint",
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}


def annotations(version: str) -> dict[str, Any]:
    held: dict[str, Any] = {"audience": ["user"], "priority": 0.5}
    return held if version in FIRST_TWO else {**held, "lastModified": "2025-01-12T15:00:58Z"}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_tool_shows(version: str) -> None:
    registry = Registry("s", "1")
    hints = ToolAnnotations(
        title="Hint", read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )

    @registry.tool(annotations=hints, **MARKS)
    async def go() -> str:
        """Go."""
        return "x"

    [tool] = listed(version, registry)
    tool["inputSchema"] = without(tool["inputSchema"], "additionalProperties", "$schema", "title")
    hinted = {} if version == "2024-11-05" else {"annotations": HINTS}
    schema = {"type": "object", "properties": {}}
    assert tool == {"name": "go", "description": "Go.", "inputSchema": schema, **EXTRAS[version], **hinted}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_resource_shows(version: str) -> None:
    registry = Registry("s", "1")

    @registry.resource("a:b", mime_type="text/x", size=3, annotations=ANNOTATIONS, **MARKS)
    async def one() -> str:
        """One."""
        return "x"

    @registry.resource("a:{name}", mime_type="text/x", annotations=ANNOTATIONS, **MARKS)
    async def many(name: str) -> str:
        """Many."""
        return name

    shared = {"mimeType": "text/x", "annotations": annotations(version), **EXTRAS[version]}
    [resource] = listed(version, registry, "resources/list")
    assert resource == {"name": "one", "description": "One.", "uri": "a:b", "size": 3, **shared}
    [template] = listed(version, registry, "resources/templates/list")
    assert template == {"name": "many", "description": "Many.", "uriTemplate": "a:{name}", **shared}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_prompt_shows(version: str) -> None:
    registry = Registry("s", "1")

    @registry.prompt(**MARKS)
    async def ask(topic: Annotated[str, msgspec.Meta(description="About.")], tone: str = "dry") -> str:
        """Ask."""
        return topic

    [prompt] = listed(version, registry, "prompts/list")
    topic = {"name": "topic", "description": "About.", "required": True}
    arguments = [topic, {"name": "tone", "required": False}]
    assert prompt == {"name": "ask", "description": "Ask.", "arguments": arguments, **EXTRAS[version]}


SERVER: dict[str, dict[str, Any]] = {
    "2026-07-28": {"title": "T", "description": "D", "websiteUrl": "https://e.example", "icons": [ICON_WIRE]},
    "2025-11-25": {"title": "T", "description": "D", "websiteUrl": "https://e.example", "icons": [ICON_WIRE]},
    "2025-06-18": {"title": "T"},
    "2025-03-26": {},
    "2024-11-05": {},
}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_server_shows_of_itself(version: str) -> None:
    registry = Registry("s", "1", title="T", description="D", website_url="https://e.example", icons=[ICON])
    channel = Channel(version, registry)
    request = channel.initialize(id=1) if version in HANDSHAKE else channel.message("server/discover")
    [answered] = channel.send(request)
    assert server_info(version, answered["result"]) == {"name": "s", "version": "1", **SERVER[version]}


def server_info(version: str, result: Any) -> Any:
    return result["serverInfo"] if version in HANDSHAKE else result["_meta"]["io.modelcontextprotocol/serverInfo"]


# Content --------------------------------------------------------------------------------------------------------------

META = {"com.example/k": 1}


def block_meta(version: str) -> dict[str, Any]:
    return {} if version in FIRST_TWO else {"_meta": META}


LINK = ResourceLink(
    "file:///a",
    "a.txt",
    title="A",
    description="The first.",
    mime_type="text/plain",
    size=3,
    annotations=ANNOTATIONS,
    icons=[ICON],
    meta=META,
)


def link(version: str) -> dict[str, Any]:
    if version in FIRST_TWO:
        return {"type": "text", "text": "A: file:///a"}
    shown = {
        "uri": "file:///a",
        "name": "a.txt",
        "title": "A",
        "description": "The first.",
        "mimeType": "text/plain",
        "size": 3,
        "annotations": annotations(version),
        "icons": [ICON_WIRE],
        "_meta": META,
        "type": "resource_link",
    }
    if version == "2025-06-18":
        del shown["icons"]
    return shown


def audio(version: str) -> dict[str, Any]:
    if version == "2024-11-05":
        text = "[audio of type audio/wav, which this client's protocol revision cannot carry]"
        return {"type": "text", "text": text}
    return {"type": "audio", "data": "AAE=", "mimeType": "audio/wav"}


BLOCKS: list[tuple[Any, Callable[[str], dict[str, Any]]]] = [
    (LINK, link),
    (
        ResourceLink("file:///a", "a.txt"),
        lambda version: (
            {"type": "text", "text": "a.txt: file:///a"}
            if version in FIRST_TWO
            else {"uri": "file:///a", "name": "a.txt", "type": "resource_link"}
        ),
    ),
    (AudioContent(b"\0\1", "audio/wav"), audio),
    (TextContent("x"), lambda version: {"type": "text", "text": "x"}),
    (TextContent("x", meta=META), lambda version: {"type": "text", "text": "x", **block_meta(version)}),
    (
        TextContent("x", annotations=ANNOTATIONS),
        lambda version: {"type": "text", "text": "x", "annotations": annotations(version)},
    ),
    (
        TextContent("x", annotations=ANNOTATIONS, meta=META),
        lambda version: {"type": "text", "text": "x", "annotations": annotations(version), **block_meta(version)},
    ),
    (
        ImageContent(b"\0\1", "image/png", meta=META),
        lambda version: {"type": "image", "data": "AAE=", "mimeType": "image/png", **block_meta(version)},
    ),
    (
        EmbeddedResource(TextResourceContents("a:b", "x", "text/x", meta=META), annotations=ANNOTATIONS, meta=META),
        lambda version: {
            "type": "resource",
            "resource": {"uri": "a:b", "text": "x", "mimeType": "text/x", **block_meta(version)},
            "annotations": annotations(version),
            **block_meta(version),
        },
    ),
    (
        EmbeddedResource(BlobResourceContents("a:b", b"\0\1")),
        lambda version: {"type": "resource", "resource": {"uri": "a:b", "blob": "AAE="}},
    ),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("block", "expected"), BLOCKS)
def test_content(version: str, block: Any, expected: Callable[[str], dict[str, Any]]) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def give() -> CallToolResult:
        """Give."""
        return CallToolResult([block])

    @registry.prompt
    async def say() -> GetPromptResult:
        return GetPromptResult([PromptMessage("assistant", block)], description="Said.")

    assert called(version, registry, "give") == {"content": [expected(version)]}
    [answered] = Channel(version, registry).request("prompts/get", {"name": "say"})
    assert answered["result"]["messages"] == [{"role": "assistant", "content": expected(version)}]
    assert answered["result"]["description"] == "Said."


def test_content_of_a_type_that_a_revision_lacks() -> None:
    """So it will be with what later revisions bring, on the earlier ones."""
    shape = msgspec.structs.replace(FULL, content_types=frozenset({"text"}))
    cannot = "which this client's protocol revision cannot carry]"
    shown: list[tuple[Any, str]] = [
        (ImageContent(b"\0\1", "image/png"), f"[content of type image, {cannot}"),
        (AudioContent(b"\0\1", "audio/wav"), f"[audio of type audio/wav, {cannot}"),
        (EmbeddedResource(TextResourceContents("a:b", "x")), f"[content of type resource, {cannot}"),
        (LINK, "A: file:///a"),
    ]
    for block, text in shown:
        assert project_content(shape, block) == {"type": "text", "text": text}


@pytest.mark.parametrize("version", VERSIONS)
def test_contents(version: str) -> None:
    registry = Registry("s", "1")

    @registry.resource("a:b")
    async def read() -> ReadResourceResult:
        return ReadResourceResult([TextResourceContents("a:b", "x", meta=META), BlobResourceContents("a:c", b"\0\1")])

    [answered] = Channel(version, registry).request("resources/read", {"uri": "a:b"})
    assert answered["result"]["contents"] == [
        {"uri": "a:b", "text": "x", **block_meta(version)},
        {"uri": "a:c", "blob": "AAE="},
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_results_own_meta_and_error_mark(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def fail() -> CallToolResult:
        """Fail."""
        return CallToolResult([TextContent("no")], is_error=True, meta=MappingProxyType({"com.example/k": 2}))

    [answered] = Channel(version, registry).call("fail")
    meta = {"com.example/k": 2}
    modern = version not in HANDSHAKE
    info = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}} if modern else {}
    assert answered["result"] == {
        "content": [{"type": "text", "text": "no"}],
        "isError": True,
        "_meta": {**meta, **info},
        **({"resultType": "complete"} if modern else {}),
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("meta", [None, {}, MappingProxyType({"com.example/k": 2})])
def test_the_own_meta_of_what_was_read_and_of_a_prompt(version: str, meta: Any) -> None:
    registry = Registry("s", "1")

    @registry.resource("a:b", cache=CacheHint(ttl_ms=7, scope="public"))
    async def read() -> ReadResourceResult:
        return ReadResourceResult([TextResourceContents("a:b", "x")], meta=meta)

    @registry.prompt
    async def say() -> GetPromptResult:
        return GetPromptResult([PromptMessage("user", TextContent("x"))], meta=meta)

    channel = Channel(version, registry)
    [got] = channel.request("resources/read", {"uri": "a:b"})
    [said] = channel.request("prompts/get", {"name": "say"})
    read_body: dict[str, Any] = {"contents": [{"uri": "a:b", "text": "x"}]}
    said_body: dict[str, Any] = {"messages": [{"role": "user", "content": {"type": "text", "text": "x"}}]}
    if version not in HANDSHAKE:
        info = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
        ends: dict[str, Any] = {"_meta": {**(meta or {}), **info}, "resultType": "complete"}
        read_body |= {**ends, "ttlMs": 7, "cacheScope": "public"}
        said_body |= ends
    elif meta is not None:
        read_body["_meta"] = said_body["_meta"] = meta
    assert (got["result"], said["result"]) == (read_body, said_body)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_resource_that_is_gone_once_it_was_read(version: str) -> None:
    registry = Registry("s", "1")

    @registry.resource("a:b", cache=CacheHint(ttl_ms=7, scope="public"))
    async def read() -> str:
        registry.remove_resource("a:b")
        return "x"

    answered = Channel(version, registry).request("resources/read", {"uri": "a:b"})[-1]
    assert answered["result"]["contents"] == [{"uri": "a:b", "text": "x"}]
    # Nothing is promised any more of how long it may be kept.
    hint = {} if version in HANDSHAKE else {"ttlMs": 0, "cacheScope": "private"}
    assert {name: answered["result"][name] for name in ("ttlMs", "cacheScope") if name in answered["result"]} == hint


@pytest.mark.parametrize("version", VERSIONS)
def test_a_completion_of_nothing_has_values_too(version: str) -> None:
    registry = Registry("s", "1")

    @registry.prompt
    async def say(topic: str) -> str:
        return topic

    @registry.completion
    def complete(request: CompletionRequest) -> Completion:
        return Completion([], total=0, has_more=False)

    params = {"ref": {"type": "ref/prompt", "name": "say"}, "argument": {"name": "topic", "value": "a"}}
    [answered] = Channel(version, registry).request("completion/complete", params)
    assert answered["result"]["completion"] == {"values": [], "total": 0, "hasMore": False}


def everything(registry: Registry) -> None:
    @registry.tool(**MARKS)
    async def go(start: Place) -> str:
        """Go."""
        return "x"

    @registry.resource("a:b", **MARKS)
    async def one() -> str:
        return "x"

    @registry.resource("a:{name}", **MARKS)
    async def many(name: str) -> str:
        return name

    @registry.prompt(**MARKS)
    async def say() -> str:
        return "x"


METHODS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


def test_what_was_shown_on_one_revision_is_not_shown_on_another() -> None:
    marks: dict[str, Any] = {"title": "T", "description": "D", "website_url": "https://e.example", "icons": [ICON]}
    shared = Registry("s", "1", **marks)
    everything(shared)
    for version in (*VERSIONS, *reversed(VERSIONS)):
        alone = Registry("s", "1", **marks)
        everything(alone)
        for method in METHODS:
            assert listed(version, shared, method) == listed(version, alone, method)
        for registry in (shared, alone):
            channel = Channel(version, registry)
            request = channel.initialize(id=1) if version in HANDSHAKE else channel.message("server/discover")
            [described] = channel.send(request)
            assert server_info(version, described["result"]) == {"name": "s", "version": "1", **SERVER[version]}


@pytest.mark.parametrize("version", VERSIONS)
def test_exchange_takers_carry_the_answer_arguments_where_questions_ride_in_them(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def asks(ex: Exchange) -> str:
        """Asks."""
        return "x"

    @registry.tool
    async def plain() -> str:
        """Plain."""
        return "x"

    asking, other = listed(version, registry)
    names = ["mcpAnswers", "mcpState"] if version in FIRST_TWO else []
    assert list(asking["inputSchema"]["properties"]) == names
    assert list(other["inputSchema"]["properties"]) == []

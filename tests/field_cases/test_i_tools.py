"""Cases 85 to 92: schemas that clients can follow, results of every shape, and arguments as they were sent."""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec
import pytest

import speak
from mcp_sansio import CallToolResult, DeclarationError, Registry, TextContent, ToolError

from .common import ENDS, EVERYWHERE, HANDSHAKE, NEWEST, error, say, text

JSON = Any
TOOL_FAILED = "The tool failed because of an internal error."


class Color(Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct):
    """Something within."""

    x: int


class Outer(msgspec.Struct):
    """One of each."""

    inner: Inner
    color: Color
    many: list[Inner]
    maybe: Inner | None = None


class Tree(msgspec.Struct):
    """A node."""

    name: str
    children: list[Tree] = []


class Ping(msgspec.Struct):
    """One half of a pair."""

    pong: Pong | None = None


class Pong(msgspec.Struct):
    """The other half."""

    ping: Ping | None = None


def references(value: JSON) -> list[str]:
    """Every ``$ref`` in a schema."""
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [ref for child in value.values() for ref in references(child)]
    return [ref for child in value for ref in references(child)] if isinstance(value, list) else []


def listed(version: str, registry: Registry) -> dict[str, JSON]:
    """The tools that a client of `version` is shown, by name."""
    (said,) = speak.Channel(version, registry).request("tools/list")
    return {tool["name"]: tool for tool in said["result"]["tools"]}


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_85_every_reference_leads_somewhere_or_is_written_out(version: str) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def take(outer: Outer, other: Inner) -> str:
        return f"{outer.inner.x} {outer.color.value} {len(outer.many)} {outer.maybe} {other.x}"

    @registry.tool
    async def whole(outer: Outer) -> Outer:
        return outer

    for tool in listed(version, registry).values():
        for schema in (tool["inputSchema"], tool.get("outputSchema", {})):
            held = references(schema)
            if version in HANDSHAKE:
                assert (held, "$defs" in schema) == ([], False)
            for ref in held:
                assert ref.removeprefix("#/$defs/") in schema["$defs"]
    outer = {"inner": {"x": 1}, "color": "red", "many": [{"x": 2}]}
    channel = speak.Channel(version, registry)
    assert channel.call("take", {"outer": outer, "other": {"x": 3}}) == [text(version, 1, "1 red 1 None 3")]
    (wrong,) = channel.call("take", {"outer": {**outer, "color": "green"}, "other": {"x": "3"}})
    said = wrong["result"]["content"][0]["text"]
    assert "$.outer.color" in said
    assert "$.other.x" in said


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_85_definitions_within_a_property_and_siblings_of_a_reference(version: str) -> None:
    pytest.importorskip("jsonschema")
    registry = Registry("shop", "1.0")
    schema = {
        "type": "object",
        "properties": {
            "a": {
                "type": "object",
                "$defs": {"X": {"type": "integer"}},
                "properties": {"x": {"$ref": "#/properties/a/$defs/X"}},
            },
            "b": {"$ref": "#/properties/a/$defs/X", "description": "the second", "minimum": 3},
        },
    }

    @registry.tool(input_schema=schema)
    async def take(arguments: dict[str, Any]) -> str:
        return "taken"

    shown = listed(version, registry)["take"]["inputSchema"]["properties"]
    if version in HANDSHAKE:
        assert shown["a"]["properties"]["x"] == {"type": "integer"}
        assert (shown["b"]["description"], shown["b"]["minimum"]) == ("the second", 3)
        assert "integer" in str(shown["b"])
    else:
        assert shown == schema["properties"]
    channel = speak.Channel(version, registry)
    assert channel.call("take", {"a": {"x": 1}, "b": 3}) == [text(version, 1, "taken")]
    for wrong in ({"a": {"x": "1"}}, {"b": "3"}, {"b": 2}):
        assert channel.call("take", wrong)[0]["result"]["isError"] is True


@pytest.mark.parametrize(
    "ref", ["https://evil.test/schema.json", "other.json#/a", "file:///etc/passwd", "#/nowhere", "#no", ""]
)
def test_case_85_a_reference_that_leaves_the_schema_is_refused(ref: str) -> None:
    registry = Registry("shop", "1.0")

    async def take(arguments: dict[str, Any]) -> str:
        return "taken"

    with pytest.raises(DeclarationError, match=r"\$ref"):
        registry.tool(input_schema={"type": "object", "properties": {"a": {"$ref": ref}}})(take)


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_86_types_that_hold_themselves(version: str) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def grow(tree: Tree, times: int = 1) -> str:
        return f"{tree.name} {len(tree.children)}"

    @registry.tool
    async def rally(ping: Ping, times: int = 1) -> str:
        return "rallied"

    @registry.tool
    async def plain() -> str:
        return "plain"

    shown = listed(version, registry)
    # Where clients cannot follow a reference, what needs one is not offered; the rest is.
    assert set(shown) == ({"plain"} if version in HANDSHAKE else {"grow", "rally", "plain"})
    channel = speak.Channel(version, registry)
    tree = {"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}
    (grown,) = channel.call("grow", {"tree": tree})
    (rallied,) = channel.call("rally", {"ping": {"pong": {"ping": {"pong": None}}}})
    if version in HANDSHAKE:
        assert grown == error(1, -32602, "there is no tool named 'grow'")
    else:
        assert (grown, rallied) == (text(version, 1, "a 1"), text(version, 1, "rallied"))
        tree["children"][0]["children"] = [{"name": 5}]  # type: ignore[index]
        (wrong,) = channel.call("grow", {"tree": tree})
        assert "$.tree.children[0].children[0].name" in wrong["result"]["content"][0]["text"]


CYCLES: dict[str, tuple[JSON, bool]] = {
    "the root within a property": ({"type": "object", "properties": {"n": {"$ref": "#"}}}, True),
    "into an array": (
        {
            "type": "object",
            "properties": {
                "n": {"type": "array", "items": {"type": "array", "items": {"$ref": "#/properties/n/items"}}}
            },
        },
        True,
    ),
    "itself": ({"type": "object", "properties": {"n": {"$ref": "#/properties/n"}}}, False),
    "each other": (
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"$ref": "#/properties/a"}}},
        False,
    ),
    "itself by allOf": ({"type": "object", "allOf": [{"$ref": "#"}]}, False),
    "any JSON": (
        {
            "type": "object",
            "properties": {"v": {"$ref": "#/$defs/J"}},
            "$defs": {"J": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/J"}}]}},
        },
        True,
    ),
}


@pytest.mark.parametrize(("schema", "ends"), CYCLES.values(), ids=CYCLES)
def test_case_86_a_cycle_is_kept_where_it_goes_into_the_value(schema: JSON, ends: bool) -> None:
    pytest.importorskip("jsonschema")
    registry = Registry("shop", "1.0")

    async def take(arguments: dict[str, Any]) -> str:
        return "taken"

    if not ends:
        with pytest.raises(DeclarationError, match="leads back to itself"):
            registry.tool(input_schema=schema)(take)
        return
    registry.tool(input_schema=schema)(take)
    assert listed(NEWEST, registry)["take"]["inputSchema"] == schema
    for version in HANDSHAKE:
        assert listed(version, registry) == {}
    channel = speak.Channel(NEWEST, registry)
    for arguments in ({}, {"n": {"n": {}}}, {"n": [[[]]]}, {"v": ["a", ["b"]]}):
        (said,) = channel.call("take", arguments)
        assert "result" in said


NO_OBJECTS: list[JSON] = [
    {},
    {"type": "string"},
    {"type": "int"},
    {"type": ["object", "null"]},
    {"type": ["object"]},
    {"type": "Object"},
    {"properties": {}},
    {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}},
    {"anyOf": [{"type": "object"}]},
    {"type": "object", "properties": {"a": {"type": "int"}}},
    {"type": "object", "properties": []},
    {"type": "object", "required": "a"},
    [],
    "object",
    True,
]


@pytest.mark.parametrize("schema", NO_OBJECTS, ids=str)
def test_case_87_a_schema_that_hides_the_list_is_refused_when_it_is_declared(schema: JSON) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def good() -> str:
        return "good"

    async def bad(arguments: dict[str, Any]) -> str:
        return "bad"

    with pytest.raises(DeclarationError):
        registry.tool(input_schema=schema)(bad)
    for version in speak.VERSIONS:
        shown = listed(version, registry)
        assert set(shown) == {"good"}
        assert shown["good"]["inputSchema"] == {"type": "object", "properties": {}}


OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def structured(version: str, registry: Registry) -> str:
    """What the revision can hold of structured content."""
    return speak.Speaker(version, registry).adapter.shape.structured_content


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_88_what_failed_is_not_held_to_the_output_schema(version: str) -> None:
    pytest.importorskip("jsonschema")
    registry = Registry("shop", "1.0")

    @registry.tool(output_schema=OUTPUT)
    async def bare() -> CallToolResult:
        return CallToolResult((TextContent("the disk is full"),), is_error=True)

    @registry.tool(output_schema=OUTPUT)
    async def detailed() -> CallToolResult:
        return CallToolResult((TextContent("the disk is full"),), structured_content={"free": "none"}, is_error=True)

    @registry.tool(output_schema=OUTPUT)
    async def raised() -> dict[str, Any]:
        raise ToolError("the disk is full")

    @registry.tool
    async def typed() -> Inner:
        raise ToolError("the disk is full")

    channel = speak.Channel(version, registry)
    plain = text(version, 1, "the disk is full", isError=True)
    for name in ("bare", "raised", "typed"):
        assert channel.call(name) == [plain]
    holds = structured(version, registry) != "none"
    more = {"structuredContent": {"free": "none"}} if holds else {}
    assert channel.call("detailed") == [text(version, 1, "the disk is full", **more, isError=True)]


MISSING: list[Any] = ["a text", None, {"n": "1"}, {}, [], TextContent("x"), [TextContent("x")], CallToolResult()]
MISSING += [
    CallToolResult((TextContent("x"),)),
    CallToolResult((TextContent("x"),), structured_content={"n": "1"}),
    CallToolResult(structured_content=None),
    CallToolResult(structured_content={}),
]


@pytest.mark.parametrize("returned", MISSING, ids=str)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_89_what_does_not_keep_its_own_schema_fails_and_says_why(
    version: str, returned: Any, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("jsonschema")
    registry = Registry("shop", "1.0")

    @registry.tool(output_schema=OUTPUT)
    async def give() -> Any:
        return returned

    assert speak.Channel(version, registry).call("give") == [text(version, 1, TOOL_FAILED, isError=True)]
    (record,) = caplog.records
    assert "'give'" in record.getMessage()
    assert "schema" in record.getMessage() or "schema" in str(record.exc_info)


def test_case_89_plain_text_has_no_schema_to_break() -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def say_it() -> str:
        return "x"

    @registry.tool
    async def show_it() -> list[TextContent]:
        return [TextContent("x")]

    for version in speak.VERSIONS:
        for name, tool in listed(version, registry).items():
            assert "outputSchema" not in tool
            assert speak.Channel(version, registry).call(name) == [text(version, 1, "x")]


@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_90_there_is_always_content_and_a_text_of_what_is_structured(end: str, version: str) -> None:
    registry = Registry("shop", "1.0")
    returns: dict[str, Any] = {
        "nothing": None,
        "no content": CallToolResult(),
        "structured alone": CallToolResult(structured_content={"n": 1}),
        "structured and said": CallToolResult((TextContent("one"),), structured_content={"n": 1}),
        "a dict": {"n": 1},
        "a list": [1, 2],
        "an empty list": [],
    }
    for name, value in returns.items():

        def bind(value: Any) -> Any:
            async def give() -> Any:
                return value

            return give

        registry.tool(name=name)(bind(value))
    client = ENDS[end](version, registry)
    holds = structured(version, registry)

    def said(name: str) -> JSON:
        (reply,) = say(client, client.message("tools/call", {"name": name}))
        held = reply["result"]
        return [block["text"] for block in held["content"]], held.get("structuredContent", ...)

    an_object: JSON = ... if holds == "none" else {"n": 1}
    assert said("nothing") == said("no content") == ([], ...)
    assert said("structured alone") == said("a dict") == (['{"n":1}'], an_object)
    assert said("structured and said") == (["one"], an_object)
    assert said("a list") == (["[1,2]"], [1, 2] if holds == "any" else ...)
    assert said("an empty list")[1] in ([], ...)


@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_91_a_tool_that_is_not_there_did_not_fail(end: str, version: str) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def burn(n: int) -> str:
        raise RuntimeError("secret path /etc/shop")

    client = ENDS[end](version, registry)

    def said(params: JSON) -> JSON:
        (reply,) = say(client, client.message("tools/call", params))
        return reply

    assert said({"name": "nope"}) == error(1, -32602, "there is no tool named 'nope'")
    assert said({"name": ""}) == error(1, -32602, "there is no tool named ''")
    for wrong in ({}, {"name": 5}, {"name": None}, {"name": ["burn"]}, {"arguments": {"n": 1}}):
        assert said(wrong) == error(1, -32602, "params.name must be a string")
    failed = text(version, 1, TOOL_FAILED, isError=True)
    assert said({"name": "burn", "arguments": {"n": 1}}) == failed
    invalid = said({"name": "burn", "arguments": {"n": "1"}})["result"]
    assert invalid["isError"] is True
    assert invalid["content"][0]["text"].startswith("Invalid arguments: $.n: ")


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_92_text_is_text_and_a_list_is_a_list(version: str) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def numbers(xs: list[int]) -> str:
        return repr(xs)

    @registry.tool
    async def word(s: str) -> str:
        return repr(s)

    @registry.tool
    async def either(s: str | dict[str, int]) -> str:
        return repr(s)

    channel = speak.Channel(version, registry)
    for wrong in ("[1,2]", "1", {"0": 1}, ["1", "2"]):
        (reply,) = channel.call("numbers", {"xs": wrong})
        assert reply["result"]["isError"] is True
        assert "$.xs" in reply["result"]["content"][0]["text"]
    assert channel.call("numbers", {"xs": [1, 2]}) == [text(version, 1, "[1, 2]")]
    for kept in ('{"a":1}', "[1,2]", "5", "null", "true", '"x"', "", " "):
        assert channel.call("word", {"s": kept}) == [text(version, 1, repr(kept))]
        assert channel.call("either", {"s": kept}) == [text(version, 1, repr(kept))]
    assert channel.call("either", {"s": {"a": 1}}) == [text(version, 1, "{'a': 1}")]
    for wrong in (5, True, None, ["a"], {"a": 1}):
        assert channel.call("word", {"s": wrong})[0]["result"]["isError"] is True

"""The table of what each revision gets (docs/handlers.md) says what a client of each revision is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import attrs
import msgspec
import pytest

import support
from mcp_sansio import AudioContent, CallToolResult, Exchange, Icon, Registry, ResourceLink, ToolAnnotations
from speak import VERSIONS, Channel

JSON = Any
registry = Registry("table", "1")


@attrs.frozen
class Inner:
    value: int | None = None


@registry.tool(
    title="Title",
    icons=[Icon(src="https://example.com/icon.png")],
    annotations=ToolAnnotations(read_only_hint=True),
    meta={"example.com/a": 1},
)
def table(
    inner: Inner, region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "R"})] = ""
) -> dict[str, int]:
    """Whatever can be declared."""
    return {"a": 1}


@registry.tool
def number() -> int:
    """A number."""
    return 3


@registry.tool
def content() -> CallToolResult:
    """What not every revision has."""
    return CallToolResult([AudioContent(b"", "audio/wav"), ResourceLink("note:/a", "a")])


@registry.tool
async def report(ex: Exchange) -> str:
    """Progress with a message."""
    await ex.progress(1, 2, "half")
    return "done"


def listed(channel: Channel) -> dict[str, JSON]:
    return {tool["name"]: tool for tool in channel.request("tools/list", id=2)[0]["result"]["tools"]}


def result(channel: Channel, tool: str, **arguments: JSON) -> JSON:
    return channel.call(tool, arguments, id=3)[-1]["result"]


def both(words: tuple[str, str, str], of_object: bool, of_number: bool) -> str:
    return words[of_object + of_number]


def yes(held: bool) -> str:
    return "yes" if held else "left out"


def structured(channel: Channel) -> str:
    held = [
        "structuredContent" in result(channel, name, **given)
        for name, given in (("table", {"inner": {}}), ("number", {}))
    ]
    return both(("text only", "an object", "any JSON"), *held)


def output_schema(channel: Channel) -> str:
    tools = listed(channel)
    return both(
        ("left out", "of an object", "any"), "outputSchema" in tools["table"], "outputSchema" in tools["number"]
    )


def input_schema(channel: Channel) -> str:
    return "as declared" if "$ref" in listed(channel)["table"]["inputSchema"]["properties"]["inner"] else "written out"


def in_tool(*members: str) -> Callable[[Channel], str]:
    return lambda channel: yes(all(member in listed(channel)["table"] for member in members))


def block(place: int, kind: str) -> Callable[[Channel], str]:
    def probe(channel: Channel) -> str:
        got = result(channel, "content")["content"][place]["type"]
        assert got in (kind, "text")
        return "yes" if got == kind else "a line of text"

    return probe


def progress(channel: Channel) -> str:
    return yes("message" in channel.call("report", id=4, token="t")[0]["params"])


def cache(channel: Channel) -> str:
    return yes("ttlMs" in channel.request("tools/list", id=2)[0]["result"])


def header(channel: Channel) -> str:
    return yes("x-mcp-header" in listed(channel)["table"]["inputSchema"]["properties"]["region"])


def not_found(channel: Channel) -> str:
    return str(channel.request("resources/read", {"uri": "note:/b"}, id=5)[0]["error"]["code"])


PROBES: dict[str, Callable[[Channel], str]] = {
    "structured content": structured,
    "output schema": output_schema,
    "input schema": input_schema,
    "title and `_meta` of a declaration": in_tool("title", "_meta"),
    "icons": in_tool("icons"),
    "tool annotations": in_tool("annotations"),
    "audio": block(0, "audio"),
    "resource link": block(1, "resource_link"),
    "progress message": progress,
    "cache hints": cache,
    "header arguments": header,
    '"not found"': not_found,
}


def rows() -> list[list[str]]:
    """The cells of the table whose head names the revisions."""
    lines = (support.ROOT / "docs" / "handlers.md").read_text("utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| | 20"))
    cells = []
    for line in lines[start:]:
        if not line.startswith("|"):
            return cells
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    raise AssertionError("the table never ends")


def test_there_is_a_probe_for_every_row() -> None:
    head, _, *body = rows()
    assert head == ["", *VERSIONS]
    assert [row[0] for row in body] == list(PROBES)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_table_is_true(version: str) -> None:
    head, _, *body = rows()
    column = head.index(version)
    channel = Channel(version, registry)
    assert {row[0]: row[column] for row in body} == {name: probe(channel) for name, probe in PROBES.items()}

"""Our client and ``@modelcontextprotocol/server-everything``, of the older revisions, over all of its transports."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import support

from .answers import Answers, accept
from .pantry import EVERYTHING, PATIENCE, Running, client
from .peers import Where

support.need("mcp_sansio_aiohttp")
support.need("mcp_sansio_stdio")


@pytest.fixture(params=EVERYTHING.transports)
def where(request: pytest.FixtureRequest, programs: Running) -> Where:
    return programs.where(EVERYTHING, request.param, "legacy")


@asynccontextmanager
async def meeting(where: Where, **options: Any) -> AsyncIterator[Any]:
    """Our client, which finds out what there is, within a time that no test needs."""
    async with asyncio.timeout(PATIENCE), client(where, "auto", **options) as ours:
        yield ours


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


async def test_what_it_is_and_has(where: Where) -> None:
    async with meeting(where) as ours:
        server = await ours.initialize()
        assert (server.name, server.revision) == ("mcp-servers/everything", "2025-11-25")
        tools = {tool.name: tool for tool in await ours.list_tools()}
        assert {"echo", "get-sum", "get-tiny-image", "trigger-long-running-operation"} <= tools.keys()
        assert tools["get-sum"].input_schema["required"] == ["a", "b"]
        templates = {template.uri_template for template in await ours.list_resource_templates()}
        assert {"demo://resource/dynamic/text/{resourceId}", "demo://resource/dynamic/blob/{resourceId}"} <= templates
        assert {"simple-prompt", "args-prompt", "completable-prompt"} <= {p.name for p in await ours.list_prompts()}
        assert await ours.list_resources()


async def test_calling_reading_and_completing(where: Where) -> None:
    async with meeting(where) as ours:
        assert texts(await ours.call_tool("get-sum", {"a": 2, "b": 40})) == ["The sum of 2 and 40 is 42."]
        weather = await ours.call_tool("get-structured-content", {"location": "New York"})
        assert weather.structured_content == {"temperature": 33, "conditions": "Cloudy", "humidity": 82}
        image = (await ours.call_tool("get-tiny-image")).content[1]
        assert (image.mime_type, b64decode(image.data)[:4]) == ("image/png", b"\x89PNG")
        (note,) = (await ours.read_resource("demo://resource/dynamic/text/7")).contents
        assert note.text.startswith("Resource 7: This is a plaintext resource")
        (blob,) = (await ours.read_resource("demo://resource/dynamic/blob/7")).contents
        assert b64decode(blob.blob).startswith(b"Resource 7: This is a base64 blob")
        (message,) = (await ours.get_prompt("args-prompt", {"city": "Pau", "state": "Béarn"})).messages
        assert message.content.text == "What's weather in Pau, Béarn?"
        prompt = {"type": "ref/prompt", "name": "completable-prompt"}
        completion = await ours.complete(prompt, "name", "A", context={"department": "Engineering"})
        assert list(completion.values) == ["Alice"]


async def test_asking(where: Where) -> None:
    answers = Answers(accept(name="Ada", check=True, integer=7), {"action": "decline"})

    def on_ask(request: Any) -> Any:
        return answers(request["method"], request.get("params", {}))

    async with meeting(where, on_ask=on_ask) as ours:
        assert await ours.list_tools()
        said = texts(await ours.call_tool("trigger-elicitation-request"))
        assert said[1] == "User inputs:\n- Name: Ada\n- Agreed to terms: true\n- Favorite Integer: 7"
        said = texts(await ours.call_tool("trigger-elicitation-request"))
        assert said[0] == "❌ User declined to provide the requested information."
        (said,) = texts(await ours.call_tool("trigger-sampling-request", {"prompt": "bread"}))
        assert '"text": "about Resource trigger-sampling-request context: bread"' in said
        (said,) = texts(await ours.call_tool("get-roots-list"))
        assert "1. home\n   URI: file:///home/ada" in said


async def test_progress(where: Where) -> None:
    reports: list[Any] = []
    async with meeting(where) as ours:
        arguments = {"duration": 0.2, "steps": 4}
        result = await ours.call_tool(
            "trigger-long-running-operation", arguments, on_progress=lambda *report: reports.append(report)
        )
        assert texts(result) == ["Long running operation completed. Duration: 0.2 seconds, Steps: 4."]
        assert reports == [(step, 4, None) for step in (1, 2, 3, 4)]


async def test_changes_and_logs(where: Where) -> None:
    uri = "demo://resource/dynamic/text/3"
    logs: list[Any] = []
    logged = asyncio.Event()

    def on_log(level: str, data: Any, logger: str | None) -> None:
        logs.append((level, data))
        logged.set()

    async with meeting(where, on_log=on_log) as ours:
        await ours.set_log_level("debug")
        async with ours.listen(uris=[uri]) as changes:
            await ours.call_tool("toggle-subscriber-updates")
            change = await anext(changes)
            assert (change.kind, change.uri) == ("resource_updated", uri)
            await ours.call_tool("toggle-subscriber-updates")
        await logged.wait()
        level, data = logs[0]
        assert (level, data.startswith(f"Received Subscribe Resource request for URI: {uri}")) == ("info", True)


async def test_giving_a_call_up(where: Where) -> None:
    async with meeting(where) as ours:
        began = asyncio.Event()
        slow = ours.call_tool(
            "trigger-long-running-operation", {"duration": 20, "steps": 400}, on_progress=lambda *_: began.set()
        )
        call = asyncio.create_task(slow)
        await began.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert texts(await ours.call_tool("echo", {"message": "still here"})) == ["Echo: still here"]

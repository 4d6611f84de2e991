"""The programs of docs/moving.md, side by side: what each server says, and what each client gets of it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

import support
from mcp_sansio import AdapterSet, elicit_accept

for module in ("mcp", "fastmcp"):
    support.need(module)
StdioClient = support.need("mcp_sansio_stdio").StdioClient

FOLDER = support.ROOT / "docs" / "examples" / "moving"
LIBRARIES = ("official", "fastmcp", "sansio")
#: FastMCP's `ctx.elicit` asks on these alone.
HANDSHAKE = AdapterSet.default().with_handshake()


async def shown(library: str) -> list[Any]:
    """What a client sees of a library's server, in this library's words."""
    server = str(FOLDER / f"server_{library}.py")
    steps: list[Any] = []

    async with StdioClient(
        sys.executable, [server], adapter=HANDSHAKE, on_ask=lambda request: elicit_accept({"name": "Ada"})
    ) as client:
        tools = {tool.name: tool.input_schema for tool in await client.list_tools()}
        templates = [template.uri_template for template in await client.list_resource_templates()]
        prompts = [prompt.name for prompt in await client.list_prompts()]
        arguments = {name: (sorted(schema["properties"]), schema.get("required")) for name, schema in tools.items()}

        def on_progress(progress: float, total: float | None, message: str | None) -> None:
            steps.append((progress, total, message))

        results = [
            await client.call_tool("price", {"loaves": 2, "sliced": True}),
            await client.call_tool("price", {"loaves": 0}),
            await client.call_tool("bake", {"loaves": 2}, on_progress=on_progress),
            await client.call_tool("order", {"loaves": 2}),
        ]
        # The official SDK says before a failure's text that it is one.
        said = [result.content[0].text.removeprefix("Error executing tool price: ") for result in results]
        texts = [*zip(said, [result.is_error for result in results], strict=True)]
        contents = (await client.read_resource("bread://rye")).contents
        messages = (await client.get_prompt("recipe", {"kind": "rye"})).messages
        read = [contents[0].text, messages[0].role, messages[0].content.text]
    return [arguments, templates, prompts, texts, steps, read]


def test_the_servers_are_the_same() -> None:
    ours, *others = (asyncio.run(shown(library)) for library in reversed(LIBRARIES))
    assert others == [ours, ours]


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_clients_are_the_same(library: str) -> None:
    command = [sys.executable, str(FOLDER / f"client_{library}.py"), sys.executable, str(FOLDER / "server_sansio.py")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.splitlines() == ["['price', 'bake', 'order']", "2 for Ada", "rye bread"], done.stderr

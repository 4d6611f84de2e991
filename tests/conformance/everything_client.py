"""The client that the official conformance suite runs: it does what each scenario asks of a client.

``python tests/conformance/everything_client.py [--binding NAME] URL`` is started by the suite, with the scenario's
name, the revision and, for some, a context in the environment. With ``--finds-out`` the client is not told the
revision. What each scenario expects is laid down by the suite.
Nothing here knows of a header, a session or a retry: it is an application that lists, calls and answers.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp_sansio import AdapterSet, elicit_accept

Client = Any
Scenario = Callable[[Client, Mapping[str, Any]], Awaitable[None]]
Answer = Callable[[Mapping[str, Any]], Mapping[str, Any]]


def with_defaults(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """A user who takes a form as it is; a model and folders where the client is asked for those."""
    if request["method"] == "roots/list":
        return {"roots": [{"uri": "file:///test", "name": "test"}]}
    if request["method"] == "sampling/createMessage":
        return {"role": "assistant", "model": "test", "content": {"type": "text", "text": "Indeed."}}
    fields = request["params"]["requestedSchema"]["properties"]
    return elicit_accept({name: field["default"] for name, field in fields.items() if "default" in field})


def confirming(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """A user who agrees."""
    return elicit_accept({"confirmed": True})


async def initialize(client: Client, context: Mapping[str, Any]) -> None:
    """Connect and list."""
    await client.initialize()
    await client.list_tools()


async def add_numbers(client: Client, context: Mapping[str, Any]) -> None:
    """Call the one tool there is."""
    await client.list_tools()
    await client.call_tool("add_numbers", {"a": 5, "b": 3})


async def fill_in_defaults(client: Client, context: Mapping[str, Any]) -> None:
    """Be asked while a call waits."""
    await client.list_tools()
    await client.call_tool("test_client_elicitation_defaults")


async def reconnect(client: Client, context: Mapping[str, Any]) -> None:
    """Call a tool whose stream the server lets go of."""
    await client.list_tools()
    await client.call_tool("test_reconnection")


async def describe_itself(client: Client, context: Mapping[str, Any]) -> None:
    """Ask for several things, to be seen describing itself each time."""
    await client.initialize()
    await client.list_tools()
    await client.list_tools()


async def keep_request_state(client: Client, context: Mapping[str, Any]) -> None:
    """Several rounds, with and without state, and a call in between that has nothing to do with them."""
    await client.list_tools()
    for tool in ("echo_state", "unrelated", "no_state", "no_result_type"):
        await client.call_tool(f"test_mrtr_{tool}")


async def use_everything(client: Client, context: Mapping[str, Any]) -> None:
    """Every kind of request that has a header for its name."""
    for tool in await client.list_tools():
        await client.call_tool(tool.name)
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def call_as_told(client: Client, context: Mapping[str, Any]) -> None:
    """The calls of the context, whose arguments go into headers."""
    await client.list_tools()
    for call in context["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def call_what_is_listed(client: Client, context: Mapping[str, Any]) -> None:
    """Every tool that the client offers; those that are invalid it must not offer."""
    for tool in await client.list_tools():
        await client.call_tool(tool.name, dict.fromkeys(tool.input_schema["properties"], "value"))


async def list_only(client: Client, context: Mapping[str, Any]) -> None:
    """Read schemas, and follow nothing in them."""
    await client.list_tools()


async def give_the_schema_back(client: Client, context: Mapping[str, Any]) -> None:
    """Send a schema back as it was read."""
    tools = {tool.name: tool for tool in await client.list_tools()}
    await client.call_tool("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})


SCENARIOS: dict[str, tuple[Scenario, Answer | None]] = {
    "initialize": (initialize, None),
    "tools_call": (add_numbers, None),
    "elicitation-sep1034-client-defaults": (fill_in_defaults, with_defaults),
    "sse-retry": (reconnect, None),
    "request-metadata": (describe_itself, with_defaults),
    "sep-2322-client-request-state": (keep_request_state, confirming),
    "http-standard-headers": (use_everything, None),
    "http-custom-headers": (call_as_told, None),
    "http-invalid-tool-headers": (call_what_is_listed, None),
    "json-schema-ref-no-deref": (list_only, None),
    "json-schema-2020-12-preservation": (give_the_schema_back, None),
}


def open_client(binding: str, url: str, finds_out: bool, answer: Answer | None) -> Client:
    """A client of the run's revision, or one that finds out what the server speaks, by the binding."""
    module = importlib.import_module(f"mcp_sansio_{binding}")
    revision = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    client = module.Client(url, None if finds_out else AdapterSet.default().by_version[revision], on_ask=answer)
    return Awaited(client) if binding == "sync" else client


class Awaited:
    """A blocking client, as the scenarios see it."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __aenter__(self) -> Awaited:
        self.client.__enter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        self.client.__exit__(*raised)

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **options: Any) -> Any:
            return getattr(self.client, name)(*args, **options)

        return call


async def main(binding: str, url: str, finds_out: bool) -> None:
    """Play the scenario of the environment."""
    play, answer = SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]]
    async with open_client(binding, url, finds_out, answer) as client:
        await play(client, json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")))


def on_asyncio(*given: Any) -> None:
    """Run it on asyncio."""
    asyncio.run(main(*given))


def on_trio(*given: Any) -> None:
    """Run it on trio."""
    import trio

    trio.run(main, *given)


def without_a_loop(*given: Any) -> None:
    """Run it as it is, since nothing in it waits."""
    try:
        main(*given).send(None)
    except StopIteration:
        return


#: What each binding runs on.
LOOPS = {"aiohttp": on_asyncio, "trio": on_trio, "sync": without_a_loop}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binding", choices=LOOPS, default="aiohttp")
    parser.add_argument("--finds-out", action="store_true")
    parser.add_argument("url")
    given = parser.parse_args()
    LOOPS[given.binding](given.binding, given.url, given.finds_out)

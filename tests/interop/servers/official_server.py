"""The pantry, served by the official Python SDK: of both eras over HTTP and stdio, and by the first HTTP transport."""

from __future__ import annotations

import asyncio
import warnings
from collections import defaultdict
from typing import Annotated

import mcp_types as types
from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from peer_hosting import arguments, serve_asgi
from pydantic import BaseModel, Field

# What 2026-07-28 deprecates is what is tested here.
warnings.simplefilter("ignore")

server = MCPServer("pantry", version="1.2", instructions="Mind the step.", log_level="ERROR")


class Named(BaseModel):
    """The form that every question has."""

    name: str


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def nearest(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    limit: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Limit"})] = 1,
) -> str:
    """Take arguments that HTTP mirrors in headers."""
    return f"{limit} in {region}"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("The shelf is empty.")


def said(answer: ElicitationResult[Named]) -> str:
    return f"accept: {answer.data.name}" if isinstance(answer, AcceptedElicitation) else answer.action


def ask_who(what: str) -> Elicit[Named]:
    return Elicit(f"Who wants {what}?", Named)


@server.tool()
def confirm(what: str, who: Annotated[ElicitationResult[Named], Resolve(ask_who)]) -> str:
    """Ask who wants it."""
    return said(who)


def ask_first() -> Elicit[Named]:
    return Elicit("First name?", Named)


def ask_last(first: Annotated[Named, Resolve(ask_first)]) -> Elicit[Named]:
    return Elicit(f"Last name, {first.name}?", Named)


@server.tool()
def introduce(first: Annotated[Named, Resolve(ask_first)], last: Annotated[Named, Resolve(ask_last)]) -> str:
    """Ask one question after the other."""
    return f"{first.name} {last.name}"


def ask_model(text: str) -> Sample:
    content = types.TextContent(type="text", text=text)
    return Sample([types.SamplingMessage(role="user", content=content)], max_tokens=50)


@server.tool()
def summarise(text: str, made: Annotated[types.CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the client's model."""
    return f"{made.model}: {made.content.text}"


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
def folders(found: Annotated[types.ListRootsResult, Resolve(ask_roots)]) -> str:
    """Ask for the client's folders."""
    return ", ".join(f"{root.name}={root.uri}" for root in found.roots)


@server.tool()
async def report(steps: int, ctx: Context) -> str:
    """Report progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "reported"


@server.tool()
async def log(ctx: Context) -> str:
    """Log in two severities."""
    await ctx.debug("in detail")
    await ctx.warning("in short", logger_name="pantry")
    return "logged"


@server.tool()
async def patient(ctx: Context) -> str:
    """Be done only after the stream was let go of, over HTTP."""
    await ctx.close_sse_stream()
    return "resumed"


given_up: dict[str, asyncio.Event] = defaultdict(asyncio.Event)


@server.tool()
async def wait(name: str, ctx: Context) -> str:
    """Wait until given up; the first report of progress says that it waits."""
    await ctx.report_progress(1, None, "waiting")
    try:
        await asyncio.Event().wait()
    finally:
        given_up[name].set()
    return "unreachable"


@server.tool()
async def was_given_up(name: str) -> str:
    """Return once the `wait` of that name was given up."""
    await given_up[name].wait()
    return "given up"


@server.tool()
async def touch(ctx: Context) -> str:
    """Change the note, for whoever listens to it."""
    await ctx.notify_resource_updated("note://welcome")
    for session in subscribers:
        await session.send_resource_updated("note://welcome")
    return "touched"


@server.tool()
async def rearrange(ctx: Context) -> str:
    """Change the list of tools."""
    await ctx.notify_tools_changed()
    await ctx.session.send_tool_list_changed()
    return "rearranged"


@server.resource("note://welcome", name="welcome", mime_type="text/plain")
def welcome() -> str:
    """A greeting."""
    return "Welcome!"


@server.resource("city://{name}/weather", name="weather", mime_type="text/plain")
def weather(name: str) -> str:
    """The weather of a city."""
    return f"{name}: clear"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}."


@server.completion()
async def complete(ref: object, argument: types.CompletionArgument, context: object) -> types.Completion:
    """Complete whatever there is."""
    return types.Completion(values=[f"{argument.value}a", f"{argument.value}b"], total=2, has_more=False)


# Requests of the older revisions that the SDK leaves to its lower level.

subscribers: set[object] = set()
low = server._lowlevel_server


async def subscribe(ctx: object, params: types.SubscribeRequestParams) -> types.EmptyResult:
    subscribers.add(ctx.session)
    return types.EmptyResult()


async def unsubscribe(ctx: object, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    subscribers.discard(ctx.session)
    return types.EmptyResult()


async def set_level(ctx: object, params: types.SetLevelRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


low.add_request_handler("resources/subscribe", types.SubscribeRequestParams, subscribe)
low.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
low.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)


class Events(EventStore):
    """What was sent, so that a client may come back for it."""

    def __init__(self) -> None:
        self._sent: list[tuple[str, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: types.JSONRPCMessage | None) -> str:
        self._sent.append((stream_id, message))
        return str(len(self._sent))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        stream, _ = self._sent[int(last_event_id) - 1]
        for number, (stream_id, message) in enumerate(self._sent, 1):
            if number > int(last_event_id) and stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


if __name__ == "__main__":
    given = arguments("dual")
    if given.transport == "stdio":
        server.run()
    elif given.transport == "http":
        serve_asgi(server.streamable_http_app(event_store=Events(), retry_interval=20), given.transport)
    else:
        serve_asgi(server.sse_app(), given.transport)

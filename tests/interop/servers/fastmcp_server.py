"""The pantry, served by FastMCP: of both eras over HTTP and stdio, and by the first HTTP transport.

FastMCP has no subscriptions. Where the revision carries a question in a result, its tools return the result themselves.
"""

from __future__ import annotations

import asyncio
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.event_store import EventStore
from peer_hosting import arguments, serve_asgi
from pydantic import Field

# What 2026-07-28 deprecates is what is tested here.
warnings.simplefilter("ignore")

server = FastMCP("pantry", version="1.2", instructions="Mind the step.")
NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
#: What a tool gives where its question is the result of the call.
Asked = types.InputRequiredResult


@server.tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool
def nearest(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    limit: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Limit"})] = 1,
) -> str:
    """Take arguments that HTTP mirrors in headers."""
    return f"{limit} in {region}"


@server.tool
def fail() -> str:
    """Fail."""
    raise ToolError("The shelf is empty.")


async def put(ctx: Context, key: str, request: Any, push: Callable[[], Any], state: str | None = None) -> Any:
    """The answer to a question. Where there is none yet, and it cannot be pushed: the result that asks it."""
    if ctx.request_context.protocol_version != "2026-07-28":
        return await push()
    answers = dict(ctx.input_responses or {})
    return answers.get(key) or Asked(input_requests={key: request}, request_state=state)


async def ask(ctx: Context, key: str, message: str, state: str | None = None) -> Any:
    """Ask the user for a name."""
    form = types.ElicitRequestFormParams(message=message, requested_schema=NAME_FORM)
    return await put(
        ctx,
        key,
        types.ElicitRequest(params=form),
        lambda: ctx.session.elicit_form(message, NAME_FORM, related_request_id=ctx.request_id),
        state,
    )


def named(answer: Any) -> str:
    """The name in an answer, which is a model or JSON."""
    content = answer["content"] if isinstance(answer, Mapping) else answer.content
    return content["name"]


@server.tool
async def confirm(what: str, ctx: Context) -> str | Asked:
    """Ask who wants it."""
    answer = await ask(ctx, "who", f"Who wants {what}?")
    if isinstance(answer, Asked):
        return answer
    action = answer["action"] if isinstance(answer, Mapping) else answer.action
    return f"accept: {named(answer)}" if action == "accept" else action


@server.tool
async def introduce(ctx: Context) -> str | Asked:
    """Ask one question after the other."""
    first = ctx.request_state
    if first is None:
        answer = await ask(ctx, "first", "First name?")
        if isinstance(answer, Asked):
            return answer
        first = named(answer)
    last = await ask(ctx, "last", f"Last name, {first}?", state=first)
    return last if isinstance(last, Asked) else f"{first} {named(last)}"


@server.tool
async def summarise(text: str, ctx: Context) -> str | Asked:
    """Ask the client's model."""
    messages = [types.SamplingMessage(role="user", content=types.TextContent(type="text", text=text))]
    params = types.CreateMessageRequestParams(messages=messages, max_tokens=50)
    made = await put(
        ctx,
        "text",
        types.CreateMessageRequest(params=params),
        lambda: ctx.session.create_message(messages, max_tokens=50, related_request_id=ctx.request_id),
    )
    if isinstance(made, Asked):
        return made
    return f"{made.model}: {made.content.text}"


@server.tool
async def folders(ctx: Context) -> str | Asked:
    """Ask for the client's folders."""
    found = await put(ctx, "roots", types.ListRootsRequest(), ctx.session.list_roots)
    return found if isinstance(found, Asked) else ", ".join(f"{root.name}={root.uri}" for root in found.roots)


@server.tool
async def report(steps: int, ctx: Context) -> str:
    """Report progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return "reported"


@server.tool
async def log(ctx: Context) -> str:
    """Log in two severities."""
    await ctx.debug("in detail")
    await ctx.warning("in short", logger_name="pantry")
    return "logged"


@server.tool
async def patient(ctx: Context) -> str:
    """Be done only after the stream was let go of, over HTTP."""
    await ctx.close_sse_stream()
    return "resumed"


given_up: dict[str, asyncio.Event] = defaultdict(asyncio.Event)


@server.tool
async def wait(name: str, ctx: Context) -> str:
    """Wait until given up; the first report of progress says that it waits."""
    await ctx.report_progress(1, None, "waiting")
    try:
        await asyncio.Event().wait()
    finally:
        given_up[name].set()
    return "unreachable"


@server.tool
async def was_given_up(name: str) -> str:
    """Return once the `wait` of that name was given up."""
    await given_up[name].wait()
    return "given up"


@server.tool
async def rearrange(ctx: Context) -> str:
    """Change the list of tools."""
    await ctx.send_notification(types.ToolListChangedNotification())
    return "rearranged"


@server.resource("note://welcome", name="welcome", mime_type="text/plain")
def welcome() -> str:
    """A greeting."""
    return "Welcome!"


@server.resource("city://{name}/weather", name="weather", mime_type="text/plain")
def weather(name: str) -> str:
    """The weather of a city."""
    return f"{name}: clear"


@server.prompt
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Greet {name}."


@server.completion
def complete(ref: object, argument: types.CompletionArgument, context: object) -> types.Completion:
    """Complete whatever there is."""
    return types.Completion(values=[f"{argument.value}a", f"{argument.value}b"], total=2, has_more=False)


if __name__ == "__main__":
    given = arguments("dual")
    if given.transport == "stdio":
        server.run("stdio", show_banner=False, log_level="ERROR")
    else:
        kept = {"event_store": EventStore(), "retry_interval": 20} if given.transport == "http" else {}
        serve_asgi(server.http_app(transport=given.transport, **kept), given.transport)

"""The pantry, served by aiohttp-tiny-mcp: dual, modern or legacy, over HTTP, the first HTTP transport and stdio."""

from __future__ import annotations

import asyncio
import sys
from collections import defaultdict

from aiohttp import web
from aiohttp_tiny_mcp import AdapterSet, Completion, Endpoint, Exchange, Registry, SseEndpoint, elicit, run_stdio
from aiohttp_tiny_mcp.protocol.models import CompleteParams
from aiohttp_tiny_mcp.storage.hub import NOTIFICATIONS, topic
from peer_hosting import announce, arguments, free_socket
from pydantic import BaseModel, Field

registry = Registry("pantry", "1.2", instructions="Mind the step.", hub_poll_seconds=0.05)
NAME_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Nothing(BaseModel):
    """No arguments."""


class Sum(BaseModel):
    """What `add` takes."""

    a: int
    b: int


class Region(BaseModel):
    """What `nearest` takes."""

    region: str = Field(json_schema_extra={"x-mcp-header": "Region"})
    limit: int = Field(1, json_schema_extra={"x-mcp-header": "Limit"})


class Item(BaseModel):
    """What `confirm` takes."""

    what: str


class Steps(BaseModel):
    """What `report` takes."""

    steps: int


class Named(BaseModel):
    """A name."""

    name: str


@registry.tool
async def add(args: Sum) -> str:
    """Add two numbers."""
    return str(args.a + args.b)


@registry.tool
async def nearest(args: Region) -> str:
    """Take arguments that HTTP mirrors in headers."""
    return f"{args.limit} in {args.region}"


@registry.tool
async def fail(args: Nothing) -> str:
    """Fail."""
    raise RuntimeError("The shelf is empty.")


@registry.tool
async def confirm(args: Item, ex: Exchange) -> str:
    """Ask who wants it."""
    answer = await ex.ask("who", elicit(f"Who wants {args.what}?", NAME_FORM))
    return f"accept: {answer['name']}" if answer.accepted else answer.action.value


@registry.tool
async def introduce(args: Nothing, ex: Exchange) -> str:
    """Ask one question after the other."""
    first = await ex.ask("first", elicit("First name?", NAME_FORM))
    last = await ex.ask("last", elicit(f"Last name, {first['name']}?", NAME_FORM))
    return f"{first['name']} {last['name']}"


@registry.tool(streaming=True)
async def report(args: Steps, ex: Exchange) -> str:
    """Report progress."""
    for step in range(1, args.steps + 1):
        await ex.progress(step, args.steps, f"step {step}")
    return "reported"


@registry.tool(streaming=True)
async def log(args: Nothing, ex: Exchange) -> str:
    """Log in two severities."""
    await ex.log("debug", "in detail")
    await ex.log("warning", "in short", logger="pantry")
    return "logged"


given_up: dict[str, asyncio.Event] = defaultdict(asyncio.Event)


@registry.tool(streaming=True)
async def wait(args: Named, ex: Exchange) -> str:
    """Wait until given up; the first report of progress says that it waits."""
    await ex.progress(1, None, "waiting")
    try:
        await asyncio.Event().wait()
    finally:
        given_up[args.name].set()
    return "unreachable"


@registry.tool
async def was_given_up(args: Named) -> str:
    """Return once the `wait` of that name was given up."""
    await given_up[args.name].wait()
    return "given up"


async def publish(method: str, **params: str) -> None:
    await registry.hub.publish(topic(NOTIFICATIONS), {"jsonrpc": "2.0", "method": method, "params": params})


@registry.tool
async def touch(args: Nothing) -> str:
    """Change the note, for whoever listens to it."""
    await publish("notifications/resources/updated", uri="note://welcome")
    return "touched"


@registry.tool
async def rearrange(args: Nothing) -> str:
    """Change the list of tools."""
    await publish("notifications/tools/list_changed")
    return "rearranged"


@registry.resource("note://welcome", name="welcome", mime_type="text/plain")
async def welcome(args: Nothing) -> str:
    """A greeting."""
    return "Welcome!"


@registry.resource("city://{name}/weather", name="weather", mime_type="text/plain")
async def weather(args: Named) -> str:
    """The weather of a city."""
    return f"{args.name}: clear"


@registry.prompt
async def greet(args: Named) -> str:
    """Greet somebody."""
    return f"Greet {args.name}."


@registry.completions
async def complete(args: CompleteParams) -> Completion:
    """Complete whatever there is."""
    value = args.argument.value
    return Completion(values=[f"{value}a", f"{value}b"], total=2, has_more=False)


def adapters(era: str) -> AdapterSet:
    """The revisions of an era, or the one of that name."""
    every = AdapterSet.default().adapters
    chosen = {
        "dual": every,
        "modern": [adapter for adapter in every if not adapter.has_handshake],
        "legacy": [adapter for adapter in every if adapter.has_handshake],
    }
    return AdapterSet(chosen[era])


def serve(era: str, transport: str) -> None:
    """Serve over HTTP on a free port of the loopback, until the input ends."""

    async def main() -> None:
        app = web.Application()
        served = adapters(era)
        if transport == "http":
            Endpoint(registry, adapters=served).setup(app, "/mcp")
        else:
            SseEndpoint(registry, adapters=served).setup(app)
        runner = web.AppRunner(app, shutdown_timeout=1.0)
        await runner.setup()
        bound = free_socket()
        await web.SockSite(runner, bound).start()
        announce(bound, transport)
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()

    asyncio.run(main())


if __name__ == "__main__":
    given = arguments("dual", "modern", "legacy")
    if given.transport == "stdio":
        asyncio.run(run_stdio(registry, adapters=adapters(given.era)))
    else:
        serve(given.era, given.transport)

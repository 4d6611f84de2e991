"""One server for every client of these tests: each thing that a client can do, in its smallest form.

It is run as a program, so that what is tested is what a client meets: a socket, or the pipes of a process.

    python server.py http     prints its address, and serves until its input ends: /mcp and /sse
    python server.py stdio    serves its own input and output
    python server.py sync     does that without an event loop

``--only REVISION`` narrows either to one revision, ``--since`` and ``--until`` to a window of them.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import msgspec

from mcp_sansio import (
    AdapterSet,
    Annotations,
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    Completion,
    CompletionRequest,
    Config,
    EmbeddedResource,
    Exchange,
    GetPromptResult,
    Icon,
    ImageContent,
    NeedInput,
    PromptMessage,
    Registry,
    ResourceLink,
    ResourceNotFound,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
    ToolError,
    elicit,
    elicit_decline,
    list_roots,
    sample,
)

sys.path.append(str(Path(__file__).parents[1] / "_support"))
from flags import Flag

registry = Registry(
    "interop",
    "7.1",
    title="Interoperability",
    description="Serves other people's clients",
    website_url="https://interop.example/",
    icons=[Icon(src="https://interop.example/icon.png", mime_type="image/png", sizes=["48x48"])],
    instructions="Call what you like.",
    page_size=10,
)

PIXEL = b"\x89PNG"
NAME_FORM = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Name", "minLength": 1}, "times": {"type": "integer"}},
    "required": ["name"],
}


# Calling


@registry.tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@registry.tool(blocking=False)
def echo(text: str) -> str:
    """Say it again."""
    return text


@attrs.frozen
class Day:
    """One day of a forecast."""

    degrees: float
    sky: Literal["clear", "clouds"] = "clear"


@attrs.frozen
class Forecast:
    """Some days of weather."""

    city: str
    days: list[Day]
    source: str | None = None


@registry.tool(
    title="Weather",
    annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
    icons=[Icon(src="data:image/png;base64,iVBORw==", mime_type="image/png")],
    meta={"example.org/team": "weather"},
)
async def forecast(
    city: Annotated[str, msgspec.Meta(description="Where", min_length=1)],
    days: Annotated[int, msgspec.Meta(ge=1, le=3)] = 1,
) -> Forecast:
    """Forecast the weather."""
    return Forecast(city, [Day(20.5)] * days)


@registry.tool
async def numbers() -> list[int]:
    """Give a list, which is structured content of newer revisions only."""
    return [1, 2, 3]


@registry.tool
async def gallery() -> list[Any]:
    """Give one block of every kind."""
    return [
        TextContent("text", annotations=Annotations(audience=["user"], priority=0.5)),
        ImageContent(PIXEL, "image/png"),
        AudioContent(b"RIFF", "audio/wav"),
        EmbeddedResource(TextResourceContents("note://welcome", "Welcome!", "text/plain")),
        EmbeddedResource(BlobResourceContents("note://logo", PIXEL, "image/png")),
        ResourceLink("note://welcome", "welcome", title="Welcome", mime_type="text/plain", size=8),
    ]


@registry.tool
async def whole() -> CallToolResult:
    """Give a full result, with metadata."""
    return CallToolResult([TextContent("whole")], structured_content={"is": "whole"}, meta={"example.org/mark": 1})


@registry.tool
async def fail(how: Literal["told", "crashed"]) -> str:
    """Fail."""
    if how == "told":
        raise ToolError("The oven is cold.")
    raise RuntimeError("nobody may read this")


@registry.tool
async def nearest(
    region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})],
    limit: Annotated[int, msgspec.Meta(extra_json_schema={"x-mcp-header": "Limit"})] = 1,
) -> str:
    """Take arguments that HTTP mirrors in headers."""
    return f"{limit} in {region}"


# Reporting and giving up


released: dict[str, Flag] = defaultdict(Flag)


@registry.tool
async def report(steps: int, name: str, ex: Exchange) -> str:
    """Report progress, and return when released.

    The TypeScript SDK drops reports that come in together with the result, so its test waits for them first.
    """
    for step in range(1, steps + 1):
        await ex.progress(step, steps, f"step {step}")
    await released[name].wait()
    return "reported"


@registry.tool
async def release(name: str) -> str:
    """Let the `report` of that name return."""
    released[name].set()
    return "released"


@registry.tool
async def log(ex: Exchange) -> str:
    """Log in two severities."""
    await ex.log("debug", "in detail")
    await ex.log("warning", {"steps": 1}, logger="log")
    return "logged"


cancelled: dict[str, Flag] = defaultdict(Flag)


@registry.tool
async def wait(name: str, ex: Exchange) -> str:
    """Wait until given up; the first report of progress says that it waits."""
    await ex.progress(1, message="waiting")
    try:
        await ex.wait_cancelled()
    finally:
        cancelled[name].set()
    return "unreachable"


@registry.tool
async def was_cancelled(name: str) -> str:
    """Return once the `wait` of that name was given up."""
    await cancelled[name].wait()
    return "given up"


resumed: dict[str | None, Flag] = defaultdict(Flag)


@registry.tool(streaming=True, poll_after=0.05)
async def patient(ex: Exchange) -> str:
    """Be done only once the client came back for the rest of a stream that the server let go of."""
    await resumed[session_of(ex)].wait()
    return "resumed"


streamed: dict[int, Flag] = defaultdict(Flag)


@registry.tool
async def slow(ex: Exchange) -> str:
    """Be done only once the server, after some silence, has made a stream of its reply over HTTP."""
    if session_of(ex) is not None or "MCP-Protocol-Version" in headers_of(ex):
        await streamed[id(ex.request)].wait()
    return "slow"


# Asking

ORDER_FORM = {
    "type": "object",
    "properties": {
        "email": {"type": "string", "format": "email", "title": "E-mail", "description": "For the receipt"},
        "loaves": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "weight": {"type": "number"},
        "sliced": {"type": "boolean", "default": False},
        "size": {"type": "string", "enum": ["small", "large"]},
        "flour": {"type": "string", "oneOf": [{"const": "r", "title": "Rye"}, {"const": "w", "title": "Wheat"}]},
        "seeds": {"type": "array", "items": {"type": "string", "enum": ["poppy", "sesame"]}, "minItems": 1},
    },
    "required": ["email", "size", "seeds"],
}


@registry.tool
async def order(ex: Exchange) -> str:
    """Ask for a form with a field of every kind."""
    answer = await ex.ask("order", elicit("What shall it be?", ORDER_FORM))
    return ", ".join(f"{name}={value!r}" for name, value in sorted(answer.items()))


@registry.tool
async def confirm(what: str, ex: Exchange) -> str:
    """Ask the user to fill in a form."""
    answer = await ex.ask("name", elicit(f"Who wants {what}?", NAME_FORM))
    return f"{answer.action}: {dict(answer)}"


@registry.tool
async def agree(ex: Exchange) -> str:
    """Ask the user, and take silence for no."""
    return (await ex.ask("agree", elicit("Agreed?"), default=elicit_decline())).action


@registry.tool
async def sign_in(ex: Exchange) -> str:
    """Send the user to an address."""
    url = elicit("Sign in", url="https://interop.example/sign-in", elicitation_id="sign-in-1")
    return (await ex.ask("sign-in", url)).action


@registry.tool
async def introduce(ex: Exchange) -> str:
    """Ask one question after the other."""
    first = await ex.ask("first", elicit("First name?", NAME_FORM))
    last = await ex.ask("last", elicit(f"Last name, {first['name']}?", NAME_FORM))
    sure = await ex.ask("sure", elicit(f"{first['name']} {last['name']}?"))
    return f"{first['name']} {last['name']}: {sure.action}"


@registry.tool
async def summarise(text: str, ex: Exchange) -> str:
    """Ask the client's model."""
    question = sample(
        [("user", text)], max_tokens=50, system_prompt="Be brief.", temperature=0.5, stop_sequences=["STOP"]
    )
    made = await ex.ask("summary", question)
    return f"{made['model']} as {made['role']}: {made['content']['text']}"


@registry.tool
async def folders(ex: Exchange) -> str:
    """Ask for the client's roots."""
    roots = (await ex.ask("roots", list_roots()))["roots"]
    return ", ".join(f"{root.get('name')}={root['uri']}" for root in roots)


@registry.tool
async def survey(ex: Exchange) -> str:
    """Ask several things at once, and leave something for the next attempt."""
    if not ex.answered("name"):
        questions = {
            "name": elicit("Your name?", NAME_FORM),
            "roots": list_roots(),
            "joke": sample("A joke", max_tokens=9),
        }
        raise NeedInput(questions, state={"asked": len(questions)})
    name = await ex.ask("name", elicit("Your name?", NAME_FORM))
    roots = await ex.ask("roots", list_roots())
    joke = await ex.ask("joke", sample("A joke", max_tokens=9))
    return f"{ex.state['asked']}: {name['name']}, {len(roots['roots'])}, {joke['content']['text']}"


@registry.tool(ask_in_arguments=True)
async def book(seats: int, ex: Exchange) -> str:
    """Ask in the arguments, for clients that cannot be asked otherwise."""
    answer = await ex.ask("name", elicit("In whose name?", NAME_FORM))
    return f"{seats} for {answer['name']}" if answer.accepted else "nothing booked"


# Remembering


@registry.tool
async def count(ex: Exchange) -> str:
    """Count the calls of this session."""
    if ex.session is None:
        return "no session"
    await ex.session.set("count", ex.session.get("count", 0) + 1)
    return str(ex.session.get("count"))


@registry.tool
async def who(ex: Exchange) -> str:
    """Say who is calling."""
    return f"{ex.client_info.name} {ex.client_info.version}"


# Resources


@registry.resource(
    "note://welcome",
    name="welcome",
    title="Welcome",
    description="A greeting",
    mime_type="text/plain",
    size=8,
    annotations=Annotations(audience=["user", "assistant"], priority=1.0, last_modified="2026-01-02T03:04:05Z"),
    icons=[Icon(src="https://interop.example/note.svg", mime_type="image/svg+xml", sizes=["any"])],
    meta={"example.org/kept": True},
)
async def welcome() -> str:
    """Greet."""
    return "Welcome!"


@registry.resource("note://logo", mime_type="image/png")
def logo() -> bytes:
    """The logo."""
    return PIXEL


@registry.resource("note://secret")
async def secret(ex: Exchange) -> str:
    """A note that asks who reads it."""
    return f"for {(await ex.ask('name', elicit('Who reads?', NAME_FORM)))['name']} only"


@registry.resource("city://{name}/weather", name="weather", title="Weather of a city", mime_type="text/plain")
async def weather(name: str) -> str:
    """The weather of a city."""
    if name == "Atlantis":
        raise ResourceNotFound
    return f"{name}: clear"


# Prompts


@registry.prompt(title="Greeting")
async def greet(name: str, style: str = "formal") -> GetPromptResult:
    """Greet somebody."""
    messages = [
        PromptMessage("user", TextContent(f"Greet {name} in a {style} way.")),
        PromptMessage("assistant", TextContent("With pleasure.")),
    ]
    return GetPromptResult(messages, description="A greeting")


@registry.prompt
async def interview(ex: Exchange) -> str:
    """Ask the user while the prompt is made."""
    return f"Interview {(await ex.ask('name', elicit('Whom?', NAME_FORM)))['name']}."


# Completing

STYLES = ("casual", "formal", "friendly")
CITIES = {"fr": ("Paris", "Pau"), "de": ("Berlin",)}


@registry.completion(prompt="greet", argument="style")
async def complete_style(request: CompletionRequest) -> list[str]:
    """Complete a style."""
    return [style for style in STYLES if style.startswith(request.value)]


@registry.completion(prompt="greet", argument="name")
async def complete_name(request: CompletionRequest) -> Completion:
    """Complete a name, from what is decided already."""
    return Completion([f"{request.value}-{request.context.get('style')}"], total=7, has_more=True)


@registry.completion(resource="city://{name}/weather")
def complete_city(request: CompletionRequest) -> list[str]:
    """Complete a city."""
    return [city for cities in CITIES.values() for city in cities if city.startswith(request.value)]


# Changing


@registry.tool
async def change(what: Literal["tools", "prompts", "resources", "note"]) -> str:
    """Change a list there and back, or a note."""
    if what == "tools":
        registry.tool(name="passing")(lambda: "")
        registry.remove_tool("passing")
    elif what == "prompts":
        registry.prompt(name="passing")(lambda: "")
        registry.remove_prompt("passing")
    elif what == "resources":
        registry.resource("note://fleeting")(lambda: "")
        registry.remove_resource("note://fleeting")
    else:
        registry.resource_updated("note://welcome")
    return "changed"


@registry.tool
async def offer(passing: bool) -> str:
    """Offer one more resource, or no longer."""
    if passing:
        registry.resource("note://passing")(lambda: "")
    else:
        registry.remove_resource("note://passing")
    return "changed"


listening: dict[str | None, Flag] = defaultdict(Flag)


@registry.tool
async def is_listening(ex: Exchange) -> str:
    """Return once the client's standalone stream is open; where it has none, at once."""
    session = session_of(ex)
    if session is not None:
        await listening[session].wait()
    return "listening"


def session_of(ex: Exchange) -> str | None:
    """The HTTP session of a call, if it came over HTTP in a session."""
    return headers_of(ex).get("Mcp-Session-Id")


def headers_of(ex: Exchange) -> Mapping[str, str]:
    """The headers of the request that brought a call, if it came over HTTP."""
    headers: Mapping[str, str] = getattr(ex.request, "headers", {})
    return headers


def serve_http(adapters: AdapterSet) -> None:
    """Serve on a free port of the loopback, until the input ends."""
    from aiohttp import web

    from mcp_sansio_aiohttp import Endpoint, SseEndpoint

    async def opened(request: web.Request, response: web.StreamResponse) -> None:
        if request.method == "POST" and response.content_type == "text/event-stream":
            streamed[id(request)].set()
        elif request.method == "GET":
            event = resumed if "Last-Event-ID" in request.headers else listening
            event[request.headers.get("Mcp-Session-Id")].set()

    async def main() -> None:
        app = web.Application()
        config = Config(retry=10, keep_alive=0.2, deletable_sessions=True)
        endpoint = Endpoint(registry, adapters=adapters, config=config)
        endpoint.setup(app, "/mcp")
        if adapters.with_handshake():
            SseEndpoint(endpoint).setup(app, "/sse", "/messages")
        app.on_response_prepare.append(opened)
        runner = web.AppRunner(app, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print("http://{}:{}".format(*runner.addresses[0]), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await runner.cleanup()

    asyncio.run(main())


def serve_stdio(adapters: AdapterSet) -> None:
    """Serve this process's own input and output."""
    from mcp_sansio_stdio import run_stdio

    run_stdio(registry, adapters=adapters)


def serve_sync(adapters: AdapterSet) -> None:
    """`serve_stdio`, without an event loop."""
    from mcp_sansio_sync import run_stdio

    run_stdio(registry, adapters=adapters)


SERVES = {"http": serve_http, "stdio": serve_stdio, "sync": serve_sync}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=SERVES)
    windows = parser.add_mutually_exclusive_group()
    for window in ("only", "since", "until"):
        windows.add_argument(f"--{window}", dest="window", type=getattr(AdapterSet.default(), window))
    given = parser.parse_args()
    SERVES[given.how](given.window or AdapterSet.default())

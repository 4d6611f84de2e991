"""The server of the transcripts: a bakery that has each thing which a server can have, in its smallest form.

`build` makes a new one for each transcript, since some take things away or add them. Its handlers wait for nothing but
their Exchange and the flags that `event` makes, so it runs in a `Simulation` as well as on an event loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import attrs
import msgspec

from mcp_sansio import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    CacheHint,
    CallToolResult,
    CompletionRequest,
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
from mcp_sansio.runtime import Event

NAME_FORM = {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}
STYLES = ("cheerful", "formal", "friendly")


@attrs.frozen
class Address:
    """Where to deliver."""

    street: str
    floor: int | None = None


@attrs.frozen
class Stock:
    """What is left of a kind of bread."""

    kind: str
    loaves: int
    baked_at: str | None = None


@attrs.frozen
class Layer:
    """A layer of a cake, which may stand on another."""

    filling: str
    below: Layer | None = None


def build(event: Callable[[], Event]) -> Registry:
    """A new bakery. `event` makes a flag to wait for."""
    registry = Registry(
        "bakery",
        "1.0",
        title="The bakery",
        instructions="Ask for the price first.",
        page_size=12,
    )
    _declare_plain_tools(registry)
    _declare_tools_that_take_time(registry, event)
    _declare_tools_that_ask(registry)
    _declare_schemas(registry)
    _declare_resources(registry)
    _declare_prompts(registry)
    _declare_changes(registry)
    return registry


def _declare_plain_tools(registry: Registry) -> None:
    @registry.tool(
        title="Price",
        annotations=ToolAnnotations(title="Price", read_only_hint=True),
        icons=[Icon(src="data:image/png;base64,iVBORw==", mime_type="image/png")],
        meta={"bakery.example/team": "till"},
    )
    async def price(loaves: Annotated[int, msgspec.Meta(ge=1, le=100)], kind: Literal["rye", "wheat"] = "rye") -> str:
        """What that many loaves cost."""
        return f"{loaves * (4 if kind == 'rye' else 3)} euros"

    @registry.tool
    async def stock(kind: str) -> Stock:
        """What is left of a kind of bread."""
        return Stock(kind, 3)

    @registry.tool
    async def prices() -> list[int]:
        """All prices."""
        return [3, 4]

    @registry.tool
    async def show() -> list[Any]:
        """Show everything: one block of each kind of content."""
        return [
            TextContent("Rye", annotations=Annotations(audience=["user"], priority=0.5)),
            ImageContent(b"\x89PNG", "image/png"),
            AudioContent(b"RIFF", "audio/wav"),
            EmbeddedResource(TextResourceContents("bread:/rye", "dark", "text/plain")),
            ResourceLink("bread:/rye", "rye", title="Rye", mime_type="text/plain"),
        ]

    @registry.tool
    async def burn(how: Literal["told", "crashed"]) -> str:
        """Fail, in words for the caller or in words for nobody."""
        if how == "told":
            raise ToolError("The oven is too hot.")
        raise RuntimeError("the oven's secret")

    @registry.tool
    async def count(ex: Exchange) -> str:
        """Count the calls of this session."""
        if ex.session is None:
            return "no session"
        await ex.session.set("count", ex.session.get("count", 0) + 1)
        return str(ex.session.get("count"))


def _declare_tools_that_take_time(registry: Registry, event: Callable[[], Event]) -> None:
    risen: list[Event] = []

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Bake, and say how it goes."""
        await ex.progress(1, 2, "kneaded")
        await ex.log("debug", "the dough is soft")
        await ex.log("warning", {"degrees": 240}, logger="oven")
        await ex.progress(2, 2, "baked")
        return "baked"

    @registry.tool
    async def prove(ex: Exchange) -> str:
        """Wait until given up."""
        await ex.progress(0)
        await ex.wait_cancelled()
        return "nobody reads this"

    @registry.tool(streaming=True, poll_after=5)
    async def rise(ex: Exchange) -> str:
        """Rise until somebody knocks. The connection is let go of meanwhile where the client can come back."""
        risen.append(event())
        await ex.progress(1, 2, "rising")
        await risen[-1].wait()
        await ex.progress(2, 2, "risen")
        return "risen"

    @registry.tool
    async def knock() -> str:
        """End the rising of all dough."""
        for flag in risen:
            flag.set()
        return "knocked"


def _declare_tools_that_ask(registry: Registry) -> None:
    @registry.tool
    async def reserve(loaves: int, ex: Exchange) -> str:
        """Reserve bread, in a name that is asked for."""
        answer = await ex.ask("name", elicit("In whose name?", NAME_FORM))
        return f"{loaves} for {answer['name']}" if answer.accepted else f"not reserved: {answer.action}"

    @registry.tool
    async def pay(ex: Exchange) -> str:
        """Pay at another place."""
        return (await ex.ask("payment", elicit("Please pay.", url="https://bakery.example/pay"))).action

    @registry.tool
    async def slogan(ex: Exchange) -> str:
        """Have the client's model make a slogan."""
        made = await ex.ask("slogan", sample("A slogan for rye bread", max_tokens=20, system_prompt="Be brief."))
        return str(made["content"]["text"])

    @registry.tool
    async def recipes(ex: Exchange) -> str:
        """Look where the client keeps recipes."""
        return ", ".join(root["uri"] for root in (await ex.ask("roots", list_roots()))["roots"])

    @registry.tool
    async def party(ex: Exchange) -> str:
        """Ask two things at once, and keep something between the attempts."""
        if not ex.answered("name"):
            questions = {"name": elicit("Who celebrates?", NAME_FORM), "sure": elicit("Really today?")}
            raise NeedInput(questions, state={"cakes": 2})
        name = await ex.ask("name", elicit("Who celebrates?", NAME_FORM))
        return f"{ex.state['cakes']} cakes for {name['name']}, {ex.action('sure')}"

    @registry.tool
    async def wrap(ex: Exchange) -> str:
        """Ask, and take silence for no."""
        return (await ex.ask("paper", elicit("Wrap it in paper?"), default=elicit_decline())).action

    @registry.tool(ask_in_arguments=True)
    async def throw_away(kind: str, ex: Exchange) -> str:
        """Throw bread away, if somebody agrees; clients that cannot be asked find the question in the result."""
        answer = await ex.ask("sure", elicit(f"Throw away all {kind} bread?"))
        return f"no more {kind}" if answer.accepted else f"kept, on {answer.action}"


def _declare_schemas(registry: Registry) -> None:
    region = Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]

    @registry.tool
    async def deliver(region: region, to: Address | None = None) -> str:
        """Deliver bread. HTTP mirrors the region in a header, where the revision has that."""
        return f"to {region}" if to is None else f"to {to.street}, {region}"

    @registry.tool
    async def cake(top: Layer) -> str:
        """Make a cake. Its schema refers to itself, so older revisions do not see it."""
        return f"a cake with {top.filling}"

    @registry.tool(verbatim_schema=True)
    async def tower(top: Layer) -> CallToolResult:
        """The same, with the schema shown as it is to everybody."""
        return CallToolResult([TextContent(f"a tower with {top.filling}")], meta={"bakery.example/height": 1})

    @registry.tool(since="2025-06-18")
    async def modern() -> str:
        """Only for clients that are not too old."""
        return "modern"


def _declare_resources(registry: Registry) -> None:
    @registry.resource(
        "bread:/rye",
        name="rye",
        title="Rye bread",
        mime_type="text/plain",
        size=4,
        annotations=Annotations(audience=["user"], priority=1.0, last_modified="2026-01-02T03:04:05Z"),
        icons=[Icon(src="https://bakery.example/rye.svg", mime_type="image/svg+xml")],
        cache=CacheHint(ttl_ms=5000, scope="public"),
    )
    async def rye() -> str:
        """About rye bread."""
        return "dark"

    @registry.resource("bread:/photo", mime_type="image/png")
    async def photo() -> BlobResourceContents:
        """What it looks like."""
        return BlobResourceContents("bread:/photo", b"\x89PNG", "image/png")

    @registry.resource("bread:/secret")
    async def secret(ex: Exchange) -> str:
        """A recipe for those who say who they are."""
        return f"for {(await ex.ask('name', elicit('Who reads?', NAME_FORM)))['name']} only"

    @registry.resource("recipe:/{kind}", name="recipe", title="Recipe", mime_type="text/plain")
    async def recipe(kind: str) -> str:
        """How to bake a kind of bread."""
        if kind == "stone":
            raise ResourceNotFound
        return f"Take {kind} flour."


def _declare_prompts(registry: Registry) -> None:
    @registry.prompt(title="Greeting")
    async def greet(name: Annotated[str, "Who comes in"], style: str = "formal") -> GetPromptResult:
        """Greet a customer."""
        messages = [
            PromptMessage("user", TextContent(f"Greet {name} in a {style} way.")),
            PromptMessage("assistant", TextContent("With pleasure.")),
        ]
        return GetPromptResult(messages, description="A greeting")

    @registry.prompt
    async def interview(ex: Exchange) -> str:
        """Question somebody who is asked for."""
        return f"Interview {(await ex.ask('name', elicit('Whom?', NAME_FORM)))['name']}."

    @registry.completion(prompt="greet", argument="style")
    async def complete_style(request: CompletionRequest) -> list[str]:
        return [style for style in STYLES if style.startswith(request.value)]

    @registry.completion(resource="recipe:/{kind}")
    async def complete_kind(request: CompletionRequest) -> list[str]:
        return [f"{request.value}{rest}" for rest in ("ye", "ice")] if request.value == "r" else []


def _declare_changes(registry: Registry) -> None:
    async def pretzel() -> str:
        """A pretzel."""
        return "pretzel"

    @registry.tool
    async def restock(what: Literal["tools", "prompts", "resources", "rye"]) -> str:
        """Have something new: a thing of that list, or other contents of bread:/rye."""
        if what == "tools":
            registry.tool(pretzel)
        elif what == "prompts":
            registry.prompt(pretzel)
        elif what == "resources":
            registry.resource("bread:/pretzel")(pretzel)
        else:
            registry.resource_updated("bread:/rye")
        return "restocked"

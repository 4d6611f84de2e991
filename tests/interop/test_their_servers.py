"""Our client and the servers of other projects: whatever a client can do, over each transport and in each era.

The client is told nothing, and finds a modern server, or is held to the older revisions, which the server then has to
speak. No line of the library knows which server it meets.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

import support
from mcp_sansio.errors import ServerError

from .answers import Answers, accept
from .pantry import PANTRIES, PATIENCE, Project, Running, client
from .peers import Where

support.need("mcp_sansio_aiohttp")
support.need("mcp_sansio_stdio")


@attrs.frozen
class Way:
    """A server of another project, and how our client meets it."""

    project: Project
    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.project.name}-{self.transport}-{self.era}"

    @property
    def is_modern(self) -> bool:
        """Whether the two settle on the newest revision."""
        return self.era == "auto" and self.transport != "sse"


WAYS = [
    Way(project, transport, era)
    for project in PANTRIES.values()
    for transport in project.transports
    for era in (["auto"] if transport == "sse" else ["auto", "legacy"])
]

#: Where the server refuses subscriptions: FastMCP has none, nor streams of changes that one asks for; aiohttp-tiny-mcp
#: ties those of older revisions to HTTP's sessions.
UNSUBSCRIBED = [
    way
    for way in WAYS
    if way.project.name == "fastmcp" or (way.project.name, way.transport, way.era) == ("tiny", "stdio", "legacy")
]
#: Where it announces its lists all the same.
ANNOUNCED = [way for way in UNSUBSCRIBED if way.project.name == "fastmcp" and not way.is_modern]


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture
def where(way: Way, programs: Running) -> Where:
    return programs.where(way.project, way.transport, "dual")


@asynccontextmanager
async def meeting(way: Way, where: Where, **options: Any) -> AsyncIterator[Any]:
    """Our client, connected, within a time that no test needs."""
    async with asyncio.timeout(PATIENCE), client(where, way.era, **options) as ours:
        yield ours


def text(result: Any) -> str:
    """The text of a tool's result."""
    (block,) = result.content
    return block.text


async def test_what_the_server_is_and_has(way: Way, where: Where) -> None:
    async with meeting(way, where) as ours:
        server = await ours.initialize()
        assert (server.name, server.version, server.instructions) == ("pantry", "1.2", "Mind the step.")
        assert server.revision == ("2026-07-28" if way.is_modern else "2025-11-25")
        tools = {tool.name: tool for tool in await ours.list_tools()}
        assert {"add", "fail", "confirm", "report", "log"} <= tools.keys()
        assert tools["add"].description == "Add two numbers."
        assert sorted(tools["add"].input_schema["properties"]) == ["a", "b"]
        assert [resource.uri for resource in await ours.list_resources()] == ["note://welcome"]
        templates = await ours.list_resource_templates()
        assert [template.uri_template for template in templates] == ["city://{name}/weather"]
        assert [prompt.name for prompt in await ours.list_prompts()] == ["greet"]


async def test_calling_reading_and_completing(way: Way, where: Where) -> None:
    async with meeting(way, where) as ours:
        assert text(await ours.call_tool("add", {"a": 2, "b": 40})) == "42"
        failed = await ours.call_tool("fail")
        assert failed.is_error
        assert "The shelf is empty." in text(failed)
        (welcome,) = (await ours.read_resource("note://welcome")).contents
        assert (welcome.uri, welcome.mime_type, welcome.text) == ("note://welcome", "text/plain", "Welcome!")
        (weather,) = (await ours.read_resource("city://Pau/weather")).contents
        assert weather.text == "Pau: clear"
        (message,) = (await ours.get_prompt("greet", {"name": "Ada"})).messages
        assert (message.role, message.content.text) == ("user", "Greet Ada.")
        completion = await ours.complete({"type": "ref/prompt", "name": "greet"}, "name", "Ad")
        assert (list(completion.values), completion.total, completion.has_more) == (["Ada", "Adb"], 2, False)
        await ours.ping()


#: Over the first HTTP transport aiohttp-tiny-mcp runs a call within the request that brings it: it can neither ask nor
#: be told to stop.
UNASKED = [way for way in WAYS if way.project.name == "tiny" and way.transport == "sse"]


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("way", [way for way in WAYS if way.transport == "http" and way.is_modern], ids=str)
async def test_arguments_that_are_mirrored_in_headers(way: Way, where: Where, is_listed: bool) -> None:
    """Servers of the newest revision refuse a call over HTTP without them; only the list of tools says which."""
    async with meeting(way, where) as ours:
        if is_listed:
            await ours.list_tools()
        assert text(await ours.call_tool("nearest", {"region": "Île-de-France", "limit": 3})) == "3 in Île-de-France"
        assert text(await ours.call_tool("nearest", {"region": " Béarn "})) == "1 in  Béarn "


async def test_asking(way: Way, where: Where) -> None:
    users = [
        accept(name="Ada"),
        {"action": "decline"},
        {"action": "cancel"},
        accept(name="Ada"),
        accept(name="Lovelace"),
    ]
    answers = Answers(*users)

    async def on_ask(request: Any) -> Any:
        return answers(request["method"], request["params"])

    async with meeting(way, where, on_ask=on_ask) as ours:
        if way in UNASKED:
            with pytest.raises(ServerError, match="cannot ask"):
                await ours.call_tool("confirm", {"what": "tea"})
            return
        said = [text(await ours.call_tool("confirm", {"what": "tea"})) for _ in range(3)]
        assert said == ["accept: Ada", "decline", "cancel"]
        assert text(await ours.call_tool("introduce")) == "Ada Lovelace"
        messages = [asked["params"]["message"] for asked in answers.asked]
        assert messages == [*["Who wants tea?"] * 3, "First name?", "Last name, Ada?"]
        fields = [asked["params"]["requestedSchema"]["properties"] for asked in answers.asked]
        assert [list(field) for field in fields] == [["name"]] * 5
        if "summarise" not in way.project.lacks:
            assert text(await ours.call_tool("summarise", {"text": "bread"})) == "m-1: about bread"
        if "folders" not in way.project.lacks:
            assert text(await ours.call_tool("folders")) == "home=file:///home/ada, None=file:///tmp"


async def test_many_calls_at_once(way: Way, where: Where) -> None:
    """Each comes to its own result, whatever else is asked meanwhile."""
    asking = 0 if way in UNASKED else 10
    async with meeting(way, where, on_ask=lambda request: accept(name=request["params"]["message"][10:-1])) as ours:
        sums = (ours.call_tool("add", {"a": number, "b": 1}) for number in range(50))
        names = (ours.call_tool("confirm", {"what": str(number)}) for number in range(asking))
        said = [text(result) for result in await asyncio.gather(*sums, *names)]
        assert said == [*(str(number + 1) for number in range(50)), *(f"accept: {number}" for number in range(asking))]


@pytest.mark.parametrize("way", [way for way in WAYS if way.is_modern], ids=str)
async def test_the_manual_round(way: Way, where: Where) -> None:
    """Without anybody to ask, the question is what the caller gets, and the answer goes with the next call."""
    async with meeting(way, where) as ours:
        asked = await ours.call_tool("confirm", {"what": "tea"})
        requests, state = ours.adapter.client_input_requests(asked)
        ((key, request),) = requests.items()
        assert request["params"]["message"] == "Who wants tea?"
        answers = {key: accept(name="Ada")}
        done = await ours.call_tool("confirm", {"what": "tea"}, input_responses=answers, request_state=state)
        assert text(done) == "accept: Ada"


async def test_reports(way: Way, where: Where) -> None:
    logs: list[Any] = []
    reports: list[Any] = []
    logged = asyncio.Event()

    def on_log(level: str, data: Any, logger: str | None) -> None:
        logs.append((level, logger))
        logged.set()

    async with meeting(way, where, on_log=on_log) as ours:
        await ours.set_log_level("warning")
        await ours.call_tool("log")
        await logged.wait()
        assert logs[-1] == ("warning", "pantry")
        result = await ours.call_tool("report", {"steps": 3}, on_progress=lambda *report: reports.append(report))
        assert text(result) == "reported"
        assert reports == [(step, 3, f"step {step}") for step in (1, 2, 3)]


async def test_giving_a_call_up(way: Way, where: Where) -> None:
    name = str(way)
    # A client that can be asked: in front of others, aiohttp-tiny-mcp reads nothing on while a call runs over stdio.
    async with meeting(way, where, on_ask=Answers()) as ours:
        waits = asyncio.Event()
        call = asyncio.create_task(ours.call_tool("wait", {"name": name}, on_progress=lambda *_: waits.set()))
        await waits.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        if way not in UNASKED:
            assert text(await ours.call_tool("was_given_up", {"name": name})) == "given up"
        assert text(await ours.call_tool("add", {"a": 1, "b": 1})) == "2"


#: The ways in which a session of HTTP is opened.
SESSIONED = [way for way in WAYS if (way.transport, way.era) == ("http", "legacy")]
#: The servers that let go of a stream when told to, and keep what they sent.
RESUMABLE = [way for way in SESSIONED if way.project.name in ("official", "fastmcp")]
#: The servers whose sessions a client may end.
DELETABLE = [way for way in SESSIONED if way.project.name != "tiny"]


@asynccontextmanager
async def overhearing(*headers: str) -> AsyncIterator[tuple[Any, dict[str, list[tuple[str, str]]]]]:
    """A session of aiohttp, and by header the methods and values of the requests that have it."""
    aiohttp = support.need("aiohttp")
    heard: dict[str, list[tuple[str, str]]] = {name: [] for name in headers}

    async def note(_: Any, __: Any, started: Any) -> None:
        for name in heard.keys() & started.headers.keys():
            heard[name].append((started.method, started.headers[name]))

    tracing = aiohttp.TraceConfig()
    tracing.on_request_start.append(note)
    async with aiohttp.ClientSession(trace_configs=[tracing]) as session:
        yield session, heard


@pytest.mark.parametrize("way", RESUMABLE, ids=str)
async def test_coming_back_for_the_rest_of_a_stream(way: Way, where: Where) -> None:
    async with overhearing("Last-Event-ID") as (session, heard), meeting(way, where, session=session) as ours:
        assert text(await ours.call_tool("patient")) == "resumed"
        assert text(await ours.call_tool("add", {"a": 1, "b": 1})) == "2"
    assert [method for method, _ in heard["Last-Event-ID"]] == ["GET"]


@pytest.mark.parametrize("way", DELETABLE, ids=str)
async def test_a_session_that_somebody_else_ends(way: Way, where: Where) -> None:
    """However many calls find it gone, one new session is opened, and all of them come to their results."""
    async with overhearing("Mcp-Session-Id") as (session, heard), meeting(way, where, session=session) as ours:
        assert text(await ours.call_tool("add", {"a": 1, "b": 1})) == "2"
        (first,) = {value for _, value in heard["Mcp-Session-Id"]}
        version = {"MCP-Protocol-Version": ours.adapter.version}
        async with session.delete(where.url, headers={"Mcp-Session-Id": first, **version}) as gone:
            assert gone.status in (200, 204)
        sums = await asyncio.gather(*(ours.call_tool("add", {"a": 1, "b": b}) for b in range(5)))
        assert [text(result) for result in sums] == ["1", "2", "3", "4", "5"]
        assert len({value for _, value in heard["Mcp-Session-Id"]}) == 2
    assert [method for method, _ in heard["Mcp-Session-Id"]].count("DELETE") == 2


async def test_changes(way: Way, where: Where) -> None:
    wanted: dict[str, Any] = {"tools": True, "uris": ["note://welcome"]}
    async with meeting(way, where) as ours:
        if way in UNSUBSCRIBED:
            with pytest.raises(ServerError):
                async with ours.listen(**wanted):
                    pass
            if way not in ANNOUNCED:
                return
            wanted = {"tools": True}
        async with ours.listen(**wanted) as changes:
            if "uris" in wanted:
                await ours.call_tool("touch")
                change = await anext(changes)
                assert (change.kind, change.uri) == ("resource_updated", "note://welcome")
            await ours.call_tool("rearrange")
            assert (await anext(changes)).kind == "tools"

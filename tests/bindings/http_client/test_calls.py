"""What `Client` can be asked for, over real sockets: at every revision, with a window of them, and finding out."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import bakery
import speak
from flags import Flag, turn
from mcp_sansio import (
    AdapterSet,
    AnswerFailed,
    Change,
    ChangeKind,
    Known,
    NegotiationFailed,
    ServerError,
    elicit_accept,
    elicit_cancel,
    elicit_decline,
)
from mcp_sansio.types import CallToolResult, TextContent
from plugs import HttpClient
from worlds import World

JSON = Any
Serve = Callable[..., Any]
Calling = Callable[..., Any]
ADAPTERS = AdapterSet.default().by_version
NEWEST, OLDEST = speak.VERSIONS[0], speak.VERSIONS[-1]
#: Every revision at the one endpoint, what is found out there, and what is found out at the pair.
WAYS = [*((version, "/mcp") for version in speak.VERSIONS), (None, "/mcp"), (None, "/sse")]
everyone = pytest.mark.parametrize(("version", "path"), WAYS)
ASKABLE = [version for version in speak.VERSIONS if ADAPTERS[version].can_ask]
PUSHING = [version for version in speak.VERSIONS if ADAPTERS[version].can_push_ask]


@pytest.fixture
def client_of(serve: Serve, calling: Calling) -> Calling:
    """Makes a client in front of the bakery."""
    return lambda version, path="/mcp", **options: calling(serve(bakery.build), version, path, **options)


def text_of(result: CallToolResult | dict[str, JSON]) -> str:
    """What a tool said."""
    assert isinstance(result, CallToolResult), result
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


# Each operation


@everyone
async def test_initialize_says_what_the_server_is(
    http_client: HttpClient, client_of: Calling, version: str | None, path: str
) -> None:
    async with client_of(version, path) as client:
        server = await client.initialize()
        assert client.server is server
    assert (server.name, server.version, server.instructions) == ("bakery", "1.0", "Ask for the price first.")
    assert server.revision == version or version is None
    assert set(server.capabilities) >= {"tools", "resources", "prompts", "completions"} - (
        {"completions"} if server.revision == OLDEST else set()
    )


@everyone
async def test_lists_are_read_to_their_last_page(
    http_client: HttpClient, client_of: Calling, version: str | None, path: str
) -> None:
    async with client_of(version, path) as client:
        tools = await client.list_tools()
        resources = await client.list_resources()
        templates = await client.list_resource_templates()
        prompts = await client.list_prompts()
    assert len({tool.name for tool in tools}) == len(tools) > 12  # what the bakery shows on a page
    (price,) = (tool for tool in tools if tool.name == "price")
    assert (price.description, price.input_schema["required"]) == ("What that many loaves cost.", ["loaves"])
    assert [resource.uri for resource in resources] == ["bread:/rye", "bread:/photo", "bread:/secret"]
    assert [template.uri_template for template in templates] == ["recipe:/{kind}"]
    assert [(prompt.name, [argument.name for argument in prompt.arguments or ()]) for prompt in prompts] == [
        ("greet", ["name", "style"]),
        ("interview", []),
    ]


@everyone
async def test_a_tool_is_called(http_client: HttpClient, client_of: Calling, version: str | None, path: str) -> None:
    async with client_of(version, path) as client:
        assert text_of(await client.call_tool("price", {"loaves": 2})) == "8 euros"
        told = await client.call_tool("burn", {"how": "told"})
        assert (text_of(told), told.is_error) == ("The oven is too hot.", True)
        shown = await client.call_tool("show")
        kinds = [content.type for content in shown.content]
        with pytest.raises(ServerError, match="nothing like that") as refused:
            await client.call_tool("nothing like that")
    assert kinds[:2] == ["text", "image"]
    assert refused.value.code == -32602
    assert refused.value.status in (200, 400) or path == "/sse"


@everyone
async def test_resources_prompts_and_completions_are_read(
    http_client: HttpClient, client_of: Calling, version: str | None, path: str
) -> None:
    async with client_of(version, path) as client:
        (rye,) = (await client.read_resource("bread:/rye")).contents
        (photo,) = (await client.read_resource("bread:/photo")).contents
        greeting = await client.get_prompt("greet", {"name": "Ada", "style": "friendly"})
        completed = await client.complete({"type": "ref/prompt", "name": "greet"}, "style", "f")
        with pytest.raises(ServerError):
            await client.read_resource("recipe:/stone")
    assert (rye.text, b64decode(photo.blob)) == ("dark", b"\x89PNG")
    assert [message.content.text for message in greeting.messages] == ["Greet Ada in a friendly way.", "With pleasure."]
    assert completed.values == ["formal", "friendly"]


@everyone
async def test_it_can_be_seen_whether_the_server_is_there(
    http_client: HttpClient, client_of: Calling, version: str | None, path: str
) -> None:
    async with client_of(version, path) as client:
        await client.ping()
        await client.ping(timeout=5)


@everyone
async def test_a_hundred_calls_at_once(
    http_client: HttpClient, client_of: Calling, world: World, version: str | None, path: str
) -> None:
    async with client_of(version, path) as client:
        said = await world.gather(*(partial(client.call_tool, "stock", {"kind": f"kind {n}"}) for n in range(100)))
    assert all(f"kind {number}" in text_of(one) for number, one in enumerate(said))


# Revisions


async def test_a_window_of_revisions_is_kept_to(http_client: HttpClient, serve: Serve) -> None:
    older = AdapterSet([ADAPTERS[version] for version in speak.VERSIONS[2:4]])
    async with http_client.client(serve(bakery.build).url + "/mcp", older) as client:
        assert (await client.initialize()).revision == speak.VERSIONS[2]
        assert client.adapter is ADAPTERS[speak.VERSIONS[2]]


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_server_of_one_revision_is_understood(
    http_client: HttpClient, serve: Serve, calling: Calling, version: str
) -> None:
    site = serve(bakery.build, adapters=AdapterSet([ADAPTERS[version]]))
    async with calling(site) as client:
        assert (await client.initialize()).revision == version


async def test_nothing_in_common_names_both_sides(http_client: HttpClient, serve: Serve, calling: Calling) -> None:
    site = serve(bakery.build, adapters=AdapterSet([ADAPTERS[NEWEST]]))
    async with calling(site, OLDEST) as client:
        with pytest.raises(NegotiationFailed) as failed:
            await client.call_tool("price", {"loaves": 1})
    assert NEWEST in str(failed.value)
    assert OLDEST in str(failed.value)


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_what_was_found_out_serves_the_next_client(
    http_client: HttpClient, serve: Serve, calling: Calling, path: str
) -> None:
    site = serve(bakery.build)
    async with calling(site, path=path) as client:
        await client.initialize()
        kept = client.known
    assert kept is not None
    assert kept.pair == (path == "/sse")
    async with calling(site, path=path, known=Known.from_json(kept.to_json())) as client:
        assert text_of(await client.call_tool("price", {"loaves": 1})) == "4 euros"
        assert client.known == kept


# Questions


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_question_is_answered(http_client: HttpClient, client_of: Calling, version: str) -> None:
    asked: list[JSON] = []

    async def on_ask(request: JSON) -> JSON:
        asked.append(request)
        await turn()
        return elicit_accept({"name": "Ada"})

    async with client_of(version, on_ask=on_ask) as client:
        assert text_of(await client.call_tool("reserve", {"loaves": 3})) == "3 for Ada"
    assert [(request["method"], request["params"]["message"]) for request in asked] == [
        ("elicitation/create", "In whose name?")
    ]


@pytest.mark.parametrize("version", ASKABLE)
@pytest.mark.parametrize(("reply", "action"), [(elicit_decline(), "decline"), (elicit_cancel(), "cancel")])
async def test_a_question_may_be_turned_down(
    http_client: HttpClient, client_of: Calling, version: str, reply: JSON, action: str
) -> None:
    async with client_of(version, on_ask=lambda request: reply) as client:
        assert text_of(await client.call_tool("reserve", {"loaves": 3})) == f"not reserved: {action}"


@pytest.mark.parametrize("version", ASKABLE)
async def test_several_questions_are_answered_in_order(
    http_client: HttpClient, client_of: Calling, version: str
) -> None:
    asked: list[str] = []

    def on_ask(request: JSON) -> JSON:
        asked.append(request["params"]["message"])
        return elicit_accept({"name": "Ada"} if "Who" in asked[-1] else {})

    async with client_of(version, on_ask=on_ask) as client:
        assert text_of(await client.call_tool("party")) == "2 cakes for Ada, accept"
    assert sorted(asked) == ["Really today?", "Who celebrates?"]


@pytest.mark.parametrize("version", ASKABLE)
async def test_prompts_and_resources_may_ask(http_client: HttpClient, client_of: Calling, version: str) -> None:
    async with client_of(version, on_ask=lambda request: elicit_accept({"name": "Ada"})) as client:
        prompt = await client.get_prompt("interview")
        secret = await client.read_resource("bread:/secret")
    assert prompt.messages[0].content.text == "Interview Ada."
    assert secret.contents[0].text == "for Ada only"


@pytest.mark.parametrize("version", ASKABLE)
async def test_a_model_and_roots_may_be_asked_for(http_client: HttpClient, client_of: Calling, version: str) -> None:
    replies = {
        "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "Rye!"}, "model": "m"},
        "roots/list": {"roots": [{"uri": "file:///recipes"}]},
    }
    async with client_of(version, on_ask=lambda request: replies[request["method"]]) as client:
        assert text_of(await client.call_tool("slogan")) == "Rye!"
        assert text_of(await client.call_tool("recipes")) == "file:///recipes"


@pytest.mark.parametrize("version", [version for version in speak.VERSIONS if version not in PUSHING])
async def test_without_on_ask_a_question_is_the_result(
    http_client: HttpClient, client_of: Calling, version: str
) -> None:
    """The manual round: read the question, and call again with the answer."""
    async with client_of(version) as client:
        first = await client.call_tool("throw_away", {"kind": "rye"})
        assert client.adapter is not None
        assert isinstance(first, dict)
        asked, state = client.adapter.client_input_requests(first)
        assert [request["params"]["message"] for request in asked.values()] == ["Throw away all rye bread?"]
        answers = {key: elicit_accept({}) for key in asked}
        second = await client.call_tool("throw_away", {"kind": "rye"}, input_responses=answers, request_state=state)
        assert text_of(second) == "no more rye"


@pytest.mark.parametrize("version", ASKABLE)
async def test_a_callback_that_fails_is_the_calls_error(
    http_client: HttpClient, client_of: Calling, version: str
) -> None:
    def on_ask(request: JSON) -> JSON:
        raise LookupError("nobody is at home")

    async with client_of(version, on_ask=on_ask) as client:
        with pytest.raises(AnswerFailed) as failed:
            await client.call_tool("reserve", {"loaves": 1})
        assert text_of(await client.call_tool("price", {"loaves": 1})) == "4 euros"
    assert isinstance(failed.value.__cause__, LookupError)


# What a server tells by itself


@everyone
async def test_progress_is_told(http_client: HttpClient, client_of: Calling, version: str | None, path: str) -> None:
    told: list[Any] = []
    async with client_of(version, path) as client:
        await client.call_tool("bake", on_progress=lambda *progress: told.append(progress))
    says_what = version != OLDEST  # the first revision has numbers alone
    assert told == [(1, 2, "kneaded" if says_what else None), (2, 2, "baked" if says_what else None)]


async def test_progress_without_a_callback_of_its_own_goes_to_the_clients(
    http_client: HttpClient, client_of: Calling
) -> None:
    told: list[float] = []
    both = Flag()

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        await turn()
        told.append(progress)
        if len(told) == 2:
            both.set()

    async with client_of(NEWEST, on_progress=on_progress) as client:
        await client.call_tool("bake")
        await both.wait()
    assert told == [1, 2]


@everyone
async def test_log_messages_are_told(
    http_client: HttpClient, client_of: Calling, version: str | None, path: str
) -> None:
    told: list[Any] = []
    two = Flag()

    def on_log(*message: Any) -> None:
        told.append(message)
        if len(told) == 1:
            two.set()

    async with client_of(version, path, on_log=on_log, log_level="info") as client:
        await client.call_tool("bake")
        await two.wait()
        await client.set_log_level("debug")
        two.clear()
        told.clear()
        await client.call_tool("bake")
        await two.wait()
    assert told[0] == ("debug", "the dough is soft", None)


@everyone
async def test_changes_are_listened_to(
    http_client: HttpClient, client_of: Calling, version: str | None, path: str
) -> None:
    async with client_of(version, path) as client:
        async with client.listen(tools=True, uris=["bread:/rye"]) as changes:
            await client.call_tool("restock", {"what": "tools"})
            assert await anext(changes) == Change(ChangeKind.TOOLS)
            await client.call_tool("restock", {"what": "rye"})
            assert await anext(changes) == Change(ChangeKind.RESOURCE_UPDATED, "bread:/rye")
        # What was listened to may begin again.
        async with client.listen(prompts=True) as changes:
            await client.call_tool("restock", {"what": "prompts"})
            assert await anext(changes) == Change(ChangeKind.PROMPTS)

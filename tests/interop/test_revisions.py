"""Every revision, as real clients come to it: what they settle on, and what the older ones are shown of one server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from . import expected
from .answers import Answers, accept, form
from .conftest import CLIENTS, Connect, Find, meeting, need_client, need_some_client
from .expected import text
from .peers import Peer, Refused

need_some_client()
JSON = Any
HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
OLDER = HANDSHAKE[:-1]
REVISIONS = [*HANDSHAKE, "2026-07-28"]
#: The transports of each revision: the oldest has one of its own instead of Streamable HTTP.
WAYS = [
    (transport, revision)
    for revision in OLDER
    for transport in ("stdio", "sse" if revision == "2024-11-05" else "http")
]


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    need_client(request.param)
    return request.param


@pytest.fixture(params=WAYS, ids="-".join)
def old(request: pytest.FixtureRequest, client: str, where: Find) -> Connect:
    """A client of each older revision, in front of a server that speaks no other."""
    transport, revision = request.param
    return meeting(client, "legacy", where(transport, only=revision))


def since(peer: Peer, revision: str, members: JSON) -> JSON:
    """`members`, where the peer's revision has them already."""
    return members if peer.revision >= revision else {}


class TestOlder:
    async def test_the_server_is_described(self, old: Connect) -> None:
        async with old() as peer:
            info = {"name": "interop", "version": "7.1", **since(peer, "2025-06-18", {"title": "Interoperability"})}
            capabilities = dict(expected.DESCRIBED["capabilities"])
            if peer.revision == "2024-11-05":
                del capabilities["completions"]
            described = {"serverInfo": info, "capabilities": capabilities, "instructions": "Call what you like."}
            assert peer.server == described

    async def test_lists(self, old: Connect) -> None:
        async with old() as peer:
            tools = await peer.items("tools")
            assert [tool["name"] for tool in tools] == expected.TOOL_NAMES
            forecast = dict(expected.tools(modern=False)["forecast"])
            del forecast["icons"]
            if peer.revision < "2025-06-18":
                for member in ("title", "outputSchema", "_meta"):
                    del forecast[member]
            if peer.revision < "2025-03-26":
                del forecast["annotations"]
            assert next(tool for tool in tools if tool["name"] == "forecast") == forecast
            welcome = {
                "uri": "note://welcome",
                "name": "welcome",
                "description": "A greeting",
                "mimeType": "text/plain",
                "annotations": {
                    "audience": ["user", "assistant"],
                    "priority": 1.0,
                    **since(peer, "2025-06-18", {"lastModified": "2026-01-02T03:04:05Z"}),
                },
                **since(peer, "2025-06-18", {"title": "Welcome", "_meta": {"example.org/kept": True}}),
                **since(peer, "2024-11-05", {"size": 8}),
            }
            assert (await peer.items("resources"))[0] == welcome
            greet = dict(expected.PROMPTS[0])
            if peer.revision < "2025-06-18":
                del greet["title"]
            assert await peer.items("prompts") == [greet, expected.PROMPTS[1]]

    async def test_results(self, old: Connect) -> None:
        async with old() as peer:
            days = [{"degrees": 20.5, "sky": "clear"}]
            structured = {"structuredContent": {"city": "Pau", "days": days, "source": None}}
            said = '{"city":"Pau","days":[{"degrees":20.5,"sky":"clear"}],"source":null}'
            content = {"content": [{"type": "text", "text": said}]}
            assert await peer.call("forecast", {"city": "Pau"}) == {**content, **since(peer, "2025-06-18", structured)}
            blocks = list(expected.GALLERY)
            if peer.revision < "2025-03-26":
                stand_in = "[audio of type audio/wav, which this client's protocol revision cannot carry]"
                blocks[2] = {"type": "text", "text": stand_in}
            if peer.revision < "2025-06-18":
                blocks[5] = {"type": "text", "text": "Welcome: note://welcome"}
            assert await peer.call("gallery") == {"content": blocks}

    async def test_reports(self, old: Connect) -> None:
        async with old() as peer:
            assert await peer.set_log_level("warning") == {}
            assert await peer.call("log") == text(peer, "logged")
            params = {"level": "warning", "logger": "log", "data": {"steps": 1}}
            logged = await peer.heard.take("notifications/message")
            assert logged == {"method": "notifications/message", "params": params}
            assert await peer.ping() == {}

    async def test_changes(self, old: Connect) -> None:
        async with old() as peer:
            await peer.call("is_listening")
            assert await peer.subscribe("note://welcome") == {}
            assert await peer.call("change", {"what": "note"}) == text(peer, "changed")
            updated = await peer.heard.take("notifications/resources/updated")
            assert updated["params"] == {"uri": "note://welcome"}

    async def test_asking(self, old: Connect) -> None:
        answers = Answers(accept(name="Ada"))
        async with old(ask=answers) as peer:
            if peer.revision >= "2025-06-18":
                assert await peer.call("confirm", {"what": "tea"}) == text(peer, "accept: {'name': 'Ada'}")
                assert answers.asked == [form("Who wants tea?")]
                return
            asked = await peer.call("confirm", {"what": "tea"})
            arguments = json.loads(asked["content"][0]["text"].splitlines()[-1])
            arguments["mcpAnswers"]["name"]["content"] = {"name": "Ada"}
            assert await peer.call("confirm", arguments) == text(peer, "accept: {'name': 'Ada'}")
            assert answers.asked == []

    async def test_asking_one_after_the_other(self, old: Connect) -> None:
        async with old(ask=Answers(*map(accept_name, ("Ada", "Lovelace", None)))) as peer:
            result = await peer.call("introduce")
            for name in ("Ada", "Lovelace", None) if peer.revision < "2025-06-18" else ():
                arguments = json.loads(result["content"][0]["text"].splitlines()[-1])
                (key,) = arguments["mcpAnswers"]
                # What was answered before comes back with the state.
                arguments["mcpAnswers"] = {key: accept_name(name)}
                result = await peer.call("introduce", arguments)
            assert result == text(peer, "Ada Lovelace: accept")


def accept_name(name: str | None) -> JSON:
    return accept(**({"name": name} if name else {}))


class TestSettling:
    @pytest.mark.parametrize("transport", ["http", "stdio"])
    @pytest.mark.parametrize("revision", REVISIONS)
    async def test_a_client_that_looks_finds_what_there_is(
        self, client: str, transport: str, revision: str, where: Find
    ) -> None:
        async with meeting(client, "modern", where(transport, only=revision))() as peer:
            assert peer.revision == revision
            assert await peer.call("echo", {"text": "found"}) == text(peer, "found")

    @pytest.mark.parametrize("transport", ["http", "stdio"])
    async def test_a_client_that_insists_on_the_stateless_revision(
        self, client: str, transport: str, where: Find
    ) -> None:
        async with meeting(client, "2026-07-28", where(transport))() as peer:
            assert peer.revision == "2026-07-28"
            assert await peer.call("echo", {"text": "found"}) == text(peer, "found")

    @pytest.mark.parametrize("transport", ["http", "stdio"])
    async def test_a_handshake_with_a_server_that_has_none(self, client: str, transport: str, where: Find) -> None:
        with pytest.raises(Exception) as raised:  # noqa: PT011 - each client has its own
            async with meeting(client, "legacy", where(transport, only="2026-07-28"))():
                pass
        error = raised.value
        while isinstance(error, ExceptionGroup):
            (error,) = error.exceptions
        assert "unsupported protocol version; this server speaks 2026-07-28" in str(error)

    @pytest.mark.parametrize("revision", OLDER[1:])
    async def test_a_pinned_address(self, client: str, revision: str, where: Find) -> None:
        async with meeting(client, "legacy", where("http", query=f"?mcp={revision}"))() as peer:
            assert peer.revision == revision
            assert await peer.call("echo", {"text": "found"}) == text(peer, "found")
            with pytest.raises(Refused) as refused:
                await peer.read("note://nowhere")
            assert refused.value.error["code"] == (-32602 if client == "typescript" else -32002)

    async def test_looking_over_the_first_transport(self, client: str, where: Find) -> None:
        async with meeting(client, "modern", where("sse"))() as peer:
            assert peer.revision == "2025-11-25"
            assert await peer.call("echo", {"text": "found"}) == text(peer, "found")

"""Who a request is from decides whose sessions and questions it may touch."""

from __future__ import annotations

import pytest

import speak
from heard import text_of
from hosting import serving
from mcp_sansio import Exchange, NeedInput, Registry, elicit
from plugs import HttpServer
from talk import Client

NEWEST = speak.VERSIONS[0]


def notes() -> Registry:
    registry = Registry("notes", "1.0")

    @registry.tool
    async def note(ex: Exchange) -> str:
        """Open a session by handle."""
        return (await ex.sessions.open()).handle

    @registry.tool
    async def reread(handle: str, ex: Exchange) -> str:
        """Whether the session of that handle is there for the one who asks."""
        return "there" if await ex.sessions.use(handle) else "not there"

    @registry.tool
    async def publish(ex: Exchange) -> str:
        """Ask first."""
        if ex.state is None:
            raise NeedInput({"sure": elicit("Publish?")}, state="asked")
        return f"{ex.state}: {ex.accepted('sure')}"

    return registry


def as_user(client: Client, name: str) -> Client:
    client.extra = {"X-User": name}
    return client


@pytest.mark.parametrize("version", speak.HANDSHAKE)
def test_a_session_does_not_exist_for_another_principal(http_server: HttpServer, version: str) -> None:
    with serving(http_server, notes(), user_header="X-User") as place:
        client = as_user(Client(version, place), "mo").open()
        lists = client.message("tools/list")
        own = client.post(lists)
        others = as_user(client, "li").post(lists)
        client.extra = {}
        nobodys = client.post(lists)
    assert [own.status, others.status, nobodys.status] == [200, 404, 404]


def test_a_handle_works_for_its_principal_alone(http_server: HttpServer) -> None:
    with serving(http_server, notes(), user_header="X-User") as place:
        client = as_user(Client(NEWEST, place), "mo")
        handle = text_of(client.call("note"))
        assert text_of(client.call("reread", handle=handle)) == "there"
        assert text_of(as_user(client, "li").call("reread", handle=handle)) == "not there"


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_the_state_of_a_question_belongs_to_its_principal(http_server: HttpServer, version: str) -> None:
    with serving(http_server, notes(), user_header="X-User") as place:
        client = as_user(Client(version, place), "mo")
        asked = client.call("publish")
        again = client.calling("publish")
        again["params"]["requestState"] = asked["result"]["requestState"]
        again["params"]["inputResponses"] = {"sure": {"action": "accept", "content": {}}}
        stolen = as_user(client, "li").post(again)
        answered = as_user(client, "mo").post(again)
    assert stolen.message["error"]["code"] == -32602
    assert text_of(answered.message) == "asked: True"

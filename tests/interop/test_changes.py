"""What a server tells its clients without being asked: lists that changed, resources that were updated, its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .conftest import TARGETS, Connect, Server, meeting, need_client, need_some_client
from .expected import text
from .peers import Peer

need_some_client()
JSON = Any
LISTS = ("tools", "prompts", "resources")
NOTE = "note://welcome"


async def change(peer: Peer, what: str) -> None:
    assert await peer.call("change", {"what": what}) == text(peer, "changed")


def without_subscription(notification: JSON) -> JSON:
    """A notification, without the identifier of the subscription that each client chooses for itself."""
    params = {key: value for key, value in notification.get("params", {}).items() if key != "_meta"}
    return {"method": notification["method"], **({"params": params} if params else {})}


def in_era(era: str) -> pytest.MarkDecorator:
    """Run a test for the clients that speak that era."""
    return pytest.mark.parametrize("target", [one for one in TARGETS if one.era == era], ids=str, indirect=True)


@in_era("legacy")
async def test_lists_that_changed(meet: Connect) -> None:
    async with meet() as peer:
        await peer.call("is_listening")
        for what in LISTS:
            await change(peer, what)
            method = f"notifications/{what}/list_changed"
            assert without_subscription(await peer.heard.take(method)) == {"method": method}


@in_era("legacy")
async def test_a_resource_that_was_updated(meet: Connect) -> None:
    updated = {"method": "notifications/resources/updated", "params": {"uri": NOTE}}
    async with meet() as peer:
        await peer.call("is_listening")
        assert await peer.subscribe(NOTE) == {}
        await change(peer, "note")
        assert await peer.heard.take(updated["method"]) == updated
        assert await peer.unsubscribe(NOTE) == {}
        peer.heard.messages.clear()
        await change(peer, "note")
        await change(peer, "tools")
        # The stream has an order: what comes before the second change is all that the first one caused.
        assert (await peer.heard.next())["method"] == "notifications/tools/list_changed"


@in_era("modern")
async def test_listening(meet: Connect) -> None:
    async with meet() as peer:
        wanted = {"tools_list_changed": True, "resource_subscriptions": [NOTE]}
        async with peer.listen(**wanted) as listening:
            assert listening.honored == {"toolsListChanged": True, "resourceSubscriptions": [NOTE]}
            await change(peer, "prompts")
            await change(peer, "note")
            await change(peer, "tools")
            heard = [await peer.heard.next() for _ in range(2)]
            assert [without_subscription(message) for message in heard] == [
                {"method": "notifications/resources/updated", "params": {"uri": NOTE}},
                {"method": "notifications/tools/list_changed"},
            ]


@in_era("modern")
async def test_listening_to_several_streams(meet: Connect) -> None:
    async with meet() as peer, peer.listen(prompts_list_changed=True) as prompts:
        assert prompts.honored == {"promptsListChanged": True}
        async with meet() as other, other.listen(resources_list_changed=True) as resources:
            assert resources.honored == {"resourcesListChanged": True}
            await change(other, "resources")
            await change(other, "prompts")
            heard = await other.heard.next()
            assert without_subscription(heard) == {"method": "notifications/resources/list_changed"}


@pytest.mark.parametrize("client", ["python", "fastmcp", "typescript"])
async def test_a_server_that_shuts_down_ends_its_subscriptions(client: str) -> None:
    need_client(client)
    server = Server(())
    try:
        meet = meeting(client, "modern", server.where("http"))
        async with meet() as peer, peer.listen(tools_list_changed=True) as listening:
            server.ask_to_stop()
            assert await listening.ended == "graceful"
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.parametrize("client", ["python", "fastmcp", "typescript"])
async def test_a_stream_that_the_server_let_go_of(client: str, where: Any) -> None:
    need_client(client)
    async with meeting(client, "legacy", where("http"))() as peer:
        assert await peer.call("patient") == text(peer, "resumed")

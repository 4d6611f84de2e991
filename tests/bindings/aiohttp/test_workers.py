"""Two workers of one deployment, each with a socket of its own: a session goes on at either."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

import speak
from mcp_sansio import AdapterSet, Exchange, HubMessage, MemoryHub, MemorySessionStore, Registry, elicit
from sockets import Client, Endpoint, Site, SseEndpoint, serving_each, text_of, web

ADAPTERS = AdapterSet.default().by_version
PUSHING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].can_push_ask)
RESUMING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].resumes_streams)


def bakery() -> Registry:
    registry = Registry("bakery", "1.0")

    @registry.resource("bread://rye")
    def rye() -> str:
        return "rye"

    @registry.tool
    def bake() -> str:
        """Update a resource, in a thread."""
        registry.resource_updated("bread://rye")
        return "baked"

    @registry.tool
    async def order(ex: Exchange) -> str:
        """Ask first."""
        return str((await ex.ask("sure", elicit("Order?"))).accepted)

    return registry


@asynccontextmanager
async def workers(hub: MemoryHub, *, alone: bool = False) -> AsyncIterator[list[Site]]:
    """Two workers, which share what they need. `alone` has them mounted by their routes alone."""
    store = MemorySessionStore(clock=asyncio.get_running_loop().time)
    endpoints = [Endpoint(bakery(), store=store, hub=hub) for _ in range(2)]
    apps = [web.Application(), web.Application()]
    for app, endpoint in zip(apps, endpoints, strict=True):
        if alone:
            app.add_routes(endpoint.routes())
            app.on_startup.append(endpoint.on_startup)
            app.on_shutdown.append(endpoint.on_shutdown)
            app.on_cleanup.append(endpoint.close)
        else:
            endpoint.setup(app)
            SseEndpoint(endpoint).setup(app)
    async with serving_each(*apps) as sites:
        yield sites


def at(other: Site, client: Client) -> Client:
    """The same client, at another worker."""
    moved = Client(client.version, other)
    moved.session = client.session
    return moved


@pytest.mark.parametrize("alone", [False, True], ids=["setup", "routes alone"])
@pytest.mark.parametrize("version", RESUMING)
async def test_a_change_is_told_on_a_stream_at_another_worker(version: str, alone: bool) -> None:
    async with workers(MemoryHub(event=asyncio.Event), alone=alone) as (first, second):
        client = await Client(version, first).open()
        await client.post(client.message("resources/subscribe", {"uri": "bread://rye"}))
        async with at(second, client).listening() as stream:
            assert text_of(await client.call("bake")) == "baked"
            assert (await stream.message())["method"] == "notifications/resources/updated"
            stream.leave()


@pytest.mark.parametrize("version", PUSHING)
async def test_a_question_is_answered_at_another_worker(version: str) -> None:
    async with workers(MemoryHub(event=asyncio.Event)) as (first, second):
        client = await Client(version, first).open()
        async with client.streaming(client.calling("order")) as stream:
            question = await stream.message()
            reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}
            assert (await at(second, client).post(reply)).status == 202
            assert text_of(await stream.message()) == "True"


class FailingHub(MemoryHub):
    """A hub that cannot be reached at first."""

    failures = 2

    async def poll(self, topic: str, cursor: int) -> Sequence[HubMessage]:
        """See `Hub.poll`."""
        if self.failures:
            self.failures -= 1
            raise OSError("unreachable")
        return await super().poll(topic, cursor)


async def test_a_hub_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("mcp_sansio.hosting.HUB_PAUSE", 0.01)
    with caplog.at_level(logging.ERROR, "mcp_sansio_aiohttp"):
        async with workers(FailingHub(event=asyncio.Event)) as (first, second):
            client = await Client(PUSHING[0], first).open()
            async with client.streaming(client.calling("order")) as stream:
                question = await stream.message()
                reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}}
                await at(second, client).post(reply)
                assert text_of(await stream.message()) == "False"
    assert [record.getMessage() for record in caplog.records] == ["the hub failed; it is tried again in 0.01 s"] * 2

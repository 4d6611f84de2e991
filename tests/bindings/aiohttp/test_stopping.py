"""How serving ends: streams at once and as their revision wants it, calls within aiohttp's own patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import speak
from mcp_sansio import AdapterSet, Registry
from sockets import Client, Endpoint, serving, text_of, web

RESUMING = tuple(version for version in speak.VERSIONS if AdapterSet.default().by_version[version].resumes_streams)


def with_setup(endpoint: Endpoint) -> web.Application:
    return endpoint.app()


def below_another(endpoint: Endpoint) -> web.Application:
    app = web.Application()
    app.add_subapp("/api", endpoint.app())
    app.add_routes(endpoint.routes())
    return app


def with_routes_alone(endpoint: Endpoint) -> web.Application:
    app = web.Application()
    app.add_routes(endpoint.routes())
    app.on_shutdown.append(endpoint.on_shutdown)
    app.on_cleanup.append(endpoint.close)
    return app


mounted = pytest.mark.parametrize("mount", [with_setup, below_another, with_routes_alone])
Mount = Callable[[Endpoint], web.Application]


@mounted
@pytest.mark.parametrize("version", speak.ENVELOPE)
async def test_a_listen_request_gets_its_result(version: str, mount: Mount) -> None:
    async with serving(mount(Endpoint(Registry("bakery", "1.0")))) as site:
        client = Client(version, site)
        listen = client.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=7)
        async with client.streaming(listen) as stream:
            await stream.message()
            stopping = asyncio.create_task(site.stop())
            result = await stream.message()
            assert await stream.message() is None
            await stopping
    assert (result["id"], result["result"]["resultType"]) == (7, "complete")


@mounted
@pytest.mark.parametrize("version", RESUMING)
async def test_the_stream_of_a_session_ends(version: str, mount: Mount) -> None:
    async with serving(mount(Endpoint(Registry("bakery", "1.0")))) as site:
        client = await Client(version, site).open()
        async with client.listening() as stream:
            assert stream.response.status == 200
            stopping = asyncio.create_task(site.stop())
            assert await stream.message() is None
            await stopping


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_call_in_flight_is_left_to_finish(version: str) -> None:
    registry = Registry("bakery", "1.0")
    started, stopping = asyncio.Event(), asyncio.Event()

    @registry.tool
    async def bake() -> str:
        """Finish while the server stops."""
        started.set()
        await stopping.wait()
        return "baked"

    app = Endpoint(registry).app()

    async def note(app: web.Application) -> None:
        stopping.set()

    app.on_shutdown.append(note)
    async with serving(app) as site:
        client = await Client(version, site).open()
        calling = asyncio.create_task(client.post(client.calling("bake")))
        await started.wait()
        await site.stop()
        answer = await calling
    assert text_of(answer.message) == "baked"


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_call_that_does_not_finish_is_cancelled(version: str) -> None:
    registry = Registry("bakery", "1.0")
    started, cancelled = asyncio.Event(), asyncio.Event()

    @registry.tool
    async def bake() -> str:
        """Never finish."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return "never"

    async with serving(Endpoint(registry).app(), shutdown_timeout=0.05) as site:
        client = await Client(version, site).open()
        calling = asyncio.create_task(client.post(client.calling("bake")))
        await started.wait()
        await site.stop()
        await cancelled.wait()
        await asyncio.wait([calling])
        assert calling.exception() is not None


async def test_what_comes_after_is_refused() -> None:
    endpoint = Endpoint(Registry("bakery", "1.0"))
    async with serving(endpoint.app()) as site:
        client = Client(speak.VERSIONS[0], site)
        await endpoint.on_shutdown()
        answer = await client.post(client.message("tools/list"))
        await endpoint.close()
    assert answer.status == 503


async def test_a_change_that_is_announced_when_nobody_serves_any_more() -> None:
    """By a thread that outlives the server: it is told of nothing."""
    registry = Registry("bakery", "1.0")
    async with serving(Endpoint(registry).app()) as site:
        client = Client(speak.VERSIONS[0], site)
        await client.post(client.message("tools/list"))
    await asyncio.to_thread(registry.resource_updated, "bread://rye")

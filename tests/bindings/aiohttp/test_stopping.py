"""How serving ends: streams at once and as their revision wants it, calls within aiohttp's own patience."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import speak
from mcp_sansio import AdapterSet, Registry
from sockets import Client, Endpoint, serving, web

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


async def test_what_comes_after_is_refused() -> None:
    endpoint = Endpoint(Registry("bakery", "1.0"))
    async with serving(endpoint.app()) as site:
        client = Client(speak.VERSIONS[0], site)
        await endpoint.on_shutdown()
        answer = await client.post(client.message("tools/list"))
        await endpoint.close()
    assert answer.status == 503

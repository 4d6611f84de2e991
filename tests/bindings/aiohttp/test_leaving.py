"""Clients that go away where aiohttp cancels handlers by itself, or a middleware does; and its requests, freed."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

import speak
from mcp_sansio import AdapterSet, Exchange, Registry
from sockets import Client, Endpoint, serving, text_of, web

ADAPTERS = AdapterSet.default().by_version
NEWEST = speak.VERSIONS[0]
GIVING_UP = tuple(version for version in speak.VERSIONS if ADAPTERS[version].disconnect_cancels)
GOING_ON = tuple(version for version in speak.VERSIONS if version not in GIVING_UP)
RESUMING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].resumes_streams)

#: What an operator may have chosen: whether aiohttp itself cancels the handlers of lost connections.
cancelling = pytest.mark.parametrize("handler_cancellation", [False, True], ids=["kept", "cancelled by aiohttp"])


class Oven:
    """A registry with a tool that waits, and what becomes of its call."""

    def __init__(self) -> None:
        self.registry = Registry("bakery", "1.0")
        self.started, self.go_on = asyncio.Event(), asyncio.Event()
        self.cancelled, self.finished = asyncio.Event(), asyncio.Event()
        self.traces: list[weakref.ref[Any]] = []
        self.registry.tool(self.bake)

    async def bake(self, ex: Exchange, report: bool = False) -> str:
        """Wait to be told to go on."""
        self.traces += [weakref.ref(ex), weakref.ref(ex.request)]
        if report:
            await ex.progress(1)
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        if report:
            await ex.progress(2)
        self.finished.set()
        return "baked"

    def left_over(self) -> list[Any]:
        """What the calls held and has not been freed."""
        gc.collect()
        return [held for trace in self.traces if (held := trace()) is not None]


@cancelling
@pytest.mark.parametrize("report", [False, True], ids=["before the response", "within a stream"])
@pytest.mark.parametrize("version", GIVING_UP)
async def test_a_call_is_given_up_with_its_connection(version: str, report: bool, handler_cancellation: bool) -> None:
    oven = Oven()
    async with serving(Endpoint(oven.registry).app(), handler_cancellation=handler_cancellation) as site:
        client = Client(version, site)
        await leave_once_started(client, oven, report)
        await oven.cancelled.wait()
        assert text_of(await finish_another(client, oven)) == "baked"
    assert oven.left_over() == []


@cancelling
@pytest.mark.parametrize("report", [False, True], ids=["before the response", "within a stream"])
@pytest.mark.parametrize("version", GOING_ON)
async def test_a_call_goes_on_without_its_connection(version: str, report: bool, handler_cancellation: bool) -> None:
    oven = Oven()
    async with serving(Endpoint(oven.registry).app(), handler_cancellation=handler_cancellation) as site:
        client = await Client(version, site).open()
        await leave_once_started(client, oven, report)
        oven.go_on.set()
        await oven.finished.wait()
        assert not oven.cancelled.is_set()
    assert oven.left_over() == []


async def leave_once_started(client: Client, oven: Oven, report: bool) -> None:
    """Call the tool, and cut the connection while it runs. Return when the server has seen that."""
    message = client.calling("bake", report=report, token="t")
    if report:
        async with client.streaming(message) as stream:
            await stream.message()
            async with client.site.losing_a_connection():
                stream.leave()
    else:
        calling = asyncio.create_task(client.post(message))
        await oven.started.wait()
        async with client.site.losing_a_connection():
            calling.cancel()


async def finish_another(client: Client, oven: Oven) -> Any:
    oven.go_on.set()
    return await client.call("bake")


@pytest.mark.parametrize("version", RESUMING)
async def test_a_stream_of_changes_that_nobody_reads_holds_no_request(version: str) -> None:
    traces: list[weakref.ref[Any]] = []

    @web.middleware
    async def note(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.method == "GET":
            traces.append(weakref.ref(request))
        response: web.StreamResponse = await handler(request)
        return response

    app = web.Application(middlewares=[note])
    Endpoint(Oven().registry).setup(app)
    async with serving(app) as site:
        client = await Client(version, site).open()
        async with client.listening() as stream, site.losing_a_connection():
            stream.leave()
        await client.post(client.message("ping"))
        gc.collect()
        assert [trace() for trace in traces] == [None]


async def test_a_middleware_may_limit_the_time() -> None:
    """It cancels the request, which is the end of its connection as far as the core is concerned."""
    oven = Oven()

    @web.middleware
    async def limit(request: web.Request, handler: Any) -> web.StreamResponse:
        async with asyncio.timeout(0.05):
            response: web.StreamResponse = await handler(request)
            return response

    app = web.Application(middlewares=[limit])
    Endpoint(oven.registry).setup(app)
    async with serving(app) as site:
        client = Client(NEWEST, site)
        assert (await client.post(client.calling("bake"))).status == 504
        await oven.cancelled.wait()

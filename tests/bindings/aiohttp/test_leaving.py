"""Clients that go away, calls that are given up, and what is left of both: nothing."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

import speak
from mcp_sansio import AdapterSet, Config, Exchange, Registry
from sockets import Client, Endpoint, serving, text_of, web

ADAPTERS = AdapterSet.default().by_version
NEWEST = speak.VERSIONS[0]
GIVING_UP = tuple(version for version in speak.VERSIONS if ADAPTERS[version].disconnect_cancels)
GOING_ON = tuple(version for version in speak.VERSIONS if version not in GIVING_UP)
BATCHING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].allows_batch)
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


@pytest.mark.parametrize("version", GOING_ON)
async def test_the_deadline_of_a_call_whose_client_left(version: str) -> None:
    oven = Oven()
    async with serving(Endpoint(oven.registry, config=Config(call_timeout=0.1)).app()) as site:
        client = await Client(version, site).open()
        await leave_once_started(client, oven, report=False)
        await oven.cancelled.wait()
    assert oven.left_over() == []


@pytest.mark.parametrize("version", GOING_ON)
async def test_a_call_whose_client_left_ends_with_the_server(version: str) -> None:
    oven = Oven()
    async with serving(Endpoint(oven.registry).app()) as site:
        client = await Client(version, site).open()
        await leave_once_started(client, oven, report=True)
        await site.stop()
        assert oven.cancelled.is_set()
    assert oven.left_over() == []


@pytest.mark.parametrize("version", BATCHING)
async def test_the_calls_of_a_batch_go_on_without_their_connection(version: str) -> None:
    oven = Oven()
    async with serving(Endpoint(oven.registry).app()) as site:
        client = await Client(version, site).open()
        batch = [client.calling("bake", id=1), client.calling("bake", id=2)]
        calling = asyncio.create_task(client.post(batch))
        await oven.started.wait()
        async with site.losing_a_connection():
            calling.cancel()
        oven.go_on.set()
        await oven.finished.wait()
        again = await client.post(batch)
    assert [text_of(answer) for answer in again.message] == ["baked", "baked"]
    assert oven.left_over() == []


@pytest.mark.parametrize("version", GOING_ON)
async def test_a_call_is_given_up_by_a_notification(version: str) -> None:
    """Its HTTP exchange ends without an answer, and its connection serves on."""
    oven = Oven()
    async with serving(Endpoint(oven.registry).app()) as site:
        client = await Client(version, site).open()
        calling = asyncio.create_task(client.post(client.calling("bake", id=5)))
        await oven.started.wait()
        assert (await client.post(speak.notification("notifications/cancelled", {"requestId": 5}))).status == 202
        answer = await calling
        assert oven.cancelled.is_set()
        assert text_of(await finish_another(client, oven)) == "baked"
    assert (answer.status, answer.headers["Content-Type"], answer.messages) == (200, "text/event-stream", [])
    assert oven.left_over() == []


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_call_that_is_over_leaves_nothing(version: str) -> None:
    """Not even work for the garbage collector."""
    oven = Oven()
    oven.go_on.set()
    async with serving(Endpoint(oven.registry).app()) as site:
        client = await Client(version, site).open()
        await client.call("bake")
        await client.call("bake", report=True, token="t")
        await client.post(client.message("ping"))
        gc.collect()
        gc.disable()
        try:
            await client.call("bake")
            oven.go_on.clear()
            oven.started.clear()
            calling = asyncio.create_task(client.call("bake"))
            await oven.started.wait()
            oven.go_on.set()
            await calling
            await client.post(client.message("ping"))
            left = [trace() for trace in oven.traces]
        finally:
            gc.enable()
    assert left == [None] * 8


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


@pytest.mark.parametrize("version", speak.ENVELOPE)
async def test_a_listener_that_leaves_is_told_nothing_more(version: str) -> None:
    registry = Oven().registry
    endpoint = Endpoint(registry)
    async with serving(endpoint.app()) as site:
        client = Client(version, site)
        listen = client.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        async with client.streaming(listen) as stream:
            await stream.message()
            assert len(endpoint.server.topics) == 1
            async with site.losing_a_connection():
                stream.leave()
        await client.post(client.message("tools/list"))
        assert len(endpoint.server.topics) == 0


# Calls that are ended from within


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_plain_function_that_is_given_up_in_its_thread(version: str) -> None:
    """Its thread runs on to its end, which changes nothing any more."""
    registry = Registry("bakery", "1.0")
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @registry.tool
    def bake() -> str:
        """Block."""
        started.set()
        go_on.wait()
        ended.set()
        return "baked"

    async with serving(Endpoint(registry, config=Config(call_timeout=0.05)).app()) as site:
        client = await Client(version, site).open()
        answer = await client.post(client.calling("bake"))
        assert started.is_set()
        assert not ended.is_set()
        go_on.set()
        await asyncio.to_thread(ended.wait)
        assert (await client.post(client.message("tools/list"))).status == 200
    assert "longer than 0.05 seconds" in answer.message["error"]["message"]


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_handlers_thread_gives_its_call_up(version: str) -> None:
    registry = Registry("bakery", "1.0")
    go_on = threading.Event()

    @registry.tool
    def bake(ex: Exchange) -> str:
        """Give up."""
        ex.cancel()
        go_on.wait()
        return "never"

    async with serving(Endpoint(registry).app()) as site:
        client = await Client(version, site).open()
        answer = await client.post(client.calling("bake"))
        go_on.set()
    assert (answer.status, answer.messages) == (200, [])


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

"""`SseEndpoint`: wherever it is mounted, alone or beside an `Endpoint`. The rest is in the suite of all bindings."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any
from urllib.parse import urlsplit

import pytest

import speak
import talk
from mcp_sansio import AdapterSet, Config, Exchange
from pairs import bakery, converse
from sockets import Endpoint, PairClient, SseEndpoint, serving, web


@pytest.mark.parametrize(
    ("prefix", "paths", "asked", "told"),
    [
        ("", (), "/sse", "/messages"),
        ("", (), "/sse/", "/messages"),
        ("", ("/stream/", "/in/box/"), "/stream", "/in/box/"),
        ("", ("/café/sse", "/café/in"), "/caf%C3%A9/sse", "/caf%C3%A9/in"),
        ("/api", ("/", "/in"), "/api", "/api/in"),
        ("/sse", (), "/sse/sse/", "/sse/messages"),
    ],
)
async def test_a_conversation_wherever_it_is_mounted(
    prefix: str, paths: tuple[str, ...], asked: str, told: str
) -> None:
    app = SseEndpoint(bakery()).app(*paths)
    if prefix:
        outer = web.Application()
        outer.add_subapp(prefix, app)
        app = outer
    async with serving(app) as site:
        client = talk.PairClient(talk.Place("127.0.0.1", urlsplit(site.url).port or 0), asked)
        await asyncio.to_thread(converse, client)
        assert client.where.partition("?")[0] == told
        answer = await asyncio.to_thread(client.post, client.where.replace("?", "/?"), b"{}")
        assert answer.status != 301


async def test_what_it_cannot_be_made_of() -> None:
    endpoint = Endpoint(bakery())
    with pytest.raises(TypeError, match="the Endpoint has its own config, store; give options to the one or the other"):
        SseEndpoint(endpoint, config=Config(), store=None)
    with pytest.raises(ValueError, match="needs a revision with a handshake"):
        SseEndpoint(bakery(), adapters=AdapterSet.default().only(*speak.ENVELOPE))
    with pytest.raises(ValueError, match=r"'/\{tenant\}/sse' has a variable"):
        SseEndpoint(endpoint).routes("/{tenant}/sse")
    with pytest.raises(ValueError, match=r"Config\.allowed_hosts must be a collection of strings"):
        SseEndpoint(bakery(), allowed_hosts="mcp.example")


async def test_calls_end_with_the_stream() -> None:
    """It is the channel: with it everything in flight is gone, and nothing is left."""
    registry = bakery()
    started, cancelled = asyncio.Event(), asyncio.Event()
    traces: list[weakref.ref[Any]] = []

    @registry.tool
    async def wait(ex: Exchange) -> None:
        """Never finish."""
        traces.extend([weakref.ref(ex), weakref.ref(ex.request)])
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    endpoint = SseEndpoint(registry)
    async with serving(endpoint.app()) as site:
        async with PairClient(site).open() as client:
            await client.send(client.message("tools/call", {"name": "wait", "arguments": {}}))
            await started.wait()
            client.stream.leave()
        await cancelled.wait()
    assert endpoint.server.pairs == {}
    gc.collect()
    assert [trace() for trace in traces] == [None, None]


@pytest.mark.parametrize("alone", [False, True], ids=["setup", "routes alone"])
async def test_the_stream_ends_with_the_server(alone: bool) -> None:
    endpoint = SseEndpoint(bakery())
    app = web.Application()
    if alone:
        app.add_routes(endpoint.routes())
        app.on_shutdown.append(endpoint.on_shutdown)
        app.on_cleanup.append(endpoint.close)
    else:
        endpoint.setup(app)
    async with serving(app) as site, PairClient(site).open() as client:
        stopping = asyncio.create_task(site.stop())
        assert await client.stream.message() is None
        await stopping

"""The aiohttp binding's client in front of servers on sockets: the library's, and those that a test writes by hand.

Whatever happens, nothing may be left of it: `serving` and `listening` wait for every task that was begun meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import bakery
from by_hand import Request
from mcp_sansio import Adapter, AdapterSet, Config
from sockets import PATIENCE, Endpoint, Site, SseEndpoint, serving, web

# After `sockets`, which leaves the module out where the binding is not installed.
from mcp_sansio_aiohttp import Client  # isort: skip


def adapter_of(version: str | None) -> Adapter | None:
    """The adapter of `version`."""
    return None if version is None else AdapterSet.default().by_version[version]


@asynccontextmanager
async def baking(*, adapters: AdapterSet | None = None, config: Config | None = None) -> AsyncIterator[Site]:
    """The bakery, at ``/mcp`` and, where a revision has a handshake, at the pair ``/sse``."""
    endpoint = Endpoint(bakery.build(asyncio.Event), adapters=adapters, config=config)
    app = web.Application()
    endpoint.setup(app, "/mcp")
    if adapters is None or any(adapter.has_handshake for adapter in adapters.adapters):
        SseEndpoint(endpoint).setup(app, "/sse", "/messages")
    async with serving(app) as site:
        yield site


def calling(site: Site | str, version: str | None = None, path: str = "/mcp", **options: Any) -> Client:
    """A client of `site`. Without a `version` it finds out."""
    return Client((site if isinstance(site, str) else site.url) + path, adapter_of(version), **options)


# By hand


Answer = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(answer: Answer) -> AsyncIterator[str]:
    """A server on a bare socket, whose every request is for `answer` to deal with. What is given is its URL."""
    before = asyncio.all_tasks()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not writer.is_closing() and (request := await _request(reader)) is not None:
                await answer(request, writer)
        except ConnectionError:
            pass  # the client has what it wants, or wants no more
        finally:
            writer.close()

    async with asyncio.timeout(PATIENCE):
        server = await asyncio.start_server(converse, "127.0.0.1", 0, backlog=1000)
        host, port = server.sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}"
        finally:
            server.close()
            left = asyncio.all_tasks() - before
            if left:
                await asyncio.wait(left)


async def _request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.rstrip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    method, path, _ = first.split(" ")
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))

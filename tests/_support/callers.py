"""The aiohttp binding's client in front of servers on sockets: the library's, and those that a test writes by hand.

Whatever happens, nothing may be left of it: `serving` and `listening` wait for every task that was begun meanwhile.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from socket import SO_LINGER, SOL_SOCKET
from typing import Any

import attrs

import bakery
from mcp_sansio import Adapter, AdapterSet, Config
from mcp_sansio.wire.json import decode, encode
from sockets import PATIENCE, Endpoint, Site, SseEndpoint, serving, web

# After `sockets`, which leaves the module out where the binding is not installed.
from mcp_sansio_aiohttp import Client  # isort: skip

__all__ = [
    "Client",
    "Request",
    "adapter_of",
    "baking",
    "calling",
    "event_stream",
    "initialized",
    "json_reply",
    "listening",
    "plain",
    "reset",
    "result",
]

JSON = Any


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


@attrs.frozen
class Request:
    """A request as it came over the socket."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> JSON:
        """The message in it."""
        return decode(self.body) if self.body else None


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


def plain(status: int, *headers: str, body: bytes = b"") -> bytes:
    """A response with that body."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def json_reply(message: JSON, *headers: str, status: int = 200) -> bytes:
    """A response that is a message."""
    body = message if isinstance(message, bytes) else encode(message)
    return plain(status, "Content-Type: application/json", *headers, body=body)


def event_stream(*messages: JSON) -> bytes:
    """The head of a stream, and `messages` on it. It ends when the connection does."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return head + b"".join(b"data: " + encode(message) + b"\n\n" for message in messages)


def reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection."""
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def result(request: Request, text: str = "done") -> JSON:
    """The response that says `text` to the call of a tool."""
    held = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": held}


def initialized(request: Request, version: str) -> JSON:
    """The response to a handshake."""
    info = {"name": "by hand", "version": "0"}
    held = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": held}

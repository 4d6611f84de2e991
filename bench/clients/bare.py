"""The yardstick: aiohttp's client, and msgspec to print the request and parse the response. It checks nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import msgspec
from aiohttp import ClientSession, TCPConnector

import calling

META = "io.modelcontextprotocol/"
INFO = {"name": "bench", "version": "1.0"}
decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


@asynccontextmanager
async def connect(url: str, revision: str) -> AsyncIterator[calling.Call]:
    """A session, after the handshake where there is one."""
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": revision,
    }
    meta: dict[str, Any] = {}
    if revision == calling.NEWEST:
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "add"}
        held = {META + "protocolVersion": revision, META + "clientInfo": INFO, META + "clientCapabilities": {}}
        meta = {"_meta": held}
    ids = count(1)
    async with ClientSession(connector=TCPConnector(limit=0)) as session:

        async def post(message: dict[str, Any]) -> bytes:
            async with session.post(url, data=encode(message), headers=headers) as response:
                headers.update(
                    {name: response.headers[name] for name in ["Mcp-Session-Id"] if name in response.headers}
                )
                return await response.read()

        async def call(first: int, second: int) -> str:
            params = {"name": "add", "arguments": {"a": first, "b": second}, **meta}
            request = {"jsonrpc": "2.0", "id": next(ids), "method": "tools/call", "params": params}
            async with session.post(url, data=encode(request), headers=headers) as response:
                reply = decode(await response.read())
            text: str = reply["result"]["content"][0]["text"]
            return text

        if revision != calling.NEWEST:
            params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO}
            await post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
            await post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        yield call


if __name__ == "__main__":
    calling.main(connect)

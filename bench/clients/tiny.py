"""aiohttp-tiny-mcp."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp_tiny_mcp import AdapterSet, Client

import calling


@asynccontextmanager
async def connect(url: str, revision: str) -> AsyncIterator[calling.Call]:
    """A client."""
    async with Client(url, AdapterSet.default().by_version[revision]) as client:

        async def call(first: int, second: int) -> str:
            result = await client.call_tool("add", {"a": first, "b": second})
            return result.content[0].text

        await client.initialize()
        yield call


if __name__ == "__main__":
    calling.main(connect)

"""FastMCP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import fastmcp

import calling


@asynccontextmanager
async def connect(url: str, revision: str) -> AsyncIterator[calling.Call]:
    """A client."""
    mode = revision if revision == calling.NEWEST else "legacy"
    async with fastmcp.Client(url, mode=mode) as client:

        async def call(first: int, second: int) -> str:
            result = await client.call_tool("add", {"a": first, "b": second})
            return result.content[0].text

        yield call


if __name__ == "__main__":
    calling.main(connect)

"""`StdioClient` without a block: opened, used and closed by hand, by whatever task. The rest is in the suite."""

from __future__ import annotations

import asyncio
import os
from functools import partial

import pytest

import child_servers
import support
from child_servers import PACKAGES, text_of
from mcp_sansio import LocalProtocolError
from plugs.stdio_asyncio import AsyncioStdioClient

StdioClient = support.need("mcp_sansio_stdio").StdioClient
program = partial(child_servers.program, AsyncioStdioClient())
script = partial(child_servers.script, AsyncioStdioClient())


class TestTheOrderOfThings:
    async def test_not_before_it_is_open(self) -> None:
        client = program()
        with pytest.raises(LocalProtocolError, match="the client is not open"):
            await client.list_tools()

    async def test_what_was_refused_then_is_not_done_later(self) -> None:
        async def main() -> str:
            client = script("call = request()\ntext(call, call['params']['name'])\nhear()")
            with pytest.raises(LocalProtocolError):
                await client.call_tool("first")
            async with client:
                return text_of(await client.call_tool("second"))

        assert await main() == "second"

    async def test_once(self) -> None:
        async with program() as client:
            with pytest.raises(LocalProtocolError, match="opened once"):
                await client.open()
        with pytest.raises(LocalProtocolError, match="opened once"):
            await client.open()

    async def test_closing_what_was_never_open(self) -> None:
        await program().close()

    async def test_another_task_may_close_it(self) -> None:
        """And several may be closed in any order: nothing is bound to the task that opened it."""
        first, second = program(), program()
        await asyncio.create_task(first.open())
        await asyncio.create_task(second.open())
        for client in (first, second):
            assert text_of(await client.call_tool("echo", {"text": "a"})) == "a"
        await asyncio.create_task(first.close())
        assert text_of(await second.call_tool("echo", {"text": "b"})) == "b"
        await asyncio.create_task(second.close())


def test_it_can_be_made_where_no_loop_runs() -> None:
    client = StdioClient("python3", env=PACKAGES, cwd=os.sep)

    async def close() -> None:
        await client.close()

    asyncio.run(close())

"""Loops and processes of asyncio that end without having closed their `StdioClient` leave no server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import child_servers
import support
from child_servers import PRELUDE, SHORT, give, has_ended, nothing_left, text_of
from plugs.stdio_asyncio import AsyncioStdioClient

support.need("mcp_sansio_stdio")
script = partial(child_servers.script, AsyncioStdioClient())


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No descriptor, and no thread, whatever the test did."""
    with nothing_left():
        yield


@pytest.mark.parametrize("deaf", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_a_loop_that_ends_without_closing_it_leaves_no_server(deaf: str) -> None:
    async def main() -> int:
        client = await script(f"{deaf}text(request(), str(os.getpid()))\ntime.sleep(60)", grace=SHORT).open()
        return int(text_of(await client.call_tool("any")))

    pid = asyncio.run(main())
    assert has_ended(pid)


def test_a_loop_that_ends_at_once_leaves_nothing_either() -> None:
    async def main() -> None:
        await script("hear()").open()

    asyncio.run(main())  # the fixture looks for what is left


class Unpolled(asyncio.SelectorEventLoop):
    """A loop that polls no descriptors, like the one of Windows."""

    def add_reader(self, *given: Any) -> None:
        raise NotImplementedError

    def add_writer(self, *given: Any) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("after", ["hear()", "time.sleep(60)"], ids=["a server that ends", "a server that does not"])
def test_a_loop_that_polls_nothing(after: str) -> None:
    async def main() -> None:
        code = f"call = request()\nos.write(2, b'begun')\ntext(call, call['params']['arguments']['text'])\n{after}"
        async with script(code, grace=SHORT) as client:
            assert text_of(await client.call_tool("any", {"text": "x" * 300_000})) == "x" * 300_000
        assert client.last_words == "begun"

    with asyncio.Runner(loop_factory=Unpolled) as runner:
        runner.run(main())


def test_a_client_process_that_is_killed_leaves_no_server() -> None:
    """Its server finds its input ended."""
    code = (
        "import asyncio, sys\nfrom mcp_sansio_stdio import StdioClient\n"
        "async def main():\n"
        f"    client = await StdioClient(sys.executable, ['-S', '-c', {PRELUDE + give('os.getpid()')!r}]).open()\n"
        "    print((await client.call_tool('any')).content[0].text, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert has_ended(pid)

"""Loops and processes of asyncio that end without having closed their `StdioClient` leave no server."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from children import PATIENCE, PRELUDE, SHORT, has_ended, script, text_of

NO_NUMBERS = not Path("/proc/self/fd").exists()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    """No descriptor, and no thread, whatever the test did."""
    gc.collect()
    files, threads = descriptors(), {*threading.enumerate()}
    yield
    gc.collect()
    for thread in {*threading.enumerate()} - threads:
        thread.join(PATIENCE)
    assert (descriptors(), {*threading.enumerate()} - threads) == (files, set())


def descriptors() -> list[str]:
    """What this process has open."""
    if NO_NUMBERS:
        return []
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except FileNotFoundError:
            pass  # the one of the listing itself
    return sorted(found)


def give(expression: str) -> str:
    """A script that answers its first call with that value, as JSON."""
    return f"text(request(), json.dumps({expression}))\nhear()"


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

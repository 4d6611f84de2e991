"""What handlers leave on asyncio's loop keeps no process, and `run_stdio` runs a loop of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import support
from lines import Process, starting, text_of
from mcp_sansio import Registry
from plugs.stdio_asyncio import StdioServer

run_stdio = support.need("mcp_sansio_stdio").run_stdio
PROGRAM = str(Path(__file__).with_name("asyncio_program.py"))
Start = Callable[[], Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts that program, and ends it."""
    with starting(StdioServer()) as begin:
        yield partial(begin, PROGRAM)


class TestTheEnd:
    @pytest.mark.parametrize(
        "tool", ["sleep_in_a_thread_of_asyncio", "ignore_cancellation"], ids=lambda tool: str(tool)
    )
    def test_while_a_call_is_running(self, start: Start, tool: str) -> None:
        server = start().shake_hands()
        server.start(tool)
        server.hang_up()
        assert (server.ended(), server.rest()) == (0, b"")

    def test_while_a_task_is_left_running(self, start: Start) -> None:
        server = start().shake_hands()
        assert text_of(server.call("leave_a_task")) == "left"
        server.hang_up()
        assert (server.ended(), server.rest()) == (0, b"")


async def test_a_running_loop_is_refused() -> None:
    with pytest.raises(RuntimeError) as raised:
        run_stdio(Registry("a", "1"))
    assert str(raised.value) == (
        "run_stdio runs an event loop of its own; where one is running already, await serve_stdio"
    )
    assert asyncio.get_running_loop().is_running()


def test_importing_it_takes_nothing_over() -> None:
    code = "import mcp_sansio_stdio; print('out')"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        == b"out" + os.linesep.encode()
    )

"""``python -m mcp_sansio_stdio -- COMMAND ARGUMENT …``: what a server is, and a call of one of its tools."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from mcp_sansio.inspecting import Command, Terminal, process_options

from ._client import StdioClient


def client(words: list[str], options: Any, adapters: Any, **more: Any) -> StdioClient:
    """The client of the server that the words of the command line start."""
    more |= {"env": dict(options.env), "cwd": options.cwd, "on_stderr": sys.stderr.write}
    return StdioClient(words[0], words[1:], adapters, **more)


if __name__ == "__main__":
    # Not Python's own handler, which asyncio would replace by one that has no effect on who waits for a line.
    signal.signal(signal.SIGINT, lambda number, frame: signal.default_int_handler(number, frame))
    command = Command("python -m mcp_sansio_stdio", "-- COMMAND [ARGUMENT ...]", client, add_options=process_options)
    sys.exit(command.main(sys.argv[1:], asyncio.run, Terminal(sys.stdin, sys.stdout, sys.stderr)))

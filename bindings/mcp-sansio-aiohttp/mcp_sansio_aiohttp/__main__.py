"""``python -m mcp_sansio_aiohttp URL``: what a server is, and a call of one of its tools."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from mcp_sansio.inspecting import Command, Terminal, header_option

from .client import Client


def client(words: list[str], options: Any, adapters: Any, **more: Any) -> Client:
    """The client of the server at the URL on the command line."""
    return Client(words[0], adapters, headers=dict(options.header), **more)


if __name__ == "__main__":
    # Not Python's own handler, which asyncio would replace by one that has no effect on who waits for a line.
    signal.signal(signal.SIGINT, lambda number, frame: signal.default_int_handler(number, frame))
    command = Command("python -m mcp_sansio_aiohttp", "URL", client, most=1, add_options=header_option)
    sys.exit(command.main(sys.argv[1:], asyncio.run, Terminal(sys.stdin, sys.stdout, sys.stderr)))

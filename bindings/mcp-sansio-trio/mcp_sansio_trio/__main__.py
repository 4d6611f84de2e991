"""``python -m mcp_sansio_trio URL`` or ``-- COMMAND ARGUMENT …``: what a server is, and a call of one of its tools."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any

import trio

from mcp_sansio.inspecting import Command, Terminal, either_client, either_options

from .client import Client
from .stdio_client import StdioClient


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run it to its end."""
    return trio.run(lambda: work)


if __name__ == "__main__":
    make = either_client(Client, StdioClient, sys.stderr.write)
    command = Command("python -m mcp_sansio_trio", "URL | -- COMMAND [ARGUMENT ...]", make, add_options=either_options)
    sys.exit(command.main(sys.argv[1:], run, Terminal(sys.stdin, sys.stdout, sys.stderr)))

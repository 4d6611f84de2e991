"""``python -m mcp_sansio_trio URL`` or ``-- COMMAND ARGUMENT …``: what a server is, and a call of one of its tools."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any

import trio

from mcp_sansio.inspecting import Command, Terminal, header_option, process_options

from .client import Client
from .stdio_client import StdioClient


def client(words: list[str], options: Any, adapters: Any, **more: Any) -> Client | StdioClient:
    """The client of the server at the URL on the command line, or of the one that its words start."""
    if not words[0].startswith(("http://", "https://")):
        more |= {"env": dict(options.env), "cwd": options.cwd, "on_stderr": sys.stderr.write}
        return StdioClient(words[0], words[1:], adapters, **more)
    if len(words) > 1:
        raise ValueError(f"{words[1]!r} is one word too many: the server is {words[0]!r}")
    return Client(words[0], adapters, headers=dict(options.header), **more)


def add_options(parser: Any) -> None:
    """What can be said about the requests, and about the process."""
    header_option(parser)
    process_options(parser)


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run it to its end."""
    return trio.run(lambda: work)


if __name__ == "__main__":
    command = Command("python -m mcp_sansio_trio", "URL | -- COMMAND [ARGUMENT ...]", client, add_options=add_options)
    sys.exit(command.main(sys.argv[1:], run, Terminal(sys.stdin, sys.stdout, sys.stderr)))

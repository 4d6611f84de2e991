"""``python -m mcp_sansio_sync URL`` or ``-- COMMAND ARGUMENT …``: what a server is, and a call of one of its tools."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any, Self

from mcp_sansio.inspecting import Command, Terminal, header_option, process_options

from ._calling import BlockingClient
from ._client import Client
from ._stdio import StdioClient


class Awaited:
    """A blocking client as the command has its clients: what is awaited there has happened here."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    async def __aenter__(self) -> Self:
        self._client.__enter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        self._client.__exit__(*raised)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*given: Any) -> Any:
            return method(*given)

        return call


def client(words: list[str], options: Any, adapters: Any, **more: Any) -> Any:
    """The client of the server at the URL on the command line, or of the one that its words start."""
    if not words[0].startswith(("http://", "https://")):
        more |= {"env": dict(options.env), "cwd": options.cwd, "on_stderr": sys.stderr.write}
        return Awaited(StdioClient(words[0], words[1:], adapters, **more))
    if len(words) > 1:
        raise ValueError(f"{words[1]!r} is one word too many: the server is {words[0]!r}")
    return Awaited(Client(words[0], adapters, headers=dict(options.header), **more))


def add_options(parser: Any) -> None:
    """What can be said about the requests, and about the process."""
    header_option(parser)
    process_options(parser)


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run it to its end, which it reaches at once."""
    try:
        work.send(None)
    except StopIteration as ended:
        return int(ended.value)
    raise AssertionError("there is nothing to wait for")


if __name__ == "__main__":
    command = Command("python -m mcp_sansio_sync", "URL | -- COMMAND [ARGUMENT ...]", client, add_options=add_options)
    sys.exit(command.main(sys.argv[1:], run, Terminal(sys.stdin, sys.stdout, sys.stderr)))

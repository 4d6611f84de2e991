"""``python -m mcp_sansio_sync URL`` or ``-- COMMAND ARGUMENT …``: what a server is, and a call of one of its tools."""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from typing import Any, Self

from mcp_sansio.inspecting import Command, Terminal, either_client, either_options

from ._client import Client
from ._stdio import StdioClient


class Awaited:
    """A blocking client as the command has its clients: what is awaited there has happened here."""

    def __init__(self, client: Any) -> None:
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


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run it to its end, which it reaches at once."""
    try:
        work.send(None)
    except StopIteration as ended:
        return int(ended.value)
    raise AssertionError("there is nothing to wait for")


if __name__ == "__main__":
    make = either_client(Client, StdioClient, sys.stderr.write)
    words, client = "URL | -- COMMAND [ARGUMENT ...]", lambda *given, **more: Awaited(make(*given, **more))
    command = Command("python -m mcp_sansio_sync", words, client, add_options=either_options)
    sys.exit(command.main(sys.argv[1:], run, Terminal(sys.stdin, sys.stdout, sys.stderr)))

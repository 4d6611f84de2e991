"""The server of these tests, as a program, and the clients that are to meet it."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

import support

from .pantry import Running
from .peers import Ask, Peer, Where, connect

SERVER = str(Path(__file__).with_name("server.py"))
CLIENTS = ("python", "fastmcp", "typescript")
#: What the clients do over each transport: the oldest HTTP transport carries revisions with a handshake only. `sync` is
#: stdio, to a server without an event loop.
WAYS = (
    *(("http", "legacy"), ("http", "modern"), ("sse", "legacy")),
    *(("stdio", "legacy"), ("stdio", "modern"), ("sync", "legacy"), ("sync", "modern")),
)
#: The binding that serves a transport where it is a process.
PROCESSES = {"stdio": "mcp_sansio_stdio", "sync": "mcp_sansio_sync"}
#: Longer than anything here takes; a client that waits in vain fails by it.
PATIENCE = 30
#: The server's arguments that narrow it to some revisions; none for all of them.
Window = tuple[str, ...]


@attrs.frozen
class Target:
    """A client, and how it meets the server."""

    client: str
    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.client}-{self.transport}-{self.era}"


TARGETS = [Target(client, transport, era) for client in CLIENTS for transport, era in WAYS]


class Server:
    """A server over HTTP, running until it is stopped."""

    def __init__(self, window: Window) -> None:
        support.need("mcp_sansio_aiohttp")
        command = [sys.executable, SERVER, "http", *window]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def stop(self) -> None:
        """Have it shut down, and wait until it has."""
        self.ask_to_stop()
        with self._process as process:
            assert process.wait(PATIENCE) == 0

    def ask_to_stop(self) -> None:
        """Have it shut down."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def where(self, transport: Any, query: str = "") -> Where:
        """Where it is."""
        return Where(transport, url=f"{self.address}/{'sse' if transport == 'sse' else 'mcp'}{query}")


@pytest.fixture(scope="session")
def servers() -> Iterator[dict[Window, Server]]:
    """The servers over HTTP that run, by what they are narrowed to."""
    running: dict[Window, Server] = {}
    yield running
    for server in running.values():
        server.stop()


@pytest.fixture(scope="session")
def programs() -> Iterator[Running]:
    """The servers of other projects."""
    held = Running()
    yield held
    held.stop()


Find = Callable[..., Where]


@pytest.fixture
def where(servers: dict[Window, Server]) -> Find:
    """Where a server is for a transport; `only` narrows it to one revision, `query` is added to its address."""

    def find(transport: Any, only: str | None = None, query: str = "", window: Window = ()) -> Where:
        window = ("--only", only) if only else window
        if transport in PROCESSES:
            support.need(PROCESSES[transport])
            return Where("stdio", command=[sys.executable, SERVER, transport, *window])
        if window not in servers:
            servers[window] = Server(window)
        return servers[window].where(transport, query)

    return find


def need_some_client() -> None:
    """For the top of a module: one skip in place of hundreds where there is no client at all."""
    packages = {"mcp", "fastmcp", "@modelcontextprotocol/client"}
    installed = any(map(importlib.util.find_spec, ("mcp", "fastmcp"))) or "MCP_SANSIO_NPM" in os.environ
    if not installed and not packages & support.MUST_RUN:
        pytest.skip("no client of another project is installed", allow_module_level=True)


def need_client(client: str) -> None:
    """Skip where the client is not installed, or fail where it has to be."""
    if client == "typescript":
        support.need_node()
        support.need_npm("@modelcontextprotocol/client")
    else:
        # FastMCP's client has the official one inside, and the tests of either import both.
        support.need("mcp")
        support.need("fastmcp")


Connect = Callable[..., AbstractAsyncContextManager[Peer]]


@pytest.fixture(params=TARGETS, ids=str)
def target(request: pytest.FixtureRequest) -> Target:
    """Each client in each of its ways."""
    need_client(request.param.client)
    return request.param


@pytest.fixture
def meet(target: Target, where: Find) -> Connect:
    """Connect the client of `target`; ``ask`` and ``log_level`` are those of `peers.connect`."""
    return meeting(target.client, target.era, where(target.transport))


def meeting(client: str, era: str, where: Where) -> Connect:
    """`peers.connect`, within a time that no test needs."""

    @asynccontextmanager
    async def met(*, ask: Ask | None = None, log_level: str | None = None) -> AsyncIterator[Peer]:
        async with asyncio.timeout(PATIENCE), connect(client, era, where, ask=ask, log_level=log_level) as peer:
            yield peer

    return met

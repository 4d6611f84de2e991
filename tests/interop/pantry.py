"""The servers of other projects, as programs that a test starts, and our client in front of them.

Each program of servers/ serves the same pantry: a few tools, resources and a prompt that do each thing that a client
can ask of a server. What a project has no way to do, its program lacks.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

import support
from mcp_sansio import AdapterSet

from .peers import Where

SERVERS = Path(__file__).parent / "servers"
#: How programs find the packages that they serve with; a client gives them none of our environment unasked.
FOUND_BY = {name: os.environ[name] for name in ("MCP_SANSIO_NPM", "PYTHONPATH") if name in os.environ}
#: Longer than anything here takes.
PATIENCE = 60


@attrs.frozen
class Project:
    """A project whose server we meet: its program, what that needs, and which eras it can be told to serve."""

    name: str
    needs: tuple[str, ...]
    program: str
    transports: tuple[str, ...] = ("http", "stdio", "sse")
    eras: tuple[str, ...] = ("dual",)
    #: Tools of the pantry that it has no way to offer.
    lacks: frozenset[str] = frozenset()

    def need(self) -> None:
        """Skip where something is not installed, or fail where it has to be."""
        for name in self.needs:
            if name == "node":
                support.need_node()
            elif name.startswith("@"):
                support.need_npm(name)
            else:
                support.need(name)

    def command(self, transport: str, era: str) -> list[str]:
        """What starts it."""
        interpreter = support.need_node() if self.program.endswith("js") else sys.executable
        return [interpreter, str(SERVERS / self.program), transport, "--era", era]


PANTRIES = {
    project.name: project
    for project in (
        Project("official", ("mcp",), "official_server.py"),
        Project("fastmcp", ("fastmcp",), "fastmcp_server.py"),
        # It asks for nothing but forms.
        Project(
            "tiny",
            ("aiohttp_tiny_mcp",),
            "tiny_server.py",
            eras=("dual", "modern", "legacy"),
            lacks=frozenset({"summarise", "folders"}),
        ),
        Project(
            "typescript",
            ("node", "@modelcontextprotocol/server", "@modelcontextprotocol/node"),
            "typescript_server.mjs",
            transports=("http", "stdio"),
            eras=("dual", "modern", "legacy"),
        ),
    )
}
#: A program of its own, with a pantry of its own.
EVERYTHING = Project("everything", ("node", "@modelcontextprotocol/server-everything"), "", eras=("legacy",))
#: What it calls its transports, and the path of each.
EVERYTHING_TRANSPORTS = {"http": ("streamableHttp", "/mcp"), "sse": ("sse", "/sse"), "stdio": ("stdio", "")}


class Program:
    """A server of another project, over HTTP, running until it is stopped."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.url

    def ask_to_stop(self) -> None:
        """Have it shut down."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def wait(self) -> None:
        """Return once it has."""
        with self._process as process:
            process.wait(PATIENCE)


class Everything:
    """The everything-server over HTTP: it takes its port from the environment, and ends by a signal."""

    def __init__(self, transport: str) -> None:
        mode, path = EVERYTHING_TRANSPORTS[transport]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._process = subprocess.Popen(
            everything(mode),
            env={**os.environ, "PORT": str(port)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        await_port(port)
        self.url = f"http://127.0.0.1:{port}{path}"

    def ask_to_stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGKILL)

    def wait(self) -> None:
        """Return once it has ended."""
        with self._process as process:
            process.wait(PATIENCE)


def everything(mode: str) -> list[str]:
    """The command of the everything-server."""
    folder = support.need_npm("@modelcontextprotocol/server-everything")
    return [support.need_node(), str(folder / "dist" / "index.js"), mode]


def await_port(port: int) -> None:
    """Return once somebody listens there."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), PATIENCE):
            return
        time.sleep(0.02)
    raise TimeoutError(port)


class Running:
    """The servers over HTTP that run, each started when it is first wanted."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str, str], Any] = {}

    def where(self, project: Project, transport: str, era: str) -> Where:
        """Where the server of a project is."""
        project.need()
        if transport == "stdio":
            command = everything("stdio") if project is EVERYTHING else project.command(transport, era)
            return Where("stdio", command=command)
        key = project.name, transport, era
        if key not in self._running:
            started = Everything(transport) if project is EVERYTHING else Program(project.command(transport, era))
            self._running[key] = started
        return Where("http", url=self._running[key].url)

    def stop(self) -> None:
        """End them all."""
        for server in self._running.values():
            server.ask_to_stop()
        for server in self._running.values():
            server.wait()


def adapters(era: str) -> AdapterSet | None:
    """What a client is told for an era: nothing, so that it finds out, or one of its halves, or one revision."""
    every = AdapterSet.default()
    if era == "auto":
        return None
    if era == "legacy":
        return every.with_handshake()
    if era == "modern":
        return AdapterSet(adapter for adapter in every.adapters if not adapter.has_handshake)
    return every.only(era)


def client(where: Where, era: str, **options: Any) -> Any:
    """Our client in front of a server, to be used as an async context manager."""
    if where.transport == "stdio":
        from mcp_sansio_stdio import StdioClient

        command, *arguments = where.command
        return StdioClient(command, arguments, env=FOUND_BY, adapter=adapters(era), **options)
    from mcp_sansio_aiohttp import Client

    return Client(where.url, adapters(era), **options)

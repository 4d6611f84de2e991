"""A server in a process of its own (`Process`), and one in this process at the end of two descriptors (`Served`).

Tests of the stdio binding take it from here: where that is not installed, importing this leaves a test module out.
"""

from __future__ import annotations

import asyncio
import os
import pty
import select
import socket
import subprocess
import sys
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import speak
import support
from mcp_sansio import Registry, Server
from mcp_sansio.wire.json import decode, encode

serve_stdio = support.need("mcp_sansio_stdio").serve_stdio

PROGRAM = support.ROOT / "tests" / "bindings" / "stdio" / "program.py"
#: Long enough for a machine that is busy with something else; a test that waits this long has failed.
PATIENCE = 60.0


def as_line(message: Any) -> bytes:
    """What a client writes for `message`: a line, or exactly the bytes given."""
    return message if isinstance(message, bytes) else encode(message) + b"\n"


class Process:
    """A process that serves on its standard input and output, and the client's ends of both.

    Every message that comes back is held against the schema of `version`.
    """

    def __init__(
        self,
        *arguments: str,
        version: str = speak.VERSIONS[0],
        environment: Mapping[str, str] = {},
        **options: Any,
    ) -> None:
        self.speaker = speak.Speaker(version, Registry("a client", "1"))
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.popen = subprocess.Popen(
            [sys.executable, *(arguments or [str(PROGRAM)])],
            bufsize=0,
            env={**os.environ, "PYTHONUNBUFFERED": "", **environment},
            **{**pipes, **options},
        )
        self._read = bytearray()
        self._methods: dict[Any, str] = {}

    def write(self, data: bytes) -> None:
        """Write `data`, whole."""
        assert self.popen.stdin is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self.popen.stdin.write(rest) :]

    def send(self, *messages: Any) -> None:
        """Send messages in one write."""
        for message in messages:
            self._methods |= speak.methods_of(message)
        self.write(b"".join(map(as_line, messages)))

    def read_line(self) -> bytes:
        """The next line, without its end. Fails at the end of the output."""
        assert self.popen.stdout is not None
        start = 0
        while (end := self._read.find(b"\n", start)) < 0:
            start = len(self._read)
            assert select.select([self.popen.stdout], [], [], PATIENCE)[0], "nothing came"
            data = self.popen.stdout.read(2**20)
            assert data, f"the output ended: {self.errors()}"
            self._read += data
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line

    def receive(self, version: str | None = None) -> Any:
        """The next message, which is of `version` where it is not of the client's."""
        message = decode(self.read_line())
        speak.check_all(version or self.speaker.version, [message], self._methods)
        return message

    def request(self, method: str, params: Any = None, *, id: Any = 1, token: Any = None) -> Any:
        """Send a request; the next message, which is its reply where nothing else is said."""
        self.send(self.speaker.message(method, params, id=id, token=token))
        return self.receive()

    def call(self, tool: str, arguments: Any = None, *, id: Any = 1, **more: Any) -> Any:
        """Call a tool; the next message."""
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **more}, id=id)

    def start(self, tool: str, arguments: Any = None, *, id: Any = 1) -> None:
        """Call a tool that says on the error output that it has begun, and wait for that."""
        self.send(self.speaker.message("tools/call", {"name": tool, "arguments": arguments or {}}, id=id))
        assert self.popen.stderr is not None
        assert self.popen.stderr.readline() == b"begun\n"

    def shake_hands(self) -> Process:
        """Make the handshake, where the revision has one."""
        if self.speaker.adapter.has_handshake:
            self.send(self.speaker.initialize())
            assert self.receive()["result"]["protocolVersion"] == self.speaker.version
            self.send(speak.notification("notifications/initialized"))
        return self

    def hang_up(self) -> None:
        """Close the input."""
        assert self.popen.stdin is not None
        self.popen.stdin.close()

    def rest(self) -> bytes:
        """What comes until the output ends."""
        assert self.popen.stdout is not None
        return bytes(self._read) + self.popen.stdout.read()

    def errors(self) -> str:
        """What comes until the error output ends."""
        assert self.popen.stderr is not None
        return self.popen.stderr.read().decode()

    def ended(self) -> int:
        """The exit status. Fails unless the process ends long before its handlers would, which sleep for a minute.

        Clients wait for two seconds at least, which it keeps with ease, but not on a machine that is busy with more.
        """
        return self.popen.wait(PATIENCE / 3)


@contextmanager
def starting() -> Iterator[Callable[..., Process]]:
    """Starts `Process`es, and ends them."""
    started: list[Process] = []

    def begin(*arguments: str, **options: Any) -> Process:
        started.append(Process(*arguments, **options))
        return started[-1]

    yield begin
    for process in started:
        process.popen.kill()
        process.popen.wait()
        for stream in (process.popen.stdin, process.popen.stdout, process.popen.stderr):
            if stream is not None:
                stream.close()


class Served:
    """`served`, at the end of two descriptors in this very process, and the client's ends of both.

    `kind` is one of `ENDS`. The client has made its handshake, where the revision `version` has one.
    It reads nothing until it is told to.
    """

    def __init__(
        self, served: Registry | Server, *, kind: str = "pipe", version: str = speak.VERSIONS[0], **options: Any
    ) -> None:
        self.speaker = speak.Speaker(version, Registry("a client", "1"))
        self.kind = kind
        self.source, self.output, self.input, self.sink = ENDS[kind]()
        self.written = 0
        for end in (self.output, self.input):
            os.set_blocking(end, False)
        self._serving = serve_stdio(served, self.source, self.sink, **options)
        self._read = bytearray()

    async def __aenter__(self) -> Served:
        self.task = asyncio.ensure_future(self._serving)
        if self.speaker.adapter.has_handshake:
            await self.send(self.speaker.initialize())
            await self.receive()
            await self.send(speak.notification("notifications/initialized"))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])
        for end in (self.source, self.output, self.input, self.sink):
            if end is not None:
                os.close(end)

    async def write(self, data: bytes) -> None:
        """Write `data`, whole."""
        rest = memoryview(data)
        while rest:
            await self._ready("writer", self.output)
            try:
                count = os.write(self.output, rest)
            except BlockingIOError:
                count = 0  # what is free is less than what one write needs
                await asyncio.sleep(0)
            self.written += count
            rest = rest[count:]

    async def send(self, *messages: Any) -> None:
        """Send messages in one write."""
        await self.write(b"".join(map(as_line, messages)))

    async def read_line(self) -> bytes:
        """The next line, without its end; what is left where the output ends."""
        start = 0
        while (end := self._read.find(b"\n", start)) < 0:
            start = len(self._read)
            await self._ready("reader", self.input)
            data = os.read(self.input, 2**20)
            if not data:
                return bytes(self._read)
            self._read += data
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line

    async def receive(self) -> Any:
        """The next message."""
        async with asyncio.timeout(PATIENCE):
            return decode(await self.read_line())

    async def start(self, tool: str, arguments: Any = None, *, id: Any = 1) -> None:
        """Call a tool."""
        await self.send(self.speaker.message("tools/call", {"name": tool, "arguments": arguments or {}}, id=id))

    async def call(self, tool: str, arguments: Any = None, *, id: Any = 1) -> Any:
        """Call a tool; the next message."""
        await self.start(tool, arguments, id=id)
        return await self.receive()

    def hang_up(self) -> None:
        """Close the client's output."""
        if self.kind == "socket":
            with socket.socket(fileno=os.dup(self.output)) as end:
                end.shutdown(socket.SHUT_WR)
        else:
            os.close(self.output)
            self.output = None

    async def _ready(self, kind: str, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        getattr(loop, f"add_{kind}")(descriptor, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            getattr(loop, f"remove_{kind}")(descriptor)


def pipes() -> tuple[int, int, int, int]:
    source, output = os.pipe()
    input, sink = os.pipe()
    return source, output, input, sink


def sockets() -> tuple[int, int, int, int]:
    server, client = socket.socketpair()
    source, output = server.detach(), client.detach()
    return source, output, os.dup(output), os.dup(source)


def terminals() -> tuple[int, int, int, int]:
    client, server = pty.openpty()
    tty.setraw(server)
    return server, client, os.dup(client), os.dup(server)


ENDS = {"pipe": pipes, "pipe that opens once": pipes, "socket": sockets, "terminal": terminals}

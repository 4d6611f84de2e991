"""A binding's channel server in a process of its own (`Process`), and in this process on two descriptors (`Served`)."""

from __future__ import annotations

import os
import pty
import select
import socket
import subprocess
import sys
import time
import tty
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import speak
import support
from mcp_sansio import Registry, Server
from mcp_sansio.wire.json import decode, encode
from plugs import ChannelServer

#: Long enough for a machine that is busy with something else; a test that waits this long has failed.
PATIENCE = 60.0
PROGRAM = str(support.ROOT / "tests" / "_support" / "program.py")
SUPPORT = str(support.ROOT / "tests" / "_support")


def as_line(message: Any) -> bytes:
    """What a client writes for `message`: a line, or exactly the bytes given."""
    return message if isinstance(message, bytes) else encode(message) + b"\n"


def text_of(message: Any) -> Any:
    """The text that a tool gave."""
    assert "result" in message, message
    return message["result"]["content"][0]["text"]


class End:
    """The client's end of a channel, in a thread that may block: what it writes, and what it reads.

    Every message that comes back is held against the schema of the client's revision.
    """

    def __init__(self, version: str) -> None:
        self.speaker = speak.Speaker(version, Registry("a client", "1"))
        self.output: int | None = None
        self.input: int | None = None
        #: How many bytes were written.
        self.written = 0
        self._read = bytearray()
        self._methods: dict[Any, str] = {}

    def write(self, data: bytes) -> None:
        """Write `data`, whole."""
        assert self.output is not None
        rest = memoryview(data)
        while rest:
            count = os.write(self.output, rest[: 2**16])
            self.written += count
            rest = rest[count:]

    def write_what_fits(self, data: bytes, seconds: float = 0.3) -> None:
        """Write as much of `data` as the server lets in before it lets nothing in for that time. That is not all."""
        assert self.output is not None
        os.set_blocking(self.output, False)
        rest = memoryview(data)
        while select.select([], [self.output], [], seconds)[1]:
            try:
                rest = rest[os.write(self.output, rest) :]
            except BlockingIOError:
                time.sleep(0.001)  # what is free is less than what one write needs
            assert rest, "all was let in"
        os.set_blocking(self.output, True)

    def send(self, *messages: Any) -> None:
        """Send messages in one write."""
        for message in messages:
            self._methods |= speak.methods_of(message)
        self.write(b"".join(map(as_line, messages)))

    def read(self) -> bytes:
        """What comes next, as it comes; nothing at the end of the output."""
        assert self.input is not None
        assert select.select([self.input], [], [], PATIENCE)[0], "nothing came"
        return os.read(self.input, 2**20)

    def read_line(self) -> bytes:
        """The next line, without its end. Fails at the end of the output."""
        start = 0
        while (end := self._read.find(b"\n", start)) < 0:
            start = len(self._read)
            data = self.read()
            assert data, f"the output ended: {self.errors()}"
            self._read += data
        line = bytes(self._read[:end])
        del self._read[: end + 1]
        return line

    def rest(self) -> bytes:
        """What comes until the output ends."""
        while data := self.read():
            self._read += data
        return bytes(self._read)

    def errors(self) -> str:
        """What the server said of its end, for a test that fails."""
        return ""

    def receive(self, version: str | None = None) -> Any:
        """The next message, which is of `version` where it is not of the client's."""
        message = decode(self.read_line())
        speak.check_all(version or self.speaker.version, [message], self._methods)
        return message

    def request(self, method: str, params: Any = None, *, id: Any = 1, token: Any = None) -> Any:
        """Send a request; the next message, which is its reply where nothing else is said."""
        self.send(self.speaker.message(method, params, id=id, token=token))
        return self.receive()

    def begin(self, tool: str, arguments: Any = None, *, id: Any = 1) -> None:
        """Call a tool."""
        self.send(self.speaker.message("tools/call", {"name": tool, "arguments": arguments or {}}, id=id))

    def call(self, tool: str, arguments: Any = None, *, id: Any = 1, **more: Any) -> Any:
        """Call a tool; the next message."""
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}, **more}, id=id)

    def shake_hands(self) -> Any:
        """Make the handshake, where the revision has one."""
        if self.speaker.adapter.has_handshake:
            self.send(self.speaker.initialize())
            assert self.receive()["result"]["protocolVersion"] == self.speaker.version
            self.send(speak.notification("notifications/initialized"))
        return self


class Process(End):
    """A process that serves on its standard input and output, and the client's ends of both.

    Without `arguments` it runs ``program.py`` by the plug's `run_stdio`.
    """

    def __init__(
        self,
        plug: ChannelServer,
        *arguments: str,
        version: str = speak.VERSIONS[0],
        environment: Mapping[str, str] = {},
        **options: Any,
    ) -> None:
        super().__init__(version)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.popen = subprocess.Popen(
            [sys.executable, *(arguments or [PROGRAM])],
            bufsize=0,
            env={**os.environ, **environment_of(plug), "PYTHONUNBUFFERED": "", **environment},
            **{**pipes, **options},
        )
        self.output = None if self.popen.stdin is None else self.popen.stdin.fileno()
        self.input = None if self.popen.stdout is None else self.popen.stdout.fileno()

    def start(self, tool: str, arguments: Any = None, *, id: Any = 1) -> None:
        """Call a tool that says on the error output that it has begun, and wait for that."""
        self.begin(tool, arguments, id=id)
        assert self.popen.stderr is not None
        assert self.popen.stderr.readline() == b"begun\n"

    def hang_up(self) -> None:
        """Close the input."""
        assert self.popen.stdin is not None
        self.popen.stdin.close()

    def stop_reading(self) -> None:
        """Close the output."""
        assert self.popen.stdout is not None
        self.popen.stdout.close()

    def errors(self) -> str:
        """What comes until the error output ends."""
        assert self.popen.stderr is not None
        return self.popen.stderr.read().decode()

    def ended(self) -> int:
        """The exit status. Fails unless the process ends long before its handlers would, which sleep for a minute.

        Clients wait for two seconds at least, which it keeps with ease, but not on a machine that is busy with more.
        """
        return self.popen.wait(PATIENCE / 3)


def environment_of(plug: ChannelServer) -> dict[str, str]:
    """What a process needs to run ``program.py`` by a plug."""
    path = os.pathsep.join(filter(None, [SUPPORT, os.environ.get("PYTHONPATH")]))
    return {"PROGRAM_RUN": plug.run_stdio, "PYTHONPATH": path}


@contextmanager
def starting(plug: ChannelServer) -> Iterator[Callable[..., Process]]:
    """Starts `Process`es, and ends them."""
    started: list[Process] = []

    def begin(*arguments: str, **options: Any) -> Process:
        started.append(Process(plug, *arguments, **options))
        return started[-1]

    try:
        yield begin
    finally:
        for process in started:
            process.popen.kill()
            process.popen.wait()
            for stream in (process.popen.stdin, process.popen.stdout, process.popen.stderr):
                if stream is not None:
                    stream.close()


class Served(End):
    """A server at the end of two descriptors in this very process, and the client's ends of both."""

    kind: str
    #: The server's ends.
    source: int
    sink: int
    #: Whether it ends by itself within so many seconds.
    ends: Callable[[float], bool]

    def hang_up(self) -> None:
        """Close the client's output."""
        assert self.output is not None
        if self.kind == "socket":
            with socket.socket(fileno=os.dup(self.output)) as end:
                end.shutdown(socket.SHUT_WR)
        else:
            os.close(self.output)
            self.output = None

    def stop_reading(self) -> None:
        """Close the client's input."""
        assert self.input is not None
        os.close(self.input)
        self.input = None


@contextmanager
def served(
    plug: ChannelServer,
    registry: Registry | Server,
    *,
    kind: str = "pipe",
    version: str = speak.VERSIONS[0],
    **options: Any,
) -> Iterator[Served]:
    """Serve `registry` by `plug`; the client has made its handshake, where the revision `version` has one.

    `kind` is one of `ENDS`. The client reads nothing until it is told to.
    """
    client = Served(version)
    client.kind = kind
    client.source, client.output, client.input, client.sink = ENDS[kind]()
    with ExitStack() as stack:
        for end in (client.source, client.sink):
            stack.callback(os.close, end)
        ended = stack.enter_context(plug.serve(registry, client.source, client.sink, options))
        client.ends = ended.wait
        try:
            yield client.shake_hands()
        finally:
            for end in (client.output, client.input):
                if end is not None:
                    os.close(end)


def _pipes() -> tuple[int, int, int, int]:
    source, output = os.pipe()
    input, sink = os.pipe()
    return source, output, input, sink


def _sockets() -> tuple[int, int, int, int]:
    server, client = socket.socketpair()
    source, output = server.detach(), client.detach()
    return source, output, os.dup(output), os.dup(source)


def _terminals() -> tuple[int, int, int, int]:
    client, server = pty.openpty()
    tty.setraw(server)
    return server, client, os.dup(client), os.dup(server)


ENDS = {"pipe": _pipes, "pipe that opens once": _pipes, "socket": _sockets, "terminal": _terminals}

"""What the cases say of a server that is a process: its lines, its encoding, what else prints, and its end."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import speak
from lines import environment_of
from mcp_sansio import Registry
from mcp_sansio.wire.json import decode
from plugs import ChannelServer

JSON = Any
NEWEST, HANDSHAKE = speak.VERSIONS[0], speak.HANDSHAKE
PATIENCE = 60.0
#: A server of a few tools, started as an operator would.
PROGRAM = """
import importlib, os, subprocess, sys, threading, time
from mcp_sansio import Config, Exchange, Registry
print("Server started")
from flags import Flag
module, _, function = os.environ["PROGRAM_RUN"].partition(":")
run_stdio = getattr(importlib.import_module(module), function)
registry = Registry("shop", "1.0", instructions="Größe — ★ 漢")

@registry.tool
async def echo(text: str) -> str:
    return text

@registry.tool
async def chatter() -> str:
    print("by print")
    os.write(1, b"by descriptor\\\\n{\\\\n  x: 1\\\\n}\\\\n")
    subprocess.run([sys.executable, "-c", "print('\\\\033[32mok\\\\033[0m')"])
    return "said"

@registry.tool
async def hang(ex: Exchange) -> str:
    os.write(2, b"begun\\\\n")
    await Flag().wait()

@registry.tool
def sleep() -> str:
    os.write(2, b"begun\\\\n")
    time.sleep(60)

@registry.tool
async def thread() -> str:
    threading.Thread(target=time.sleep, args=(60,)).start()
    return "started"

run_stdio(registry, config=Config(max_message=int(os.environ.get("MOST", 2**24))))
""".replace("\\\\", "\\")


def text(version: str, id: JSON, said: str) -> JSON:
    """The response that carries one text, on a revision without a handshake."""
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "shop", "version": "1.0"}}
    held = {"content": [{"type": "text", "text": said}], "resultType": "complete", "_meta": meta}
    return {"jsonrpc": "2.0", "id": id, "result": held}


class Server:
    """A process that serves, and the client's end of it."""

    def __init__(
        self, plug: ChannelServer, program: Path, version: str = NEWEST, environment: Mapping[str, str] = {}
    ) -> None:
        self.speaker = speak.Speaker(version, Registry("a client", "1"))
        self.process = subprocess.Popen(
            [sys.executable, str(program)],
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **environment_of(plug), "PYTHONUNBUFFERED": "", **environment},
        )
        self._held = b""

    def write(self, data: bytes) -> None:
        """Write bytes."""
        assert self.process.stdin is not None
        rest = memoryview(data)
        while rest:
            rest = rest[self.process.stdin.write(rest) :]

    def line(self) -> bytes:
        """The next line, with its end."""
        assert self.process.stdout is not None
        pieces = [self._held]
        while b"\n" not in pieces[-1]:
            assert select.select([self.process.stdout], [], [], PATIENCE)[0], "nothing came"
            data = self.process.stdout.read(2**20)
            assert data, "the output ended"
            pieces.append(data)
        line, _, self._held = b"".join(pieces).partition(b"\n")
        return line + b"\n"

    def say(self, message: JSON, end: bytes = b"\n") -> JSON:
        """Send a message; the next one that comes."""
        self.write((message if isinstance(message, bytes) else speak.wire(message)) + end)
        return decode(self.line().removesuffix(b"\n"))

    def call(self, tool: str, id: JSON = 1, **arguments: JSON) -> JSON:
        """The request that calls a tool."""
        return self.speaker.message("tools/call", {"name": tool, "arguments": arguments}, id=id)

    def ends(self) -> int:
        """The exit status, which must come within the time that clients wait at least."""
        began = time.monotonic()
        status = self.process.wait(PATIENCE)
        assert time.monotonic() - began < PATIENCE / 3  # clients wait for two seconds, on a machine that is not busy
        return status


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The server's file."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, "utf-8")
    return path


@pytest.fixture
def server(channel_server: ChannelServer, program: Path, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server in the environment that the test's parameter gives."""
    started = Server(channel_server, program, environment=getattr(request, "param", {}))
    yield started
    started.process.kill()
    started.process.wait()
    for stream in (started.process.stdin, started.process.stdout, started.process.stderr):
        if stream is not None and not stream.closed:
            stream.close()


def test_case_43_crlf_comes_in_and_lf_goes_out(server: Server) -> None:
    for end in (b"\r\n", b"\n"):
        server.write(speak.wire(server.call("echo", text="a")) + end)
        line = server.line()
        assert (line.count(b"\r"), decode(line[:-1])) == (0, text(NEWEST, 1, "a"))


LOCALES = [
    {"PYTHONIOENCODING": "cp932", "PYTHONUTF8": "0"},
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONIOENCODING": "ascii:strict"},
]


@pytest.mark.parametrize("server", LOCALES, indirect=True, ids=str)
def test_case_44_utf_8_whatever_the_locale(server: Server) -> None:
    for word in ("Größe — ★ 漢", "a\u2028b\u2029c\u0085d\u000be", "né🌍漢"):
        server.write(speak.wire(server.call("echo", text=word)) + b"\n")
        line = server.line()
        assert decode(line[:-1]) == text(NEWEST, 1, word)
        assert word.split("\u000b", maxsplit=1)[0].encode() in line
    assert server.say(server.speaker.message("server/discover"))["result"]["instructions"] == "Größe — ★ 漢"


def test_case_45_nothing_else_reaches_the_output(server: Server) -> None:
    # The banner comes before anything is served, and so before there is an output to keep; it is not in a line's way,
    # since what is printed and not yet flushed goes to the error output.
    assert server.say(server.call("chatter")) == text(NEWEST, 1, "said")
    assert server.say(server.call("echo", text="next")) == text(NEWEST, 1, "next")
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.ends() == 0
    assert server.process.stdout is not None
    assert server.process.stderr is not None
    assert server.process.stdout.read() == b""
    errors = server.process.stderr.read()
    for said in (b"Server started", b"by print", b"by descriptor", b"\x1b[32mok\x1b[0m"):
        assert said in errors


def test_case_46_five_megabytes_through_a_pipe(server: Server) -> None:
    large = "x" * (5 * 2**20)
    assert server.say(server.call("echo", text=large)) == text(NEWEST, 1, large)


@pytest.mark.parametrize("server", [{"MOST": "4096"}], indirect=True)
def test_case_46_and_52_what_cannot_be_read_is_reported_and_the_next_line_served(server: Server) -> None:
    too_long = server.say(b"x" * 4097)
    assert too_long["error"] == {"code": -32600, "message": "the message of 4097 bytes is larger than 4096 bytes"}
    for line in (b"Server started", b"{", b"\x1b[32mok\x1b[0m", b"\xff\xfe", b"[" * 4000):
        assert server.say(line)["error"]["code"] == -32700
    for line in (b"123", b'"str"', b"null", b"{}"):
        assert server.say(line)["error"]["code"] == -32600
    ping = b'{"jsonrpc":"2.0","id":5,"method":"ping"}'
    assert server.say(ping + b" " * (4096 - len(ping))) == {"jsonrpc": "2.0", "id": 5, "result": {}}


def test_case_7_and_73_the_first_line_of_all(channel_server: ChannelServer, program: Path) -> None:
    server = Server(channel_server, program, HANDSHAKE[0])
    try:
        missing = server.say(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
        assert missing["error"] == {"code": -32600, "message": "the handshake is missing: send initialize first"}
        pong = {"jsonrpc": "2.0", "id": 2, "result": {}}
        assert server.say(b'{"jsonrpc":"2.0","id":2,"method":"ping","params":null}') == pong
        assert server.say(server.speaker.initialize())["result"]["protocolVersion"] == HANDSHAKE[0]
    finally:
        server.process.communicate()


@pytest.mark.parametrize("busy", ["idle", "hang", "sleep", "thread"])
def test_case_48_a_server_ends_with_its_input(server: Server, busy: str) -> None:
    if busy == "thread":
        server.say(server.call("thread"))
    elif busy != "idle":
        server.write(speak.wire(server.call(busy)) + b"\n")
        assert server.process.stderr is not None
        while server.process.stderr.readline() != b"begun\n":
            pass
    else:
        server.say(server.call("echo", text="a"))
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.ends() == 0


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for the process where Linux lists them")
def test_case_48_a_server_does_not_outlive_a_parent_that_was_killed(
    channel_server: ChannelServer, program: Path
) -> None:
    parent = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
            'child.stdin.write(b\'{"jsonrpc":"2.0","id":1,"method":"ping"}\\n\'); child.stdin.flush()\n'
            "child.stdout.readline()\n"
            "print(child.pid, flush=True); time.sleep(60)\n",
            str(program),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment_of(channel_server)},
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().rpartition(")")[2][:3]:
        assert time.monotonic() < deadline, "the server outlived its parent"
        time.sleep(0.05)

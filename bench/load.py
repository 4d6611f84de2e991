"""The load generator: raw sockets and pipes, requests that are bytes already, answers that are barely read.

It runs in the command's own process, away from every server. Each exchange is checked in full once, before anything is
measured; while it is measured only the framing is read, and what the next request needs (the question to answer).
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rows
from rows import Row, Wrong

CONNECTIONS = 8
#: One read. A larger buffer would be mapped and unmapped for each.
PIECE = 2**16
#: Together with a process's id this names its clock (Linux: clock_getcpuclockid).
_PROCESS_CLOCK = 2
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_DATA = re.compile(rb"data: ?(\{[^\r\n]*)\r?\n")
_CHUNKED_END = b"\r\n0\r\n\r\n"


@dataclass(frozen=True)
class Run:
    """What was measured: exchanges, the seconds that they took, and those that the server computed meanwhile."""

    exchanges: int
    seconds: float
    processor: float

    @property
    def rate(self) -> float:
        """Exchanges in a second."""
        return self.exchanges / self.seconds

    @property
    def cost(self) -> float:
        """Microseconds of the server's processor time for an exchange."""
        return self.processor / self.exchanges * 1e6


class Process:
    """A server of `bench/servers` or a client of `bench/clients`, run by `python`."""

    def __init__(self, python: Path, script: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
        if environment is None:
            # Nothing of this interpreter's own gets into another one's.
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.popen = subprocess.Popen(
            [python, script, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            bufsize=0,
            env=environment,
        )
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.stdin, self.stdout = self.popen.stdin.fileno(), self.popen.stdout.fileno()

    def port(self) -> int:
        """Where an HTTP server listens, once it does. Raises `Wrong` where it does not come up."""
        return int(self.read_lines(1))

    def write(self, data: bytes) -> None:
        """Write all of `data` to its input."""
        while data:
            data = data[os.write(self.stdin, data) :]

    def read_lines(self, count: int) -> bytes:
        """Wait for so many lines."""
        data = os.read(self.stdout, PIECE)
        seen = data.count(b"\n")
        if seen >= count:
            return data
        pieces = [data]
        while seen < count:
            if not data:
                raise Wrong(f"the server ended: {self.said()}")
            data = os.read(self.stdout, PIECE)
            pieces.append(data)
            seen += data.count(b"\n")
        return b"".join(pieces)

    def read_some(self) -> bytes:
        """What there is, at least a byte."""
        data = os.read(self.stdout, PIECE)
        if not data:
            raise Wrong(f"the server ended: {self.said()}")
        return data

    def processor_time(self) -> float:
        """Seconds that it has computed so far, all its threads together."""
        return time.clock_gettime(~self.popen.pid << 3 | _PROCESS_CLOCK)

    def said(self) -> str:
        """The end of its error output."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace").strip()[-300:]

    def close(self) -> None:
        """End it."""
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        self.popen.stdin.close()
        self.popen.terminate()
        try:
            self.popen.wait(5.0)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self.popen.stdout.close()
        self.errors.close()


# HTTP -----------------------------------------------------------------------------------------------------------------


class Head:
    """What matters of a response's header section. `length` is ``None`` for a chunked body."""

    def __init__(self, data: bytes) -> None:
        self.status = int(data[9:12])
        stated = _LENGTH.search(data)
        lower = data.lower()
        self.length = int(stated[1]) if stated else None
        if self.length is None and b"transfer-encoding: chunked" not in lower:
            self.length = 0 if self.status in (202, 204) else None
        self.is_stream = b"text/event-stream" in lower
        session = re.search(rb"\r\nmcp-session-id: *([^\r\n]+)", data, re.IGNORECASE)
        self.session = session[1].decode() if session else None


_heads: dict[bytes, Head] = {}


def head_of(data: bytes) -> Head:
    """Parsed once for each text: within a second all are alike."""
    head = _heads.get(data)
    if head is None:
        if len(_heads) > 256:
            _heads.clear()
        head = _heads[data] = Head(data)
    return head


class Wire:
    """One connection, and the response that is coming in on it."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data = bytearray()
        self.head: Head | None = None
        self.start = 0

    def send(self, data: bytes) -> None:
        """Send a request; what is left of an earlier response is dropped."""
        self.data = bytearray()
        self.head = None
        self.sock.sendall(data)

    def receive(self) -> None:
        """Take what came in."""
        piece = self.sock.recv(PIECE)
        if not piece:
            raise Wrong(f"the server closed the connection after {bytes(self.data[:200])!r}")
        self.data += piece
        if self.head is None:
            end = self.data.find(b"\r\n\r\n")
            if end >= 0:
                self.head, self.start = head_of(bytes(self.data[:end])), end + 4

    def whole(self) -> bool:
        """Whether the response is complete. Raises `Wrong` for one that is no success."""
        head = self.head
        if head is None:
            return False
        size = head.length
        done = self.data.endswith(_CHUNKED_END) if size is None else len(self.data) >= self.start + size
        if done and head.status not in (200, 202, 204):
            raise Wrong(f"HTTP {head.status}: {bytes(self.data[self.start : self.start + 200])!r}")
        return done

    def asked(self) -> bool:
        """Whether a question has come in."""
        return self.data.find(b"elicitation/create", self.start) >= 0 and self.data.endswith(b"\n")

    def messages(self) -> list[Any]:
        """What the response says so far."""
        assert self.head is not None
        body = bytes(self.data[self.start :])
        if self.head.length is None:
            body = unchunked(body)
        if self.head.is_stream:
            return [json.loads(found) for found in _DATA.findall(body)]
        return [json.loads(body)] if body else []

    def close(self) -> None:
        """Close it."""
        self.sock.close()


def unchunked(body: bytes) -> bytes:
    """The chunks without their framing; the last may be missing."""
    pieces = []
    position = 0
    while (end := body.find(b"\r\n", position)) >= 0:
        size = int(body[position:end], 16)
        pieces.append(body[end + 2 : end + 2 + size])
        position = end + 4 + size
    return b"".join(pieces)


#: What is waited for (a connection, and whether it has brought enough), or ``None`` after each exchange.
Waiting = Generator[Any, None, None]


class HttpClient:
    """One of the concurrent clients: its connections, its session, its requests.

    The exchange is a generator: it gives what it waits for, and ``None`` when an exchange is done.
    """

    def __init__(self, row: Row, port: int, number: int) -> None:
        self.row = row
        self.port = port
        self.id = f"call-{number}"
        self.session: dict[str, str] = {}
        self.messages: list[Any] = []
        self.keep = False
        if not row.is_new:
            self._shake_hands()
        self.request = self.packed(row.request(self.id))

    def packed(self, message: Any) -> bytes:
        """The request that carries `message`."""
        body = rows.pack(message)
        headers = {
            "Host": f"127.0.0.1:{self.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **self.row.headers(message),
            **self.session,
            "Content-Length": str(len(body)),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body

    def _shake_hands(self) -> None:
        wire = Wire(self.port)
        head = self._at_once(wire, self.row.initialize())
        self.session = {"Mcp-Session-Id": head.session} if head.session else {}
        self._at_once(wire, self.row.initialized())
        wire.close()

    def _at_once(self, wire: Wire, message: Any) -> Head:
        wire.send(self.packed(message))
        while not wire.whole():
            wire.receive()
        assert wire.head is not None
        return wire.head

    def connect(self) -> list[Wire]:
        """Open what an exchange takes; servers close idle connections, so it is done anew for each run."""
        self.wire = Wire(self.port)
        self.side = Wire(self.port) if self.row.way == "pushed" else None
        return [self.wire, self.side] if self.side else [self.wire]

    def exchanges(self) -> Waiting:
        """One exchange after the other."""
        run = {None: self._plain, "pushed": self._pushed}.get(self.row.way, self._two_rounds)
        while True:
            self.messages.clear()
            yield from run()
            if self.keep:
                self.messages += self.wire.messages()
            yield None

    def _exchange(self, request: bytes) -> Waiting:
        self.wire.send(request)
        yield self.wire, self.wire.whole

    def _plain(self) -> Waiting:
        yield from self._exchange(self.request)

    def _two_rounds(self) -> Waiting:
        yield from self._exchange(self.request)
        self.messages += self.wire.messages()
        yield from self._exchange(self.packed(self.row.second(self.id, self.messages[-1])))

    def _pushed(self) -> Waiting:
        assert self.side is not None
        self.wire.send(self.request)
        yield self.wire, self.wire.asked
        self.side.send(self.packed(self.row.answer(self.wire.messages()[-1])))
        yield self.side, self.side.whole
        yield self.wire, self.wire.whole


class HttpLoad:
    """Eight clients in closed loops: each sends its next request when it has the answer to the last."""

    def __init__(self, row: Row, process: Process, port: int, clients: int = CONNECTIONS) -> None:
        self.process = process
        self.clients = [HttpClient(row, port, number) for number in range(clients)]

    def verify(self) -> list[Any]:
        """Make one exchange and give its messages. Raises `Wrong`."""
        client = self.clients[0]
        client.keep = True
        self._run([client], 0.0, lead=0)
        client.keep = False
        client.row.check(client.messages)
        return list(client.messages)

    def run(self, seconds: float) -> Run:
        """Exchange for about so many seconds."""
        return self._run(self.clients, seconds, lead=1)

    def _run(self, clients: list[HttpClient], seconds: float, lead: int) -> Run:
        """Each client makes `lead` exchanges before the clock starts, and one more at least."""
        wires = {wire.sock.fileno(): (wire, client) for client in clients for wire in client.connect()}
        poll = select.poll()
        for descriptor in wires:
            poll.register(descriptor, select.POLLIN)
        try:
            for _ in range(lead):
                self._until(clients, wires, poll, 0.0)
            return measured(self.process, lambda: self._until(clients, wires, poll, seconds))
        finally:
            for wire, _ in wires.values():
                wire.close()

    def _until(
        self,
        clients: list[HttpClient],
        wires: dict[int, tuple[Wire, HttpClient]],
        poll: select.poll,
        seconds: float,
    ) -> int:
        clock = time.perf_counter
        deadline = clock() + seconds
        done = 0
        running = {client: client.exchanges() for client in clients}
        waiting = {client: next(steps) for client, steps in running.items()}
        while running:
            for descriptor, _ in poll.poll():
                wire, client = wires[descriptor]
                wire.receive()
                while client in running and waiting[client][1]():
                    waits = next(running[client])
                    if waits is None:
                        done += 1
                        if clock() >= deadline:
                            del running[client]
                            break
                        waits = next(running[client])
                    waiting[client] = waits
        return done

    def close(self) -> None:
        """The server stays, for the next row."""


# Pipes ----------------------------------------------------------------------------------------------------------------


class StdioLoad:
    """A client that started its server, and waits for each answer; or keeps 32 requests in flight."""

    def __init__(self, row: Row, process: Process) -> None:
        self.row = row
        self.process = process
        self.lines = 1
        if not row.is_new:
            self._send(row.initialize())
            process.read_lines(1)
            self._send(row.initialized())
        self.request = rows.pack(row.request("call")) + b"\n"
        self.window = [rows.pack(row.request(f"call-{number}")) + b"\n" for number in range(16 * rows.IN_FLIGHT)]

    def _send(self, message: Any) -> None:
        self.process.write(rows.pack(message) + b"\n")

    def verify(self) -> list[Any]:
        """Make one exchange and give its messages. Raises `Wrong`."""
        messages: list[Any] = []
        if self.row.kind == "ask":
            messages = self._asked()
        else:
            self.process.write(self.request)
            messages = self._read_until_reply()
            self.lines = len(messages)
        self.row.check(messages)
        return messages

    def _read_until_reply(self) -> list[Any]:
        """The messages of an exchange. A batch may be answered in one line, or in a line for each call."""
        wanted = rows.BATCH if self.row.kind == "batch" else 1
        messages: list[Any] = []
        data = b""
        while wanted > 0:
            data += self.process.read_some()
            *lines, data = data.split(b"\n")
            for line in lines:
                message = json.loads(line)
                messages.append(message)
                if isinstance(message, list) or "error" in message:
                    wanted = 0
                wanted -= "result" in message
        return messages

    def _asked(self) -> list[Any]:
        self.process.write(self.request)
        first = json.loads(self.process.read_lines(1))
        if self.row.way == "pushed":
            self._send(self.row.answer(first))
        else:
            self._send(self.row.second("call", first))
        return [first, json.loads(self.process.read_lines(1))]

    def run(self, seconds: float) -> Run:
        """Exchange for about so many seconds."""
        if self.row.kind == "pipelined":
            return measured(self.process, lambda: self._pipelined(seconds))
        step = self._asked if self.row.kind == "ask" else self._step
        step()
        return measured(self.process, lambda: self._one_by_one(step, seconds))

    def _one_by_one(self, step: Callable[[], Any], seconds: float) -> int:
        clock = time.perf_counter
        deadline = clock() + seconds
        step()
        done = 1
        while clock() < deadline:
            step()
            done += 1
        return done

    def _step(self) -> None:
        self.process.write(self.request)
        self.process.read_lines(self.lines)

    def _pipelined(self, seconds: float) -> int:
        """For each answer that comes in a request goes out. An id is used again 512 requests later."""
        clock = time.perf_counter
        window, process = self.window, self.process
        sent = rows.IN_FLIGHT
        got = 0
        deadline = clock() + seconds
        process.write(b"".join(window[:sent]))
        while got < sent:
            count = process.read_some().count(b"\n")
            got += count
            if clock() < deadline:
                position = sent % len(window)
                process.write(b"".join((window + window)[position : position + count]))
                sent += count
        return got

    def close(self) -> None:
        """End the server."""
        self.process.close()


# Clients --------------------------------------------------------------------------------------------------------------


class ClientLoad:
    """A client of `bench/clients`, which calls the server at `port` when it is told to."""

    def __init__(self, row: Row, python: Path, script: Path, port: int) -> None:
        self.callers = rows.CALLERS if row.kind == "many" else 1
        self.process = Process(python, script, f"http://127.0.0.1:{port}/mcp", row.revision)

    def verify(self) -> list[Any]:
        """Wait until it has made a call, whose answer it checks. Raises `Wrong`."""
        self.process.read_lines(1)
        return []

    def run(self, seconds: float) -> Run:
        """Have it call for about so many seconds. The processor time is the client's."""
        self.process.write(f"{seconds} {self.callers}\n".encode())
        made = json.loads(self.process.read_lines(1))
        return Run(made["exchanges"], made["seconds"], made["processor"])

    def close(self) -> None:
        """End the client."""
        self.process.close()


def first_answer(row: Row, start: Callable[[], Process]) -> Run:
    """Start a process, wait for its first answer, and end it."""
    started = time.perf_counter()
    process = start()
    try:
        process.write(rows.pack(row.request("call") if row.is_new else row.initialize()) + b"\n")
        line = process.read_lines(1)
        run = Run(1, time.perf_counter() - started, process.processor_time())
        row.check([json.loads(line)])
        return run
    finally:
        process.close()


def measured(process: Process, exchange: Callable[[], int]) -> Run:
    """Time `exchange`, which gives how many it made."""
    computed, started = process.processor_time(), time.perf_counter()
    exchanges = exchange()
    return Run(exchanges, time.perf_counter() - started, process.processor_time() - computed)

"""Servers of HTTP that a test writes by hand, on bare sockets and in threads, for clients on any loop or on none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import attrs

from flags import PATIENCE
from mcp_sansio.wire.json import decode, encode
from talk import Connection

JSON = Any


@attrs.frozen
class Request:
    """A request as it came over the socket."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> JSON:
        """The message in it."""
        return decode(self.body) if self.body else None


Answer = Callable[[Request, "Accepted"], None]


class Accepted(Connection):
    """A connection of a client's."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.is_open = True
        self._held = b""

    def request(self) -> Request | None:
        """The next request, or ``None`` where the client has ended the connection."""
        try:
            head = self.until(b"\r\n\r\n").decode("latin-1")
        except EOFError:
            return None
        first, *lines = head.rstrip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        method, path, _ = first.split(" ")
        return Request(method, path, headers, self.exactly(int(headers.get("content-length", 0))))

    def close(self) -> None:
        """End it in an orderly way, also where the client has said something that was not read."""
        self.is_open = False
        self.shut()
        self.socket.close()

    def shut(self) -> None:
        """Let nothing come and go any more."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was faster

    def reset(self) -> None:
        """End it by a reset."""
        self.is_open = False
        super().reset()

    def until_it_ends(self) -> None:
        """Return when the client has ended the connection, whatever it says before."""
        self.rest()


@contextmanager
def serving_by_hand(converse: Callable[[Accepted], None]) -> Iterator[str]:
    """A server that has `converse` deal with each connection, in a thread of its own. What is given is its URL.

    At its end no client may have a connection left.
    """
    listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
    host, port = listener.getsockname()
    threads: list[threading.Thread] = []
    failed: list[BaseException] = []

    def run(connection: Accepted) -> None:
        try:
            converse(connection)
        except (ConnectionError, EOFError):
            pass  # the client has what it wants, or wants no more
        except BaseException as error:
            failed.append(error)
        finally:
            if connection.is_open:
                connection.close()

    def accept() -> None:
        while True:
            try:
                accepted, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=run, args=(Accepted(accepted),), name="by hand", daemon=True))
            threads[-1].start()

    accepting = threading.Thread(target=accept, name="accepting", daemon=True)
    accepting.start()
    try:
        yield f"http://{host}:{port}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # closing alone would leave the thread in accept()
        listener.close()
        accepting.join(PATIENCE)
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "the client has left a connection open"
    if failed:
        raise failed[0]


@contextmanager
def listening(answer: Answer) -> Iterator[str]:
    """A server whose every request is for `answer` to deal with. What is given is its URL."""

    def converse(connection: Accepted) -> None:
        while connection.is_open and (request := connection.request()) is not None:
            answer(request, connection)

    with serving_by_hand(converse) as url:
        yield url


def plain(status: int, *headers: str, body: bytes = b"") -> bytes:
    """A response with that body."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def json_reply(message: JSON, *headers: str, status: int = 200) -> bytes:
    """A response that is a message."""
    body = message if isinstance(message, bytes) else encode(message)
    return plain(status, "Content-Type: application/json", *headers, body=body)


def event_stream(*messages: JSON) -> bytes:
    """The head of a stream, and `messages` on it. It ends when the connection does."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return head + b"".join(b"data: " + encode(message) + b"\n\n" for message in messages)


def result(request: Request, text: str = "done") -> JSON:
    """The response that says `text` to the call of a tool."""
    held = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": held}


def initialized(request: Request, version: str) -> JSON:
    """The response to a handshake."""
    info = {"name": "by hand", "version": "0"}
    held = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": held}

"""What a client of HTTP says and hears on a bare socket, from a thread that may block, with no HTTP library between.

`Connection` is the socket, `Response` what comes back on it while it comes, `Client` a client of one revision, and
`PairClient` one of the first HTTP transport. What a server says is held against the schema of the client's revision.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import attrs

import speak
from flags import PATIENCE
from heard import JSON, Answer, Events, Speaker, address_in
from mcp_sansio.wire.json import encode
from mcp_sansio.wire.sse import ServerSentEvent

#: Statuses whose responses have no body.
_BODILESS = {204, 304}


#: The connections that tests have opened, so that none outlives its test.
opened: set[Connection] = set()


class Connection:
    """A connection to a server."""

    def __init__(self, host: str, port: int, *, receive_buffer: int | None = None, tells: bool = True) -> None:
        self._tells = tells
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.connect((host, port))
        except OSError:
            self.socket.close()
            raise
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._held = b""
        opened.add(self)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.socket.sendall(data)

    def receive(self) -> bytes:
        """What comes next, as it comes; nothing at the end."""
        held, self._held = self._held, b""
        return held or self.socket.recv(2**16)

    def give_back(self, data: bytes) -> None:
        """What was received too much."""
        self._held = data + self._held

    def until(self, mark: bytes) -> bytes:
        """What comes up to `mark`, with it. Raises ``EOFError`` where the connection ends before."""
        read = b""
        while mark not in read:
            data = self.receive()
            if not data:
                raise EOFError(read)
            read += data
        upto, _, rest = read.partition(mark)
        self.give_back(rest)
        return upto + mark

    def exactly(self, size: int) -> bytes:
        """So many bytes."""
        read = b""
        while len(read) < size:
            data = self.receive()
            if not data:
                raise EOFError(read)
            read += data
        self.give_back(read[size:])
        return read[:size]

    def rest(self) -> bytes:
        """What comes until the server ends the connection, in whatever way."""
        read = []
        try:
            while data := self.receive():
                read.append(data)
        except ConnectionError:
            pass  # it was cut while there was something left to read for the server
        return b"".join(read)

    def half_close(self) -> None:
        """Say that nothing more will come."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the server has ended the connection already

    def reset(self) -> None:
        """End it at once, so that the server's next write fails."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        opened.discard(self)
        self.socket.close()

    def leave(self) -> None:
        """Go away, and return when the server has seen that, if it looks: it ends the connection, too."""
        if self._tells:
            self.half_close()
            self.rest()
        self.close()

    def close(self) -> None:
        """Close the socket."""
        opened.discard(self)
        self.socket.close()

    @property
    def is_idle(self) -> bool:
        """Whether another request can be sent: the server has neither said anything nor ended it."""
        return not self.can_be_read(0)

    def can_be_read(self, seconds: float) -> bool:
        """Whether something comes within that time, be it the end."""
        return bool(self._held or select.select([self.socket], [], [], seconds)[0])


#: What servers of HTTP put into every response by themselves, of which the core knows nothing.
ADDED = {"date", "server", "connection", "transfer-encoding", "keep-alive"}


class Response:
    """A response while it comes."""

    def __init__(self, connection: Connection, *, method: str = "POST") -> None:
        self.connection = connection
        self.status = 100
        while self.status < 200:
            head = connection.until(b"\r\n\r\n").decode("latin-1").removesuffix("\r\n\r\n")
            first, *lines = head.split("\r\n")
            self.version, status, *_ = first.split(" ", 2)
            self.status = int(status)
        self.raw_headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        #: By their names as the core writes them.
        self.headers = {_titled(name): value for name, value in self.raw_headers}
        self._bodiless = method == "HEAD" or self.status in _BODILESS
        self.ended = False
        #: Whether it is known to have ended, so that reading on waits for nothing.
        self.is_whole = self._bodiless or self.headers.get("Content-Length") == "0"
        self._pieces = self._framed()

    def _framed(self) -> Iterator[bytes]:
        if self._bodiless:
            return
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            yield from self._chunks()
        elif "Content-Length" in self.headers:
            left = int(self.headers["Content-Length"])
            while left:
                data = self.connection.receive()
                if not data:
                    raise EOFError(f"{left} bytes of the body are missing")
                piece, rest = data[:left], data[left:]
                left -= len(piece)
                self.is_whole = left == 0
                if rest:
                    self.connection.give_back(rest)
                yield piece
        else:
            while data := self.connection.receive():
                yield data

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.connection.until(b"\r\n").partition(b";")[0], 16):
            piece = self.connection.exactly(size)
            assert self.connection.exactly(2) == b"\r\n"
            yield piece
        assert self.connection.until(b"\r\n") == b"\r\n", "a trailer"

    def piece(self) -> bytes:
        """What comes next of the body, as it comes; nothing at the end."""
        try:
            return next(self._pieces)
        except StopIteration:
            self.ended = True
            return b""

    def read(self) -> bytes:
        """The rest of the body."""
        pieces = []
        while piece := self.piece():
            pieces.append(piece)
        return b"".join(pieces)

    @property
    def own_headers(self) -> dict[str, str]:
        """The headers without those that servers of HTTP add."""
        return {name: value for name, value in self.headers.items() if name.lower() not in ADDED}

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection serves another request after this."""
        said = self.headers.get("Connection", "").lower()
        return self.ended and said != "close" and (self.version != "HTTP/1.0" or said == "keep-alive")


def _titled(name: str) -> str:
    """``content-type`` as ``Content-Type``: servers may write names in any case."""
    return "-".join(part.capitalize() for part in name.split("-"))


class Stream(Events):
    """A response that is a stream of events, while it comes."""

    def __init__(self, response: Response, version: str, methods: Mapping[JSON, str]) -> None:
        super().__init__(version, methods)
        self.response = response

    def event(self) -> ServerSentEvent | None:
        """The next event, as soon as it is there, or ``None`` at the end."""
        while (event := self.heard()) is None:
            data = self.response.piece()
            if not data:
                return None
            self.hear(data)
        return event

    def message(self) -> JSON:
        """The next message, or ``None`` at the end."""
        while (event := self.event()) is not None:
            if (message := self.message_of(event)) is not None:
                return message
        return None

    def rest(self) -> list[JSON]:
        """The messages up to the end."""
        return [*iter(self.message, None)]

    def leave(self) -> None:
        """Go away, and return when the server has seen it."""
        self.response.connection.leave()


@attrs.frozen
class Place:
    """Where a server is, and at which path."""

    host: str
    port: int
    path: str = "/mcp"
    is_told_of_leaving: bool = True

    @classmethod
    def of(cls, serving: Any, path: str) -> Place:
        """Where a server of `plugs` is."""
        return cls(serving.host, serving.port, path, serving.is_told_of_leaving)

    def connect(self, **options: Any) -> Connection:
        """A connection to it."""
        return Connection(self.host, self.port, tells=self.is_told_of_leaving, **options)


def request(
    method: str, target: str, headers: Mapping[str, str] | Sequence[tuple[str, str]], body: bytes | None
) -> bytes:
    """The bytes of a request. `headers` may be pairs, where one comes twice."""
    given = list(headers.items() if isinstance(headers, Mapping) else headers)
    if "host" not in (name.lower() for name, _ in given):
        given.insert(0, ("Host", "localhost"))
    if body is not None:
        given.append(("Content-Length", str(len(body))))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in given), "", ""]
    return "\r\n".join(lines).encode("latin-1") + (body or b"")


class Client(Speaker):
    """A client of Streamable HTTP of one revision. It keeps a connection alive, as browsers and libraries do."""

    def __init__(self, version: str, place: Any, path: str = "/mcp", **options: Any) -> None:
        super().__init__(version, **options)
        self.place = Place.of(place, path)
        self._idle: Connection | None = None

    def close(self) -> None:
        """Let go of the connection that is kept alive."""
        if self._idle is not None:
            self._idle.close()

    def open(self) -> Client:
        """Make the handshake, where the revision has one."""
        if self.adapter.has_handshake:
            opened = self.post(self.initialize(), headers={"MCP-Protocol-Version": None})
            assert opened.status == 200, opened
            self.session = opened.headers["Mcp-Session-Id"]
            assert self.post(speak.notification("notifications/initialized")).status == 202
        return self

    def begin(
        self, message: JSON = None, *, method: str = "POST", headers: Mapping[str, str | None] = {}, path: str = ""
    ) -> Connection:
        """Send a message; the connection on which its response will come, which is the caller's to close."""
        given, body = self.written(message, headers)
        connection, self._idle = self._idle, None
        if connection is None or not connection.is_idle:
            if connection is not None:
                connection.close()
            connection = self.place.connect()
        connection.send(request(method, path or self.place.path, given, body))
        return connection

    def finish(self, connection: Connection, message: JSON = None, *, method: str = "POST") -> Answer:
        """The whole response to what `begin` sent."""
        response = Response(connection, method=method)
        answer = Answer(response.status, response.own_headers, response.read())
        self._keep(connection, response)
        return self.checked(answer, message)

    @contextmanager
    def streaming(
        self, message: JSON = None, *, method: str = "POST", headers: Mapping[str, str | None] = {}
    ) -> Iterator[Stream]:
        """Send a message, and read what comes back as it comes."""
        connection = self.begin(message, method=method, headers=headers)
        try:
            response = Response(connection, method=method)
            yield Stream(response, self.version, speak.methods_of(message))
        except BaseException:
            connection.close()
            raise
        self._keep(connection, response)

    def _keep(self, connection: Connection, response: Response) -> None:
        if response.keeps_alive and self._idle is None:
            self._idle = connection
        else:
            connection.close()

    def send(
        self, method: str, message: JSON = None, *, headers: Mapping[str, str | None] = {}, path: str = ""
    ) -> Answer:
        """Send a message, and read the whole response."""
        connection = self.begin(message, method=method, headers=headers, path=path)
        return self.finish(connection, message, method=method)

    def post(self, message: JSON, *, headers: Mapping[str, str | None] = {}) -> Answer:
        """POST a message."""
        return self.send("POST", message, headers=headers)

    def call(self, name: str, *, id: JSON = 1, token: JSON = None, **arguments: JSON) -> JSON:
        """Call a tool: the message that answers it."""
        return self.post(self.calling(name, id=id, token=token, **arguments)).messages[-1]

    def listening(self) -> Any:
        """The session's standalone stream."""
        return self.streaming(method="GET")


class PairClient(speak.Speaker):
    """A client of the first HTTP transport: it reads the stream at `path`, and sends to the address that it is told."""

    #: What the server says, once it is open.
    stream: Stream

    def __init__(self, place: Any, path: str = "/sse", version: str = speak.VERSIONS[-1], **options: Any) -> None:
        super().__init__(version, cast("Any", None), **options)
        self.place = Place.of(place, path)
        self.where = ""
        self._methods: dict[JSON, str] = {}

    @contextmanager
    def open(self) -> Iterator[PairClient]:
        """Open the stream, and make the handshake."""
        with self.place.connect() as connection:
            connection.send(request("GET", self.place.path, {"Accept": "text/event-stream"}, None))
            response = Response(connection)
            assert response.status == 200, response.read()
            self.stream = Stream(response, self.version, self._methods)
            self.where = address_in(self.stream.event())
            self.request(self.initialize())
            self.send(speak.notification("notifications/initialized"))
            yield self

    def post(self, where: str, body: bytes, headers: Mapping[str, str] = {}) -> Answer:
        """POST to an address."""
        with self.place.connect() as connection:
            connection.send(request("POST", where, {"Content-Type": "application/json", **headers}, body))
            response = Response(connection)
            return Answer(response.status, response.own_headers, response.read())

    def send(self, message: JSON) -> None:
        """Send a message."""
        self._methods |= speak.methods_of(message)
        answer = self.post(self.where, encode(message))
        assert (answer.status, answer.body) == (202, b""), answer

    def request(self, message: JSON) -> JSON:
        """Send a request: the next message that comes."""
        self.send(message)
        return self.stream.message()

    def call(self, name: str, *, id: JSON = 1, token: JSON = None, **arguments: JSON) -> JSON:
        """Call a tool: the next message that comes."""
        return self.request(self.message("tools/call", {"name": name, "arguments": arguments}, id=id, token=token))

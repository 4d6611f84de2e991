"""The bodies of requests: how long they may be, how they come, and what of them ends the connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import speak
from heard import ACCEPT, text_of
from hosting import connections, serving, until
from mcp_sansio import Config, Registry
from plugs import HttpServer, Serving
from talk import Client, Connection, Response

NEWEST = speak.VERSIONS[0]
MIB = 2**20


def registry() -> Registry:
    made = Registry("sizes", "1.0")

    @made.tool
    async def size(text: str) -> str:
        """How long a text is."""
        return str(len(text))

    return made


def post_raw(place: Serving, pieces: Iterator[bytes], *headers: str) -> tuple[int, bytes, bool]:
    """POST a body in pieces: the status, the response, and whether the server let all of the body in."""
    with Connection(place.host, place.port) as connection:
        head = ["POST /mcp HTTP/1.1", "Host: localhost", f"Accept: {ACCEPT}", "Content-Type: application/json"]
        connection.send("\r\n".join([*head, *headers, "", ""]).encode())
        let_in = True
        try:
            for piece in pieces:
                connection.send(piece)
        except (ConnectionError, TimeoutError):
            let_in = False
        response = connection.until(b"\r\n\r\n")
        if let_in and b"\r\nconnection: close\r\n" in response.lower():
            response += connection.rest()
        return int(response.split()[1]), response, let_in


def pieces(size: int, *, chunked: bool) -> Iterator[bytes]:
    """A body of spaces."""
    piece = b" " * 2**16
    for _ in range(size // len(piece)):
        yield b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece
    if chunked:
        yield b"0\r\n\r\n"


CHUNKED = "Transfer-Encoding: chunked"


@pytest.mark.wants("connections")
@pytest.mark.parametrize("form", ["chunked", "with a length"])
def test_a_body_over_the_limit_is_refused_and_the_connection_ended(http_server: HttpServer, form: str) -> None:
    """A little over is read to its end, so that a client which writes first and reads then gets its answer."""
    size = MIB + 2**18
    header = CHUNKED if form == "chunked" else f"Content-Length: {size}"
    with serving(http_server, registry(), config=Config(max_message=MIB)) as place:
        status, response, let_in = post_raw(place, pieces(size, chunked=form == "chunked"), header)
    assert (status, let_in) == (413, True)
    assert b"\r\nconnection: close\r\n" in response.lower()
    assert b"the body is larger than 1048576 bytes" in response


@pytest.mark.wants("connections")
def test_a_body_far_over_the_limit_is_not_read(http_server: HttpServer) -> None:
    with serving(http_server, registry(), config=Config(max_message=MIB)) as place:
        with Connection(place.host, place.port) as connection:
            head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{CHUNKED}\r\n\r\n"
            connection.send(head.encode())
            rest = pieces(50 * MIB, chunked=True)
            while connection.is_idle:  # until there is an answer
                connection.send(next(rest))
            assert Response(connection).status == 413
            with pytest.raises(ConnectionError):
                connection.send(b"".join(rest))
        until(lambda: connections(place) == 0, "the connection is kept")


@pytest.mark.wants("connections")
def test_a_refused_request_ends_its_connection_only_where_the_body_is_not_there(http_server: HttpServer) -> None:
    with serving(http_server, registry()) as place:
        client = Client(NEWEST, place)
        connection = client.begin(client.calling("size", text=""), headers={"Content-Type": "text/plain"})
        whole = client.finish(connection)
        assert client.begin(client.calling("size", text="")) is connection
        status, response, _ = post_raw(place, iter(()), "Content-Length: 10", "Origin: https://evil.example")
    assert whole.status == 415
    assert (status, b"\r\nconnection: close\r\n" in response.lower()) == (403, True)


def test_no_limit_of_the_http_library_applies(http_server: HttpServer) -> None:
    """The core counts, by `Config.max_message`."""
    with serving(http_server, registry()) as place:
        assert text_of(Client(NEWEST, place).call("size", text="x" * 2**21)) == str(2**21)


def test_a_client_that_leaves_within_its_body_leaves_nothing(http_server: HttpServer) -> None:
    with serving(http_server, registry()) as place:
        with Connection(place.host, place.port) as connection:
            head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
            connection.send(head.encode() + b"\r\n{")
            connection.leave()
        assert text_of(Client(NEWEST, place).call("size", text="xyz")) == "3"
        until(lambda: connections(place) <= 1, "the connection is kept")

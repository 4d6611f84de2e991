"""The transcripts over HTTP, on a real socket: what comes back is what the pure core says."""

from __future__ import annotations

import attrs
import pytest

import bakery
import transcripts
from flags import PATIENCE, Flag
from hosting import serving, settle
from mcp_sansio import Head
from plugs import HttpServer, Serving
from talk import ADDED, Connection, Response, request
from worlds import at_once

#: The clock, and the server's end, are nobody's to move here.
PLAYED = [one for one in transcripts.playable() if not one.is_channel and one.is_the_clients_alone]


class HttpSide:
    """A client at a socket. Nothing in it is awaited."""

    def __init__(self, place: Serving) -> None:
        self._place = place
        self._sent: dict[str, tuple[Connection, str]] = {}
        self._responses: dict[str, Response] = {}
        #: What came in one piece with what was wanted.
        self._left: dict[str, bytes] = {}

    async def send(self, label: str, lines: list[str]) -> None:
        """See `transcripts.Side.send`."""
        sent = transcripts.Request.of(lines)
        self._finish(label)
        connection = Connection(self._place.host, self._place.port)
        self._sent[label] = connection, sent.method
        connection.send(request(sent.method, sent.target, sent.headers, sent.body or None))

    async def move(self, move: transcripts.Move) -> None:
        """See `transcripts.Side.move`."""
        assert move.leaves is not None
        connection, _ = self._sent.pop(move.leaves)
        connection.close()

    async def settle(self) -> None:
        """See `transcripts.Side.settle`."""
        settle(self._place)

    async def output(self, like: transcripts.Output) -> transcripts.Output:
        """See `transcripts.Side.output`."""
        connection, method = self._sent[like.label]
        head, data, ended = None, b"", False
        if like.label not in self._responses and (like.head or like.data or like.ended):
            self._responses[like.label] = Response(connection, method=method)
        response = self._responses[like.label]
        if like.head is not None:
            head = _head_of(response)
        left = self._left.pop(like.label, b"")
        while len(left) < len(like.data) and (piece := response.piece()):
            left += piece
        data, left = left[: len(like.data)], left[len(like.data) :]
        if like.ended:
            data += left + response.read()
            ended = True
        else:
            self._left[like.label] = left
        return attrs.evolve(like, head=head, data=data, ended=ended)

    def close(self) -> None:
        """Leave everything. Fails where something was said that nobody expected."""
        for label in [*self._sent]:
            self._finish(label)

    def _finish(self, label: str) -> None:
        if label not in self._sent:
            return
        connection, _ = self._sent.pop(label)
        response = self._responses.pop(label, None)
        assert self._left.pop(label, b"") == b"", label
        if response is None or not response.ended:
            assert not connection.can_be_read(0), label
        connection.close()


def _head_of(response: Response) -> Head:
    """Without what servers add. They also count the bytes of a body that is empty, and of a stream that is complete."""
    is_counted = response.headers.get("Content-Type") == transcripts.STREAM_TYPE
    added = ADDED | {"content-length"} if is_counted or response.headers.get("Content-Length") == "0" else ADDED
    wanted = [(name, value) for name, value in response.raw_headers if name.lower() not in added]
    return Head(response.status, tuple((_as_written(name), value) for name, value in wanted))


def _as_written(name: str) -> str:
    """A header's name as the core writes it: some servers write all of them in lower case."""
    return SPELT.get(name.lower(), name.title()) if name.islower() else name


#: Names that are not spelt as most are.
SPELT = {"www-authenticate": "WWW-Authenticate", "mcp-session-id": "Mcp-Session-Id"}


@pytest.mark.parametrize(
    ("version", "transcript"), [pytest.param(one.version, one, id=f"{one.version}-{one.name}") for one in PLAYED]
)
def test_transcripts_come_out_as_the_core_has_them(
    http_server: HttpServer, version: str, transcript: transcripts.Transcript
) -> None:
    options = {"config": transcript.config, "adapters": transcript.adapters, "patience": PATIENCE}
    pair = transcript.adapters is None or transcript.adapters.with_handshake() is not None
    with serving(http_server, bakery.build(Flag), pair=pair, user_header="Authorization", **options) as place:
        side = HttpSide(place)
        at_once(transcripts.replay(transcript, side))
        side.close()

"""Cases 30 to 42: event streams as they are read and written, lost, resumed and kept open."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import speak
from mcp_sansio import Config
from mcp_sansio.testing import SimulatedHttp
from mcp_sansio.wire.json import decode
from mcp_sansio.wire.sse import EventDecoder, Oversize, ServerSentEvent, encode_comment, encode_event

from .common import ENVELOPE, HANDSHAKE, Shop, error, summary, text

JSON = Any
Event = ServerSentEvent
MESSAGE = b'{"jsonrpc":"2.0","id":1,"result":{}}'
ODD = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\u001dh\u001ei"


def read(*pieces: bytes, ends: bool = True, most: int = 2**20) -> list[ServerSentEvent | Oversize]:
    """The events of a stream that came in those pieces."""
    decoder = EventDecoder(most)
    events: list[ServerSentEvent | Oversize] = []
    for piece in pieces:
        decoder.receive_data(piece)
        events += decoder.events()
    if ends:
        decoder.receive_eof()
        events += decoder.events()
    return events


STREAMS: dict[str, tuple[bytes, list[ServerSentEvent | Oversize]]] = {
    "lf": (b"event: message\ndata: " + MESSAGE + b"\n\n", [Event(MESSAGE)]),
    "crlf": (b"event: message\r\ndata: " + MESSAGE + b"\r\n\r\n", [Event(MESSAGE)]),
    "cr": (b"event: message\rdata: " + MESSAGE + b"\r\r", [Event(MESSAGE)]),
    "two by cr": (b"data: x\r\rdata: y\r\r", [Event(b"x"), Event(b"y")]),
    "cr then lf": (b"data: x\r\n\ndata: y\n\r\n", [Event(b"x"), Event(b"y")]),
    "mixed": (b'data: {"a":\r\ndata: 1}\r\n\r\n', [Event(b'{"a":\n1}')]),
    "mixed more": (b"data: 1\rdata: 2\ndata: 3\r\ndata: 4\n\r\r\n", [Event(b"1\n2\n3\n4")]),
    "lf cr lf": (b"data: x\n\r\ndata: y\r\n\r", [Event(b"x"), Event(b"y")]),
    "odd separators": (b"data: " + ODD.encode() + b"\n\n", [Event(ODD.encode())]),
    "a blank of another kind": ("data: a\u00a0\n\u2028\n\n".encode(), [Event("a\u00a0".encode())]),
    "many bytes a character": ("data: né🌍漢\r\n\r\n".encode(), [Event("né🌍漢".encode())]),
    "priming": (
        b"id: s1/0\nretry: 3000\ndata:\n\ndata: x\n\n",
        [Event(b"", id="s1/0", retry=3000), Event(b"x", id="s1/0")],
    ),
    "no data": (b"id: s1/0\n\ndata: x\n\n", [Event(b"x", id="s1/0")]),
    "data of a blank": (b"data: \n\n", [Event(b"")]),
    "two lines of nothing": (b"data:\ndata:\n\n", [Event(b"\n")]),
    "no colon": (b"data\n\n", [Event(b"")]),
    "an event alone": (b"event: x\n\ndata: y\n\n", [Event(b"y")]),
    "comments": (b": ping\n\n:\n:data: no\ndata: y\n\n", [Event(b"y")]),
    "byte order mark": (b"\xef\xbb\xbfdata: x\n\n\xef\xbb\xbfdata: y\n\n", [Event(b"x")]),
    "id of NUL": (b"id: a\ndata: x\n\nid: b\0c\ndata: y\n\n", [Event(b"x", id="a"), Event(b"y", id="a")]),
    "ids are taken back": (b"id: a\ndata: x\n\nid\ndata: y\n\n", [Event(b"x", id="a"), Event(b"y")]),
    "retry of nonsense": (b"retry: 1e3\nretry: -1\nretry:\ndata: x\n\n", [Event(b"x")]),
    "unknown fields": (b"Data: no\nfoo: bar\ndata: x\n\n", [Event(b"x")]),
    "not ended": (b"data: x\n\ndata: y", [Event(b"x")]),
    "not ended but for a line": (b"data: x\n\ndata: y\n", [Event(b"x")]),
    "nothing": (b"", []),
}


@pytest.mark.parametrize(("stream", "events"), STREAMS.values(), ids=STREAMS)
def test_case_30_and_31_any_line_end_and_any_cut(stream: bytes, events: list[Any]) -> None:
    assert read(stream) == events
    assert read(*(stream[at : at + 1] for at in range(len(stream)))) == events
    for at in range(len(stream) + 1):
        assert read(stream[:at], stream[at:]) == events
        assert read(stream[:at], b"", stream[at : at + 1], b"", stream[at + 1 :]) == events


def test_case_31_a_cr_at_the_end_of_a_piece_may_end_the_event_already() -> None:
    assert read(b"data: x\r", b"\r", ends=False) == [Event(b"x")]
    assert read(b"data: x\r\n\r", ends=False) == [Event(b"x")]
    assert read(b"data: x\r\n\r", b"\ndata: y\n", b"\n", ends=False) == [Event(b"x"), Event(b"y")]


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_32_odd_separators_pass_through_a_stream_and_a_channel(version: str) -> None:
    shop = Shop()
    for end in ("http", "channel"):
        client = shop.client(end, version)
        call = client.call("echo", {"text": ODD})
        assert (call.messages if end == "http" else call) == [text(version, 1, ODD)]
    streamed = shop.client("http", version)
    reply = streamed.call("echo", {"text": ODD}, headers={"Accept": "text/event-stream"})
    assert (reply.is_stream, reply.messages) == (True, [text(version, 1, ODD)])
    # As they are where JSON allows: only what JSON must escape is escaped.
    assert "\u2028b\u2029c\u0085d" in reply.body.decode()
    assert shop.heard == [ODD] * 3


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_33_only_who_knows_of_it_is_sent_an_event_without_data(version: str) -> None:
    client = Shop().client("http", version)
    streams = [client.call("nap", {"name": "a"}, token=1), client.get()]
    primes = client.adapter.primes_streams
    for stream in streams:
        first = stream.events()[:1]
        if primes:
            assert [(event.data, event.retry, bool(event.id)) for event in first] == [(b"", 1000, True)]
        else:
            assert all(event.data for event in first)
    assert primes == (version >= "2025-11-25")
    # Nor is it sent where there is no session, to which nobody could come back.
    client.session = None
    alone = client.call("nap", {"name": "b"}, token=1)
    assert [(event.id, bool(event.data)) for event in alone.events()] == [(None, True)]


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_33_where_nothing_is_resumed_no_event_has_an_id(version: str) -> None:
    shop = Shop()
    client = shop.client("http", version)
    listening = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    napping = client.call("nap", {"name": "a"}, token=1)
    shop.registry.remove_tool("echo")
    shop.open("a")
    for stream in (listening, napping):
        assert len(stream.events()) >= 2
        assert b"id:" not in stream.body.replace(b'"id":', b"")
        assert all(event.id is None and event.retry is None and event.data for event in stream.events())
    # And coming back with one is no way in.
    assert shop.simulation.http(method="GET", headers={**client.headers(), "Last-Event-ID": "1-1"}).status == 405


WORLD = "né🌍漢"


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_34_a_body_may_be_cut_anywhere(version: str) -> None:
    shop = Shop()
    client = shop.client("http", version)
    message = client.message("tools/call", {"name": "echo", "arguments": {"text": WORLD}})
    body = speak.wire(message)
    assert len(body) > len(body.decode())
    for at in range(len(body) + 1):
        transaction = shop.simulation.server.http_transaction()
        exchange = SimulatedHttp(shop.simulation, transaction)
        shop.simulation.peers[:] = [exchange]
        transaction.receive_request("POST", "/mcp", {**client.headers(message), "Content-Type": "application/json"})
        transaction.receive_body(body[:at])
        transaction.receive_body(body[at:])
        transaction.receive_end()
        shop.simulation.settle()
        speak.assert_json(exchange, 200, text(version, 1, WORLD))


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_case_34_half_a_character_is_an_error(cut: int) -> None:
    whole = '{"jsonrpc":"2.0","id":1,"method":"ping","x":"🌍'.encode()
    body = whole[:-cut]
    shop = Shop()
    fault = error(..., -32700, f"the body is not JSON: not UTF-8 (byte {len(whole) - 4})")
    speak.assert_json(shop.simulation.http(body), 400, fault)
    assert shop.simulation.channel().send(body) == [fault]
    # Nor is it made whole by what follows, as a lenient decoder would.
    assert shop.simulation.channel().send(body + b'"}') == [fault]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r", b"\r\n"])
def test_case_35_an_event_without_its_blank_line_is_dropped_at_the_end(end: bytes) -> None:
    decoder = EventDecoder(2**20)
    decoder.receive_data(b"id: 1\ndata: x\n\nid: 2\ndata: " + MESSAGE + end)
    decoder.receive_eof()
    assert list(decoder.events()) == [Event(b"x", id="1")]
    # What was not delivered is asked for again.
    assert decoder.last_event_id == "1"


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_35_each_event_that_is_written_is_closed_at_once(version: str) -> None:
    shop = Shop()
    call = shop.client("http", version).call("nap", {"name": "a"}, token=1)
    for _ in range(2):
        assert call.body.endswith(b"\n\n")
        assert all(event.data or event.id for event in call.events())
        assert b"\r" not in call.body
        shop.open("a")
    assert call.messages[-1] == text(version, 1, "a")
    assert [encode_event(data) for data in (b"", b"x", b"x\ny", b"x\r\ny", b"x\ry")] == [
        b"data:\n\n",
        b"data: x\n\n",
        b"data: x\ndata: y\n\n",
        b"data: x\ndata: y\n\n",
        b"data: x\ndata: y\n\n",
    ]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_37_an_event_id_opens_its_own_stream_alone(version: str) -> None:
    shop = Shop()
    client = shop.client("http", version)
    first = client.call("nap", {"name": "first"}, id=1, token=1)
    second = client.call("nap", {"name": "second"}, id=2, token=2)
    other = shop.client("http", version)
    stranger = shop.client("http", version)
    theirs = other.call("nap", {"name": "theirs"}, id=1, token=1)
    shop.open("theirs")
    for call in (first, second):
        call.disconnect()
    shop.open("first")
    shop.open("second")

    def resumed(speaker: Any, event_id: str | None) -> JSON:
        return speaker.get(headers={"Last-Event-ID": event_id or ""})

    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 2}}
    last_id = {call: call.events()[-1].id for call in (first, second, theirs)}
    assert resumed(client, last_id[first]).messages == [progress, text(version, 1, "first")]
    progress["params"] = {"progressToken": 2, "progress": 2}
    assert resumed(client, last_id[second]).messages == [progress, text(version, 2, "second")]

    refusals = [
        resumed(client, last_id[theirs]),
        resumed(other, last_id[first]),
        resumed(stranger, last_id[first]),
        *(resumed(client, made) for made in made_up(last_id[first], last_id[second])),
    ]
    nowhere = resumed(client, "no-such")
    assert (nowhere.status, nowhere.header("allow")) == (405, "GET, POST, OPTIONS")
    assert [summary(refusal) for refusal in refusals] == [summary(nowhere)] * len(refusals)


def made_up(first: Any, second: Any) -> list[str]:
    """Ids that are near to real ones."""
    (stream, _, number), (other, _, _) = first.rpartition("-"), second.rpartition("-")
    numbers = ["", "-1", "+1", "1.0", "١", str(int(number) + 100), "9" * 30, "1 ", "0x1"]
    return [f"{stream}-{wrong}" for wrong in numbers] + [stream, f"{other}{stream}-1", f"-{number}", "", " "]


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_38_a_silent_stream_says_something_before_a_proxy_cuts_it(version: str) -> None:
    shop = Shop()
    client = shop.client("http", version)
    quiet = client.call("nap", {"name": "quiet"})
    loud = client.call("nap", {"name": "loud"}, id=2, token=1)
    streams = [quiet, loud]
    if version in ENVELOPE:
        streams.append(client.request("subscriptions/listen", {"notifications": {}}, id=3))
    else:
        streams.append(client.get())
    # What has something to say has its head on the way at once; the rest does when there would be silence.
    assert [stream.head for stream in streams] == [None, speak.STREAM_HEAD, speak.STREAM_HEAD]
    for _ in range(5):
        before = [len(stream.body) for stream in streams]
        shop.simulation.advance(15)
        gained = [stream.body[start:] for stream, start in zip(streams, before, strict=True)]
        assert [piece.endswith(encode_comment()) for piece in gained] == [True] * 3
    assert quiet.head == speak.STREAM_HEAD
    shop.open("quiet")
    assert (quiet.messages[-1], quiet.ended) == (text(version, 1, "quiet"), True)


@pytest.mark.parametrize("seconds", [0.5, 15.0, 600.0])
def test_case_38_a_driver_is_told_when_the_next_sign_is_due(seconds: float) -> None:
    shop = Shop(config=Config(keep_alive=seconds))
    call = shop.client("http", HANDSHAKE[0]).call("nap", {"name": "a"}, token=1)
    assert call.engine.next_deadline() == seconds
    shop.simulation.advance(seconds)
    assert call.engine.next_deadline() == seconds * 2
    shop.open("a")
    assert call.engine.next_deadline() is None


@pytest.mark.parametrize(
    "path", ["/messages", "/a/b/messages", "/a/b/messages/", "/ä b/messages", "/a?b/messages", "/a%2Fb", "/a\nb"]
)
def test_case_40_the_endpoint_says_the_path_that_it_is_given(path: str) -> None:
    stream = Shop().simulation.pair(message_path=path)
    (event,) = stream.events()
    assert isinstance(event, ServerSentEvent)
    where = urlsplit(event.data.decode())
    assert (event.event, where.scheme, where.netloc, unquote(where.path)) == ("endpoint", "", "", path)
    assert where.query.startswith("session_id=")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accepted = stream.simulation.pair(ping, method="POST", target=event.data.decode())
    assert (accepted.status, accepted.body) == (202, b"")
    assert decode(stream.events()[-1].data) == {"jsonrpc": "2.0", "id": 1, "result": {}}  # type: ignore[union-attr]


def test_case_42_the_endpoint_comes_first_and_at_once_and_only_once() -> None:
    shop = Shop()
    stream = shop.simulation.pair()
    for _ in range(3):
        shop.simulation.advance(60)
    shop.registry.remove_tool("echo")
    names = [event.event for event in stream.events() if isinstance(event, ServerSentEvent)]
    assert names == ["endpoint"]
    assert stream.body.startswith(b"event: endpoint\ndata: /messages?session_id=")
    target = stream.events()[0].data.decode()  # type: ignore[union-attr]
    for body in (speak.notification("notifications/initialized"), b"{bad", b"[]"):
        accepted = shop.simulation.pair(body, method="POST", target=target)
        assert (accepted.status, accepted.head and accepted.head.headers, accepted.body) == (202, (), b"")

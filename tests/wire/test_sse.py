"""Event streams: the same events however the bytes are cut, as the HTML standard reads them, in bounded memory."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.errors import LocalProtocolError
from mcp_sansio.wire.sse import EventDecoder, Oversize, ServerSentEvent, encode_comment, encode_event

Events = list[ServerSentEvent | Oversize]
Event = ServerSentEvent
LIMIT = 40

#: What comes in, the events that it is, and the last event id and the delay that stay. Each ends with a blank line.
STREAMS: dict[str, tuple[bytes, Events, str | None, int | None]] = {
    "LF": (b'event: message\ndata: {"a":1}\n\n', [Event(b'{"a":1}')], None, None),
    "CRLF": (b'event: message\r\ndata: {"a":1}\r\n\r\n', [Event(b'{"a":1}')], None, None),
    "CR": (b"data: x\r\rdata: y\r\r", [Event(b"x"), Event(b"y")], None, None),
    "mixed ends": (
        b'data: {"a":\r\ndata: 1}\r\n\r\ndata: x\n\rdata: y\r\n\n',
        [Event(b'{"a":\n1}'), Event(b"x"), Event(b"y")],
        None,
        None,
    ),
    "LF after CR and a blank line": (
        b"data: x\r\n\r\n\r\n\n\r\r\ndata: y\r\r\n",
        [Event(b"x"), Event(b"y")],
        None,
        None,
    ),
    "priming": (
        b"id: s1/0\nretry: 3000\ndata:\n\ndata: x\n\n",
        [Event(b"", "message", "s1/0", 3000), Event(b"x", "message", "s1/0")],
        "s1/0",
        3000,
    ),
    "no data at all": (b"id: 7\nretry: 5\nevent: e\n\ndata: x\n\n", [Event(b"x", "message", "7")], "7", 5),
    "empty data": (b"data: \n\ndata\n\ndata:\ndata:\n\n", [Event(b""), Event(b""), Event(b"\n")], None, None),
    "id is taken back": (b"id: 1\ndata: a\n\nid\ndata: b\n\n", [Event(b"a", "message", "1"), Event(b"b")], None, None),
    "id after data": (b"data: a\nid: 1\n\n", [Event(b"a", "message", "1")], "1", None),
    "id with NUL": (b"id: 1\nid: 2\0\ndata: a\n\n", [Event(b"a", "message", "1")], "1", None),
    "id that is not UTF-8": (b"id: 1\nid: \xff\ndata: a\n\n", [Event(b"a", "message", "1")], "1", None),
    "id of other letters": ("id: ä/漢\ndata: a\n\n".encode(), [Event(b"a", "message", "ä/漢")], "ä/漢", None),
    "event names": (
        b"event: a\nevent: b\ndata:1\n\nevent:\ndata:2\n\nevent: \xff\ndata:3\n\n",
        [Event(b"1", "b"), Event(b"2"), Event(b"3")],
        None,
        None,
    ),
    "bad delays": (
        "".join(f"retry: {bad}\n" for bad in ("-1", "1.5", "+3", " 4", "x", "", "٣", "9" * 16)).encode()
        + b"data: a\n\n",
        [Event(b"a")],
        None,
        None,
    ),
    "good delays": (
        b"retry:0\ndata:\n\nretry: 010\ndata:\n\nretry:" + b"9" * 15 + b"\ndata:\n\ndata:\n\n",
        [*(Event(b"", "message", None, delay) for delay in (0, 10, 10**15 - 1)), Event(b"")],
        None,
        10**15 - 1,
    ),
    "comments": (b":\n\n: ping\n:data: no\n\ndata: a\n: ping\ndata: b\n\n", [Event(b"a\nb")], None, None),
    "one space is taken off": (b"data:a\ndata: b\ndata:  c \ndata:\td\n\n", [Event(b"a\nb\n c \n\td")], None, None),
    "colons in values": (b"data: a: b:\ndata:: c\n\n", [Event(b"a: b:\n: c")], None, None),
    "unknown fields": (b"Data: a\ndata : b\n data: c\nmore\nx:y\n5:5\ndata: d\n\n", [Event(b"d")], None, None),
    "only unknown fields": (b"{\n\nhello\n\n", [], None, None),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\ndata: b\n\n", [Event(b"a"), Event(b"b")], None, None),
    "byte order mark alone": (b"\xef\xbb\xbf\ndata: a\n\n", [Event(b"a")], None, None),
    "byte order mark after a blank line": (b"\n\xef\xbb\xbfdata: a\n\n", [], None, None),
    "second byte order mark": (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [], None, None),
    "other line separators": (
        "data: a\u2028b\u2029c\u0085d\x0be\x0cf\n\n".encode(),
        [Event("a\u2028b\u2029c\u0085d\x0be\x0cf".encode())],
        None,
        None,
    ),
    "characters of several bytes": ("data: né🌍漢\n\n".encode(), [Event("né🌍漢".encode())], None, None),
    "data that is not UTF-8": (b"data: \xff\n\n", [Event(b"\xff")], None, None),
    "at the limit": (b"data: " + b"x" * (LIMIT - 6) + b"\r\n\n", [Event(b"x" * (LIMIT - 6))], None, None),
    "over the limit": (
        b"data: " + b"x" * (LIMIT - 5) + b"\r\n\ndata: y\n\n",
        [Oversize(LIMIT + 1), Event(b"y")],
        None,
        None,
    ),
    "far over the limit": (
        b"id: 1\ndata: " + b"x" * 200 + b"\nid: 2\ndata: z\n\ndata: y\n\n",
        [Oversize(218), Event(b"y", "message", "1")],
        "1",
        None,
    ),
    "over the limit in lines": (
        b"data: y\n" * 5 + b"\n" + b"data: y\n" * 6 + b"\n",
        [Event(b"y\ny\ny\ny\ny"), Oversize(47)],
        None,
        None,
    ),
    "an overlong comment": (
        b":" + b"x" * LIMIT + b"\ndata: x\n\ndata: y\n\n",
        [Oversize(LIMIT + 8), Event(b"y")],
        None,
        None,
    ),
    "an overlong line with a byte order mark": (
        b"\xef\xbb\xbfdata: " + b"x" * (LIMIT - 8) + b"\n\ndata: y\n\n",
        [Oversize(LIMIT + 1), Event(b"y")],
        None,
        None,
    ),
    "comments count for nothing": (
        b": ping\n" * 20 + b"event: e\n" * 20 + b"data: y\n\n",
        [Event(b"y", "e")],
        None,
        None,
    ),
    "nothing": (b"", [], None, None),
}


def read(chunks: Iterable[Any], *, max_event: int = LIMIT, eof: bool = False) -> tuple[Events, str | None, int | None]:
    decoder = EventDecoder(max_event)
    events: Events = []
    for chunk in chunks:
        decoder.receive_data(chunk)
        events += decoder.events()
    if eof:
        decoder.receive_eof()
        events += decoder.events()
    return events, decoder.last_event_id, decoder.retry


def cuts(data: bytes) -> Iterable[list[bytes]]:
    """The data whole, byte by byte, with empty chunks, and cut in three at pairs of places that are not far apart."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    yield [chunk for i in range(len(data)) for chunk in (b"", data[i : i + 1])]
    for i in range(len(data) + 1):
        for j in range(i, min(len(data) + 1, i + 12)):
            yield [data[:i], data[i:j], data[j:]]


@pytest.mark.parametrize("name", STREAMS)
def test_events_do_not_depend_on_chunks(name: str) -> None:
    data, *wanted = STREAMS[name]
    for chunks in cuts(data):
        assert read(chunks) == tuple(wanted), chunks


@pytest.mark.parametrize(
    "tail", [b"data: z", b"data: z\n", b"data: z\r\nid: z\r\n", b"x" * 100, b"id: z", b"event: z\n", b":"]
)
@pytest.mark.parametrize("name", STREAMS)
def test_an_event_without_its_blank_line_is_dropped(name: str, tail: bytes) -> None:
    data, *wanted = STREAMS[name]
    for chunks in ([data + tail], [data, tail], [bytes([byte]) for byte in data + tail]):
        assert read(chunks) == read(chunks, eof=True) == tuple(wanted)


def test_a_delay_counts_at_once() -> None:
    assert read([b"retry: 5\n"]) == ([], None, 5)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\r", b"\r\n\r"])
def test_an_event_is_there_as_soon_as_its_last_byte(end: bytes) -> None:
    decoder = EventDecoder(LIMIT)
    decoder.receive_data(b"data: x" + end[:-1])
    assert list(decoder.events()) == []
    decoder.receive_data(end[-1:])
    assert list(decoder.events()) == [Event(b"x")]
    assert list(decoder.events()) == []


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_caller_may_use_its_buffer_again(kind: Any) -> None:
    buffer = bytearray(b"data: a\ndata: b")
    decoder = EventDecoder(LIMIT)
    decoder.receive_data(kind(buffer))
    buffer[:] = b"-" * len(buffer)
    decoder.receive_data(b"c\n\n")
    assert list(decoder.events()) == [Event(b"a\nbc")]


def test_nothing_comes_after_the_end() -> None:
    decoder = EventDecoder(LIMIT)
    decoder.receive_eof()
    decoder.receive_eof()
    with pytest.raises(LocalProtocolError, match=r"^data was received after the end of the stream$"):
        decoder.receive_data(b"\n")


def test_a_long_event_in_small_chunks_is_linear() -> None:
    decoder = EventDecoder(1 << 30)
    decoder.receive_data(b"data: ")
    for _ in range(51_200):  # copying what is there for each would take minutes, which the suite counts as a failure
        decoder.receive_data(b"x" * 1024)
    decoder.receive_data(b"\n\n")
    events = list(decoder.events())
    assert events == [Event(b"x" * (51_200 * 1024))]


class Searched(bytes):
    """Bytes that count how many of them were looked at."""

    looked_at = 0

    def find(self, sub: Any, start: Any = None, end: Any = None) -> int:
        found = super().find(sub, start, end)
        self.looked_at += (found if found >= 0 else len(self)) - (start or 0)
        return found


@pytest.mark.parametrize("ends", [b"\n", b"\r", b"\r\n"])
def test_many_lines_in_one_chunk_are_linear(ends: bytes) -> None:
    data = Searched((b"data: x" + ends * 2) * 1000)
    assert read([data])[0] == [Event(b"x")] * 1000
    assert data.looked_at < 5 * len(data)


@pytest.mark.parametrize(
    "chunk", [b"data: xy\n", b"x" * 100, b"x", b"data:\r", b": ping\n", b"id: 7\n", b"event: e\n", b"data: x\n\n"]
)
def test_an_endless_stream_takes_no_memory(chunk: bytes) -> None:
    decoder = EventDecoder(1000)
    decoder.receive_data(chunk * 20)
    list(decoder.events())
    tracemalloc.start()
    for _ in range(10_000):
        decoder.receive_data(chunk)
        list(decoder.events())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30_000


@pytest.mark.parametrize("over", [b"x" * 10_000, b"x" * 10_000 + b"\n", b"\ndata: " + b"x" * 10_000 + b"\n"])
def test_what_was_kept_of_an_event_goes_once_it_is_over_the_limit(over: bytes) -> None:
    decoder = EventDecoder(100_000)
    tracemalloc.start()
    decoder.receive_data(b"data: " + b"x" * 90_000)
    kept, _ = tracemalloc.get_traced_memory()
    decoder.receive_data(over)
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 10_000 < 90_000 <= kept


ENCODED: list[tuple[bytes, bytes]] = [
    (encode_event(b'{"a":1}'), b'data: {"a":1}\n\n'),
    (encode_event(b""), b"data:\n\n"),
    (encode_event(b"", id="s/0", retry=3000), b"id: s/0\nretry: 3000\ndata:\n\n"),
    (encode_event(b"/m?x=1", event="endpoint"), b"event: endpoint\ndata: /m?x=1\n\n"),
    (encode_event(b"a\nb\r\nc\rd\n", id="ä"), "id: ä\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n".encode()),
    (encode_event(b" a", id="", retry=0), b"id: \nretry: 0\ndata:  a\n\n"),
    (encode_comment(), b":\n\n"),
    (encode_comment("ping"), b": ping\n\n"),
]


@pytest.mark.parametrize(("found", "wanted"), ENCODED, ids=[repr(wanted) for _, wanted in ENCODED])
def test_encode(found: bytes, wanted: bytes) -> None:
    assert found == wanted


@pytest.mark.parametrize("bad", ["a\nb", "\r", "a\0"])
def test_what_would_break_out_of_its_field_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match=r"^'id' must not contain CR, LF or NUL$"):
        encode_event(b"", id=bad)
    with pytest.raises(ValueError, match=r"^'event' must not contain CR, LF or NUL$"):
        encode_event(b"", event=bad)
    with pytest.raises(ValueError, match=r"^a comment must not contain CR, LF or NUL$"):
        encode_comment(bad)
    with pytest.raises(ValueError, match=r"^'retry' must not be negative$"):
        encode_event(b"", retry=-1)


fields = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), min_size=1)
written = st.tuples(st.binary(), st.none() | fields, st.none() | fields, st.none() | st.integers(0, 10**14))


@given(st.lists(written), st.data())
def test_round_trip(events: list[tuple[bytes, str | None, str | None, int | None]], draw: st.DataObject) -> None:
    stream = bytearray()
    wanted: Events = []
    last_id: str | None = None
    for data, id_, event, retry in events:
        stream += encode_comment() + encode_event(data, id=id_, event=event, retry=retry)
        last_id = id_ or last_id
        wanted.append(Event(re.sub(rb"\r\n|\r", b"\n", data), event or "message", last_id, retry))
    places = sorted(draw.draw(st.lists(st.integers(0, len(stream)))))
    chunks = [stream[i:j] for i, j in zip([0, *places], [*places, len(stream)], strict=True)]
    assert read(chunks, max_event=10_000)[:2] == (wanted, last_id)


pieces = st.sampled_from(
    [b"data", b"id", b"event", b"retry", b":", b" ", b"\r", b"\n", b"1", b"x", b"\xef\xbb\xbf", b"\0"]
)


@given(st.lists(st.lists(pieces).map(b"".join)), st.integers(3, 12))
def test_any_chunks_are_read_as_the_whole(chunks: list[bytes], max_event: int) -> None:
    whole = b"".join(chunks)
    assert read(chunks, max_event=max_event) == read([whole], max_event=max_event)
    assert read(chunks, max_event=max_event) == read([whole], max_event=max_event, eof=True)
    unlimited = read([whole], max_event=10_000)
    assert unlimited[0] == by_the_standard(whole)


def by_the_standard(stream: bytes) -> Events:
    """The standard's algorithm, read off its page, on a whole stream."""
    lines = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]
    events: Events = []
    data, kind, last_id, retry = b"", "", "", None
    for line in lines:
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode()
        if line == b"":
            if data:
                events.append(Event(data[:-1], kind or "message", last_id or None, retry))
            data, kind, retry = b"", "", None
        elif name == b"data":
            data += text.encode() + b"\n"
        elif name == b"event":
            kind = text
        elif name == b"id" and "\0" not in text:
            last_id = text
        elif name == b"retry" and re.fullmatch("[0-9]{1,15}", text):
            retry = int(text)
    return events

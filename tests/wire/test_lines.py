"""Newline framing: the same lines however the bytes are cut, in bounded memory and linear time."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.errors import LocalProtocolError
from mcp_sansio.wire.lines import LineChannel, LineDecoder, Overlong, encode_line

Lines = list[bytes | Overlong]

#: What comes in, and the lines of up to ten bytes that it is. No entry ends in the middle of a line.
STREAMS: dict[str, tuple[bytes, Lines]] = {
    "LF": (b"a\nbc\n", [b"a", b"bc"]),
    "CRLF": (b"a\r\nbc\r\n", [b"a", b"bc"]),
    "blank lines": (b"\n\r\n  \n\t \r\na\n\n", [b"a"]),
    "CR alone is no line end": (b"a\rb\r\r\n\rc\n", [b"a\rb\r", b"\rc"]),
    "no other character is a line end": (
        "a\u2028\u0085\u2029\n\x0b!\x0c!\x1c!\n".encode(),
        ["a\u2028\u0085\u2029".encode(), b"\x0b!\x0c!\x1c!"],
    ),
    "characters of several bytes": ("né🌍漢\n".encode(), ["né🌍漢".encode()]),
    "at the limit": (b"0123456789\n0123456789\r\nx\n", [b"0123456789", b"0123456789", b"x"]),
    "over the limit": (b"0123456789a\n0123456789a\r\nx\n", [Overlong(11), Overlong(11), b"x"]),
    "CR within the line counts": (b"012345678\r\r\n0123456789\r\r\nx\n", [b"012345678\r", Overlong(11), b"x"]),
    "far over the limit": (b"y" * 100 + b"\n" + b"\r" * 50 + b"\nx\n", [Overlong(100), Overlong(49), b"x"]),
    "blank but overlong": (b" " * 11 + b"\nx\n", [Overlong(11), b"x"]),
    "nothing": (b"", []),
}


def read(chunks: Iterable[Any], max_line: int = 10, *, eof: bool = False) -> Lines:
    decoder = LineDecoder(max_line)
    lines: Lines = []
    for chunk in chunks:
        decoder.receive_data(chunk)
        lines += decoder.lines()
    if eof:
        decoder.receive_eof()
        lines += decoder.lines()
    return lines


def cuts(data: bytes) -> Iterable[list[bytes]]:
    """The data whole, byte by byte, and cut in three at every pair of places."""
    yield [data]
    yield [data[i : i + 1] for i in range(len(data))]
    for i in range(len(data) + 1):
        for j in range(i, min(len(data) + 1, i + 40)):
            yield [data[:i], data[i:j], data[j:]]


@pytest.mark.parametrize("name", STREAMS)
def test_lines_do_not_depend_on_chunks(name: str) -> None:
    data, lines = STREAMS[name]
    for chunks in cuts(data):
        assert read(chunks) == read(chunks, eof=True) == lines, chunks


@pytest.mark.parametrize(
    ("tail", "line"),
    [
        (b"tail", [b"tail"]),
        (b"tail\r", [b"tail"]),
        (b"\r", []),
        (b" ", []),
        (b"0123456789\r", [b"0123456789"]),
        (b"0123456789a", [Overlong(11)]),
        (b"z" * 40 + b"\r", [Overlong(40)]),
    ],
)
@pytest.mark.parametrize("name", STREAMS)
def test_an_unfinished_line_waits_for_its_end(name: str, tail: bytes, line: Lines) -> None:
    data, lines = STREAMS[name]
    for chunks in ([data + tail], [data, tail], [bytes([byte]) for byte in data + tail]):
        assert read(chunks) == lines
        assert read(chunks, eof=True) == lines + line
        assert read([*chunks, b"\n"]) == lines + line


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_caller_may_use_its_buffer_again(kind: Any) -> None:
    buffer = bytearray(b"ab\ncd")
    decoder = LineDecoder(10)
    decoder.receive_data(kind(buffer))
    buffer[:] = b"--\n--"
    decoder.receive_data(b"e\n")
    assert list(decoder.lines()) == [b"ab", b"cde"]
    assert list(decoder.lines()) == []


def test_nothing_comes_after_the_end() -> None:
    decoder = LineDecoder(10)
    decoder.receive_eof()
    decoder.receive_eof()
    with pytest.raises(LocalProtocolError, match=r"^data was received after the end of the input$"):
        decoder.receive_data(b"a\n")
    assert list(decoder.lines()) == []


def test_a_long_line_in_small_chunks_is_linear_and_copied_once() -> None:
    chunk = b"x" * 1024
    decoder = LineDecoder(1 << 30)
    tracemalloc.start()
    for _ in range(51_200):  # copying what is there for each would take minutes, which the suite counts as a failure
        decoder.receive_data(chunk)
    decoder.receive_data(b"\r\n")
    lines = list(decoder.lines())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [len(line) for line in lines if isinstance(line, bytes)] == [51_200 * 1024]
    assert peak < 1.5 * 51_200 * 1024


@pytest.mark.parametrize("chunk", [b"x" * 4096, b"x", b"\r", b" " * 100])
def test_an_endless_line_takes_no_memory(chunk: bytes) -> None:
    decoder = LineDecoder(1000)
    decoder.receive_data(chunk * 100)
    tracemalloc.start()
    for _ in range(20_000):
        decoder.receive_data(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20_000
    decoder.receive_data(b"!\nok\n")
    assert list(decoder.lines()) == [Overlong(20_100 * len(chunk) + 1), b"ok"]


def test_what_was_kept_of_a_line_goes_once_it_is_over_the_limit() -> None:
    decoder = LineDecoder(100_000)
    tracemalloc.start()
    decoder.receive_data(b"x" * 100_000)
    kept, _ = tracemalloc.get_traced_memory()
    decoder.receive_data(b"xx")
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert left < 10_000 < 100_000 <= kept


def test_encode_line() -> None:
    assert encode_line('{"a":"\u2028"}'.encode()) == '{"a":"\u2028"}\n'.encode()


@pytest.mark.parametrize("message", [b"{\n}", b"{}\n", b"{}\r", b"\r{}"])
def test_encode_line_refuses_raw_line_ends(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"^a message must not contain a raw line end$"):
        encode_line(message)


@given(st.lists(st.binary(min_size=1).filter(lambda line: not (line.isspace() or set(line) & {10, 13}))), st.data())
def test_round_trip(messages: list[bytes], draw: st.DataObject) -> None:
    data = b"".join(map(encode_line, messages))
    places = sorted(draw.draw(st.lists(st.integers(0, len(data)))))
    chunks = [data[i:j] for i, j in zip([0, *places], [*places, len(data)], strict=True)]
    assert read(chunks, max_line=1000) == messages


@given(st.lists(st.lists(st.sampled_from([b"a", b"\r", b"\n", b" ", b"bcd"])).map(b"".join)), st.integers(0, 5))
def test_any_chunks_are_read_as_the_whole(chunks: list[bytes], max_line: int) -> None:
    whole = b"".join(chunks)
    wanted: Lines = []
    for line in whole.removesuffix(b"\n").split(b"\n"):
        line = line.removesuffix(b"\r")
        if len(line) > max_line:
            wanted.append(Overlong(len(line)))
        elif line.strip():
            wanted.append(line)
    assert read(chunks, max_line, eof=True) == wanted == read([whole], max_line, eof=True)


class Heard:
    """An engine that notes what it gets."""

    def __init__(self) -> None:
        self.heard: Lines = []
        self.said: list[bytes] = []

    def receive_message(self, data: bytes) -> None:
        self.heard.append(data)

    def receive_overlong(self, size: int) -> None:
        self.heard.append(Overlong(size))

    def data_to_send(self) -> list[bytes]:
        said, self.said = self.said, []
        return said

    def events(self) -> list[Any]:
        return []

    def next_deadline(self) -> None:
        return None

    def handle_timeout(self, now: float) -> None:
        pass


class TestAChannelOfLines:
    def test_hands_over_as_much_as_is_asked_for(self) -> None:
        engine = Heard()
        channel = LineChannel(engine, 4)
        channel.receive_data(b"a\nbb\nccccc\nd")
        assert (engine.heard, channel.held) == ([], 12)
        assert (channel.feed(2), engine.heard, channel.fed, channel.held) == (True, [b"a", b"bb"], 2, 12)
        assert (channel.feed(2), engine.heard[2:], channel.fed, channel.held) == (False, [Overlong(5)], 3, 0)
        channel.receive_data(b"")
        assert (channel.held, channel.feed(2), engine.heard[3:], channel.held) == (1, False, [b"d"], 0)

    def test_says_when_more_would_be_too_much(self) -> None:
        channel = LineChannel(Heard(), 4)
        wanted = []
        for data in (b"ab", b"\nc", b"d"):
            channel.receive_data(data)
            wanted.append(channel.wants_data)
        assert wanted == [True, True, False]
        assert (channel.feed(1), channel.wants_data) == (True, False)
        assert (channel.feed(1), channel.wants_data) == (False, True)

    def test_forgets_what_was_not_handed_over(self) -> None:
        engine = Heard()
        channel = LineChannel(engine, 4)
        channel.receive_data(b"a\nb\nc")
        channel.feed(1)
        channel.drop()
        assert (channel.held, channel.feed(9), engine.heard, channel.fed) == (0, False, [b"a"], 1)

    def test_writes_a_line_for_each_message(self) -> None:
        engine = Heard()
        channel = LineChannel(engine, 4)
        engine.said = [b"{}", b"[]"]
        assert [channel.data_to_send(), channel.data_to_send()] == [b"{}\n[]\n", b""]

    #: What comes in on a channel of lines of up to nine bytes, and the message that it is by itself, if it is one.
    ALONE = (
        (b'{"a":1}\n', b'{"a":1}'),
        (b"{}\n", b"{}"),
        (b"{}\r\n", None),
        (b"{}", None),
        (b"{}\n{}\n", None),
        (b"{\n}\n", None),
        (b"\n{}\n", None),
        (b"\n", None),
        (b" \n", None),
        (b'{"a": 123456}\n', None),
        (b"", None),
    )

    @pytest.mark.parametrize(("data", "message"), ALONE)
    def test_takes_what_comes_alone_without_a_detour(self, data: bytes, message: bytes | None) -> None:
        channel = LineChannel(Heard(), 9)
        assert (channel.alone(data), channel.fed, channel.held) == (message, int(message is not None), 0)
        if message is not None:
            assert channel.alone(data) == message

    @pytest.mark.parametrize("before", [b"{}\n", b"{", b"0123456789", b"0123456789\n"])
    def test_takes_nothing_before_what_waits(self, before: bytes) -> None:
        channel = LineChannel(Heard(), 9)
        channel.receive_data(before)
        assert (channel.alone(b"{}\n"), channel.fed) == (None, 0)

    @given(st.lists(st.sampled_from([b"{}", b"\n", b"{}\n", b'{"a":1}\n', b"}\n", b"\r\n", b" "])), st.integers(2, 9))
    def test_takes_alone_what_it_would_take_otherwise(self, pieces: list[bytes], max_line: int) -> None:
        engine = Heard()
        channel = LineChannel(engine, max_line)
        for piece in pieces:
            message = channel.alone(piece)
            if message is not None:
                engine.receive_message(message)
            else:
                channel.receive_data(piece)
                channel.feed(9)
        channel.receive_data(b"")
        channel.feed(9)
        assert (engine.heard, channel.fed) == (read(pieces, max_line, eof=True), len(engine.heard))

    @given(st.lists(st.binary(min_size=1, max_size=4)), st.lists(st.integers(1, 3)), st.integers(0, 5))
    def test_loses_nothing_however_it_is_cut_and_fed(self, pieces: list[bytes], most: list[int], max_line: int) -> None:
        engine = Heard()
        channel = LineChannel(engine, max_line)
        for piece, count in zip_longest(pieces, most[: len(pieces)], fillvalue=1):
            channel.receive_data(piece)
            channel.feed(count)
        channel.receive_data(b"")
        while channel.feed(1):
            pass
        assert engine.heard == read(pieces, max_line, eof=True)

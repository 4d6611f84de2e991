"""Cases 43 to 52: the lines of a duplex channel, and what on it is no message. See test_processes.py for the rest."""

from __future__ import annotations

import time
from typing import Any

import pytest

import speak
from mcp_sansio import Config, Registry
from mcp_sansio.wire.lines import LineDecoder, Overlong, encode_line

from .common import ENDS, ENVELOPE, HANDSHAKE, Shop, error, result, say, text

JSON = Any
ODD = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def read(*pieces: bytes, most: int = 2**20) -> list[bytes | Overlong]:
    """The lines that came in those pieces."""
    decoder = LineDecoder(most)
    lines: list[bytes | Overlong] = []
    for piece in pieces:
        decoder.receive_data(piece)
        lines += decoder.lines()
    decoder.receive_eof()
    return lines + list(decoder.lines())


LINES: dict[str, tuple[bytes, list[bytes | Overlong]]] = {
    "lf": (PING + b"\n" + PING + b"\n", [PING, PING]),
    "crlf": (PING + b"\r\n" + PING + b"\r\n", [PING, PING]),
    "mixed": (PING + b"\r\n" + PING + b"\n", [PING, PING]),
    "cr within": (b'{"a":\r1}\n', [b'{"a":\r1}']),
    "two crs": (PING + b"\r\r\n", [PING + b"\r"]),
    "blank lines": (b"\n\r\n  \t\r\n" + PING + b"\n\n", [PING]),
    "no end": (PING + b"\n" + PING, [PING, PING]),
    "only a cr at the end": (PING + b"\r", [PING]),
    "odd separators": (ODD.encode() + b"\n" + ODD.encode() + b"\r\n", [ODD.encode()] * 2),
    "many bytes a character": ('"né🌍漢"\n'.encode(), ['"né🌍漢"'.encode()]),
    "not UTF-8": (b"\xff\xfe\n" + PING + b"\n", [b"\xff\xfe", PING]),
    "another's text": (
        b"Server started\n{\n  x: 1\n}\n\x1b[32mok\x1b[0m\n123\n",
        [b"Server started", b"{", b"  x: 1", b"}", b"\x1b[32mok\x1b[0m", b"123"],
    ),
}


@pytest.mark.parametrize(("data", "lines"), LINES.values(), ids=LINES)
def test_case_43_and_32_lf_and_crlf_end_a_line_however_it_is_cut(data: bytes, lines: list[Any]) -> None:
    assert read(data) == lines
    assert read(*(data[at : at + 1] for at in range(len(data)))) == lines
    for at in range(len(data) + 1):
        assert read(data[:at], b"", data[at:]) == lines


@pytest.mark.parametrize("size", [9, 10, 11])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_case_46_the_limit_counts_the_line_whatever_the_pieces(size: int, end: bytes) -> None:
    data = b"x" * size + end + b"next" + end
    expected = [b"x" * size if size <= 10 else Overlong(size), b"next"]
    for piece in range(1, len(data) + 1):
        pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
        assert read(*pieces, most=10) == expected


@pytest.mark.parametrize("piece", [4096, 65536, 2**30])
def test_case_46_five_megabytes_take_their_time_and_not_more(piece: int) -> None:
    line = b'"' + b"x" * (5 * 2**20) + b'"'
    data = line + b"\n" + PING + b"\n"
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
    began = time.process_time()
    assert read(*pieces, most=2**23) == [line, PING]
    # Quadratic buffering would move 3 GB here in the smallest pieces.
    assert time.process_time() - began < 1
    assert read(*pieces, most=2**20) == [Overlong(len(line)), PING]


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_46_large_messages_pass_both_ways(version: str) -> None:
    large = "★" * (5 * 2**20 // 3)
    for end in ENDS:
        client = Shop().client(end, version)
        message = client.message("tools/call", {"name": "echo", "arguments": {"text": large}})
        assert say(client, message) == [text(version, 1, large)]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_46_what_is_too_long_is_reported_and_the_next_one_served(version: str) -> None:
    channel = Shop(config=Config(max_message=1000)).client("channel", version)
    (reply,) = channel.end.send(b" " * 1001)
    words = "the message of 1001 bytes is larger than 1000 bytes"
    assert reply == error(None if channel.adapter.null_error_id else ..., -32600, words)
    assert channel.send(PING) == [result(version, 1, {})]
    assert channel.send(PING + b" " * (1000 - len(PING))) == [result(version, 1, {})]


LAYOUTS: list[JSON] = ["a\nb", "a\r\nb", "\n", "\r", ODD, {"a\nb": ["c\rd"]}, "\x00\x1f", {"": "\n"}]


@pytest.mark.parametrize("value", LAYOUTS, ids=repr)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_47_nothing_brings_a_raw_newline_into_a_message(version: str, value: JSON) -> None:
    registry = Registry("shop\n", "1.0\r\n", instructions="a\nb")
    shown = value if isinstance(value, str) else str(value)

    @registry.tool(description="a\nb\r\n", meta={"a\n": "\r"})
    async def give() -> Any:
        return value

    @registry.resource("a:\nb", description="x\ny")
    async def held() -> str:
        return shown

    channel = speak.Channel(version, registry)
    channel.call("give")
    for method in ("tools/list", "resources/list", "server/discover", "no\nsuch"):
        channel.request(method)
    channel.request("resources/read", {"uri": "a:\nb"})
    channel.request("tools/call", {"name": "no\nsuch"})
    channel.send(b'{"jsonrpc":"2.0","id":"\\n","method":"\\r\\n"}')
    for message in channel.end.sent:
        assert encode_line(message) == message + b"\n"
    with pytest.raises(ValueError, match="line end"):
        encode_line(b'{\n  "a": 1\n}')


def test_case_47_each_line_of_a_message_on_several_is_refused_and_no_more() -> None:
    channel = Shop().simulation.channel()
    fault = -32700
    for line in (b"{", b'  "jsonrpc": "2.0",', b'  "id": 1', b"}"):
        (reply,) = channel.send(line)
        assert (set(reply), reply["error"]["code"]) == ({"jsonrpc", "error"}, fault)
    assert channel.send(PING) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


NAMELESS = "nameless"
REQUEST_FAULT, PARAMS_FAULT, PARSE_FAULT = -32600, -32602, -32700
METHOD = "tools/list"
FRAMES: list[tuple[bytes, JSON, int, str]] = [
    (b'{"id":5,"method":"ping"}', 5, REQUEST_FAULT, "'jsonrpc' must be \"2.0\""),
    (b'{"jsonrpc":"1.0","id":5,"method":"ping"}', 5, REQUEST_FAULT, "'jsonrpc' must be \"2.0\""),
    (b'{"jsonrpc":2.0,"id":5,"method":"ping"}', 5, REQUEST_FAULT, "'jsonrpc' must be \"2.0\""),
    (b'{"jsonrpc":"2.0","id":5,"method":123}', 5, REQUEST_FAULT, "'method' must be a string"),
    (b'{"jsonrpc":"2.0","id":5,"method":null}', 5, REQUEST_FAULT, "'method' must be a string"),
    (b'{"jsonrpc":"2.0","method":123}', NAMELESS, REQUEST_FAULT, "'method' must be a string"),
    (b'{"jsonrpc":"2.0","id":"5","method":"tools/list","params":"x"}', "5", PARAMS_FAULT, "'params' must be an object"),
    (b'{"jsonrpc":"2.0","id":5,"method":"tools/list","params":[1]}', 5, PARAMS_FAULT, "'params' must be an object"),
    (b'{"jsonrpc":"2.0","id":5,"method":"tools/list","params":[]}', 5, PARAMS_FAULT, "'params' must be an object"),
    (b'{"jsonrpc":"2.0","id":5,"method":"tools/list","params":false}', 5, PARAMS_FAULT, "'params' must be an object"),
    (b'{"jsonrpc":"2.0","id":5}', 5, REQUEST_FAULT, "'method' is missing"),
    (b'{"jsonrpc":"2.0"}', NAMELESS, REQUEST_FAULT, "'method' is missing"),
    (b"{}", NAMELESS, REQUEST_FAULT, "'jsonrpc' must be \"2.0\""),
    (
        b'{"jsonrpc":"2.0","id":5,"result":1,"error":{}}',
        5,
        REQUEST_FAULT,
        "a response must not have both 'result' and 'error'",
    ),
    (
        b'{"jsonrpc":"2.0","id":5,"method":"ping","result":{}}',
        5,
        REQUEST_FAULT,
        "a message with 'method' must have neither 'result' nor 'error'",
    ),
    (b"123", NAMELESS, REQUEST_FAULT, "a message must be an object"),
    (b'"str"', NAMELESS, REQUEST_FAULT, "a message must be an object"),
    (b"null", NAMELESS, REQUEST_FAULT, "a message must be an object"),
    (b"true", NAMELESS, REQUEST_FAULT, "a message must be an object"),
    (b"{bad", NAMELESS, PARSE_FAULT, "the body is not JSON"),
    (b"Server started", NAMELESS, PARSE_FAULT, "the body is not JSON"),
    (b"\x1b[32mok\x1b[0m", NAMELESS, PARSE_FAULT, "the body is not JSON"),
    (b'{"jsonrpc":"2.0","id":5,"method":"ping"} {}', NAMELESS, PARSE_FAULT, "the body is not JSON"),
    (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":5,"method":"ping"}', NAMELESS, PARSE_FAULT, "the body is not JSON"),
    (b"{'jsonrpc':'2.0'}", NAMELESS, PARSE_FAULT, "the body is not JSON"),
]


@pytest.mark.parametrize(("frame", "id", "code", "words"), FRAMES)
@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_52_a_frame_that_is_no_message_is_answered(
    version: str, frame: bytes, id: JSON, code: int, words: str
) -> None:
    shop = Shop()
    channel = shop.client("channel", version)
    (reply,) = channel.end.send(frame)
    if id == NAMELESS:
        assert reply.get("id") is None
    else:
        assert reply["id"] == id
    assert (set(reply) - {"id"}, set(reply["error"])) == ({"jsonrpc", "error"}, {"code", "message"})
    assert (reply["error"]["code"], reply["error"]["message"][: len(words)]) == (code, words)
    assert channel.send(PING) == [result(version, 1, {})]

    over_http = shop.client("http", version).post(frame)
    assert (over_http.status, over_http.ended) == (200 if code == PARAMS_FAULT else 400, True)
    assert (over_http.messages[0]["error"], over_http.messages[0].get("id")) == (reply["error"], reply.get("id"))


@pytest.mark.parametrize(("frame", "id", "code", "words"), [frame for frame in FRAMES if frame[2] != PARAMS_FAULT])
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_52_where_messages_describe_themselves_too(
    version: str, frame: bytes, id: JSON, code: int, words: str
) -> None:
    # What names no revision is taken for the oldest that says nothing; the header alone makes it the newest's.
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": "ping"}
    reply = Shop().simulation.http(frame, headers=headers)
    assert (reply.status, reply.ended, reply.messages[0].get("id", NAMELESS)) == (400, True, id)
    assert reply.messages[0]["error"]["message"].startswith(words)
    assert reply.messages[0]["error"]["code"] == code


NO_BATCHES = {"code": -32600, "message": "this protocol revision has no batches; send one message at a time"}


@pytest.mark.parametrize("version", [version for version in speak.VERSIONS if version != "2025-03-26"])
def test_case_52_an_array_where_there_are_no_batches(version: str) -> None:
    shop = Shop()
    client = shop.client("http", version)
    body = [client.message("tools/list")]
    reply = shop.simulation.http(body, headers=client.headers())
    assert (reply.status, [message["error"] for message in reply.messages]) == (400, [NO_BATCHES])
    if version in HANDSHAKE:
        channel = shop.client("channel", version)
        assert [message["error"] for message in channel.end.send(body)] == [NO_BATCHES]
        assert channel.send(PING) == [result(version, 1, {})]

"""Where each target starts: valid input, which the fuzzer then spoils."""

from __future__ import annotations

import random
from collections.abc import Iterator

import grammar
import speak
from mcp_sansio.wire.json import encode
from world import registry


class _Shuffled:
    """Choices of a generator that gives the same ones every time."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def text(self) -> str:
        return self._random.choice(("", "x", "é"))

    def data(self) -> bytes:
        return self.text().encode()


def _messages() -> Iterator[tuple[str, bytes]]:
    for version in speak.VERSIONS:
        for method, params in grammar.REQUESTS:
            meta = grammar.meta_of(version)
            held = {**params, **({"_meta": meta} if meta else {})}
            yield version, encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": held})
        for seed in range(20):
            yield version, encode(grammar.message(_Shuffled(seed), version))


def _requests() -> Iterator[bytes]:
    for version, body in _messages():
        fields = grammar.headers_for(_Shuffled(0), speak.decode(body), version, None)
        head = "\n".join(["POST /mcp", *(f"{name}: {value}" for name, value in fields)])
        yield head.encode("utf-8", "surrogateescape") + b"\n\n" + body
    yield b"GET /sse\naccept: text/event-stream\n\n"
    yield b"OPTIONS /mcp\norigin: http://localhost\naccess-control-request-headers: x\n\n"


def _schemas() -> Iterator[bytes]:
    for tool in registry().tools.values():
        yield encode(tool.input_schema)
        if tool.output_schema is not None:
            yield encode(tool.output_schema)
    yield encode({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/b"}]}, "b": {}}})
    yield encode({"type": ["string", "null"], "enum": ["a", None], "default": None, "not": {"const": 1}, "x-y": 1})
    yield encode({"oneOf": [{"type": "null"}, True], "patternProperties": {"a": {"items": [{}]}}, "if": {}, "else": {}})


def _conversations() -> Iterator[bytes]:
    for seed in range(60):
        yield random.Random(seed).randbytes(40 + 4 * seed)


_HEADERS = (
    *("application/json; charset=utf-8", 'text/*;q=0.5;a="b,c", */*;q=0', "localhost:8000", "[::1]:80"),
    *("https://a.example:443", "null", "=?base64?ZWNobw==?=", "/mcp?mcp=2025-11-25&a=%20+b#c", "http://h/x?y"),
)
_REFERENCES = ("messages?x=1", "//host.example:443/x", "?x", "http://user@h/", "/\\evil", "https://[::1]:80/a b", "#f")
_STREAMS = (
    b"id: 1-2\nretry: 1000\ndata:\n\n",
    b":\n\nevent: endpoint\ndata: /messages?session_id=x\n\n",
    b'\xef\xbb\xbfid: x\r\ndata: {"a":1}\rdata: b\r\n\r\ndata',
)
_TEMPLATES = (b"user:{n}\nuser:5", b"file:{+path}/x/{name}\nfile:a/b%20c/x/d", b"{a}-{+b}.{c}\nx-y/z.w")


def of(target: str) -> list[bytes]:
    """The seeds of `target`."""
    texts = [body for _, body in _messages()]
    return {
        "json": lambda: texts,
        "lines": lambda: [b"\n".join(texts[place : place + 3]) + b"\r\n" for place in range(0, 60, 3)],
        "sse": lambda: [*_STREAMS, *(b"id: 1\ndata: " + text + b"\n\n" for text in texts[:10])],
        "headers": lambda: [text.encode() for text in _HEADERS],
        "templates": lambda: list(_TEMPLATES),
        "schemas": lambda: list(_schemas()),
        "request": lambda: list(_requests()),
        "messages": lambda: [*texts, *(b"\n".join(texts[place : place + 4]) for place in range(0, len(texts), 4))],
        "http": lambda: list(_conversations()),
        "channel": lambda: list(_conversations()),
        "channel_client": lambda: list(_conversations()),
        "http_client": lambda: list(_conversations()),
        "urls": lambda: [text.encode() for text in _REFERENCES],
    }[target]()

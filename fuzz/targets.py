"""What the fuzzer calls: each target takes any bytes, and raises where something does not hold of them.

The codecs are held to what their docstrings say: the errors that they may raise, and the same result however the bytes
are cut. The conversations are those of ``tests/_support/world.py``, which says what must hold of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import grammar
from hostile_channel import HostileServer
from hostile_web import STEPS as WEB_STEPS
from hostile_web import HostileWeb
from mcp_sansio.errors import DeclarationError
from mcp_sansio.schema import check_schema
from mcp_sansio.server import gate
from mcp_sansio.simplify import simplified, stripped
from mcp_sansio.uri_template import UriTemplate
from mcp_sansio.wire import headers as wire_headers
from mcp_sansio.wire import hosts as wire_hosts
from mcp_sansio.wire import json as wire_json
from mcp_sansio.wire import urls as wire_urls
from mcp_sansio.wire.jsonrpc import Shape, classify
from mcp_sansio.wire.lines import LineDecoder, Overlong, encode_line
from mcp_sansio.wire.sse import EventDecoder, Oversize, ServerSentEvent, encode_event
from world import ChannelWorld, Errors, HttpWorld, World

STEPS = 12
CLIENT_STEPS = ("start", "give_up", "answer", "reply", "reply", "reply", "notify", "push", "overlong", "pass_time")


class Bytes:
    """Choices out of bytes, from both ends: numbers from the back, so that a text at the front stays in one piece."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._start, self._end = 0, len(data)

    def __bool__(self) -> bool:
        return self._start < self._end

    def number(self, low: int, high: int) -> int:
        if low == high or not self:
            return low
        self._end -= 1
        found = self._data[self._end]
        if high - low > 255 and self:
            self._end -= 1
            found = found << 8 | self._data[self._end]
        return low + found % (high - low + 1)

    def data(self) -> bytes:
        size = self.number(0, 40)
        start, self._start = self._start, min(self._start + size, self._end)
        return self._data[start : self._start]

    def text(self) -> str:
        return self.data().decode("utf-8", "ignore")

    def rest(self) -> bytes:
        found = self._data[self._start : self._end]
        self._start = self._end
        return found


# Codecs ---------------------------------------------------------------------------------------------------------------


def json(data: bytes) -> None:
    """JSON text: a value that comes back as it was, or an error with words for a peer."""
    try:
        value = wire_json.decode(data)
    except wire_json.JsonError as error:
        text = str(error)
        assert text
        assert len(text) < 200
        assert text.isascii()
        return
    assert wire_json.fault_of(value) is None
    assert wire_json.decode(wire_json.encode(value)) == value
    envelope = classify(value)
    assert (envelope.fault is not None) is (envelope.shape is Shape.INVALID)


def _cut(choices: Bytes, data: bytes) -> Iterator[bytes]:
    while data:
        size = choices.number(1, 40) if choices else 50
        yield data[:size]
        data = data[size:]


def _decoded(decoder: Any, chunks: Iterable[bytes], take: Callable[[], Iterable[Any]]) -> list[Any]:
    found: list[Any] = []
    for chunk in chunks:
        decoder.receive_data(chunk)
        found += take()
    decoder.receive_eof()
    return found + list(take())


def lines(data: bytes) -> None:
    """Lines: the same however they are cut, each within the limit, and each a line when written again."""
    choices = Bytes(data)
    limit = choices.number(0, 60)
    sizes = Bytes(choices.data())
    text = choices.rest()
    whole, cut = LineDecoder(limit), LineDecoder(limit)
    found = _decoded(whole, [text], whole.lines)
    assert _decoded(cut, _cut(sizes, text), cut.lines) == found
    for line in found:
        if isinstance(line, Overlong):
            assert line.size > limit
            continue
        assert 0 < len(line) <= limit
        if b"\r" not in line:
            again = LineDecoder(limit)
            assert _decoded(again, [encode_line(line)], again.lines) == [line]
    assert sum(line.size if isinstance(line, Overlong) else len(line) for line in found) <= len(text)


def sse(data: bytes) -> None:
    """Event streams: the same however they are cut, and each event the same when written again."""
    choices = Bytes(data)
    limit = choices.number(1, 200)
    sizes = Bytes(choices.data())
    text = choices.rest()
    whole, cut = EventDecoder(limit), EventDecoder(limit)
    found = _decoded(whole, [text], whole.events)
    assert _decoded(cut, _cut(sizes, text), cut.events) == found
    assert (whole.last_event_id, whole.retry) == (cut.last_event_id, cut.retry)
    for event in found:
        if isinstance(event, Oversize):
            assert event.size > limit
            continue
        again = EventDecoder(10 * limit + 1000)
        name = None if event.event == "message" else event.event
        if "\0" not in event.event:
            written = encode_event(event.data, id=event.id, event=name, retry=event.retry)
            assert _decoded(again, [written], again.events) == [event]
        assert isinstance(event, ServerSentEvent)


def headers(data: bytes) -> None:
    """Header values and targets, each in every function that reads one."""
    choices = Bytes(data)
    options = {"loopback": bool(choices.number(0, 1))}
    allowed = grammar.pick(choices, ((), ("a.example",), ("*",), ("localhost:1", "[::1]")))
    value = choices.rest().decode("utf-8", "surrogateescape")
    wire_headers.media_type(value)
    for form in ("application/json", "text/event-stream"):
        assert wire_headers.accepts(value, form) in (True, False)
    for parsed in (wire_hosts.parse_host(value), wire_hosts.parse_origin(value)):
        assert parsed is None or all(isinstance(part, str | int | None) for part in parsed)
    path, query = wire_hosts.split_target(value)
    assert len(path) <= len(value) + 1
    assert sum(map(len, query)) <= len(value)
    decoded = wire_headers.decode_value(value)
    if decoded is not None:
        assert wire_headers.decode_value(wire_headers.encode_value(decoded)) == decoded
    encoded = wire_headers.encode_value(value)
    assert wire_headers.is_printable(encoded)
    assert wire_headers.decode_value(encoded) == wire_json.mend(value)
    given = wire_headers.Headers(
        [("Host", value), ("ORIGIN", value), ("Origin", value[:5]), ("accept", value), ("Content-Type", value)]
    )
    gate.admission(allowed_hosts=allowed, allowed_origins=allowed)(given["host"], given["origin"], **options)
    gate.fault_of_content_type(given["content-type"])
    gate.accepted_forms(given["accept"])
    for _, text in (*gate.cors_headers(given["origin"]), *gate.preflight_headers(given, "GET")):
        assert wire_headers.is_printable(text)


def templates(data: bytes) -> None:
    """URI templates: a declaration error or a template, whose values hold nothing that it forbids."""
    text, _, uri = data.decode("utf-8", "ignore").partition("\n")
    try:
        template = UriTemplate.parse(text)
    except DeclarationError:
        return
    values = template.match(uri) if template.names else None
    if values is None:
        return
    assert tuple(values) == template.names
    for value in values.values():
        assert not {".", ".."} & set(value.split("/"))
        assert not any(character in value for character in "\0\\\n")


def schemas(data: bytes) -> None:
    """Schemas: a declaration error, or a form for old clients that has no references, and is its own simple form."""
    try:
        schema = wire_json.decode(data)
    except wire_json.JsonError:
        return
    if not isinstance(schema, dict):
        return
    try:
        check_schema(schema)
    except DeclarationError:
        return
    stripped(schema)
    for nullable in (True, False):
        simple = simplified(schema, nullable=nullable)
        if simple is not None:
            check_schema(simple)
            assert simplified(simple, nullable=nullable) == simple


# Conversations --------------------------------------------------------------------------------------------------------


def _converse(data: bytes, kind: type[World], steps: tuple[str, ...]) -> None:
    choices = Bytes(data)
    with Errors() as errors:
        # To hold everything against the schemas takes ten times as long as the rest, so only some are.
        world = kind(choices, schema=choices.number(0, 15) == 1)
        for _ in itertools.takewhile(lambda _: bool(choices), range(STEPS)):
            getattr(world, grammar.pick(choices, steps))()
        world.close()
    assert not errors.said, errors.said[0]


def http(data: bytes) -> None:
    """HTTP requests of every kind to all endpoints, out of the grammar of messages."""
    steps = (
        "handshake",
        "post",
        "post",
        "post",
        "post",
        "other",
        "other",
        "pair",
        "disconnect",
        "publish",
        "pass_time",
    )
    _converse(data, HttpWorld, (*steps, "shut_down"))


def channel(data: bytes) -> None:
    """A conversation over a channel, out of the grammar of messages."""
    steps = (
        "handshake",
        "send",
        "send",
        "send",
        "send",
        "send",
        "publish",
        "pass_time",
        "overlong",
        "eof",
        "shut_down",
    )
    _converse(data, ChannelWorld, steps)


def request(data: bytes) -> None:
    """One HTTP request as it is: its first lines are the method, the target and headers, and the rest is the body."""
    choices = Bytes(data)
    with Errors() as errors:
        world = HttpWorld(choices, schema=choices.number(0, 15) == 1)
        head, _, body = choices.rest().partition(b"\n\n")
        first, *fields = head.decode("utf-8", "surrogateescape").split("\n")
        method, _, target = first.partition(" ")
        pairs = [(name, value) for name, _, value in (field.partition(": ") for field in fields)]
        world.exchange(method, target, pairs, body, pair=target.startswith("/sse"))
        world.close()
    assert not errors.said, errors.said[0]


def messages(data: bytes) -> None:
    """Messages as they are, a line each, over a channel."""
    choices = Bytes(data)
    with Errors() as errors:
        world = ChannelWorld(choices, schema=choices.number(0, 15) == 1)
        for line in choices.rest().split(b"\n"):
            world.receive(line)
        world.close()
    assert not errors.said, errors.said[0]


def channel_client(data: bytes) -> None:
    """A client's channel, and a server that says anything on it."""
    choices = Bytes(data)
    server = HostileServer(choices)
    server.start()
    for _ in itertools.takewhile(lambda _: bool(choices), range(STEPS)):
        getattr(server, grammar.pick(choices, CLIENT_STEPS))()
    server.close()


def http_client(data: bytes) -> None:
    """A client of HTTP, and a server that answers anything."""
    choices = Bytes(data)
    web = HostileWeb(choices)
    web.call()
    for _ in itertools.takewhile(lambda _: bool(choices), range(2 * STEPS)):
        getattr(web, grammar.pick(choices, WEB_STEPS))()
    web.close()


def urls(data: bytes) -> None:
    """References: a URL that has an origin, or nothing."""
    url = wire_urls.resolve("https://host.example/a/b?c#d", data.decode("utf-8", "surrogateescape"))
    assert url is None or wire_urls.origin_of(url) is not None
    assert url is None or wire_urls.resolve(url, "") == url


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        *(json, lines, sse, headers, urls, templates, schemas, request, messages, http, channel),
        *(channel_client, http_client),
    )
}

"""Cases 17 to 29: statuses and headers, who may talk to the server, and how large a request may be."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import msgspec
import pytest

import speak
from mcp_sansio import Config, DeclarationError, Registry
from mcp_sansio.testing import SimulatedHttp
from mcp_sansio.wire.headers import decode_value, encode_value

from .common import ENVELOPE, HANDSHAKE, Shop, error, result, summary, text

JSON = Any
EITHER, JSON_ONLY, STREAM_ONLY, NEITHER = "either", "json", "stream", "neither"

ACCEPTS = {
    None: EITHER,
    "": EITHER,
    "*/*": EITHER,
    "*": EITHER,
    "application/*, text/*": EITHER,
    "text/*;q=0.1,application/*": EITHER,
    "Application/JSON;q=0.5 , TEXT/EVENT-STREAM": EITHER,
    "text/event-stream,application/json": EITHER,
    'application/json;charset=utf-8, text/event-stream;x="a,b;q=0"': EITHER,
    "text/html, */*;q=0.1": EITHER,
    "application/json": JSON_ONLY,
    "application/*": JSON_ONLY,
    "application/json, text/event-stream;q=0": JSON_ONLY,
    "*/*, text/*;q=0.0": JSON_ONLY,
    "text/event-stream": STREAM_ONLY,
    "text/*": STREAM_ONLY,
    "*/*, application/json;q=0": STREAM_ONLY,
    "text/html": NEITHER,
    "application/json;q=0": NEITHER,
    "application/jsonx, text/event-streams": NEITHER,
    "application/json;q=0.000, text/event-stream ; Q=0": NEITHER,
}
NOT_ACCEPTABLE = "the Accept header admits neither application/json nor text/event-stream"


@pytest.mark.parametrize(("accept", "form"), ACCEPTS.items())
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_17_accept_is_a_list_of_ranges(version: str, accept: str | None, form: str) -> None:
    client = Shop().client("http", version)
    message = client.message("tools/call", {"name": "echo", "arguments": {"text": "a"}})
    given = {**client.headers(message), "Content-Type": "application/json"}
    given |= {} if accept is None else {"Accept": accept}
    exchange = SimulatedHttp(client.simulation, client.simulation.server.http_transaction())
    client.simulation.peers.append(exchange)
    exchange.engine.receive_request("POST", "/mcp", given)
    exchange.engine.receive_body(speak.wire(message))
    exchange.engine.receive_end()
    client.simulation.settle()
    if form == NEITHER:
        speak.assert_json(exchange, 406, error(1, -32600, NOT_ACCEPTABLE))
    elif form == STREAM_ONLY:
        assert (exchange.head, exchange.messages, exchange.ended) == (speak.STREAM_HEAD, [text(version, 1, "a")], True)
    else:
        speak.assert_json(exchange, 200, text(version, 1, "a"))
    # A notification has no reply whose form could matter, but the range is wrong all the same; most clients get it
    # right or leave it out.
    accepted = client.post(speak.notification("notifications/initialized"), headers={"Accept": accept})
    assert accepted.status == (406 if form == NEITHER else 202)


CONTENT_TYPES = {
    "application/json": True,
    "application/json; charset=utf-8": True,
    "Application/JSON": True,
    'application/json;charset="UTF-8"': True,
    " application/json ;x": True,
    "application/json;": True,
    "text/plain": False,
    "application/jsonx": False,
    "application/json-rpc": False,
    "text/event-stream;charset=utf-8": False,
    "application/x-www-form-urlencoded": False,
    "application": False,
    "": False,
    ";charset=utf-8": False,
    "text/plain, application/json": False,
}


@pytest.mark.parametrize(("content_type", "good"), CONTENT_TYPES.items())
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_18_only_type_and_subtype_count(version: str, content_type: str, good: bool) -> None:
    client = Shop().client("http", version)
    reply = client.call("echo", {"text": "a"}, headers={"Content-Type": content_type})
    if good:
        speak.assert_json(reply, 200, text(version, 1, "a"))
    else:
        # Refused before the body is read, so in the newest revision's words, whoever asks.
        speak.assert_json(reply, 415, error(..., -32600, "the Content-Type must be application/json"))


def test_case_18_no_content_type_is_no_json() -> None:
    shop = Shop()
    transaction = shop.simulation.server.http_transaction()
    transaction.receive_request("POST", "/mcp", {})
    assert transaction.data_to_send()[0].status == 415  # type: ignore[union-attr]


NOTIFICATIONS: list[JSON] = [
    speak.notification("notifications/initialized"),
    speak.notification("notifications/cancelled", {"requestId": "nobody"}),
    speak.notification("notifications/progress", {"progressToken": 1, "progress": 1}),
    speak.notification("notifications/vendor/x"),
    speak.notification("notifications/roots/list_changed"),
]
RESPONSES: list[JSON] = [
    {"jsonrpc": "2.0", "id": 9, "result": {}},
    {"jsonrpc": "2.0", "id": "ask-nobody", "error": {"code": -1, "message": "no"}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}},
]


@pytest.mark.parametrize("message", NOTIFICATIONS, ids=str)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_19_a_notification_is_accepted_with_nothing(version: str, message: JSON) -> None:
    reply = Shop().client("http", version).post(message)
    assert (reply.status, reply.head and reply.head.headers, reply.body, reply.ended) == (202, (), b"", True)


@pytest.mark.parametrize("message", RESPONSES, ids=str)
@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_19_a_response_is_accepted_with_nothing(version: str, message: JSON) -> None:
    reply = Shop().client("http", version).post(message)
    assert (reply.status, reply.head and reply.head.headers, reply.body, reply.ended) == (202, (), b"", True)


@pytest.mark.parametrize("message", RESPONSES, ids=str)
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_19_where_clients_do_not_respond_a_response_is_refused(version: str, message: JSON) -> None:
    words = "this protocol revision has no responses from clients"
    speak.assert_json(Shop().client("http", version).post(message), 400, error(..., -32600, words))


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "get", "TRACE", "X" * 200])
def test_case_20_without_a_stream_get_is_not_allowed(method: str) -> None:
    words = f"{method[:20]} is not possible here"
    for version in ENVELOPE:
        reply = Shop().simulation.http(method=method, headers={"MCP-Protocol-Version": version})
        expected = error(..., -32600, words)
        body = speak.wire(expected)
        assert reply.head == speak.json_head(405, body, ("Allow", "GET, POST, OPTIONS")) or reply.body == body
        assert (reply.status, reply.header("allow"), reply.messages) == (405, "GET, POST, OPTIONS", [expected])
    for version in HANDSHAKE:
        # No session, no stream.
        client = Shop().client("http", version)
        client.session = None
        reply = client.simulation.http(method=method, headers=client.headers())
        assert (reply.status, reply.header("allow")) == (405, "GET, POST, OPTIONS")
        assert client.call("echo", {"text": "a"}).messages == [text(version, 1, "a")]


HOSTS = {
    "127.0.0.1": True,
    "127.0.0.1:8000": True,
    "127.9.9.9": True,
    "localhost": True,
    "LOCALHOST:8000": True,
    "[::1]:8000": True,
    "[::1]": True,
    "[0:0:0:0:0:0:0:1]:1": True,
    None: True,
    "mcp.example.test": False,
    "mcp.example.test:443": False,
    "evil.test": False,
    "localhost.evil.test": False,
    "127.0.0.1.evil.test": False,
    "localhost@evil.test": False,
    "evil.test, localhost": False,
    "localhost:99999": False,
    "localhost:": False,
    "": False,
    "[::1": False,
    "::1": False,
}


@pytest.mark.parametrize(("host", "known"), HOSTS.items())
def test_case_22_the_host_is_held_against_where_the_request_came_in(
    host: str | None, known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {} if host is None else {"Host": host}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    pong = (200, [{"jsonrpc": "2.0", "id": 1, "result": {}}])

    def answered(config: Config | None, loopback: bool) -> Any:
        reply = Shop(config=config).simulation.http(ping, headers=headers, loopback=loopback)
        return reply.status, reply.messages

    words = "the Host header names no host that this server answers to"
    misdirected = (421, [error(..., -32600, words)])
    assert answered(None, True) == (pong if known else misdirected)
    logged = [record.getMessage() for record in caplog.records]
    assert logged == ([] if known else [f"{words}: {host!r}; add it to allowed_hosts to let it in"])
    # Anywhere else any name will do, until some are allowed.
    assert answered(None, False) == pong
    assert answered(Config(allowed_hosts=["*"]), True) == pong
    mine = Config(allowed_hosts=["mcp.example.test"])
    is_mine = host is not None and host.startswith("mcp.example.test")
    assert answered(mine, False) == (pong if is_mine else misdirected)
    assert answered(mine, True) == (pong if is_mine or (known and host is not None) else misdirected)


ORIGINS = {
    None: True,
    "http://localhost:6274": True,
    "http://127.0.0.1": True,
    "https://app.example": True,
    "null": False,
    "": False,
    "https://evil.test": False,
    "http://app.example": False,
    "https://app.example:8443": False,
    "https://app.example.evil.test": False,
    "http://localhost.evil.test": False,
    "http://localhost@evil.test": False,
    "localhost": False,
    "https://app.example, https://evil.test": False,
    "file://": False,
}


@pytest.mark.parametrize(("origin", "allowed"), ORIGINS.items())
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_23_a_foreign_origin_is_forbidden_and_an_allowed_one_may_read_everything(
    version: str, origin: str | None, allowed: bool
) -> None:
    shop = Shop(config=Config(allowed_origins=["https://app.example"], deletable_sessions=True))
    client = shop.client("http", version, loopback=True)
    headers = {} if origin is None else {"Origin": origin}
    preflight = shop.simulation.http(
        method="OPTIONS",
        headers={
            **headers,
            "Access-Control-Request-Method": "DELETE",
            "Access-Control-Request-Headers": "mcp-protocol-version,mcp-session-id,last-event-id,mcp-method,mcp-name",
        },
        loopback=True,
    )
    reply = client.call("echo", {"text": "a"}, headers=headers)
    failed = client.request("no/such", headers=headers)
    stream = shop.simulation.http(method="GET", headers={**client.headers(), **headers}, loopback=True)
    if not allowed:
        words = "the Origin header names an origin that may not talk to this server"
        for refused in (preflight, reply, failed, stream):
            speak.assert_json(refused, 403, error(..., -32600, words))
        return
    cors = {}
    if origin is not None:
        exposed = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
        cors = {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": exposed, "Vary": "Origin"}
    for shown in (reply, failed, stream):
        assert shown.head is not None
        names = ("Access-Control", "Vary")
        assert {name: value for name, value in shown.head.headers if name.startswith(names)} == cors
    assert preflight.head is not None
    assert (preflight.status, dict(preflight.head.headers), preflight.body) == (
        204,
        {
            "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
            "Access-Control-Allow-Headers": "mcp-protocol-version,mcp-session-id,last-event-id,mcp-method,mcp-name",
            "Access-Control-Max-Age": "7200",
            **cors,
        },
        b"",
    )


# Mirrored headers

URI = "note:/ż/漢"
#: What the body names, and what a header says of it: right, wrong, or malformed.
NAMES: list[tuple[str, str, str | None]] = [
    (URI, "=?base64?bm90ZTovxbwv5ryi?=", "right"),
    (URI, URI, "malformed"),
    (URI, "note:/Å¼/æ¼¢", "malformed"),
    (URI, "=?BASE64?bm90ZTovxbwv5ryi?=", "wrong"),
    (URI, "=?base64?bm90ZTovxbwv5ryi", "wrong"),
    (URI, "=?base64?bm90ZTovxbwv5ryj?=", "wrong"),
    (URI, "=?base64?bm90ZTovxbwv5r?=", "malformed"),
    (URI, "=?base64?bm90ZTovxbwv5ry=?=", "malformed"),
    (URI, "=?base64?bm90 ZTovxbwv5ryi?=", "malformed"),
    (URI, "=?base64?bm90ZTov_7wv5ryi?=", "malformed"),
    (URI, "=?base64?/w==?=", "malformed"),
    (" a ", "=?base64?IGEg?=", "right"),
    (" a ", " a ", "wrong"),
    ("a", " a\t", "right"),
    ("a", "=?base64?YQ==?=", "right"),
    ("a", "=?base64?YQ?=", "malformed"),
    ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?=", "right"),
    ("=?base64?YQ==?=", "=?base64?YQ==?=", "wrong"),
    ("=?BASE64?YQ==?=", "=?BASE64?YQ==?=", "right"),
    ("a\tb", "=?base64?YQli?=", "right"),
    ("a\tb", "a\tb", "malformed"),
    ("a\nb", "=?base64?YQpi?=", "right"),
    ("a", "\x00", "malformed"),
    ("a", "\x7f", "malformed"),
    ("a", "", "wrong"),
    ("a", "A", "wrong"),
    ("a", "a, a", "wrong"),
    ("a", "missing", None),
]


@pytest.mark.parametrize(("name", "header", "verdict"), NAMES)
@pytest.mark.parametrize("method", ["tools/call", "resources/read", "prompts/get"])
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_24_the_name_header_is_decoded_then_compared(
    version: str, method: str, name: str, header: str, verdict: str | None
) -> None:
    client = speak.Http(version, named(name))
    target = "uri" if method == "resources/read" else "name"
    given = None if verdict is None else header
    reply = client.request(method, {target: name}, headers={"Mcp-Name": given})
    if verdict == "right":
        assert (reply.status, "done" in str(reply.messages)) == (200, True)
        return
    words = {
        None: "the header Mcp-Name is missing",
        "wrong": "the header Mcp-Name does not match the body",
        "malformed": "the header Mcp-Name is malformed",
    }
    speak.assert_json(reply, 400, error(1, -32020, words[verdict]))


def named(name: str) -> Registry:
    """A registry with one of each that has that name."""
    registry = Registry("shop", "1.0")

    async def made() -> str:
        return "done"

    registry.tool(name=name)(made)
    registry.prompt(name=name)(made)
    registry.resource(name)(made)
    return registry


@pytest.mark.parametrize(
    "value", [URI, " a ", "=?base64?YQ==?=", "a\tb", "a\r\nX: y", "", "a b", "é", "\x00", "~", "=?="]
)
def test_case_24_what_is_encoded_is_printable_and_comes_back(value: str) -> None:
    encoded = encode_value(value)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert decode_value(encoded) == value


BAD_ANNOTATIONS: dict[str, JSON] = {
    "empty": {"a": {"type": "string", "x-mcp-header": ""}},
    "a blank": {"a": {"type": "string", "x-mcp-header": "A B"}},
    "another header": {"a": {"type": "string", "x-mcp-header": "Ok\r\nX: y"}},
    "a colon": {"a": {"type": "string", "x-mcp-header": "A:"}},
    "not ASCII": {"a": {"type": "string", "x-mcp-header": "Ä"}},
    "no string": {"a": {"type": "string", "x-mcp-header": 5}},
    "twice": {
        "a": {"type": "string", "x-mcp-header": "Region"},
        "b": {"type": "string", "x-mcp-header": "region"},
    },
    "twice, nested": {
        "a": {"type": "string", "x-mcp-header": "R"},
        "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "r"}}},
    },
    "number": {"a": {"type": "number", "x-mcp-header": "A"}},
    "array": {"a": {"type": "array", "x-mcp-header": "A"}},
    "object": {"a": {"type": "object", "x-mcp-header": "A"}},
    "several types": {"a": {"type": ["string", "null"], "x-mcp-header": "A"}},
    "no type": {"a": {"x-mcp-header": "A"}},
    "under items": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
    "under anyOf": {"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}},
    "under additionalProperties": {
        "a": {"type": "object", "additionalProperties": {"type": "string", "x-mcp-header": "A"}}
    },
    "under if": {"a": {"type": "string", "if": {"type": "string", "x-mcp-header": "A"}}},
}


@pytest.mark.parametrize("properties", BAD_ANNOTATIONS.values(), ids=BAD_ANNOTATIONS)
def test_case_25_a_bad_annotation_is_refused_when_it_is_declared(properties: JSON) -> None:
    registry = Registry("shop", "1.0")

    async def made(arguments: dict[str, Any]) -> str:
        return "done"

    with pytest.raises(DeclarationError, match="x-mcp-header"):
        registry.tool(input_schema={"type": "object", "properties": properties})(made)
    with pytest.raises(DeclarationError, match="x-mcp-header"):
        registry.tool(
            input_schema={"type": "object", "properties": {"r": {"$ref": "#/$defs/A"}}, "$defs": {"A": properties["a"]}}
        )(made)
    assert registry.tools == {}


def header(name: str) -> Any:
    """An annotation that mirrors an argument."""
    return msgspec.Meta(extra_json_schema={"x-mcp-header": name})


def mirroring() -> Registry:
    """A registry whose tool mirrors an argument of every kind."""
    registry = Registry("shop", "1.0")

    @registry.tool
    async def put(
        number: Annotated[int, header("Number")] = 0,
        flag: Annotated[bool, header("Flag")] = False,
        word: Annotated[str, header("Word")] = "",
    ) -> str:
        return f"{number} {flag} {word}"

    return registry


LARGEST = 2**53 - 1
MIRRORS: list[tuple[JSON, dict[str, str], str | None]] = [
    ({}, {}, None),
    ({"word": "x"}, {"Word": "x"}, None),
    ({"word": "x"}, {}, "the header Mcp-Param-Word is missing"),
    ({}, {"Word": "x"}, "the header Mcp-Param-Word is set, but the argument it mirrors is not"),
    ({"flag": True}, {"Flag": "true"}, None),
    ({"flag": True}, {"Flag": "True"}, "the header Mcp-Param-Flag does not match the argument it mirrors"),
    ({"flag": True}, {"Flag": "1"}, "the header Mcp-Param-Flag does not match the argument it mirrors"),
    ({"flag": False}, {"Flag": "false"}, None),
    ({"word": "=?base64?x?="}, {"Word": "=?base64?PT9iYXNlNjQ/eD89?="}, None),
    ({"word": "=?base64?x?="}, {"Word": "=?base64?x?="}, "the header Mcp-Param-Word is malformed"),
    ({"word": "é"}, {"Word": "é"}, "the header Mcp-Param-Word is malformed"),
    ({"word": "5"}, {"Word": "5.0"}, "the header Mcp-Param-Word does not match the argument it mirrors"),
    ({"number": 42}, {"Number": "42"}, None),
    ({"number": 42}, {"Number": "42.0"}, None),
    ({"number": 42}, {"Number": "4.2e1"}, None),
    ({"number": -7}, {"Number": "-7"}, None),
    ({"number": 42.0}, {"Number": "42"}, None),
    ({"number": 42}, {"Number": "43"}, "the header Mcp-Param-Number does not match the argument it mirrors"),
    ({"number": 42}, {"Number": "4_2"}, "the header Mcp-Param-Number does not match the argument it mirrors"),
    ({"number": 42}, {"Number": "0x2A"}, "the header Mcp-Param-Number does not match the argument it mirrors"),
    ({"number": 42}, {"Number": "nan"}, "the header Mcp-Param-Number does not match the argument it mirrors"),
    ({"number": 1}, {"Number": "true"}, "the header Mcp-Param-Number does not match the argument it mirrors"),
    ({"number": LARGEST}, {"Number": str(LARGEST)}, None),
    ({"number": -LARGEST}, {"Number": str(-LARGEST)}, None),
    (
        {"number": LARGEST},
        {"Number": f"{LARGEST}.3"},
        "the header Mcp-Param-Number does not match the argument it mirrors",
    ),
    (
        {"number": LARGEST + 2},
        {"Number": str(LARGEST + 2)},
        f"the argument that the header Mcp-Param-Number mirrors must lie within -{LARGEST} and {LARGEST}",
    ),
    (
        {"number": LARGEST + 1},
        {"Number": str(LARGEST + 2)},
        f"the argument that the header Mcp-Param-Number mirrors must lie within -{LARGEST} and {LARGEST}",
    ),
]


@pytest.mark.parametrize(("arguments", "headers", "fault"), MIRRORS)
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_25_arguments_and_their_headers_agree(
    version: str, arguments: JSON, headers: dict[str, str], fault: str | None
) -> None:
    client = speak.Http(version, mirroring())
    given = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    reply = client.call("put", arguments, headers=given)
    if fault is None:
        assert (reply.status, "isError" in reply.messages[0]["result"]) == (200, False)
    else:
        speak.assert_json(reply, 400, error(1, -32020, fault))


UNMIRRORED = "the header Mcp-Param-Region is set, but the argument it mirrors is not"
IN_A_PLACE: list[tuple[JSON, dict[str, str], str | None]] = [
    ({}, {}, None),
    ({"place": {}}, {}, None),
    ({"place": {"region": "eu"}}, {"Region": "eu"}, None),
    ({"place": {"region": "eu"}}, {}, "the header Mcp-Param-Region is missing"),
    ({"place": {"region": None}}, {"Region": "eu"}, UNMIRRORED),
    ({"place": 5}, {"Region": "5"}, UNMIRRORED),
]


@pytest.mark.parametrize(("arguments", "headers", "fault"), IN_A_PLACE)
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_25_an_argument_within_an_object_may_be_mirrored(
    version: str, arguments: JSON, headers: dict[str, str], fault: str | None
) -> None:
    pytest.importorskip("jsonschema")
    registry = Registry("shop", "1.0")
    region = {"type": "string", "x-mcp-header": "Region"}
    place = {"type": "object", "properties": {"region": region}}

    @registry.tool(input_schema={"type": "object", "properties": {"place": place}})
    async def put(arguments: dict[str, Any]) -> str:
        return "done"

    given = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    reply = speak.Http(version, registry).call("put", arguments, headers=given)
    if fault is None:
        speak.assert_json(reply, 200, text(version, 1, "done"))
    else:
        speak.assert_json(reply, 400, error(1, -32020, fault))


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_25_no_header_is_wanted_where_there_are_none(version: str) -> None:
    client = speak.Http(version, mirroring())
    reply = client.call("put", {"number": 2**60, "word": "é"}, headers={"Mcp-Param-Word": "x"})
    assert reply.messages[0]["result"]["content"] == [{"type": "text", "text": f"{2**60} False é"}]
    assert "x-mcp-header" not in str(client.request("tools/list").messages)


# Sizes


@pytest.mark.parametrize("length", [None, "10", "99999999999", "-1", "x"])
@pytest.mark.parametrize("piece", [1, 1000, 2**16])
def test_case_27_what_counts_is_what_comes(length: str | None, piece: int) -> None:
    server = Shop(config=Config(max_message=1000)).simulation.server
    transaction = server.http_transaction()
    headers = {"Content-Type": "application/json"} | ({} if length is None else {"Content-Length": length})
    transaction.receive_request("POST", "/mcp", headers)
    taken = 0
    while transaction.receiving:
        transaction.receive_body(b" " * piece)
        taken += piece
        assert taken < 1000 + piece + 1
    transaction.receive_body(b" " * 2**20)
    transaction.receive_end()
    head, body, _ = transaction.data_to_send()
    expected = speak.wire(error(..., -32600, "the body is larger than 1000 bytes"))
    assert (head, body.data) == (speak.json_head(413, expected), expected)  # type: ignore[union-attr]


def test_case_27_there_is_a_limit_by_default() -> None:
    assert 2**20 <= Config().max_message <= 2**26
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    most = len(speak.wire(message))
    for limit, status in ((most, 200), (most - 1, 413)):
        assert Shop(config=Config(max_message=limit)).simulation.http(message).status == status


# Stopping


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_29_open_streams_do_not_keep_a_server(version: str) -> None:
    shop = Shop()
    client = shop.client("http", version)
    if version in ENVELOPE:
        stream = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="l")
        subscription = {"_meta": {"io.modelcontextprotocol/subscriptionId": "l"}}
        last = [result(version, "l", subscription)]
    else:
        stream, last = client.get(), []
    channel = shop.client("channel", version)
    if version in ENVELOPE:
        channel.request("subscriptions/listen", {"notifications": {}}, id="l")
    before = len(channel.end.sent)
    shop.simulation.server.shutdown()
    shop.simulation.settle()
    assert (stream.ended, stream.messages[-len(last) :] if last else stream.messages) == (True, last)
    assert channel.since(before) == last
    refused = shop.simulation.http({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    speak.assert_json(refused, 503, error(..., -32603, "this server is shutting down"))
    assert shop.simulation.server._streams == {}


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_29_a_call_in_flight_may_finish(version: str) -> None:
    shop = Shop()
    call = shop.client("http", version).call("nap", {"name": "a"})
    shop.simulation.server.shutdown()
    shop.open("a")
    assert (call.messages[-1], call.ended) == (text(version, 1, "a"), True)
    assert summary(call)[0] == 200


def test_case_22_each_refused_value_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    shop = Shop()
    with caplog.at_level(logging.WARNING, "mcp_sansio"):
        for host in ("evil.test", "evil.test", "evil\r\nforged: line"):
            shop.simulation.http(b"{}", headers={"Host": host}, loopback=True)
    assert len(caplog.records) == 2
    assert all("\n" not in record.getMessage() for record in caplog.records)

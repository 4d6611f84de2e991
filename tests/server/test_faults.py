"""What peers send that is wrong or too much: each gets its revision's answer, and the connection goes on."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from mcp_sansio import AdapterSet, Config, Exchange, Failure, FailureKind, Head, PeerFaulted, Registry
from mcp_sansio.testing import SimulatedHttp, Simulation
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, HANDSHAKE, META, VERSIONS, Channel, Http, assert_json, notification

DEEP = b"[" * 100_000


def registry() -> Registry:
    made = Registry("s", "1")

    @made.tool
    async def plain() -> str:
        """Plain."""
        return "x"

    @made.tool
    async def need(text: str) -> str:
        """Need."""
        return text

    @made.tool
    async def wait(ex: Exchange) -> str:
        """Wait."""
        await ex.wait_cancelled()
        return "late"

    @made.resource("a:{x}")
    async def read(x: str) -> str:
        return x

    return made


def error(version: str, code: int, message: str, id: Any = None) -> dict[str, Any]:
    made: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
    if id is None and version in ("2026-07-28", "2025-11-25"):
        del made["id"]
    return made


# Envelopes ------------------------------------------------------------------------------------------------------------


def meta(version: str) -> dict[str, Any]:
    return {"_meta": Http(version, registry()).meta} if version in ENVELOPE else {}


#: Bad messages, how they are refused, and the id that is quoted.
BAD: list[tuple[dict[str, Any], int, str, Any]] = [
    ({"id": 5, "method": "tools/list"}, -32600, "'jsonrpc' must be \"2.0\"", 5),
    ({"jsonrpc": "1.0", "id": 5, "method": "tools/list"}, -32600, "'jsonrpc' must be \"2.0\"", 5),
    ({"jsonrpc": "2.0", "id": 5, "method": 123}, -32600, "'method' must be a string", 5),
    ({"jsonrpc": "2.0", "id": 5, "method": []}, -32600, "'method' must be a string", 5),
    ({"jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": "x"}, -32602, "'params' must be an object", 5),
    ({"jsonrpc": "2.0", "id": 5, "method": "tools/list", "params": [1]}, -32602, "'params' must be an object", 5),
    ({"jsonrpc": "2.0", "id": 5}, -32600, "'method' is missing", 5),
    (
        {"jsonrpc": "2.0", "id": 5, "result": 1, "error": {}},
        -32600,
        "a response must not have both 'result' and 'error'",
        5,
    ),
    ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, -32600, "'id' must be a string or an integer", None),
    ({"jsonrpc": "2.0", "id": True, "method": "tools/list"}, -32600, "'id' must be a string or an integer", None),
    ({"jsonrpc": "2.0", "id": [], "method": "tools/list"}, -32600, "'id' must be a string or an integer", None),
    ({"jsonrpc": "2.0", "id": 1.5, "method": "tools/list"}, -32600, "'id' must be a string or an integer", None),
]


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize(("message", "code", "text", "id"), BAD)
def test_bad_envelopes(version: str, message: dict[str, Any], code: int, text: str, id: Any) -> None:
    speaker, channel = Http(version, registry()), Channel(version, registry())
    refused = error(version, code, text, id)
    assert_json(speaker.post(message), 200 if code == -32602 else 400, refused)
    assert channel.send(message) == [refused]
    assert [event for event in channel.end.happened if isinstance(event, PeerFaulted)][-1].failure.message == text
    assert "result" in channel.request("tools/list", id=2)[0]


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize(("message", "code", "text", "id"), BAD)
def test_bad_envelopes_without_handshake(version: str, message: dict[str, Any], code: int, text: str, id: Any) -> None:
    speaker = Http(version, registry())
    headers = {"Mcp-Method": str(message.get("method")), "Mcp-Session-Id": None}
    assert_json(speaker.post(message, headers=headers), 400, error(version, code, text, id))


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("member", [{"result": {}}, {"error": {"code": 1, "message": "no"}}])
def test_a_response_where_clients_send_none(version: str, member: Any) -> None:
    message = {"jsonrpc": "2.0", "id": 1, **member}
    text = "this protocol revision has no responses from clients"
    assert_json(Http(version, registry()).post(message), 400, error(version, -32600, text))
    # On a channel nothing comes back: it would be an answer to an answer.
    channel = Simulation(registry(), adapters=AdapterSet.default().only(version)).channel()
    channel.send(message)
    faulted = PeerFaulted(Failure(FailureKind.MALFORMED, text))
    assert (channel.messages, channel.happened) == ([], [faulted])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("body", [b"{bad", b'{"jsonrpc":"2.0","id":1,"method":NaN}', b"\xff", b'"\\ud83d"', b"{}{}"])
def test_no_json(version: str, body: bytes) -> None:
    channel, speaker = Channel(version, registry()), Http(version, registry())
    newest = VERSIONS[0]
    before = len(channel.end.sent)
    channel.end.send(body)
    [refused] = [channel.end.messages[before]]
    assert refused["error"]["code"] == -32700
    assert refused["error"]["message"].startswith("the body is not JSON: ")
    answered = speaker.simulation.http(body, headers=speaker.headers())
    assert (answered.status, answered.messages[0]["error"]["code"]) == (400, -32700)
    assert ("id" in answered.messages[0]) is (newest not in ("2026-07-28", "2025-11-25"))
    assert "result" in channel.request("tools/list")[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_depth(version: str) -> None:
    channel, speaker = Channel(version, registry()), Http(version, registry())
    for body in (DEEP, b'{"a":' * 5000, b"[" * 129 + b"]" * 129):
        before = len(channel.end.sent)
        channel.end.send(body)
        assert channel.end.messages[before]["error"] == {
            "code": -32700,
            "message": "the body is not JSON: nested deeper than 128 levels",
        }
        assert speaker.simulation.http(body, headers=speaker.headers()).status == 400
    nested: Any = "x"
    for _ in range(100):
        nested = [nested]
    [answered] = channel.call("need", {"text": nested})
    assert answered["result"]["isError"] is True


@pytest.mark.parametrize("version", VERSIONS)
def test_a_depth_of_the_operators_own(version: str) -> None:
    simulation = Simulation(registry(), config=Config(max_depth=3))
    for body, deep in ((b'{"a":{"b":[]}}', False), (b'{"a":{"b":[[]]}}', True)):
        channel = simulation.channel()
        channel.send(body)
        answered = simulation.http(body, headers={"MCP-Protocol-Version": version})
        for message in (*channel.messages, *answered.messages):
            told = message["error"]["message"] == "the body is not JSON: nested deeper than 3 levels"
            assert (message["error"]["code"] == -32700, told) == (deep, deep)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("arguments", [5, True, "x", ["mcpState"], [[1]], {"mcpState": 5}, None])
def test_arguments_are_of_no_interest_to_what_takes_none(version: str, arguments: Any) -> None:
    made = Registry("s", "1")
    made.resource("test://x")(lambda: "text")
    channel, speaker = Channel(version, made), Http(version, made)
    params = {"uri": "test://x", "arguments": arguments}
    for [answered] in (channel.request("resources/read", params), speaker.request("resources/read", params).messages):
        assert answered["result"]["contents"] == [{"uri": "test://x", "text": "text"}]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("id", ["1", "01", "init-ä", "", 1, 0, -1, 9007199254740993, "x" * 200, "1.0"])
def test_ids_keep_their_type(version: str, id: Any) -> None:
    channel, speaker = Channel(version, registry()), Http(version, registry())
    for answered in (*channel.request("tools/list", id=id), *speaker.request("nonsense", id=id).messages):
        assert (answered["id"], type(answered["id"])) == (id, type(id))


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("params", [None, {}])
def test_params_of_null(version: str, params: Any) -> None:
    request = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": params}
    assert len(Channel(version, registry()).send(request)[0]["result"]["tools"]) == 3


METAS: list[tuple[Any, str]] = [
    (None, "params._meta must be an object"),
    ([], "params._meta must be an object"),
    ({}, "params._meta['io.modelcontextprotocol/protocolVersion'] must be a string"),
    (
        {META + "protocolVersion": "2026-07-28"},
        "params._meta['io.modelcontextprotocol/clientCapabilities'] must be an object",
    ),
    (
        {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": []},
        "params._meta['io.modelcontextprotocol/clientCapabilities'] must be an object",
    ),
    (
        {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}, META + "clientInfo": "x"},
        "params._meta['io.modelcontextprotocol/clientInfo'] must be an object",
    ),
]


@pytest.mark.revision("2026-07-28")
@pytest.mark.parametrize(("stated", "text"), METAS)
def test_every_request_describes_itself(stated: Any, text: str) -> None:
    speaker = Http("2026-07-28", registry())
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": stated}}
    assert_json(speaker.post(request), 400, error("2026-07-28", -32602, text, 1))
    bare = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert_json(speaker.post(bare), 400, error("2026-07-28", -32602, "params._meta must be an object", 1))


REFERENCE = {"type": "ref/prompt", "name": "x"}
ARGUMENT = {"name": "a", "value": "b"}
#: The members of completion/complete that are wrong, each in place of a right one.
NO_REFERENCES = [None, 5, "ref/prompt", [], {}, {"type": "ref/prompt"}, {"type": "ref/prompt", "name": 5}]
NO_REFERENCES += [{"type": "ref/prompt", "uri": "x"}, {"type": "ref/resource", "name": "x"}, {"name": "x"}]
NO_REFERENCES += [{"type": kind, "name": "x", "uri": "x", "": "x"} for kind in ("ref/tool", "", None, [], {})]
NO_ARGUMENTS = [
    None,
    5,
    "a",
    [],
    {},
    {"name": "a"},
    {"value": "b"},
    {"name": 5, "value": "b"},
    {"name": "a", "value": 5},
]
NO_CONTEXTS = [5, "x", [], {"arguments": None}, {"arguments": 5}, {"arguments": []}, {"arguments": {"a": 5}}]

PARAMS: list[tuple[str, Any, str]] = [
    ("tools/call", {}, "params.name must be a string"),
    ("tools/call", {"name": 5}, "params.name must be a string"),
    ("tools/call", {"name": "plain", "arguments": []}, "params.arguments must be an object"),
    ("tools/call", {"name": "plain", "arguments": 5}, "params.arguments must be an object"),
    ("tools/call", {"name": "plain", "arguments": "{}"}, "params.arguments must be an object"),
    ("resources/read", {}, "params.uri must be a string"),
    ("prompts/get", {}, "params.name must be a string"),
    ("prompts/get", {"name": "x", "arguments": {"a": 1}}, "params.arguments must be an object of strings"),
    ("completion/complete", {}, "params.ref must be a reference to a prompt or a resource"),
    *[
        (
            "completion/complete",
            {"ref": bad, "argument": ARGUMENT},
            "params.ref must be a reference to a prompt or a resource",
        )
        for bad in NO_REFERENCES
    ],
    ("completion/complete", {"ref": REFERENCE}, "params.argument must be an object with the strings name and value"),
    *[
        (
            "completion/complete",
            {"ref": REFERENCE, "argument": bad},
            "params.argument must be an object with the strings name and value",
        )
        for bad in NO_ARGUMENTS
    ],
    *[
        (
            "completion/complete",
            {"ref": REFERENCE, "argument": ARGUMENT, "context": bad},
            "params.context must be an object whose arguments are strings",
        )
        for bad in NO_CONTEXTS
    ],
    *[
        (
            "completion/complete",
            {"ref": REFERENCE, "argument": ARGUMENT} | ({} if right == "absent" else {"context": right}),
            "there is no 'x' to complete for",
        )
        for right in ("absent", None, {}, {"arguments": {}}, {"arguments": {"b": "c"}})
    ],
    *[
        (method, {"cursor": bad}, "params.cursor must be a string")
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
        for bad in (5, [], {})
    ],
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "params", "text"), PARAMS)
def test_params(version: str, method: str, params: Any, text: str) -> None:
    refused = error(version, -32602, text, 1)
    assert Channel(version, registry()).request(method, params) == [refused]
    assert_json(Http(version, registry()).request(method, params), 400 if version in ENVELOPE else 200, refused)


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"])
@pytest.mark.parametrize("value", ["absent", None, 5, [], {}])
def test_params_of_sessions(version: str, method: str, value: Any) -> None:
    levels = "debug, info, notice, warning, error, critical, alert, emergency"
    member, wanted = ("level", f"one of {levels}") if method == "logging/setLevel" else ("uri", "a string")
    params = {} if value == "absent" else {member: value}
    refused = error(version, -32602, f"params.{member} must be {wanted}", 1)
    assert Channel(version, registry()).request(method, params) == [refused]
    assert_json(Http(version, registry()).request(method, params), 200, refused)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("tools/call", {"name": "\x7f" * 10_000}, "there is no tool named {!r}"),
        ("prompts/get", {"name": "\x7f" * 10_000}, "there is no prompt named {!r}"),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "\x7f" * 10_000}, "argument": {"name": "a", "value": "b"}},
            "there is no {!r} to complete for",
        ),
    ],
)
def test_a_long_name_is_not_quoted_whole(version: str, method: str, params: Any, text: str) -> None:
    refused = error(version, -32602, text.format("\x7f" * 200 + "…"), 1)
    assert Channel(version, registry()).request(method, params) == [refused]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("arguments", [{}, None, "absent"])
def test_arguments_may_be_left_out(version: str, arguments: Any) -> None:
    params = {"name": "plain"} | ({} if arguments == "absent" else {"arguments": arguments})
    channel = Channel(version, registry())
    assert "isError" not in channel.request("tools/call", params)[0]["result"]
    failed = channel.request("tools/call", {**params, "name": "need"})[0]["result"]
    assert failed["isError"] is True
    assert failed["content"] == [{"type": "text", "text": "Invalid arguments: $.text: is required"}]


# Limits ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_body_that_is_too_large(version: str) -> None:
    simulation = Simulation(registry(), config=Config(max_message=1000))
    speaker, channel = Http(version, simulation), Channel(version, simulation)
    message = speaker.message("tools/call", {"name": "need", "arguments": {"text": "x" * 1000}})
    refused = speaker.post(message)
    assert refused.status == 413
    assert refused.messages[0]["error"] == {"code": -32600, "message": "the body is larger than 1000 bytes"}
    size = len(encode(message))
    text = f"the message of {size} bytes is larger than 1000 bytes"
    assert channel.send(message) == [error(version, -32600, text)]
    assert "result" in channel.request("tools/list")[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_body_is_refused_as_soon_as_it_is_too_large(version: str) -> None:
    simulation = Simulation(registry(), config=Config(max_message=10))
    transaction = simulation.server.http_transaction()
    transaction.receive_request("POST", "/mcp", {"Content-Type": "application/json", "Content-Length": "5"})
    transaction.receive_body(b"1234567890")
    assert transaction.data_to_send() == []
    transaction.receive_body(b"1")
    [head, *_] = transaction.data_to_send()
    assert isinstance(head, Head)
    assert head.status == 413
    transaction.receive_body(b"1" * 100)
    transaction.receive_end()
    assert transaction.data_to_send() == []


def test_a_body_in_small_pieces_takes_no_more_memory_than_in_large_ones() -> None:
    size = 100_000
    exchange = receiving(Simulation(registry(), config=Config(max_message=size)))
    tracemalloc.start()
    try:
        for number in range(size // 2):
            exchange.engine.receive_body(b"%02d" % (number % 100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size


def receiving(simulation: Simulation, headers: Mapping[str, str] = {}) -> SimulatedHttp:
    """A request whose headers are there, and whose body is not."""
    exchange = SimulatedHttp(simulation, simulation.server.http_transaction())
    simulation.peers.append(exchange)
    accept = "application/json, text/event-stream"
    exchange.engine.receive_request("POST", "/mcp", {"Content-Type": "application/json", "Accept": accept, **headers})
    return exchange


def test_a_body_that_comes_byte_by_byte_is_given_up_when_its_time_is_over() -> None:
    """However steadily it comes: the time is that of the whole body, so nobody holds a connection by a trickle."""
    simulation = Simulation(registry(), config=Config(receive_timeout=30))
    exchange = receiving(simulation)
    for _ in range(29):
        exchange.engine.receive_body(b" ")
        simulation.advance(1)
    simulation.settle()
    assert (exchange.head, exchange.engine.next_deadline()) == (None, 30)
    simulation.advance(1)
    text = "the body took longer than 30 seconds to come in"
    assert_json(exchange, 408, error(simulation.server.adapters.fallback.version, -32600, text))
    assert exchange.happened == [PeerFaulted(Failure(FailureKind.TOO_SLOW, text))]
    exchange.engine.receive_body(b"more")
    exchange.engine.receive_end()
    assert (exchange.engine.receiving, exchange.engine.next_deadline()) == (False, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_time_of_a_body_is_not_that_of_its_call(version: str) -> None:
    simulation = Simulation(registry(), config=Config(receive_timeout=30, keep_alive=1000))
    speaker = Http(version, simulation)
    message = speaker.message("tools/call", {"name": "wait", "arguments": {}})
    exchange = receiving(simulation, speaker.headers(message))
    simulation.advance(29)
    exchange.engine.receive_body(encode(message))
    exchange.engine.receive_end()
    simulation.settle()
    simulation.advance(100)
    assert (exchange.head, exchange.engine.next_deadline()) == (None, 1029)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_line_that_was_skipped(version: str) -> None:
    channel = Channel(version, registry(), config=Config(max_message=1000))
    before = len(channel.end.sent)
    channel.end.engine.receive_overlong(5000)
    channel.simulation.settle()
    shown = VERSIONS[0] if version in ENVELOPE else version
    text = "the message of 5000 bytes is larger than 1000 bytes"
    assert channel.since(before) == [error(shown, -32600, text)]


@pytest.mark.parametrize("version", VERSIONS)
def test_headers_that_are_too_large(version: str) -> None:
    speaker = Http(version, registry())
    refused = speaker.request("tools/list", headers={"X-Large": "x" * 65536})
    assert refused.status == 431
    assert refused.messages[0]["error"]["message"] == "the headers are larger than 65536 bytes"


@pytest.mark.revision("2025-03-26")
def test_a_batch_that_is_too_long() -> None:
    config = Config(max_batch=2)
    speaker, channel = Http("2025-03-26", registry(), config=config), Channel("2025-03-26", registry(), config=config)
    ping = speaker.message("ping")
    refused = error("2025-03-26", -32600, "a batch may hold 2 messages at most")
    assert_json(speaker.post([ping] * 3), 413, refused)
    assert channel.send([ping] * 3) == [refused]
    assert speaker.post([ping] * 2).status == 200


@pytest.mark.parametrize("version", VERSIONS)
def test_too_many_calls(version: str) -> None:
    config = Config(max_calls=2)
    channel, speaker = Channel(version, registry(), config=config), Http(version, registry(), config=config)
    for id in (1, 2):
        assert channel.call("wait", id=id) == []
    assert channel.call("wait", id=3) == [error(version, -32600, "at most 2 calls may be in flight", 3)]
    channel.send(notification("notifications/cancelled", {"requestId": 1}))
    assert channel.call("wait", id=3) == []
    if version in HANDSHAKE:
        for id in (1, 2):
            speaker.call("wait", id=id)
        text = "a session may have 2 calls in flight at most"
        assert_json(speaker.call("wait", id=3), 429, error(version, -32600, text, 3))
        speaker.post(notification("notifications/cancelled", {"requestId": 1}))
        assert speaker.call("wait", id=3).head is None


@pytest.mark.parametrize("version", VERSIONS)
def test_too_many_streams(version: str) -> None:
    simulation = Simulation(registry(), config=Config(max_streams=1))
    speaker = Http(version, simulation)

    def listen(id: Any) -> Any:
        if version in HANDSHAKE:
            return speaker.get()
        return speaker.request("subscriptions/listen", {"notifications": {}}, id=id)

    first = listen(1)
    refused = listen(2)
    assert refused.status == 503
    text = "this server keeps 1 streams open at most"
    assert refused.messages[0]["error"] == {"code": -32603, "message": text}
    first.disconnect()
    assert listen(3).status == 200


@pytest.mark.parametrize("version", VERSIONS)
def test_too_many_subscriptions(version: str) -> None:
    config = Config(max_subscriptions=2)
    channel, speaker = Channel(version, registry(), config=config), Http(version, registry(), config=config)
    if version in ENVELOPE:
        params = {"notifications": {"resourceSubscriptions": ["a:1", "a:2", "a:3"]}}
        refused = error(version, -32600, "one stream may watch 2 resources at most", 1)
        assert channel.request("subscriptions/listen", params) == [refused]
        assert_json(speaker.request("subscriptions/listen", params), 429, refused)
        return
    for client in (channel, speaker):
        for uri in ("a:1", "a:2", "a:2"):
            answered = client.request("resources/subscribe", {"uri": uri})
            [message] = answered.messages if isinstance(answered, SimulatedHttp) else answered
            assert message["result"] == {}
    text = "a client may subscribe to 2 resources at most"
    assert channel.request("resources/subscribe", {"uri": "a:3"}) == [error(version, -32600, text, 1)]
    text = "a session may subscribe to 2 resources at most"
    assert_json(speaker.request("resources/subscribe", {"uri": "a:3"}), 429, error(version, -32600, text, 1))
    for client in (channel, speaker):
        client.request("resources/unsubscribe", {"uri": "a:1"})
        client.request("resources/subscribe", {"uri": "a:3"})
    assert channel.end.messages[-1]["result"] == {}


# HTTP's own -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("stated", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ('application/json;charset="UTF-8"', 200),
        ("text/plain", 415),
        ("application/jsonx", 415),
        ("", 415),
    ],
)
def test_content_type(version: str, stated: str, status: int) -> None:
    answered = Http(version, registry()).request("tools/list", headers={"Content-Type": stated})
    assert answered.status == status
    if status == 415:
        error = {"code": -32600, "message": "the Content-Type must be application/json"}
        assert answered.messages[0]["error"] == error


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "TRACE", "post", "X" * 1000])
def test_other_methods(method: str) -> None:
    answered = Simulation(registry()).http(method=method)
    assert (answered.status, answered.header("allow"), answered.ended) == (405, "GET, POST, OPTIONS", True)
    if method != "HEAD":
        assert answered.messages[0]["error"]["message"] == f"{method[:20]} is not possible here"


HOSTS = [
    ("127.0.0.1", True),
    ("127.0.0.1:8000", True),
    ("localhost", True),
    ("LOCALHOST:8000", True),
    ("[::1]:8000", True),
    ("evil.test", False),
    ("localhost.evil.test", False),
    ("127.0.0.1.evil.test", False),
    ("[::1", False),
    ("", False),
    (None, True),
]


@pytest.mark.parametrize(("host", "loopback"), HOSTS)
@pytest.mark.parametrize("version", VERSIONS[:2])
def test_host(host: str | None, loopback: bool, version: str) -> None:
    simulation = Simulation(registry(), config=Config(allowed_hosts=["mcp.example.test", "other.test:90"]))
    open_one = Simulation(registry())
    headers = {} if host is None else {"Host": host}
    assert (open_one.http(b"{}", headers=headers, loopback=True).status == 421) is not loopback
    assert open_one.http(b"{}", headers=headers).status != 421
    # Where some are allowed, a loopback socket takes those and the loopback names; another only those.
    assert (simulation.http(b"{}", headers=headers, loopback=True).status == 421) is (not loopback or host is None)
    assert simulation.http(b"{}", headers=headers).status == 421


def test_allowed_hosts(caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulation(registry(), config=Config(allowed_hosts=["mcp.example.test", "other.test:90"]))
    expected = {"mcp.example.test": 400, "MCP.example.test:1": 400, "other.test:90": 400, "other.test": 421}
    for host, status in expected.items():
        assert simulation.http(b"{", headers={"Host": host}).status == status
    anything = Simulation(registry(), config=Config(allowed_hosts=["*"]))
    assert anything.http(b"{", headers={"Host": "evil.test"}, loopback=True).status == 400
    for _ in range(3):
        refused = simulation.http(b"{", headers={"Host": "evil.test"})
    text = "the Host header names no host that this server answers to"
    assert refused.messages[0]["error"] == {"code": -32600, "message": text}
    assert caplog.text.count("'evil.test'; add it to allowed_hosts to let it in") == 1


ORIGINS = [
    (None, True),
    ("http://localhost:6274", True),
    ("https://127.0.0.1", True),
    ("http://[::1]:3000", True),
    ("null", False),
    ("https://evil.test", False),
    ("http://localhost.evil.test", False),
    ("", False),
]


@pytest.mark.parametrize(("origin", "loopback"), ORIGINS)
def test_origin(origin: str | None, loopback: bool) -> None:
    headers = {"Host": "localhost"} | ({} if origin is None else {"Origin": origin})
    simulation = Simulation(registry())
    assert (simulation.http(b"{", headers=headers, loopback=True).status == 403) is not loopback
    assert (simulation.http(b"{", headers=headers).status == 403) is (origin is not None)


#: What a page's origin is, the Host that it calls, and whether it calls the host that it came from.
SAME_HOST: list[tuple[str, str | None, bool]] = [
    ("http://mcp.example", "mcp.example", True),
    ("http://mcp.example", "mcp.example:80", True),
    ("http://mcp.example:80", "MCP.example", True),
    ("https://mcp.example", "mcp.example:443", True),
    ("https://mcp.example:443", "mcp.example", True),
    ("http://mcp.example:8080", "mcp.example:8080", True),
    ("http://mcp.example", "mcp.example:443", False),
    ("https://mcp.example", "mcp.example:80", False),
    ("http://mcp.example:8080", "mcp.example", False),
    ("http://mcp.example", "mcp.example:8080", False),
    ("http://other.example", "mcp.example", False),
    ("http://other.example", "other.example", False),  # which is none of this server's
    ("http://127.0.0.1", "127.0.0.1", False),
]


@pytest.mark.parametrize(("origin", "host", "allowed"), SAME_HOST)
def test_a_page_may_talk_to_the_host_that_it_came_from(origin: str, host: str, allowed: bool) -> None:
    # The first is a mistake of the operator, which lets nobody in.
    simulation = Simulation(registry(), config=Config(allowed_hosts=["no host", "mcp.example", "127.0.0.1:1"]))
    refused = simulation.http(b"{", headers={"Origin": origin, "Host": host}).status in (403, 421)
    assert refused is not allowed


@pytest.mark.parametrize("name", ["evil.test", "localhost", "127.0.0.1"])
def test_a_host_that_is_not_known_to_be_this_one_lets_no_page_in(name: str) -> None:
    """Any name may lead here (DNS rebinding), and the page of that name would be at home."""
    headers = {"Origin": f"http://{name}", "Host": name}
    assert Simulation(registry()).http(b"{", headers=headers).status == 403
    status = 421 if name == "evil.test" else 400
    assert Simulation(registry()).http(b"{", headers=headers, loopback=True).status == status


def test_a_page_of_a_server_on_a_loopback_socket() -> None:
    config = Config(allowed_hosts=["mcp.example"], allowed_origins=["https://app.example"])
    for loopback, status in ((True, 400), (False, 421)):
        headers = {"Host": "localhost:8000", "Origin": "http://localhost:8000"}
        answered = Simulation(registry(), config=config).http(b"{", headers=headers, loopback=loopback)
        assert answered.status == status
    # A proxy in front may give it another name, which is that of the page as well.
    headers = {"Host": "mcp.example", "Origin": "http://mcp.example"}
    assert Simulation(registry(), config=config).http(b"{", headers=headers, loopback=True).status == 400


@pytest.mark.parametrize("host", [None, "", "x" * 300])
def test_what_is_logged_of_a_host(host: str | None, caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulation(registry(), config=Config(allowed_hosts=["mcp.example"]))
    simulation.http(b"{", headers={} if host is None else {"Host": host})
    text = "the Host header names no host that this server answers to"
    shown = f"{text}: {(host or '')[:200]!r}; add it to allowed_hosts to let it in"
    assert [record.getMessage() for record in caplog.records] == [shown]


def test_what_is_logged_of_an_origin(caplog: pytest.LogCaptureFixture) -> None:
    Simulation(registry()).http(b"{", headers={"Origin": "x" * 300})
    text = "the Origin header names an origin that may not talk to this server"
    shown = f"{text}: {'x' * 200!r}; add it to allowed_origins to let it in"
    assert [record.getMessage() for record in caplog.records] == [shown]


def test_allowed_origins(caplog: pytest.LogCaptureFixture) -> None:
    config = Config(allowed_origins=["https://app.example"], allowed_hosts=["mcp.example"])
    simulation = Simulation(registry(), config=config)
    expected = {
        "https://app.example": 400,
        "http://app.example": 403,
        # A page may talk to the host that it came from.
        "https://mcp.example": 400,
        "https://mcp.example:8443": 403,
    }
    for origin, status in expected.items():
        assert simulation.http(b"{", headers={"Origin": origin, "Host": "mcp.example:443"}).status == status
    refused = simulation.http(b"{", headers={"Origin": "https://evil.test", "Host": "mcp.example"})
    text = "the Origin header names an origin that may not talk to this server"
    assert refused.messages[0]["error"] == {"code": -32600, "message": text}
    assert "'https://evil.test'; add it to allowed_origins to let it in" in caplog.text
    anything = Simulation(registry(), config=Config(allowed_origins=["*"]))
    assert anything.http(b"{", headers={"Origin": "https://evil.test"}).status == 400


CORS = (
    ("Access-Control-Allow-Origin", "http://localhost:1"),
    ("Access-Control-Expose-Headers", "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"),
    ("Vary", "Origin"),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_cors(version: str) -> None:
    speaker = Http(version, registry(), loopback=True)
    headers = {"Origin": "http://localhost:1", "Host": "localhost"}
    answered = speaker.request("tools/list", headers=headers)
    assert answered.head is not None
    assert answered.head.headers[-3:] == CORS
    wanted = "mcp-protocol-version, mcp-session-id, last-event-id, mcp-method, mcp-name"
    preflight = speaker.simulation.http(
        method="OPTIONS", headers={**headers, "Access-Control-Request-Headers": wanted}, loopback=True
    )
    assert preflight.head == Head(
        204,
        (
            ("Access-Control-Allow-Methods", "GET, POST, OPTIONS"),
            ("Access-Control-Allow-Headers", wanted),
            ("Access-Control-Max-Age", "7200"),
            *CORS,
        ),
    )
    assert (preflight.body, preflight.ended) == (b"", True)
    for nothing in ({}, {"Access-Control-Request-Headers": ""}):
        asked = speaker.simulation.http(method="OPTIONS", headers={**headers, **nothing}, loopback=True)
        assert asked.header("Access-Control-Allow-Headers") == "Content-Type"
    evil = speaker.simulation.http(method="OPTIONS", headers={"Origin": "https://evil.test"}, loopback=True)
    assert evil.status == 403


@pytest.mark.parametrize("nonsense", ["x\r\nSet-Cookie: a=b", "x\udcff", "\x00", "é"])
def test_what_is_not_printable_is_not_sent_back_in_a_header(nonsense: str) -> None:
    simulation = Simulation(registry(), config=Config(allowed_origins=["*"]))
    asked = {"Origin": nonsense, "Access-Control-Request-Headers": nonsense}
    assert simulation.http(method="OPTIONS", headers=asked).head == Head(
        204,
        (
            ("Access-Control-Allow-Methods", "GET, POST, OPTIONS"),
            ("Access-Control-Allow-Headers", "Content-Type"),
            ("Access-Control-Max-Age", "7200"),
        ),
    )


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_response_that_is_refused_is_not_quoted(version: str) -> None:
    speaker = Http(version, registry())
    reply = {"jsonrpc": "2.0", "id": 1, "result": {}}
    refused = speaker.post(reply, headers={"MCP-Protocol-Version": "1999-01-01"})
    assert (refused.status, "id" in refused.messages[0]) == (400, False)

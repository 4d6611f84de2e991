"""Cases 53 to 67: ids, params, batches, and the JSON values that other implementations lose on the way."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any

import pytest

import speak
import support
from mcp_sansio import (
    Annotations,
    CallToolResult,
    DeclarationError,
    Exchange,
    GetPromptResult,
    PromptMessage,
    ReadResourceResult,
    Registry,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolError,
    elicit,
    sample,
)

from .common import ENDS, ENVELOPE, EVERYWHERE, HANDSHAKE, Shop, error, result, say, text

JSON = Any
NAN, INFINITY = float("nan"), float("inf")
IDS: list[JSON] = [
    "1",
    "01",
    "init-ä",
    "",
    1,
    0,
    -1,
    2**53 + 1,
    -(2**63),
    10**30,
    "x" * 200,
    "1.0",
    "null",
    " ",
    "🌍",
    "\n",
]


@pytest.mark.parametrize("id", IDS, ids=repr)
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_53_and_55_an_id_comes_back_as_it_was(end: str, version: str, id: JSON) -> None:
    client = Shop().client(end, version)

    def said(method: str, params: JSON = None) -> JSON:
        replies = say(client, client.message(method, params, id=id))
        assert [type(reply["id"]) for reply in replies] == [type(id)]
        return replies

    echo = {"name": "echo", "arguments": {"text": "a"}}
    assert said("tools/call", echo) == [text(version, id, "a")]
    assert said("no/such") == [error(id, -32601, "unknown method: 'no/such'")]
    assert said("tools/call", {"name": 5}) == [error(id, -32602, "params.name must be a string")]
    assert said("tools/list")[0]["id"] == id
    if version in HANDSHAKE:
        assert said("ping") == [result(version, id, {})]
        (opened,) = say(client, client.initialize(id=id))
        assert (opened["id"], type(opened["id"])) == (id, type(id))


@pytest.mark.parametrize("id", IDS, ids=repr)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_53_and_55_in_progress_cancellations_and_subscriptions_too(version: str, id: JSON) -> None:
    shop = Shop()
    channel = shop.client("channel", version)
    token = {"progressToken": id, "progress": 1}
    started = {"jsonrpc": "2.0", "method": "notifications/progress", "params": token}
    assert channel.call("nap", {"name": "a"}, id=id, token=id) == [started]
    # The same in another type is another id.
    other = str(id) if isinstance(id, int) else len(id)
    for wrong in (other, None, float(2), True, [id], {"id": id}):
        assert channel.send(speak.notification("notifications/cancelled", {"requestId": wrong})) == []
    assert len(shop.simulation.scheduler) == 1
    assert channel.send(speak.notification("notifications/cancelled", {"requestId": id})) == []
    assert len(shop.simulation.scheduler) == 0
    if version not in ENVELOPE:
        return
    params = {"notifications": {"toolsListChanged": True}}
    before = len(channel.end.sent)
    assert len(channel.request("subscriptions/listen", params, id=id)) == 1
    shop.registry.remove_tool("echo")
    shop.simulation.server.shutdown()
    shop.simulation.settle()
    acknowledged, changed, last = channel.since(before)
    key = "io.modelcontextprotocol/subscriptionId"
    for named in (acknowledged["params"], changed["params"], last["result"]):
        assert (named["_meta"][key], type(named["_meta"][key])) == (id, type(id))
    assert last["id"] == id


NO_IDS = [b"null", b"true", b"false", b"[]", b"{}", b"1.5", b"1e3", b"1.0", b"-0.0", b"[1]"]


@pytest.mark.parametrize("raw", NO_IDS)
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_54_what_is_no_id_is_refused_and_no_notification(end: str, version: str, raw: bytes) -> None:
    shop = Shop()
    client = shop.client(end, version)
    body = speak.wire(client.message("tools/call", {"name": "echo", "arguments": {"text": "a"}}, id="ID"))
    body = body.replace(b'"ID"', raw)
    if end == "http":
        headers = {**client.headers(), "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
        exchange = client.simulation.http(body, headers=headers)
        assert exchange.status == 400
        replies = exchange.messages
    else:
        replies = client.end.send(body)
    (reply,) = replies
    nameless = {"id": None} if client.adapter.null_error_id else {}
    fault = {"code": -32600, "message": "'id' must be a string or an integer"}
    assert reply == {"jsonrpc": "2.0", **nameless, "error": fault}
    assert shop.heard == []


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_56_one_id_twice_over_http_answers_each_where_it_was_asked(version: str) -> None:
    for order in (("a", "b"), ("b", "a")):
        shop = Shop()
        client = shop.client("http", version)
        calls = {name: client.call("nap", {"name": name}, id=1, token=name) for name in ("a", "b")}
        for name in order:
            shop.open(name)
        for name, call in calls.items():
            assert call.messages == [progress(name, 1), progress(name, 2), text(version, 1, name)]
            assert call.ended


def progress(token: JSON, done: int) -> JSON:
    """A progress notification."""
    params = {"progressToken": token, "progress": done}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_56_one_id_twice_on_a_channel_is_refused(version: str) -> None:
    shop = Shop()
    channel = shop.client("channel", version)
    assert channel.call("nap", {"name": "a"}, id=1) == []
    in_use = error(1, -32600, "the id of a request that is still in flight was used again")
    assert channel.call("nap", {"name": "b"}, id=1) == [in_use]
    assert channel.end.send(channel.message("tools/list", id=1)) == [in_use]
    before = len(channel.end.sent)
    shop.open("a")
    assert channel.since(before) == [text(version, 1, "a")]
    assert channel.call("echo", {"text": "c"}, id=1) == [text(version, 1, "c")]


@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_57_and_58_clients_that_use_the_same_ids_keep_apart(end: str, version: str) -> None:
    shop = Shop()
    clients = [shop.client(end, version) for _ in range(3)]
    heard: list[list[JSON]] = []
    calls = [client.call("nap", {"name": f"n{number}"}, id=0, token=0) for number, client in enumerate(clients)]
    assert [call.messages if end == "http" else call for call in calls] == [[progress(0, 1)]] * 3
    if end == "http":
        if version in HANDSHAKE:
            clients[1].post(speak.notification("notifications/cancelled", {"requestId": 0}))
        else:
            calls[1].disconnect()
    else:
        clients[1].send(speak.notification("notifications/cancelled", {"requestId": 0}))
    assert len(shop.simulation.scheduler) == 2
    for number in (2, 0):
        shop.open(f"n{number}")
    for number, client in enumerate(clients):
        heard.append(calls[number].messages if end == "http" else client.end.messages[-3:])
    for number in (0, 2):
        assert heard[number][-3:] == [progress(0, 1), progress(0, 2), text(version, 0, f"n{number}")]
    assert heard[1][-1] == progress(0, 1)


@pytest.mark.parametrize("version", [version for version in HANDSHAKE if version >= "2025-06-18"])
@pytest.mark.parametrize("end", ENDS)
def test_case_57_ids_of_the_two_directions_are_spaces_of_their_own(end: str, version: str) -> None:
    shop = Shop()
    client = shop.client(end, version)
    asked = client.call("confirm", id=0)
    question = (asked.messages if end == "http" else asked)[-1]
    # The client's own request of that very id is a request.
    assert say(client, client.message("ping", id=question["id"])) == [result(version, question["id"], {})]
    assert say(client, {"jsonrpc": "2.0", "id": 0, "result": {"action": "accept", "content": {}}}) == []
    before = len(asked.messages) if end == "http" else len(client.end.sent)
    client.answer(question, {"action": "decline"})
    came = asked.messages[before:] if end == "http" else client.since(before)
    assert came == [text(version, 0, "decline")]


@pytest.mark.parametrize("version", [version for version in HANDSHAKE if version >= "2025-06-18"])
def test_case_58_one_server_with_every_kind_of_connection_at_once(version: str) -> None:
    shop = Shop()
    http, channel, other = shop.client("http", version), shop.client("channel", version), shop.client("http", version)
    first, second = http.call("confirm", id=1), channel.call("confirm", id=1)
    third = other.call("confirm", id=1)
    questions = [first.messages[-1], second[-1], third.messages[-1]]
    assert len({question["id"] for question in questions}) == 3
    # An answer from another connection is nobody's.
    other.answer(questions[0], {"action": "cancel"})
    channel.answer(questions[2], {"action": "cancel"})
    http.answer(questions[1], {"action": "cancel"})
    assert len(shop.simulation.server.questions) == 3
    third.disconnect()
    assert channel.answer(questions[1], {"action": "decline"}) == [text(version, 1, "decline")]
    http.answer(questions[0], {"action": "accept", "content": {}})
    assert first.messages[-1] == text(version, 1, "accept")
    assert len(shop.simulation.server.questions) == 1
    other.answer(questions[2], {"action": "cancel"})
    assert len(shop.simulation.server.questions) == 0


LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping")


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize(("end", "version"), [pair for pair in EVERYWHERE if pair[1] in HANDSHAKE])
def test_case_59_params_of_null_are_none(end: str, version: str, method: str) -> None:
    client = Shop().client(end, version)
    bare = {"jsonrpc": "2.0", "id": 2, "method": method}
    absent = say(client, bare)
    assert "result" in absent[0]
    for params in (None, {}, {"cursor": None}, {"_meta": None}, {"_meta": {}}):
        assert say(client, {**bare, "params": params}) == absent
    for params in ([], "x", 0, False, "", [{}]):
        assert say(client, {**bare, "params": params}) == [error(2, -32602, "'params' must be an object")]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_59_where_meta_is_required_null_is_too_little(version: str, end: str) -> None:
    client = Shop().client(end, version)
    for params in (..., None, {}, {"_meta": None}, {"_meta": []}, {"_meta": "x"}):
        message = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", **({} if params is ... else {"params": params})}
        if end == "http":
            exchange = client.post(message)
            assert exchange.status == 400
            assert exchange.messages == [error(2, -32602, "params._meta must be an object")]
        else:
            # Without a word about the revision it is taken for one with a handshake, which did not take place.
            words = "the handshake is missing: send initialize first"
            assert client.end.send(message) == [error(2, -32600, words)]


OPTIONAL = {"none": {}, "optional": {}, "required": {"a": 1}}


@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_60_arguments_may_be_left_out(end: str, version: str) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def none() -> str:
        return "done"

    @registry.tool
    async def optional(a: int = 1) -> str:
        return f"done {a}"

    @registry.tool
    async def required(a: int) -> str:
        return f"done {a}"

    client = ENDS[end](version, registry)
    missing = text(version, 1, "Invalid arguments: $.a: is required", isError=True)
    expected = {"none": "done", "optional": "done 1", "required": None}
    for name, done in expected.items():
        for arguments in ({}, {"arguments": None}, {"arguments": {}}):
            (reply,) = say(client, client.message("tools/call", {"name": name, **arguments}))
            assert reply == (missing if done is None else text(version, 1, done))
        for wrong in ([], 5, "{}", False, "", 0):
            (reply,) = say(client, client.message("tools/call", {"name": name, "arguments": wrong}))
            assert reply == error(1, -32602, "params.arguments must be an object")


UNKNOWN: list[JSON] = [
    ("notifications/vendor/x", {"a": 1}),
    ("codex/event", {"msg": {}}),
    ("window/logMessage", {"type": 3, "message": "hi"}),
    ("$/progress", {"token": 1}),
    ("", {}),
    ("tools/call", {"name": "echo", "arguments": {"text": "a"}}),
    ("initialize", {"protocolVersion": "2025-11-25"}),
    ("ping", None),
    ("notifications/cancelled", {}),
    ("notifications/cancelled", {"requestId": []}),
    ("notifications/cancelled", None),
    ("notifications/progress", {"progressToken": [], "progress": "x"}),
    ("notifications/roots/list_changed", {"_meta": 5}),
    ("notifications/initialized", {"x": NAN}),
]


@pytest.mark.parametrize(("method", "params"), UNKNOWN, ids=str)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_61_a_notification_that_nobody_knows_is_passed_over(
    version: str, method: str, params: JSON, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop()
    with caplog.at_level(logging.INFO):
        for end in ENDS:
            client = shop.client(end, version)
            assert say(client, speak.notification(method, params)) == []
            assert say(client, client.message("tools/call", {"name": "echo", "arguments": {"text": "b"}})) == [
                text(version, 1, "b")
            ]
    assert (shop.heard, caplog.records) == (["b", "b"], [])


@pytest.mark.parametrize("params", [[], "x", 5])
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_61_a_notification_that_is_malformed_is_not_answered_on_a_channel(version: str, params: JSON) -> None:
    shop = Shop()
    channel = shop.client("channel", version)
    assert channel.send(speak.notification("notifications/cancelled", params)) == []
    assert channel.call("echo", {"text": "b"}) == [text(version, 1, "b")]
    # Over HTTP there is a status to say it with.
    client = shop.client("http", version)
    reply = client.post(speak.notification("notifications/cancelled", params))
    assert reply.status in (200, 400)
    assert reply.messages[0]["error"]["code"] == -32602


# Batches

BATCHING = "2025-03-26"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
DONE = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
NO_OBJECT = error(None, -32600, "a message must be an object")
FIRST = error(0, -32600, "initialize must not be part of a batch")
ANSWER = {"jsonrpc": "2.0", "id": 9, "result": {}}
EMPTY = error(None, -32600, "a batch must hold at least one message")

BATCHES: list[tuple[JSON, JSON]] = [
    ([PING, DONE], [PONG]),
    ([DONE, PING], [PONG]),
    ([PING], [PONG]),
    ([PING, {**PING, "id": "1"}], [PONG, {**PONG, "id": "1"}]),
    ([DONE, DONE], None),
    ([DONE], None),
    ([ANSWER], None),
    ([ANSWER, DONE, {**DONE, "method": "notifications/x"}], None),
    ([PING, PING], [PONG, PONG]),
    ([1, PING], [NO_OBJECT, PONG]),
    ([1], [NO_OBJECT]),
    ([1, 2, 3], [NO_OBJECT] * 3),
    ([[PING]], [NO_OBJECT]),
    ([[]], [NO_OBJECT]),
    ([{}, PING], [error(None, -32600, "'jsonrpc' must be \"2.0\""), PONG]),
    ([{**PING, "id": None}, PING], [error(None, -32600, "'id' must be a string or an integer"), PONG]),
    ([PING, {**PING, "id": 2, "method": "no"}], [PONG, error(2, -32601, "unknown method: 'no'")]),
    ([], EMPTY),
]


@pytest.mark.revision(BATCHING)
@pytest.mark.parametrize(("batch", "expected"), BATCHES, ids=lambda value: str(value)[:60])
def test_case_62_and_63_batches(batch: JSON, expected: JSON) -> None:
    shop = Shop()
    channel = shop.client("channel", BATCHING)
    assert channel.end.send(batch) == ([] if expected is None else [expected])
    client = shop.client("http", BATCHING)
    reply = client.simulation.http(batch, headers=client.headers())
    if expected is None:
        assert (reply.status, reply.head and reply.head.headers, reply.body, reply.ended) == (202, (), b"", True)
    else:
        speak.assert_json(reply, 400 if expected is EMPTY else 200, expected)


@pytest.mark.revision(BATCHING)
@pytest.mark.parametrize("rest", [[], [DONE], [PING]])
def test_case_62_a_handshake_is_no_part_of_a_batch(rest: list[JSON]) -> None:
    shop = Shop()
    client = speak.Speaker(BATCHING, shop.simulation)
    expected = [FIRST, *([PONG] if PING in rest else [])]
    channel = shop.simulation.channel()
    assert channel.send([client.initialize(), *rest]) == [expected]
    listed = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
    assert channel.send(listed) == [error(2, -32600, "the handshake is missing: send initialize first")]
    speak.assert_json(shop.simulation.http([client.initialize(), *rest]), 200, expected)
    assert len(shop.simulation.server.store) == 0  # type: ignore[arg-type]


@pytest.mark.revision(BATCHING)
def test_case_62_a_batch_waits_for_its_slowest_and_counts_no_notification() -> None:
    shop = Shop()
    channel = shop.client("channel", BATCHING)
    naps = [channel.message("tools/call", {"name": "nap", "arguments": {"name": name}}, id=name) for name in "abc"]
    cancel = speak.notification("notifications/cancelled", {"requestId": "b"})
    before = len(channel.end.sent)
    channel.end.send([*naps, DONE, {**PING, "id": "d"}])
    shop.open("c")
    channel.send(cancel)
    assert channel.since(before) == []
    shop.open("a")
    assert channel.since(before) == [[{**PONG, "id": "d"}, text(BATCHING, "c", "c"), text(BATCHING, "a", "a")]]


# Depth


def nested(depth: int) -> bytes:
    """Arrays within one another."""
    return b"[" * depth + b"]" * depth


@pytest.mark.parametrize("depth", [100, 125, 126, 200, 10_000, 100_000])
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_64_deep_arguments_end_nothing(end: str, version: str, depth: int) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def take(a: Any) -> str:
        return "taken"

    client = ENDS[end](version, registry)
    body = speak.wire(client.message("tools/call", {"name": "take", "arguments": {"a": "DEEP"}}))
    body = body.replace(b'"DEEP"', nested(depth))
    if end == "http":
        headers = {**client.headers(), "Mcp-Method": "tools/call", "Mcp-Name": "take"}
        exchange = client.simulation.http(body, headers=headers)
        assert exchange.status == (200 if depth <= 125 else 400)
        replies = exchange.messages
    else:
        replies = client.end.send(body)
    (reply,) = replies
    if depth <= 125:
        assert reply == text(version, 1, "taken")
    else:
        assert reply["error"] == {"code": -32700, "message": "the body is not JSON: nested deeper than 128 levels"}
        assert reply.get("id") is None
    assert say(client, client.message("tools/call", {"name": "take", "arguments": {"a": 1}})) == [
        text(version, 1, "taken")
    ]


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"[{" * 50_000, b'"' + b"[" * 10**6 + b'"'])
def test_case_64_a_line_of_brackets(body: bytes) -> None:
    shop = Shop()
    channel = shop.simulation.channel()
    (reply,) = channel.send(body)
    assert reply["error"]["code"] in (-32700, -32600)
    assert shop.simulation.http(body).status == 400
    assert channel.send(PING) == [PONG]


def tree(depth: int) -> Any:
    """A list in a list in a list, and so on."""
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def deep_schema(depth: int) -> JSON:
    """A schema of that many levels."""
    schema: JSON = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize("depth", [5_000, 50_000])
def test_case_64_a_schema_that_is_too_deep_is_refused_when_it_is_declared(depth: int) -> None:
    registry = Registry("shop", "1.0")

    async def deep(arguments: dict[str, Any]) -> str:
        return "done"

    with pytest.raises(DeclarationError):
        registry.tool(input_schema=deep_schema(depth))(deep)
    assert registry.tools == {}


@pytest.mark.parametrize("depth", [200, 5_000, 100_000])
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_64_a_deep_result_fails_its_call_alone(version: str, depth: int) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def deep() -> Any:
        return {"a": tree(depth)}

    @registry.tool
    async def annotated() -> CallToolResult:
        return CallToolResult((TextContent("x"),), meta={"a": tree(depth)})

    @registry.resource("a:b")
    async def held() -> ReadResourceResult:
        return ReadResourceResult([TextResourceContents("a:b", "x", meta={"a": tree(depth)})])

    for end in ENDS:
        client = ENDS[end](version, registry)
        failed = text(version, 1, "The tool failed because of an internal error.", isError=True)
        for name in ("deep", "annotated"):
            assert say(client, client.message("tools/call", {"name": name})) == [failed]
        (reply,) = say(client, client.message("resources/read", {"uri": "a:b"}))
        assert reply == error(1, -32603, "The request failed because of an internal error.")
        assert "result" in say(client, client.message("tools/list"))[0]


# Numbers and text

LARGE = [2**53, 2**53 + 1, -(2**53) - 1, 2**63, 2**64 + 1, 10**40, -(10**40)]


@pytest.mark.parametrize("number", LARGE)
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_65_integers_keep_every_digit(end: str, version: str, number: int) -> None:
    registry = Registry("shop", "1.0")
    heard = []

    @registry.tool
    async def give(a: int) -> dict[str, int]:
        heard.append(a)
        return {"a": a}

    client = ENDS[end](version, registry)
    (reply,) = say(client, client.message("tools/call", {"name": "give", "arguments": {"a": number}}, id=number))
    assert (reply["id"], type(reply["id"])) == (number, int)
    assert reply["result"]["content"] == [{"type": "text", "text": f'{{"a":{number}}}'}]
    if client.adapter.shape.structured_content != "none":
        assert reply["result"]["structuredContent"] == {"a": number}
    assert heard == [number]


@pytest.mark.parametrize("spelled", ["1.0", "1e0", "100e-2", "1"])
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_65_a_float_without_a_fraction_is_an_integer(version: str, spelled: str) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def give(a: int) -> str:
        return f"{type(a).__name__} {a}"

    channel = speak.Channel(version, registry)
    body = speak.wire(channel.message("tools/call", {"name": "give", "arguments": {"a": "A"}}))
    assert channel.end.send(body.replace(b'"A"', spelled.encode())) == [text(version, 1, "int 1")]
    (reply,) = channel.end.send(body.replace(b'"A"', b"1.5"))
    assert reply["result"]["isError"] is True
    assert channel.end.send(body.replace(b'"A"', b"1e2")) == [text(version, 1, "int 100")]


class Ratio(float):
    """A float by another name."""


NOT_FINITE: list[JSON] = [
    NAN,
    INFINITY,
    -INFINITY,
    Ratio("nan"),
    {"m": INFINITY},
    {"a": [{"b": NAN}]},
    [NAN],
    (1.0, NAN),
]


@pytest.mark.parametrize("value", NOT_FINITE, ids=repr)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_66_a_number_that_is_not_finite_is_an_error_and_never_null(
    version: str, value: JSON, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def plain() -> Any:
        return value

    @registry.tool
    async def typed() -> dict[str, Any]:
        return {"m": value}

    @registry.tool
    async def whole() -> CallToolResult:
        return CallToolResult((TextContent("x"),), structured_content=value)

    @registry.tool
    async def annotated() -> CallToolResult:
        return CallToolResult((TextContent("x", meta={"m": value}),))

    @registry.tool
    async def with_meta() -> CallToolResult:
        return CallToolResult((TextContent("x"),), meta={"m": value})

    @registry.resource("a:plain")
    async def held() -> Any:
        return {"m": value}

    @registry.resource("a:meta")
    async def noted() -> ReadResourceResult:
        return ReadResourceResult([TextResourceContents("a:meta", "x")], meta={"m": value})

    @registry.resource("a:inner")
    async def inner() -> TextResourceContents:
        return TextResourceContents("a:inner", "x", meta={"m": value})

    @registry.prompt
    async def said() -> GetPromptResult:
        return GetPromptResult([PromptMessage("user", TextContent("x", meta={"m": value}))])

    channel = speak.Channel(version, registry)
    failed = text(version, 1, "The tool failed because of an internal error.", isError=True)
    for name in registry.tools:
        assert channel.call(name) == [failed], name
    broken = error(1, -32603, "The request failed because of an internal error.")
    for uri in registry.resources:
        assert channel.request("resources/read", {"uri": uri}) == [broken], uri
    assert channel.request("prompts/get", {"name": "said"}) == [broken]
    # The operator is told which, and where in it.
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == len(registry.tools) + len(registry.resources) + 1
    assert all("not finite" in message and "$" in message for message in messages)


@pytest.mark.parametrize("value", [NAN, INFINITY])
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_66_nor_is_it_sent_beside_a_result(version: str, value: float) -> None:
    registry = Registry("shop", "1.0")
    raised = []

    @registry.tool
    async def report(ex: Exchange) -> str:
        for send in (
            lambda: ex.progress(value),
            lambda: ex.progress(1, value),
            lambda: ex.log("info", {"m": value}),
        ):
            try:
                await send()
            except ValueError as fault:
                raised.append(str(fault))
        return "done"

    @registry.tool
    async def ask(ex: Exchange) -> str:
        await ex.ask("a", sample("x", max_tokens=1, temperature=value))
        return "done"

    @registry.tool
    async def fill_in(ex: Exchange) -> str:
        await ex.ask("a", elicit("x", {"type": "object", "properties": {"a": {"type": "number", "default": value}}}))
        return "done"

    @registry.tool
    async def link() -> ResourceLink:
        return ResourceLink("a:b", "a", annotations=Annotations(priority=value))

    channel = speak.Channel(version, registry)
    channel.log_level = "debug"
    if version in HANDSHAKE:
        channel.request("logging/setLevel", {"level": "debug"})
    assert channel.call("report", token=1) == [text(version, 1, "done")]
    assert len(raised) == 3
    assert all("not finite" in fault for fault in raised)
    failed = text(version, 1, "The tool failed because of an internal error.", isError=True)
    for name in ("ask", "fill_in", "link"):
        assert channel.call(name) == [failed]


@pytest.mark.parametrize("value", [NAN, object(), {1: 2}, tree(500)], ids=["nan", "object", "key", "deep"])
def test_case_66_and_87_what_is_no_json_is_refused_when_it_is_declared(value: Any) -> None:
    support.need("jsonschema")  # which holds raw schemas to what they say
    registry = Registry("shop", "1.0")

    async def made() -> str:
        return "x"

    async def taking(arguments: dict[str, Any]) -> str:
        return "x"

    schema = {"type": "object", "properties": {"a": {"default": value}}}
    attempts = [
        lambda: registry.tool(meta={"a": value})(made),
        lambda: registry.tool(input_schema=schema)(taking),
        lambda: registry.tool(output_schema=schema)(made),
        lambda: registry.resource("a:b", meta={"a": value})(made),
        lambda: registry.resource("a:b", annotations=Annotations(priority=value))(made),
        lambda: registry.prompt(meta={"a": value})(made),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError, match=r"\$|deep"):
            attempt()
    assert (registry.tools, registry.resources, registry.prompts) == ({}, {}, {})


@pytest.mark.parametrize("spelled", [b"NaN", b"Infinity", b"-Infinity", b"nan", b"1e999", b"-1e999"])
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_66_what_comes_in_is_no_json_either(version: str, spelled: bytes) -> None:
    shop = Shop()
    channel = shop.client("channel", version)
    body = speak.wire(channel.message("tools/call", {"name": "echo", "arguments": {"text": "T"}}))
    (reply,) = channel.end.send(body.replace(b'"T"', spelled))
    assert reply["error"]["code"] == -32700
    assert channel.call("echo", {"text": "a"}) == [text(version, 1, "a")]
    assert shop.heard == ["a"]


def test_case_66_a_decimal_that_is_no_number() -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def give() -> Any:
        return {"m": Decimal("NaN")}

    # A Decimal travels as text, for its digits; "NaN" is then a text like any other.
    channel = speak.Channel(HANDSHAKE[0], registry)
    assert channel.call("give")[0]["result"]["structuredContent"] == {"m": "NaN"}


LONE = ["\ud800", "a\udfffb", "\ude00\ud83d", "\ud83d\ud83d\ude00"]


@pytest.mark.parametrize("lone", LONE, ids=ascii)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_67_half_a_pair_is_replaced_on_its_way_out(version: str, lone: str) -> None:
    registry = Registry(f"shop{lone}", "1.0", instructions=lone)
    mended = lone.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    assert "\ufffd" in mended

    @registry.tool(description=lone)
    async def give(ex: Exchange) -> Any:
        await ex.progress(1, message=lone)
        await ex.log("error", {lone: lone}, logger=lone)
        return {lone: [lone]}

    @registry.tool
    async def fail() -> str:
        raise ToolError(lone)

    @registry.resource(f"a:{lone}", name=lone)
    async def held() -> str:
        return lone

    @registry.prompt(name=lone)
    async def said() -> str:
        return lone

    for end in ENDS:
        client = ENDS[end](version, registry)
        client.log_level = "debug"
        if version in HANDSHAKE:
            client.request("logging/setLevel", {"level": "debug"})
        call = client.call("give", token=1)
        reported, logged, reply = call.messages if end == "http" else call
        if "message" in client.adapter.shape.progress:
            assert reported["params"]["message"] == mended
        assert logged["params"] == {"level": "error", "data": {mended: mended}, "logger": mended}
        assert reply["result"]["content"][0]["text"] == speak.wire({mended: [mended]}).decode()
        (failed,) = say(client, client.message("tools/call", {"name": "fail"}))
        assert failed["result"]["content"][0]["text"] == mended
        for method in ("tools/list", "resources/list", "prompts/list"):
            (listed,) = say(client, client.message(method))
            assert mended in str(listed)


@pytest.mark.parametrize(
    "escape", [b"\\ud83d", b"\\udf78", b"\\udf78\\ud83c", b"\\ud83d\\ud83d\\ude00", b"\xed\xa0\x80"]
)
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_67_half_a_pair_that_comes_in_is_refused(version: str, escape: bytes) -> None:
    shop = Shop()
    for end in ENDS:
        client = shop.client(end, version)
        body = speak.wire(client.message("tools/call", {"name": "echo", "arguments": {"text": "T"}}))
        pair = body.replace(b'"T"', b'"\\ud83c\\udf78"')
        half = body.replace(b'"T"', b'"' + escape + b'"')
        headers = {**client.headers(), "Mcp-Method": "tools/call", "Mcp-Name": "echo"} if end == "http" else {}

        def sent(data: bytes, client: Any = client, end: str = end, headers: Any = headers) -> list[JSON]:
            if end == "channel":
                back: list[JSON] = client.end.send(data)
                return back
            return list(client.simulation.http(data, headers=headers).messages)

        (refused,) = sent(half)
        assert refused["error"]["code"] == -32700
        assert sent(pair) == [text(version, 1, "🍸")]
    assert shop.heard == ["🍸"] * 2

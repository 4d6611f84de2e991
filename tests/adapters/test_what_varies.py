"""What differs between the revisions, one row after the other, for each revision: over HTTP and over a channel."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcp_sansio import (
    CacheHint,
    Change,
    ChangeKind,
    CompletionRequest,
    Config,
    Exchange,
    Head,
    Registry,
    ResourceNotFound,
)
from mcp_sansio.testing import Simulation
from speak import (
    ENVELOPE,
    HANDSHAKE,
    META,
    STREAM_HEAD,
    VERSIONS,
    Channel,
    Http,
    Speaker,
    assert_json,
    notification,
    wire,
)

SERVER_META = {"_meta": {META + "serverInfo": {"name": "srv", "version": "1"}}}
COMPLETE = {"resultType": "complete", **SERVER_META}
CAPABILITIES = {
    "logging": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
}


def registry(**options: Any) -> Registry:
    made = Registry("srv", "1", **options)

    @made.tool
    async def echo(text: str) -> str:
        """Say it again."""
        return text

    @made.resource("note:/a", mime_type="text/plain")
    async def note() -> str:
        """A note."""
        return "hello"

    @made.prompt
    async def greet() -> str:
        """Greet."""
        return "Hi"

    return made


def is_modern(version: str) -> bool:
    return version in ENVELOPE


def finished(version: str, body: dict[str, Any]) -> dict[str, Any]:
    """A result object as `version` ends it."""
    return {**body, **COMPLETE} if is_modern(version) else body


def result(version: str, body: dict[str, Any], id: Any = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": finished(version, body)}


def error(code: int, message: str, data: Any = None, id: Any = 1) -> dict[str, Any]:
    held = {"code": code, "message": message} | ({} if data is None else {"data": data})
    return {"jsonrpc": "2.0", "id": id, "error": held}


# Server description ---------------------------------------------------------------------------------------------------


def description(version: str) -> dict[str, Any]:
    if is_modern(version):
        body = {"supportedVersions": list(VERSIONS), "capabilities": CAPABILITIES, "instructions": "Be brief."}
        return {**body, **COMPLETE, "ttlMs": 60000, "cacheScope": "private"}
    info = {"name": "srv", "version": "1"}
    return {
        "protocolVersion": version,
        "capabilities": CAPABILITIES,
        "serverInfo": info,
        "instructions": "Be brief.",
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_description_http(version: str) -> None:
    simulation = Simulation(registry(instructions="Be brief."))
    speaker = Http(version, simulation)
    if is_modern(version):
        described = speaker.request("server/discover")
        more = ()
    else:
        described = speaker.post(speaker.initialize(id=1))
        more = (("Mcp-Session-Id", described.header("mcp-session-id") or ""),)
        assert more[0][1] not in ("", speaker.session)
    body = wire({"jsonrpc": "2.0", "id": 1, "result": description(version)})
    head = (("Content-Type", "application/json"), *more, ("Content-Length", str(len(body))))
    assert (described.head, described.body) == (Head(200, head), body)


@pytest.mark.parametrize("version", VERSIONS)
def test_description_channel(version: str) -> None:
    channel = Channel(version, registry(instructions="Be brief."))
    if not is_modern(version):
        channel = Channel(version, channel.simulation)
    request = channel.message("server/discover") if is_modern(version) else channel.initialize(id=1)
    assert channel.send(request) == [{"jsonrpc": "2.0", "id": 1, "result": description(version)}]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_without_instructions_gives_none(version: str) -> None:
    channel = Channel(version, registry())
    described = description(version)
    del described["instructions"]
    request = channel.message("server/discover") if is_modern(version) else channel.initialize(id=1)
    assert channel.send(request) == [{"jsonrpc": "2.0", "id": 1, "result": described}]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_other_way_to_describe_the_server_is_an_unknown_method(version: str) -> None:
    channel = Channel(version, registry())
    if is_modern(version):
        request = {**channel.initialize(id=1)}
        request["params"] = {**request["params"], "_meta": channel.meta}
    else:
        request = channel.message("server/discover")
    assert channel.send(request) == [error(-32601, f"unknown method: '{request['method']}'")]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_initialized_is_accepted_with_nothing(version: str) -> None:
    accepted = Http(version, registry()).post(notification("notifications/initialized"))
    assert (accepted.head, accepted.body, accepted.ended) == (Head(202, ()), b"", True)


# Completions capability -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_completions_capability(version: str) -> None:
    declared = registry()

    @declared.completion
    def complete(request: CompletionRequest) -> list[str]:
        return [request.value + "!"]

    channel = Channel(version, declared)
    request = channel.message("server/discover") if is_modern(version) else channel.initialize(id=1)
    held = channel.send(request)[0]["result"]["capabilities"]
    assert held == (CAPABILITIES if version == "2024-11-05" else {**CAPABILITIES, "completions": {}})
    params = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "x", "value": "a"}}
    completed = result(version, {"completion": {"values": ["a!"]}}, id=2)
    assert channel.request("completion/complete", params, id=2) == [completed]
    assert_json(Http(version, declared).request("completion/complete", params, id=2), 200, completed)


# Session --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_session(version: str) -> None:
    speaker = Http(version, registry())
    # The one id that was given out; on a revision without sessions there is none, and nothing is kept.
    assert (speaker.session is None) is is_modern(version)
    assert speaker.session is None or re.fullmatch("[0-9a-f]{32}", speaker.session)
    assert len(speaker.simulation.server.store) == (0 if is_modern(version) else 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_session_header_means_nothing_without_sessions(version: str) -> None:
    speaker = Http(version, registry())
    answered = speaker.call("echo", {"text": "a"}, headers={"Mcp-Session-Id": "gone-123"})
    assert_json(answered, 200, result(version, {"content": [{"type": "text", "text": "a"}]}))


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_an_unknown_session_is_not_found(version: str, method: str) -> None:
    speaker = Http(version, registry(), config=Config(deletable_sessions=True))
    speaker.session = "gone-123"
    ways = {"POST": lambda: speaker.request("tools/list"), "GET": speaker.get, "DELETE": speaker.delete}
    refused = ways[method]()
    assert refused.status == 404
    assert refused.messages[0]["error"] == {"code": -32600, "message": "there is no such session; initialize again"}


# GET stream -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_get(version: str) -> None:
    speaker = Http(version, registry())
    stream = speaker.get()
    if is_modern(version):
        body = wire({"jsonrpc": "2.0", "error": {"code": -32600, "message": "GET is not possible here"}})
        head = (("Content-Type", "application/json"), ("Allow", "POST, OPTIONS"), ("Content-Length", str(len(body))))
        assert (stream.status, stream.body, stream.ended) == (405, body, True)
        assert dict(stream.head.headers) == dict(head) | {"Allow": stream.header("allow")}
        return
    primed = rb"id: [0-9a-f]{32}-1\nretry: 1000\ndata:\n\n" if version == "2025-11-25" else b""
    assert stream.head == STREAM_HEAD
    assert re.fullmatch(primed, stream.body)
    assert not stream.ended


# Headers --------------------------------------------------------------------------------------------------------------

MISMATCH = "the header %s does not match the body"


@pytest.mark.parametrize("version", VERSIONS)
def test_without_the_version_header(version: str) -> None:
    speaker = Http(version, registry())
    answered = speaker.call("echo", {"text": "a"}, headers={"MCP-Protocol-Version": None})
    if is_modern(version):
        assert_json(answered, 400, error(-32020, "the header MCP-Protocol-Version is missing"))
    else:
        # The session remembers what was negotiated ("if … the server has no other way to identify the version").
        assert_json(answered, 200, result(version, {"content": [{"type": "text", "text": "a"}]}))


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("name", ["Mcp-Method", "Mcp-Name"])
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "echo", "arguments": {"text": "a"}}),
        ("resources/read", {"uri": "note:/a"}),
        ("prompts/get", {"name": "greet"}),
    ],
)
def test_mirroring_headers_are_required(version: str, name: str, method: str, params: dict[str, Any]) -> None:
    speaker = Http(version, registry())
    missing = speaker.request(method, params, headers={name: None})
    assert_json(missing, 400, error(-32020, f"the header {name} is missing"))
    wrong = speaker.request(method, params, headers={name: "tools/list"})
    assert_json(wrong, 400, error(-32020, MISMATCH % name))
    assert speaker.request(method, params).status == 200


@pytest.mark.parametrize("version", ENVELOPE)
def test_the_method_header_is_required_everywhere_and_compared_with_case(version: str) -> None:
    speaker = Http(version, registry())
    for method in ("tools/list", "server/discover", "resources/list", "nonsense"):
        assert_json(
            speaker.request(method, headers={"Mcp-Method": None}),
            400,
            error(-32020, "the header Mcp-Method is missing"),
        )
        assert_json(
            speaker.request(method, headers={"Mcp-Method": method.upper()}),
            400,
            error(-32020, MISMATCH % "Mcp-Method"),
        )
    assert speaker.request("tools/list", headers={"Mcp-Name": "anything"}).status == 200
    # Blanks around a header's value do not belong to it.
    blanks = {"Mcp-Method": " tools/list\t", "MCP-Protocol-Version": f"\t{version} "}
    assert speaker.request("tools/list", headers=blanks).status == 200


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("method", ["tools/call", "resources/read", "prompts/get"])
def test_the_headers_of_params_that_are_none(version: str, method: str) -> None:
    speaker = Http(version, registry())
    for params, text in (([], "'params' must be an object"), ("x", "'params' must be an object")):
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        assert_json(speaker.post(request, headers={"Mcp-Name": "x"}), 400, error(-32602, text))
    for target in (None, 5, [], {}):
        member = "uri" if method == "resources/read" else "name"
        refused = speaker.request(method, {member: target}, headers={"Mcp-Name": "x"})
        assert_json(refused, 400, error(-32602, f"params.{member} must be a string"))


@pytest.mark.parametrize("version", HANDSHAKE)
def test_mirroring_headers_mean_nothing_elsewhere(version: str) -> None:
    speaker = Http(version, registry())
    headers = {"Mcp-Method": "tools/list", "Mcp-Name": "nope", "Mcp-Param-Text": "b"}
    answered = speaker.call("echo", {"text": "a"}, headers=headers)
    assert_json(answered, 200, result(version, {"content": [{"type": "text", "text": "a"}]}))


NAMES = [
    # The URI, the header, and whether they agree.
    ("note:/ż/漢", "=?base64?bm90ZTovxbwv5ryi?=", True),
    ("note:/a", "note:/a", True),
    ("note:/a", "  note:/a\t", True),
    ("note:/a", "=?base64?bm90ZTovYQ==?=", True),
    ("note:/a", "=?base64?bm90ZTovYQ?=", None),
    ("note:/a", "=?base64?bm90ZTovYg==?=", False),
    ("note:/a", "=?BASE64?bm90ZTovYQ==?=", False),
    ("note:/a", "=?base64?/w==?=", None),
    ("note:/a", "=?base64?!!!!?=", None),
    ("note:/a", "note:/\xe4", None),
    ("note:/a", "note:/\ta", None),
    ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?=", True),
    ("=?base64?YQ==?=", "=?base64?YQ==?=", False),
]


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize(("uri", "header", "agrees"), NAMES)
def test_the_name_header_is_decoded(version: str, uri: str, header: str, agrees: bool | None) -> None:
    declared = Registry("srv", "1")

    @declared.resource(uri)
    async def note() -> str:
        return "hello"

    answered = Http(version, declared).request("resources/read", {"uri": uri}, headers={"Mcp-Name": header})
    if agrees:
        body = {"contents": [{"uri": uri, "text": "hello"}]}
        assert_json(
            answered,
            200,
            {"jsonrpc": "2.0", "id": 1, "result": {**body, **COMPLETE, "ttlMs": 0, "cacheScope": "private"}},
        )
    else:
        text = "the header Mcp-Name is malformed" if agrees is None else MISMATCH % "Mcp-Name"
        assert_json(answered, 400, error(-32020, text))


def mirrored() -> Registry:
    made = Registry("srv", "1")
    inner = {"type": "object", "properties": {"flag": {"type": "boolean", "x-mcp-header": "Flag"}}}
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "options": inner,
        },
    }

    @made.tool(input_schema=schema)
    async def place(arguments: dict) -> str:  # type: ignore[type-arg]
        """Place it."""
        return "done"

    return made


DIFFERS = "the header Mcp-Param-%s does not match the argument it mirrors"
INEXACT = "the argument that the header Mcp-Param-Count mirrors must lie within -9007199254740991 and 9007199254740991"
PARAMS: list[tuple[dict[str, Any], dict[str, str], str | None]] = [
    ({}, {}, None),
    ({"region": None}, {}, None),
    ({"region": "eu"}, {"Mcp-Param-Region": "eu"}, None),
    ({"region": "eu"}, {"mcp-param-REGION": " eu "}, None),
    ({"region": "ż"}, {"Mcp-Param-Region": "=?base64?xbw=?="}, None),
    ({"count": 42}, {"Mcp-Param-Count": "42"}, None),
    ({"count": 42}, {"Mcp-Param-Count": "42.0"}, None),
    ({"options": {"flag": True}}, {"Mcp-Param-Flag": "true"}, None),
    ({"region": "eu"}, {}, "the header Mcp-Param-Region is missing"),
    ({}, {"Mcp-Param-Region": "eu"}, "the header Mcp-Param-Region is set, but the argument it mirrors is not"),
    (
        {"region": "eu"},
        {"Mcp-Param-Region": "us"},
        DIFFERS % "Region",
    ),
    (
        {"region": "eu"},
        {"Mcp-Param-Region": "EU"},
        DIFFERS % "Region",
    ),
    ({"region": "eu"}, {"Mcp-Param-Region": "\xe4"}, "the header Mcp-Param-Region is malformed"),
    ({"region": ["eu"]}, {"Mcp-Param-Region": "eu"}, DIFFERS % "Region"),
    ({"region": {}}, {"Mcp-Param-Region": ""}, DIFFERS % "Region"),
    ({"count": 2**53 - 1}, {"Mcp-Param-Count": "9007199254740991"}, None),
    ({"count": 1 - 2**53}, {"Mcp-Param-Count": "-9007199254740991"}, None),
    ({"count": 2**53}, {"Mcp-Param-Count": "9007199254740992"}, INEXACT),
    ({"count": -(2**53)}, {"Mcp-Param-Count": "-9007199254740992"}, INEXACT),
    ({"count": 1}, {"Mcp-Param-Count": "1." + "0" * 61}, None),
    ({"count": 1}, {"Mcp-Param-Count": "1." + "0" * 62}, DIFFERS % "Count"),
    ({"count": 42}, {"Mcp-Param-Count": "43"}, DIFFERS % "Count"),
    ({"count": 42}, {"Mcp-Param-Count": "x"}, DIFFERS % "Count"),
    (
        {"options": {"flag": True}},
        {"Mcp-Param-Flag": "True"},
        DIFFERS % "Flag",
    ),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("arguments", "headers", "fault"), PARAMS)
def test_param_headers(version: str, arguments: dict[str, Any], headers: dict[str, str], fault: str | None) -> None:
    pytest.importorskip("jsonschema")
    answered = Http(version, mirrored()).call("place", arguments, headers=headers)
    if fault is not None and is_modern(version):
        assert_json(answered, 400, error(-32020, fault))
    else:
        assert answered.status == 200
        assert answered.messages[0]["result"]["content"] != []


@pytest.mark.parametrize("version", ENVELOPE)
def test_param_headers_are_those_of_tools_alone(version: str) -> None:
    pytest.importorskip("jsonschema")
    declared = mirrored()

    @declared.prompt(name="place")
    async def say(region: str) -> str:
        return region

    answered = Http(version, declared).request("prompts/get", {"name": "place", "arguments": {"region": "eu"}})
    content = {"type": "text", "text": "eu"}
    assert_json(answered, 200, result(version, {"messages": [{"role": "user", "content": content}]}))


@pytest.mark.parametrize("version", VERSIONS)
def test_param_headers_are_published_where_they_are_defined(version: str) -> None:
    pytest.importorskip("jsonschema")
    [listed] = Channel(version, mirrored()).request("tools/list")
    [tool] = listed["result"]["tools"]
    region = {"type": "string", "x-mcp-header": "Region"} if is_modern(version) else {"type": "string"}
    assert tool["inputSchema"]["properties"]["region"] == region


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_channel_has_no_headers_to_mirror(version: str) -> None:
    channel = Channel(version, registry())
    assert channel.call("echo", {"text": "a"}) == [result(version, {"content": [{"type": "text", "text": "a"}]})]


# Header and body disagree ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ENVELOPE)
def test_header_and_body_disagree(version: str) -> None:
    other = next((held for held in VERSIONS if held != version), "1999-01-01")
    answered = Http(version, registry()).request("tools/list", headers={"MCP-Protocol-Version": other})
    assert_json(answered, 400, error(-32020, "the version header does not match the version in _meta"))


# Batching -------------------------------------------------------------------------------------------------------------

BATCHING = {version: version == "2025-03-26" for version in VERSIONS}


@pytest.mark.parametrize("version", VERSIONS)
def test_batch_http(version: str) -> None:
    speaker = Http(version, registry())
    batch = [
        speaker.message("tools/call", {"name": "echo", "arguments": {"text": "a"}}, id="x"),
        notification("notifications/cancelled", {"requestId": 99}),
        speaker.message("nonsense", id=2),
    ]
    answered = speaker.post(batch)
    if BATCHING[version]:
        replies = [
            error(-32601, "unknown method: 'nonsense'", id=2),
            result(version, {"content": [{"type": "text", "text": "a"}]}, id="x"),
        ]
        assert_json(answered, 200, replies)
    else:
        refused = error(-32600, "this protocol revision has no batches; send one message at a time", id=None)
        if not speaker.adapter.null_error_id:
            del refused["id"]
        assert_json(answered, 400, {**refused})


@pytest.mark.parametrize("version", VERSIONS)
def test_batch_channel(version: str) -> None:
    channel = Channel(version, registry())
    batch = [channel.message("tools/list", id=1), channel.message("nonsense", id=2)]
    unknown = error(-32601, "unknown method: 'nonsense'", id=2)
    listed = cached(version, {"tools": [ECHO_TOOL]})
    refused = error(-32600, "this protocol revision has no batches; send one message at a time", id=None)
    if BATCHING[version]:
        assert channel.send(batch) == [[listed, unknown]]
    else:
        if not channel.adapter.null_error_id:
            del refused["id"]
        assert channel.send(batch) == [refused]


@pytest.mark.revision("2025-03-26")
def test_batches_of_all_kinds() -> None:
    speaker = Http("2025-03-26", registry())
    channel = Channel("2025-03-26", registry())
    one = speaker.message("ping")
    initialize = {**speaker.initialize(), "id": 5}
    pong = {"jsonrpc": "2.0", "id": 1, "result": {}}
    faulty = error(-32600, "a message must be an object", id=None)
    rows: list[tuple[Any, int, Any]] = [
        ([one], 200, [pong]),
        ([one, one], 200, [pong, pong]),
        ([1, one], 200, [faulty, pong]),
        ([initialize, one], 200, [error(-32600, "initialize must not be part of a batch", id=5), pong]),
        ([notification("notifications/initialized"), notification("notifications/x")], 202, None),
        ([], 400, error(-32600, "a batch must hold at least one message", id=None)),
    ]
    for batch, status, expected in rows:
        answered = speaker.post(batch)
        if expected is None:
            assert (answered.head, answered.body, answered.ended) == (Head(202, ()), b"", True)
            assert channel.send(batch) == []
        else:
            assert_json(answered, status, expected)
            assert channel.send(batch) == [expected]


# Unknown method, unknown notification ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_method(version: str) -> None:
    unknown = error(-32601, "unknown method: 'tools/nope'")
    assert_json(Http(version, registry()).request("tools/nope"), 404 if is_modern(version) else 200, unknown)
    assert Channel(version, registry()).request("tools/nope") == [unknown]
    # As much of it is quoted as it takes to know it again.
    [long] = Channel(version, registry()).request("x" * 101)
    assert long == error(-32601, f"unknown method: '{'x' * 100}'")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_notification_that_is_sent_as_a_request(version: str) -> None:
    for method in ("notifications/initialized", "notifications/cancelled"):
        unknown = error(-32601, f"unknown method: '{method}'")
        assert_json(Http(version, registry()).request(method), 404 if is_modern(version) else 200, unknown)
        assert Channel(version, registry()).request(method) == [unknown]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", ["notifications/vendor/x", "$/progress", "tools/list"])
def test_unknown_notification(version: str, method: str) -> None:
    accepted = Http(version, registry()).post(notification(method, {"a": 1}))
    assert (accepted.head, accepted.body, accepted.ended) == (Head(202, ()), b"", True)
    assert Channel(version, registry()).send(notification(method, {"a": 1})) == []


GONE = {
    "2026-07-28": (
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "roots/list",
        "tasks/get",
    )
}


@pytest.mark.parametrize("version", ENVELOPE)
def test_removed_methods(version: str) -> None:
    speaker, channel = Http(version, registry()), Channel(version, registry())
    for method in GONE[version]:
        assert_json(speaker.request(method), 404, error(-32601, f"unknown method: '{method}'"))
        assert channel.request(method) == [error(-32601, f"unknown method: '{method}'")]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_methods_of_the_newer_family_are_unknown_elsewhere(version: str) -> None:
    speaker, channel = Http(version, registry()), Channel(version, registry())
    for method in ("server/discover", "subscriptions/listen"):
        assert_json(speaker.request(method), 200, error(-32601, f"unknown method: '{method}'"))
        assert channel.request(method) == [error(-32601, f"unknown method: '{method}'")]


# Ping -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("params", [None, {}, "absent"])
def test_ping(version: str, params: Any) -> None:
    request = {"jsonrpc": "2.0", "id": "p", "method": "ping"} | ({} if params == "absent" else {"params": params})
    pong = {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert_json(Http(version, registry()).post(request), 200, pong)
    assert Channel(version, registry()).send(request) == [pong]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_ping_before_the_handshake(version: str) -> None:
    channel = Simulation(registry()).channel()
    assert channel.send({"jsonrpc": "2.0", "id": 1, "method": "ping"}) == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


# Unsupported version --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ENVELOPE)
def test_unsupported_version(version: str) -> None:
    speaker = Http(version, registry())
    request = speaker.message("server/discover")
    request["params"]["_meta"][META + "protocolVersion"] = "1900-01-01"
    text = f"unsupported protocol version; this server speaks {', '.join(VERSIONS)}"
    refused = error(-32022, text, {"supported": list(VERSIONS), "requested": "1900-01-01"})
    assert_json(speaker.post(request, headers={"MCP-Protocol-Version": "1900-01-01"}), 400, refused)
    assert Channel(version, registry()).send(request) == [refused]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_an_unsupported_version_is_negotiated_by_a_handshake(version: str) -> None:
    simulation = Simulation(registry())
    request = Speaker(version, simulation).initialize(id=1)
    request["params"]["protocolVersion"] = "2099-01-01"
    answered = simulation.http(request, headers={"MCP-Protocol-Version": "2099-01-01"})
    assert answered.status == 200
    assert answered.messages[0]["result"]["protocolVersion"] == HANDSHAKE[0]


# Result envelope and cache hints --------------------------------------------------------------------------------------

CACHED = {"ttlMs": 60000, "cacheScope": "private"}


def cached(version: str, body: dict[str, Any], ttl: int = 60000, scope: str = "private") -> dict[str, Any]:
    made = result(version, body)
    if is_modern(version):
        made["result"] |= {"ttlMs": ttl, "cacheScope": scope}
    return made


ECHO_TOOL = {
    "name": "echo",
    "description": "Say it again.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}
LISTS: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {"tools": [ECHO_TOOL]}),
    (
        "resources/list",
        {"resources": [{"name": "note", "description": "A note.", "uri": "note:/a", "mimeType": "text/plain"}]},
    ),
    ("resources/templates/list", {"resourceTemplates": []}),
    ("prompts/list", {"prompts": [{"name": "greet", "description": "Greet."}]}),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "body"), LISTS)
def test_lists(version: str, method: str, body: dict[str, Any]) -> None:
    [answered] = Channel(version, registry()).request(method)
    assert answered == cached(version, body)
    over_http = Http(version, registry()).request(method)
    assert (over_http.status, over_http.messages[0]["id"]) == (200, 1)
    assert over_http.body == Http(version, registry()).request(method).body


@pytest.mark.parametrize("version", VERSIONS)
def test_results(version: str) -> None:
    speaker, channel = Http(version, registry()), Channel(version, registry())
    read = {"contents": [{"uri": "note:/a", "text": "hello", "mimeType": "text/plain"}]}
    got = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]}
    rows: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        (
            "tools/call",
            {"name": "echo", "arguments": {"text": "a"}},
            result(version, {"content": [{"type": "text", "text": "a"}]}),
        ),
        ("resources/read", {"uri": "note:/a"}, cached(version, read, 0)),
        ("prompts/get", {"name": "greet"}, result(version, got)),
    ]
    for method, params, expected in rows:
        answered = speaker.request(method, params)
        assert (answered.status, answered.messages) == (200, [expected])
        assert channel.request(method, params) == [expected]


@pytest.mark.parametrize("version", VERSIONS)
def test_cache_hints_are_what_was_declared(version: str) -> None:
    declared = Registry("srv", "1", list_cache=CacheHint(ttl_ms=5, scope="public"))

    @declared.resource("note:/a", cache=CacheHint(ttl_ms=7, scope="public"))
    async def note() -> str:
        return "hello"

    channel = Channel(version, declared)
    assert channel.request("tools/list") == [cached(version, {"tools": []}, 5, "public")]
    read = {"contents": [{"uri": "note:/a", "text": "hello"}]}
    assert channel.request("resources/read", {"uri": "note:/a"}) == [cached(version, read, 7, "public")]


# Resource not found ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("uri", ["note:/none", "gone:/a"])
def test_resource_not_found(version: str, uri: str) -> None:
    declared = registry()

    @declared.resource("gone:/{id}")
    async def gone(id: str) -> str:
        raise ResourceNotFound(id)

    code, status = (-32602, 400) if is_modern(version) else (-32002, 200)
    refused = error(code, "resource not found", {"uri": uri})
    assert_json(Http(version, declared).request("resources/read", {"uri": uri}), status, refused)
    assert Channel(version, declared).request("resources/read", {"uri": uri}) == [refused]


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_tool_and_prompt(version: str) -> None:
    status = 400 if is_modern(version) else 200
    for method, kind in (("tools/call", "tool"), ("prompts/get", "prompt")):
        refused = error(-32602, f"there is no {kind} named 'nope'")
        assert_json(Http(version, registry()).request(method, {"name": "nope"}), status, refused)
        assert Channel(version, registry()).request(method, {"name": "nope"}) == [refused]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("arguments", [{}, {"text": 5}])
def test_arguments_that_do_not_fit_are_a_result(version: str, arguments: dict[str, Any]) -> None:
    [answered] = Channel(version, registry()).call("echo", arguments)
    assert answered["result"]["isError"] is True
    [content] = answered["result"]["content"]
    assert content["text"].startswith("Invalid arguments: ")
    assert "text" in content["text"]
    assert Http(version, registry()).call("echo", arguments).messages == [answered]


# Logging --------------------------------------------------------------------------------------------------------------


def talking() -> Registry:
    made = Registry("srv", "1")

    @made.tool
    async def talk(ex: Exchange) -> str:
        """Talk."""
        await ex.log("debug", {"n": 1})
        await ex.log("warning", "careful", logger="db")
        return "said"

    return made


def log_of(level: str, data: Any, **more: Any) -> dict[str, Any]:
    return notification("notifications/message", {"level": level, **more, "data": data})


QUIET = {"content": [{"type": "text", "text": "said"}]}


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_logged_unless_asked_for(version: str) -> None:
    assert Channel(version, talking()).call("talk") == [result(version, QUIET)]
    assert_json(Http(version, talking()).call("talk"), 200, result(version, QUIET))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("level", ["debug", "warning", "error"])
def test_logging(version: str, level: str) -> None:
    speaker, channel = Http(version, talking()), Channel(version, talking())
    for client in (speaker, channel):
        if is_modern(version):
            client.log_level = level
    if not is_modern(version):
        assert_json(speaker.request("logging/setLevel", {"level": level}), 200, result(version, {}))
        assert channel.request("logging/setLevel", {"level": level}) == [result(version, {})]
    logs = {"debug": [log_of("debug", {"n": 1})], "warning": [], "error": []}[level]
    logs += [] if level == "error" else [log_of("warning", "careful", logger="db")]
    assert channel.call("talk") == [*logs, result(version, QUIET)]
    assert speaker.call("talk").messages == [*logs, result(version, QUIET)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("level", ["loud", "", 5])
def test_a_wrong_level(version: str, level: Any) -> None:
    channel, speaker = Channel(version, talking()), Http(version, talking())
    levels = "debug, info, notice, warning, error, critical, alert, emergency"
    if is_modern(version):
        refused = error(-32602, f"params._meta['{META}logLevel'] must be one of {levels}")
        channel.log_level = speaker.log_level = level
        assert channel.call("talk") == [refused]
        assert_json(speaker.call("talk"), 400, refused)
    else:
        refused = error(-32602, f"params.level must be one of {levels}")
        assert channel.request("logging/setLevel", {"level": level}) == [refused]
        assert_json(speaker.request("logging/setLevel", {"level": level}), 200, refused)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_level_is_kept_for_its_session_alone(version: str) -> None:
    simulation = Simulation(talking())
    first, second = Http(version, simulation), Http(version, simulation)
    first.request("logging/setLevel", {"level": "debug"})
    assert len(first.call("talk").messages) == 3
    assert len(second.call("talk").messages) == 1


# Progress -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("token", ["t", 0, 7])
def test_progress(version: str, token: Any) -> None:
    made = Registry("srv", "1")

    @made.tool
    async def work(ex: Exchange) -> str:
        """Work."""
        await ex.progress(1, 3, "one")
        await ex.progress(0.5)
        await ex.progress(2)
        return "done"

    first = {"progressToken": token, "progress": 1, "total": 3, "message": "one"}
    if version == "2024-11-05":
        del first["message"]
    expected = [
        notification("notifications/progress", first),
        notification("notifications/progress", {"progressToken": token, "progress": 2}),
        result(version, {"content": [{"type": "text", "text": "done"}]}),
    ]
    assert Channel(version, made).call("work", token=token) == expected
    assert Http(version, made).call("work", token=token).messages == expected
    assert Channel(version, made).call("work") == expected[2:]
    assert_json(Http(version, made).call("work"), 200, expected[2])
    # What is no token is none: there is nothing that a report could name.
    for nothing in (True, 1.5, [], {}, None):
        assert Channel(version, made).call("work", _meta={"progressToken": nothing}) == expected[2:]


# Cancellation ---------------------------------------------------------------------------------------------------------


def sleeping() -> tuple[Registry, list[str]]:
    made, seen = Registry("srv", "1"), []

    @made.tool
    async def sleep(ex: Exchange) -> str:
        """Sleep."""
        try:
            await ex.wait_cancelled()
        finally:
            seen.append("ended")
        return "late"

    return made, seen


@pytest.mark.parametrize("version", VERSIONS)
def test_cancelled_on_a_channel(version: str) -> None:
    made, seen = sleeping()
    channel = Channel(version, made)
    assert channel.call("sleep", id=7) == []
    for wrong in ({"requestId": 8}, {"requestId": "7"}, {"requestId": True}, {"requestId": [7]}, {}, None):
        assert channel.send(notification("notifications/cancelled", wrong)) == []
    assert seen == []
    assert channel.send(notification("notifications/cancelled", {"requestId": 7, "reason": "tired"})) == []
    assert seen == ["ended"]
    assert channel.send(notification("notifications/cancelled", {"requestId": 7})) == []
    assert len(channel.simulation.scheduler) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_cancelled_over_http(version: str) -> None:
    made, seen = sleeping()
    speaker = Http(version, made)
    running = speaker.call("sleep", id=7)
    assert running.head is None
    accepted = speaker.post(notification("notifications/cancelled", {"requestId": 7}))
    assert (accepted.head, accepted.body) == (Head(202, ()), b"")
    if is_modern(version):
        # The notification is not defined there: closing the response is what cancels.
        assert (seen, running.ended) == ([], False)
        running.disconnect()
        assert seen == ["ended"]
    else:
        assert seen == ["ended"]
        # There is no reply, but the HTTP exchange has to end all the same: as an empty stream.
        assert (running.head, running.body, running.ended) == (STREAM_HEAD, b"", True)
    assert len(speaker.simulation.scheduler) == 0


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_disconnect_does_not_cancel(version: str) -> None:
    made, seen = sleeping()
    speaker = Http(version, made)
    running = speaker.call("sleep", id=7)
    running.disconnect()
    assert seen == []
    speaker.post(notification("notifications/cancelled", {"requestId": 7}))
    assert seen == ["ended"]


# Long-lived notifications ---------------------------------------------------------------------------------------------


def changed(version: str, method: str, id: Any, **params: Any) -> dict[str, Any]:
    tag = {"_meta": {META + "subscriptionId": id}} if is_modern(version) else {}
    held = {**tag, **params}
    return notification(method, held or None)


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_over_http(version: str) -> None:
    made = registry()
    speaker = Http(version, made)
    if is_modern(version):
        wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
        params = {"notifications": {**wanted, "resourceSubscriptions": ["note:/a"]}}
        stream = speaker.request("subscriptions/listen", params, id="L")
        acknowledged = changed(
            version, "notifications/subscriptions/acknowledged", "L", notifications=params["notifications"]
        )
        before = [acknowledged]
    else:
        assert_json(speaker.request("resources/subscribe", {"uri": "note:/a"}), 200, result(version, {}))
        stream = speaker.get()
        before = []
    assert stream.head == STREAM_HEAD
    made.remove_tool("echo")
    made.remove_prompt("greet")
    made.resource_updated("note:/a")
    made.resource_updated("note:/b")
    made.remove_resource("note:/a")
    speaker.simulation.settle()
    assert stream.messages == [
        *before,
        changed(version, "notifications/tools/list_changed", "L"),
        changed(version, "notifications/prompts/list_changed", "L"),
        changed(version, "notifications/resources/updated", "L", uri="note:/a"),
        changed(version, "notifications/resources/list_changed", "L"),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_on_a_channel(version: str) -> None:
    made = registry()
    channel = Channel(version, made)
    if is_modern(version):
        params = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["note:/a"]}}
        acknowledged = changed(
            version, "notifications/subscriptions/acknowledged", 1, notifications=params["notifications"]
        )
        assert channel.request("subscriptions/listen", params) == [acknowledged]
    else:
        assert channel.request("resources/subscribe", {"uri": "note:/a"}) == [result(version, {})]
    before = len(channel.end.sent)
    made.remove_tool("echo")
    made.resource_updated("note:/a")
    made.remove_prompt("greet")
    channel.simulation.settle()
    prompts = [] if is_modern(version) else [changed(version, "notifications/prompts/list_changed", 1)]
    assert channel.since(before) == [
        changed(version, "notifications/tools/list_changed", 1),
        changed(version, "notifications/resources/updated", 1, uri="note:/a"),
        *prompts,
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("uri", ["\x00", '"\x00"', "note:/ä"])
def test_a_change_of_any_uri(version: str, uri: str) -> None:
    """Whatever is in it, it stays whole where a message is put together from pieces."""
    made = Registry("srv", "1")

    @made.resource(uri)
    async def read() -> str:
        return "x"

    channel = Channel(version, made)
    if is_modern(version):
        channel.request("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
    else:
        channel.request("resources/subscribe", {"uri": uri})
    before = len(channel.end.sent)
    made.resource_updated(uri)
    channel.simulation.settle()
    assert channel.since(before) == [changed(version, "notifications/resources/updated", 1, uri=uri)]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_unsubscribed(version: str) -> None:
    made = registry()
    channel, speaker = Channel(version, made), Http(version, made)
    speaker.simulation.server.publish(Change(ChangeKind.TOOLS))
    stream = speaker.get()
    for method in ("resources/subscribe", "resources/unsubscribe"):
        assert channel.request(method, {"uri": "note:/a"}) == [result(version, {})]
        assert_json(speaker.request(method, {"uri": "note:/a"}), 200, result(version, {}))
    before = len(channel.end.sent)
    made.resource_updated("note:/a")
    channel.simulation.settle()
    assert (channel.since(before), stream.messages) == ([], [])


@pytest.mark.parametrize("version", HANDSHAKE)
def test_subscribing_to_nothing(version: str) -> None:
    refused = error(-32002, "resource not found", {"uri": "note:/none"})
    assert Channel(version, registry()).request("resources/subscribe", {"uri": "note:/none"}) == [refused]


# DELETE ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("allowed", [False, True])
def test_delete(version: str, allowed: bool) -> None:
    speaker = Http(version, registry(), config=Config(deletable_sessions=allowed))
    ended = speaker.delete()
    if allowed and not is_modern(version):
        assert (ended.head, ended.body, ended.ended) == (Head(204, ()), b"", True)
        assert speaker.request("tools/list").status == 404
        return
    assert ended.status == 405
    assert ended.messages[0]["error"] == {"code": -32600, "message": "DELETE is not possible here"}
    assert speaker.request("tools/list").status == 200

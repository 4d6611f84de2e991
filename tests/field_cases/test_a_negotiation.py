"""Cases 1 to 11: which revision is spoken, how a connection begins, and what is said where it does not."""

from __future__ import annotations

from typing import Any

import pytest

import speak
from mcp_sansio import AdapterSet, Config
from mcp_sansio.outcome import FailureKind

from .common import ENVELOPE, EVERYWHERE, HANDSHAKE, NEWEST, Shop, error, result, say, text

JSON = Any
AHEAD = "2099-01-01"
VERSION = "io.modelcontextprotocol/protocolVersion"


def initialize(asked: JSON, id: JSON = "v1") -> JSON:
    """The request of a handshake; ``...`` leaves the version out."""
    params = {"capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    held = params if asked is ... else {"protocolVersion": asked, **params}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": held}


def settled(message: JSON) -> JSON:
    """What a handshake settled on; the rest of its result is asserted."""
    held = message["result"]
    assert set(held) == {"protocolVersion", "capabilities", "serverInfo"}
    assert held["serverInfo"] == {"name": "shop", "version": "1.0"}
    return message["id"], held["protocolVersion"]


@pytest.mark.parametrize("header", [None, AHEAD, NEWEST, "", " ", "x" * 1000, *HANDSHAKE])
@pytest.mark.parametrize("asked", [AHEAD, "2025-12-31", "draft", NEWEST])
def test_case_1_an_unknown_version_is_negotiated_whatever_the_header_says(asked: str, header: str | None) -> None:
    shop = Shop()
    headers = {} if header is None else {"MCP-Protocol-Version": header}
    reply = shop.simulation.http(initialize(asked), headers=headers)
    assert (reply.status, settled(reply.messages[0])) == (200, ("v1", HANDSHAKE[0]))
    assert shop.simulation.http(initialize(asked), target="/mcp/").status == 200
    # After the handshake the header counts: what is not served is refused.
    session = reply.header("mcp-session-id") or ""
    later = {"Mcp-Session-Id": session, "MCP-Protocol-Version": AHEAD}
    refused = shop.simulation.http({"jsonrpc": "2.0", "id": 2, "method": "ping"}, headers=later)
    assert (refused.status, refused.messages[0]["id"], "result" in refused.messages[0]) == (400, 2, False)


@pytest.mark.parametrize("asked", [AHEAD, "2025-12-31", "draft", NEWEST])
def test_case_1_on_a_channel(asked: str) -> None:
    (reply,) = Shop().simulation.channel().send(initialize(asked))
    assert settled(reply) == ("v1", HANDSHAKE[0])


@pytest.mark.parametrize("served", [AdapterSet.default().until(version) for version in HANDSHAKE])
def test_case_2_each_version_that_is_served_comes_back(served: AdapterSet) -> None:
    shop = Shop(adapters=served)
    for version in HANDSHAKE:
        expected = version if version in served.versions else served.versions[0]
        over_http = shop.simulation.http(initialize(version, id=version), headers={"MCP-Protocol-Version": version})
        assert settled(over_http.messages[0]) == (version, expected)
        assert settled(shop.simulation.channel().send(initialize(version, id=0))[0]) == (0, expected)


@pytest.mark.parametrize("asked", ["1999-12-31", "", "2025-06-18 ", "2025-6-18", "v2025-06-18"])
def test_case_3_no_version_is_echoed_that_is_not_served(asked: str) -> None:
    shop = Shop()
    assert settled(shop.simulation.http(initialize(asked)).messages[0]) == ("v1", HANDSHAKE[0])
    assert settled(shop.simulation.channel().send(initialize(asked))[0]) == ("v1", HANDSHAKE[0])


@pytest.mark.parametrize("asked", [5, 2025.5, None, True, [HANDSHAKE[0]], {"v": HANDSHAKE[0]}, ...])
def test_case_3_a_version_that_is_no_string(asked: JSON) -> None:
    shop = Shop()
    expected = error("v1", -32602, "params.protocolVersion must be a string")
    reply = shop.simulation.http(initialize(asked))
    speak.assert_json(reply, 200, expected)
    assert len(shop.simulation.server.store) == 0  # type: ignore[arg-type]
    channel = shop.simulation.channel()
    assert channel.send(initialize(asked)) == [expected]
    assert settled(channel.send(initialize(HANDSHAKE[0], id=2))[0]) == (2, HANDSHAKE[0])


@pytest.mark.parametrize("params", [None, [], {}, "x"])
def test_case_3_params_that_hold_no_version(params: JSON) -> None:
    shop = Shop()
    message = {**initialize(...), "params": params}
    (reply,) = shop.simulation.channel().send(message)
    assert (reply["id"], reply["error"]["code"]) == ("v1", -32602)
    assert shop.simulation.http(message).messages == [reply]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_6_a_request_before_initialized_is_served(version: str) -> None:
    shop = Shop()
    echo = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "a"}}}
    done = speak.notification("notifications/initialized")

    channel = shop.simulation.channel()
    channel.send(initialize(version))
    assert channel.send(echo) == [text(version, 1, "a")]
    assert channel.send(done) == []
    assert channel.send({**echo, "id": 2}) == [text(version, 2, "a")]

    session = shop.simulation.http(initialize(version)).header("mcp-session-id") or ""
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": version}
    assert shop.simulation.http(echo, headers=headers).messages == [text(version, 1, "a")]
    assert shop.simulation.http(done, headers=headers).status == 202
    assert shop.simulation.http({**echo, "id": 2}, headers=headers).messages == [text(version, 2, "a")]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_6_before_initialized_nothing_is_announced_on_a_channel(version: str) -> None:
    shop = Shop()
    channel = shop.simulation.channel()
    channel.send(initialize(version))
    before = len(channel.sent)
    shop.registry.remove_tool("echo")
    shop.simulation.settle()
    assert channel.messages[before:] == []
    channel.send(speak.notification("notifications/initialized"))
    shop.registry.remove_tool("nap")
    shop.simulation.settle()
    assert channel.messages[before:] == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "resources/read", "logging/setLevel", "prompts/get"])
def test_case_7_without_a_handshake_a_channel_says_so(method: str) -> None:
    channel = Shop(adapters=AdapterSet.default().only(*HANDSHAKE)).simulation.channel()
    params = {"name": "echo", "arguments": {"text": "a"}, "uri": "a", "level": "info"}
    missing = error(1, -32600, "the handshake is missing: send initialize first")
    assert channel.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) == [missing]
    assert settled(channel.send(initialize(HANDSHAKE[0]))[0]) == ("v1", HANDSHAKE[0])


def test_case_7_a_server_of_both_kinds_goes_by_the_message() -> None:
    shop = Shop()
    channel = shop.simulation.channel()
    bare = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    missing = error(1, -32600, "the handshake is missing: send initialize first")
    stateless = [speak.Speaker(version, shop.simulation) for version in ENVELOPE]
    for client in stateless:
        assert channel.send(bare) == [missing]
        (reply,) = channel.send(client.message("tools/call", {"name": "echo", "arguments": {"text": "a"}}, id=2))
        assert reply == text(client.version, 2, "a")
    assert settled(channel.send(initialize(HANDSHAKE[0]))[0]) == ("v1", HANDSHAKE[0])
    assert set(channel.send(bare)[0]["result"]) == {"tools"}
    for client in stateless:
        (reply,) = channel.send(client.message("tools/call", {"name": "echo", "arguments": {"text": "b"}}, id=3))
        assert reply == text(client.version, 3, "b")


SETS = [AdapterSet.default(), *(AdapterSet.default().since(version) for version in speak.VERSIONS)]


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("served", SETS, ids=lambda served: served.versions[-1])
def test_case_9_one_list_of_versions_feeds_everything(version: str, served: AdapterSet) -> None:
    shop = Shop(adapters=served)
    client = shop.client("http", version)
    assert client.request("server/discover").messages[0]["result"]["supportedVersions"] == list(served.versions)
    data = {"supported": list(served.versions), "requested": "1900-01-01"}
    words = f"unsupported protocol version; this server speaks {', '.join(served.versions)}"
    expected = error(1, -32022, words, data=data)
    for method in ("server/discover", "tools/list", "ping"):
        message = client.message(method)
        message["params"]["_meta"][VERSION] = "1900-01-01"
        speak.assert_json(client.post(message, headers={"MCP-Protocol-Version": "1900-01-01"}), 400, expected)
        assert shop.simulation.channel().send(message) == [expected]
    for other in served.versions:
        # Each that is told of serves a real call, each in its own way to begin.
        for end in ("http", "channel"):
            assert shop.client(end, other).call("echo", {"text": "a"}) is not None
    for other in set(speak.VERSIONS) - set(served.versions):
        reply = shop.simulation.http(initialize(other))
        if served.with_handshake() is None:
            assert (reply.status, reply.messages[0]["error"]["data"]["supported"]) == (400, list(served.versions))
        else:
            assert settled(reply.messages[0])[1] in served.versions


OPEN: list[JSON] = [
    {"roots": {"listChanged": True}, "elicitation": {"form": {}, "zzz": {}}, "vendorThing": {"a": 1}},
    {"elicitation": {}, "tasks": {"requests": {"elicitation": {"create": {}}}}, "experimental": {"x": {}}},
    {"elicitation": {"form": {"deep": [1]}}, "extensions": {"io.example/x": {}}, "sampling": 5, "roots": None},
]


@pytest.mark.parametrize("capabilities", OPEN)
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_10_capabilities_are_open(end: str, version: str, capabilities: JSON) -> None:
    client = Shop().client(end, version, capabilities=capabilities)
    assert say(client, client.message("tools/call", {"name": "echo", "arguments": {"text": "a"}})) == [
        text(version, 1, "a")
    ]
    # What it declares for sure is used, unknown neighbours or not.
    (asked,) = say(client, client.message("tools/call", {"name": "confirm"}, id=2))
    if client.adapter.can_push_ask:
        assert asked["method"] == "elicitation/create"
    else:
        assert "Sure?" in str(asked["result"])


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_11_no_other_reserved_code_is_ever_emitted(version: str) -> None:
    failures = AdapterSet.default().by_version[version].failures
    assert set(failures) == set(FailureKind)
    reserved = {code for code, _ in failures.values() if -32099 <= code <= -32000}
    if version in ENVELOPE:
        assert reserved == {-32020, -32021, -32022}
        assert {kind for kind, (code, _) in failures.items() if code in reserved} == {
            FailureKind.HEADER_MISMATCH,
            FailureKind.MISSING_CAPABILITY,
            FailureKind.UNSUPPORTED_VERSION,
        }
        assert {status for code, status in failures.values() if code in reserved} == {400}
    else:
        assert reserved == {-32002}
        assert [kind for kind, (code, _) in failures.items() if code == -32002] == [FailureKind.RESOURCE_NOT_FOUND]


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_11_each_code_with_its_data_and_status(version: str) -> None:
    client = Shop().client("http", version, capabilities={})
    listed = client.message("tools/list")
    speak.assert_json(
        client.post(listed, headers={"Mcp-Method": None}), 400, error(1, -32020, "the header Mcp-Method is missing")
    )
    words = "this needs the client capability 'elicitation', which the client did not declare"
    data = {"requiredCapabilities": {"elicitation": {}}}
    speak.assert_json(client.call("confirm"), 400, error(1, -32021, words, data=data))
    # A field that is missing is no missing capability, and a foreign origin none of the reserved ones.
    del listed["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    words = "params._meta['io.modelcontextprotocol/clientCapabilities'] must be an object"
    speak.assert_json(client.post(listed), 400, error(1, -32602, words))
    words = "the Origin header names an origin that may not talk to this server"
    speak.assert_json(client.post(listed, headers={"Origin": "https://evil.test"}), 403, error(..., -32600, words))


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_11_a_refusal_of_the_older_kind_has_an_envelope_too(version: str) -> None:
    shop = Shop(config=Config(require_session=True), adapters=AdapterSet.default().only(*HANDSHAKE))
    client = shop.client("http", version)
    for headers, status in (
        ({"Mcp-Session-Id": "gone"}, 404),
        ({"Mcp-Session-Id": None}, 400),
        ({"MCP-Protocol-Version": "1900-01-01"}, 400),
        ({"Accept": "text/html"}, 406),
        ({"Content-Type": "text/html"}, 415),
        ({"Origin": "https://evil.test"}, 403),
    ):
        reply = client.post(client.message("tools/list"), headers=headers)
        (message,) = reply.messages
        assert (reply.status, set(message) - {"id"}) == (status, {"jsonrpc", "error"})
        assert (message["error"]["code"], reply.header("content-type")) == (-32600, "application/json")


def test_case_11_ping_is_gone_where_it_was_removed() -> None:
    for version in ENVELOPE:
        client = Shop().client("http", version)
        speak.assert_json(client.request("ping"), 404, error(1, -32601, "unknown method: 'ping'"))
    for version in HANDSHAKE:
        assert Shop().client("http", version).request("ping").messages == [result(version, 1, {})]

"""Cases that concern a client of HTTP: what it begins with, and what it makes of servers that do as they please."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import AdapterSet, ClientConfig, HttpAbort, HttpRequest, Operation, ServerError
from web import (
    DONE,
    JSON_TYPE,
    STREAM_TYPE,
    Client,
    event,
    finish,
    id_of,
    initialized,
    message_of,
    opened,
    outcome,
    response,
)

from .common import ENVELOPE, HANDSHAKE, NEWEST

JSON = Any
EVERY = (*ENVELOPE, *HANDSHAKE)


# A. Negotiation and lifecycle -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_4_and_5_what_the_server_settled_on_is_spoken_from_then_on(version: str) -> None:
    client = Client(adapters=AdapterSet.default().with_handshake())
    call = client.call()
    client.result(client.request(), initialized(version))
    notice = client.request()
    client.respond(notice, status=202)
    request = client.request()
    spoken = version if version >= "2025-06-18" else None
    assert [sent.headers.get("MCP-Protocol-Version") for sent in (notice, request)] == [spoken, spoken]
    client.result(request, DONE)
    client.take()
    assert (outcome(call), client.engine.known and client.engine.known.revision) == (DONE, version)


@pytest.mark.parametrize("version", ["1999-01-01", "", ..., 5, None])
def test_case_4_another_version_ends_the_attempt_and_its_session(version: JSON) -> None:
    client = Client(HANDSHAKE[0])
    call = client.call()
    client.result(client.request(), initialized(version), headers={**JSON_TYPE, "Mcp-Session-Id": "s"})
    sent = client.requests()
    kind, text = outcome(call)
    if isinstance(version, str):
        assert (kind, [request.method for request in sent]) == ("NegotiationFailed", ["DELETE"])
        assert f"the server speaks {version}" in text
    else:
        assert (kind, text, sent) == ("UnusableReply", "the reply to the handshake has no protocolVersion", [])


def test_case_5_a_refusal_brings_status_code_and_words() -> None:
    client = opened("2025-06-18")
    call = client.call()
    request = client.request()
    error = {"code": -32600, "message": "Unsupported protocol version", "data": {"x": 1}}
    client.respond(request, {"jsonrpc": "2.0", "id": "server-error", "error": error}, status=400)
    client.take()
    raised = call.outcome.error
    assert isinstance(raised, ServerError)
    assert (raised.code, raised.message, raised.data, raised.status) == (-32600, error["message"], {"x": 1}, 400)
    assert str(raised) == "Unsupported protocol version (code -32600, HTTP 400)"


def refusal(status: int, body: JSON | bytes = b"") -> dict[str, Any]:
    """The arguments of a refusal."""
    return {
        "body": body,
        "status": status,
        "headers": {"Content-Type": "text/html"} if isinstance(body, bytes) else JSON_TYPE,
    }


def failure(code: int, **data: JSON) -> JSON:
    """The response that is an error."""
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no", **({"data": data} if data else {})}}


OLDER = {
    "method not found": refusal(200, failure(-32601)),
    "invalid params": refusal(200, failure(-32602)),
    "some error": refusal(200, failure(-32000)),
    "400 and nothing": refusal(400),
    "400 and a page": refusal(400, b"<h1>Bad Request</h1>"),
    "400 and an error": refusal(400, failure(-32600)),
    "404": refusal(404),
    "404 and an error": refusal(404, failure(-32601)),
    "405": refusal(405),
    "406": refusal(406),
    "415": refusal(415),
    "422": refusal(422, {"detail": "no"}),
    "501": refusal(501),
    "no response": refusal(202),
    "a page": refusal(200, b"<h1>Hello</h1>"),
    "no description": refusal(200, {"jsonrpc": "2.0", "id": 1, "result": {}}),
}


@pytest.mark.parametrize("name", OLDER)
def test_case_8_whatever_is_no_modern_answer_leads_to_the_handshake(name: str) -> None:
    client = Client()
    call = client.call()
    probe = client.request()
    assert message_of(probe)["method"] == "server/discover"
    client.respond(probe, **OLDER[name])
    client.shake("2025-11-25")
    finish(client, call)
    # What was found out holds for the calls after it, and for the next client.
    finish(client, client.call())
    assert client.engine.known is not None
    later = Client(known=client.engine.known)
    later.call()
    assert message_of(later.request())["method"] == "initialize"


def test_case_8_silence_leads_to_the_handshake_too() -> None:
    client = Client(config=ClientConfig(probe_timeout=3))
    call = client.call()
    probe = client.request()
    client.advance(2.9)
    assert client.sent == [probe]
    client.advance(0.1)
    opening = client.sent[-1]
    assert isinstance(opening, HttpRequest)
    assert message_of(opening)["method"] == "initialize"
    client.result(opening, initialized("2025-11-25"))
    notice, hung_up = sorted(client.take(), key=lambda item: isinstance(item, HttpAbort))
    assert (hung_up, isinstance(notice, HttpRequest)) == (HttpAbort(probe.exchange), True)
    client.respond(notice, status=202)  # type: ignore[arg-type]
    finish(client, call)


@pytest.mark.parametrize(
    ("error", "version"),
    [
        (failure(-32022, supported=[NEWEST], requested=NEWEST), NEWEST),
        (failure(-32022, supported=["2099-01-01", "2025-06-18"], requested=NEWEST), "2025-06-18"),
        (failure(-32020), NEWEST),
        (failure(-32021, requiredCapabilities={"sampling": {}}), NEWEST),
    ],
)
def test_case_8_a_modern_error_is_not_legacy(error: JSON, version: str) -> None:
    client = Client()
    call = client.call()
    client.respond(client.request(), error, status=400)
    if version == NEWEST and "data" in error["error"] and "supported" in error["error"]["data"]:
        # It offers what it refuses: that is tried once more, and then believed.
        client.respond(client.request(), error | {"id": 2}, status=400)
        client.take()
        assert outcome(call)[0] == "NegotiationFailed"
        return
    if version != NEWEST:
        client.shake(version)
    request = client.request()
    assert message_of(request)["method"] == "tools/call"
    assert request.headers["MCP-Protocol-Version"] == version


@pytest.mark.parametrize("status", [401, 403, 407, 408, 421, 425, 429, 500, 502, 503, 504])
def test_case_8_and_98_and_100_what_says_nothing_of_revisions_is_the_error(status: int) -> None:
    client = Client()
    call = client.call()
    given = {"Content-Type": "text/html", "WWW-Authenticate": 'Bearer scope="a"', "Retry-After": "3"}
    client.respond(client.request(), b"<p>later</p>", status=status, headers=given)
    assert client.take() == []
    raised = call.outcome.error
    assert isinstance(raised, ServerError)
    assert (raised.code, raised.message, raised.status) == (None, "<p>later</p>", status)
    assert (raised.headers["www-authenticate"], raised.headers["retry-after"]) == ('Bearer scope="a"', "3")
    assert client.engine.known is None
    # The next call asks anew.
    client.call()
    assert message_of(client.request())["method"] == "server/discover"


def test_case_8_a_connection_that_cannot_be_made_says_nothing_of_revisions() -> None:
    client = Client()
    call = client.call()
    client.engine.receive_failure(client.request().exchange, "connection refused", connected=False)
    assert (client.take(), client.engine.known) == ([], None)
    assert outcome(call) == ("ConnectionLost", "cannot connect to http://server.example (connection refused)")
    client.call()
    assert message_of(client.request())["method"] == "server/discover"


# B. Sessions ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_12_one_new_session_for_all_calls_of_the_old_one(version: str) -> None:
    client = opened(version, session="A")
    calls = [client.call(name) for name in ("a", "b", "c")]
    requests = client.requests()
    assert [request.headers["Mcp-Session-Id"] for request in requests] == ["A"] * 3
    gone = refusal(404, {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}})
    client.respond(requests[0], **gone)
    opening = client.request()
    assert (message_of(opening)["method"], "Mcp-Session-Id" in opening.headers) == ("initialize", False)
    client.respond(requests[1], **gone)
    assert client.take() == []
    client.result(opening, initialized(version), headers={**JSON_TYPE, "Mcp-Session-Id": "B"})
    notice = client.request()
    assert message_of(notice)["method"] == "notifications/initialized"
    client.respond(notice, status=202)
    again = client.requests()
    client.respond(requests[2], **gone)
    again += client.requests()
    assert [message_of(request)["params"]["name"] for request in again] == ["a", "b", "c"]
    assert [request.headers["Mcp-Session-Id"] for request in (notice, *again)] == ["B"] * 4
    for request in again:
        client.result(request, DONE)
    client.take()
    assert [outcome(call) for call in calls] == [DONE] * 3


def test_case_12_each_call_is_sent_again_once() -> None:
    client = opened("2025-11-25", session="A")
    call = client.call()
    client.respond(client.request(), b"gone", status=404)
    client.shake("2025-11-25", session="B")
    client.respond(client.request(), b"gone again", status=404)
    client.take()
    assert outcome(call) == ("ServerError", "gone again (HTTP 404)")


def test_case_12_a_server_that_never_has_a_session_is_not_asked_for_ever() -> None:
    client = Client("2025-11-25", log_level="info")
    for _ in range(3):
        call = client.call()
        for _ in range(50):
            for request in client.requests():
                method = message_of(request)["method"] if request.body else request.method
                if method == "initialize":
                    result = {**initialized("2025-11-25"), "capabilities": {"logging": {}}}
                    client.result(request, result, headers={**JSON_TYPE, "Mcp-Session-Id": "B"})
                elif method == "GET":
                    client.respond(request, status=405)
                else:
                    client.respond(request, status=202 if method.startswith("notifications") else 404)
        assert (client.take(), outcome(call)) == ([], ("ServerError", SILENT + " (HTTP 404)"))
    assert len(client.sent) < 50


SILENT = "the server refused the request without a word"


@pytest.mark.parametrize("version", EVERY)
def test_case_12_a_404_without_a_session_is_another_error(version: str) -> None:
    client = opened(version, session=None)
    call = client.call()
    client.respond(client.request(), b"nothing here", status=404)
    assert client.take() == []
    assert outcome(call) == ("ServerError", "nothing here (HTTP 404)")


@pytest.mark.parametrize("session", ["a b", "é", "", "a\x7f", "\x1f"])
def test_case_12_a_session_id_that_cannot_be_sent_back_is_refused(session: str) -> None:
    client = Client("2025-11-25")
    call = client.call()
    client.result(client.request(), initialized("2025-11-25"), headers={**JSON_TYPE, "Mcp-Session-Id": session})
    client.take()
    kind, text = outcome(call)
    assert kind in ("UnusableReply", "NegotiationFailed")
    assert "its Mcp-Session-Id holds more than visible ASCII characters" in text


# C. Status, headers, hosting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY)
def test_case_17_both_forms_are_accepted_on_every_post_whatever_the_caller_adds(version: str) -> None:
    client = Client(version, headers={"accept": "application/xml, application/json", "X-Key": "1"})
    call = client.call(headers={"ACCEPT": "text/plain"})
    if version in HANDSHAKE:
        client.shake(version)
    else:
        client.result(client.request(), {"supportedVersions": [version], "capabilities": {}})
    finish(client, call)
    accepted = [item.headers["Accept"] for item in client.sent if isinstance(item, HttpRequest)]
    both = "application/json, text/event-stream"
    own = f"{both}, application/xml"
    assert accepted[:-1] == [own] * len(accepted[:-1])
    assert accepted[-1].startswith(both)
    assert "text/plain" in accepted[-1]
    assert all(item.headers["X-Key"] == "1" for item in client.sent if isinstance(item, HttpRequest))


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "Application/JSON", 'application/json;charset="UTF-8"']
)
def test_case_18_a_body_of_json_is_known_by_type_and_subtype(kind: str) -> None:
    client = opened(NEWEST)
    call = client.call()
    client.result(client.request(), DONE, headers={"Content-Type": kind})
    client.take()
    assert outcome(call) == DONE


@pytest.mark.parametrize("kind", ["text/event-stream;charset=utf-8", "TEXT/Event-Stream"])
def test_case_18_and_39_a_stream_is_a_reply_like_any_other(kind: str) -> None:
    client = Client("2025-11-25")
    call = client.call()
    opening = client.request()
    client.respond(opening, event(response(1, initialized("2025-11-25"))), headers={"Content-Type": kind})
    client.respond(client.request(), status=202)
    request = client.request()
    failed = {"content": [], "isError": True}
    client.respond(request, event(response(2, failed)), headers={"Content-Type": kind})
    client.take()
    assert outcome(call) == failed


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("text/plain", "it is text/plain and not application/json or text/event-stream (HTTP 200)"),
        ("application/jsonx", "it is application/jsonx and not application/json or text/event-stream (HTTP 200)"),
        ("", "it is of no media type and not application/json or text/event-stream (HTTP 200)"),
    ],
)
def test_case_18_and_39_what_cannot_be_read_is_an_error(kind: str, reason: str) -> None:
    client = opened(NEWEST)
    call = client.call()
    request = client.request()
    client.result(request, DONE, headers={"Content-Type": kind})
    assert client.take() == [HttpAbort(request.exchange)]
    assert outcome(call) == ("UnusableReply", f"the response to tools/call cannot be read: {reason}")


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize(
    "reply",
    [
        {"status": 200, "headers": {"Content-Length": "0"}},
        {"status": 200, "body": b"null", "headers": JSON_TYPE},
        {"status": 204},
        {"status": 202, "body": b"Accepted", "headers": {"Content-Type": "text/plain"}},
        {"status": 202, "headers": {"Transfer-Encoding": "chunked"}},
        {"status": 200, "body": b": hello\n\n", "headers": STREAM_TYPE},
    ],
)
def test_case_19_any_success_will_do_for_a_notification(version: str, reply: Any) -> None:
    client = Client(version)
    call = client.call()
    client.result(client.request(), initialized(version))
    client.respond(client.request(), **reply)
    finish(client, call)
    assert client.faults == []


def test_case_19_a_notification_that_is_refused_harms_no_call() -> None:
    client = Client("2025-11-25")
    call = client.call()
    client.result(client.request(), initialized("2025-11-25"))
    client.respond(client.request(), b"what?", status=500)
    finish(client, call)
    assert client.faults == ["a notification was refused: what? (HTTP 500)"]


NO_STREAM: dict[str, tuple[dict[str, Any], list[str]]] = {
    "405": ({"status": 405}, []),
    "404": ({"status": 404}, []),
    "400": ({"status": 400}, []),
    "406": ({"status": 406}, []),
    "501": ({"status": 501}, []),
    "200 and JSON": (
        {"status": 200, "body": {}},
        ["the standalone stream cannot be read: it is application/json and not text/event-stream"],
    ),
    "401": ({"status": 401, "body": b"who?"}, ["the standalone stream was refused: who? (HTTP 401)"]),
}


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("name", NO_STREAM)
def test_case_20_a_server_without_the_stream_is_as_good_as_any(version: str, name: str) -> None:
    reply, faults = NO_STREAM[name]
    client = Client(version, wants_changes=True)
    call = client.call()
    client.shake(version, session="s")
    listening = client.request()
    assert (listening.method, listening.headers["Accept"]) == ("GET", "text/event-stream")
    client.respond(listening, **reply)
    client.result(client.requests()[-1], DONE)
    client.take()
    assert (outcome(call), client.faults) == (DONE, faults)
    client.advance(3600)
    assert [item.method for item in client.sent if isinstance(item, HttpRequest)].count("GET") == 1


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_20_a_stream_that_closes_at_once_is_opened_ever_less_often(version: str) -> None:
    client = opened(version, stream=True, wants_changes=True)
    config = client.engine.config
    times: list[float] = []
    (listening,) = client.sent
    for _ in range(12):
        assert isinstance(listening, HttpRequest)
        client.engine.receive_end(listening.exchange)
        started, before = client.clock(), len(client.sent)
        while len(client.sent) == before:
            client.advance(0.5)
        times.append(client.clock() - started)
        listening = client.sent[-1]
        client.stream(listening, end=False)
    assert times == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, *[config.max_reconnect_delay] * 6]
    # Once something came, or it stood for a while, it counts as a stream again.
    client.engine.receive_data(listening.exchange, event({"jsonrpc": "2.0", "method": "x"}))
    client.engine.receive_end(listening.exchange)
    before = len(client.sent)
    client.advance(1)
    assert len(client.sent) == before + 1


def redirect(status: int, location: str) -> dict[str, Any]:
    """The arguments of a redirect."""
    return {"status": status, "headers": {"Location": location}}


@pytest.mark.parametrize("status", [307, 308])
def test_case_21_a_redirect_within_the_origin_gets_the_request_as_it_is(status: int) -> None:
    client = opened("2025-11-25", headers={"Authorization": "Bearer x"})
    call = client.call()
    request = client.request()
    client.respond(request, **redirect(status, "/mcp/"))
    again = client.request()
    assert (again.method, again.headers, again.body) == (request.method, request.headers, request.body)
    assert (again.url, again.exchange == request.exchange) == ("http://server.example/mcp/", False)
    client.result(again, DONE)
    client.take()
    assert outcome(call) == DONE
    # What is permanent is remembered.
    client.call()
    assert client.request().url == ("http://server.example/mcp/" if status == 308 else "http://server.example/mcp")


@pytest.mark.parametrize(
    ("url", "status", "location", "reason"),
    [
        ("https://h.example/mcp", 307, "http://h.example/mcp/", "which is another origin"),
        ("http://h.example/mcp", 308, "https://h.example/mcp/", "which is another origin"),
        ("http://h.example/mcp", 307, "http://10.0.0.1/mcp/", "which is another origin"),
        ("http://h.example/mcp", 307, "//evil.example/", "which is another origin"),
        ("http://h.example/mcp", 307, "http://h.example:8080/", "which is another origin"),
        ("http://h.example/mcp", 301, "/mcp/", "and with status 301 the request would not get there as it is"),
        ("http://h.example/mcp", 302, "/login", "and with status 302 the request would not get there as it is"),
        ("http://h.example/mcp", 303, "/mcp/", "and with status 303 the request would not get there as it is"),
        ("http://h.example/mcp", 307, "javascript:x", "which is no URL to go on to"),
        ("http://h.example/mcp", 307, "/\\evil.example", "which is no URL to go on to"),
    ],
)
def test_case_21_no_request_goes_where_it_was_not_meant_to(url: str, status: int, location: str, reason: str) -> None:
    client = opened(NEWEST, url=url, headers={"Authorization": "Bearer x"})
    call = client.call()
    request = client.request()
    client.respond(request, **redirect(status, location))
    assert client.take() == [HttpAbort(request.exchange)] or client.take() == []
    kind, text = outcome(call)
    assert (kind, text.endswith(f", {reason} (HTTP {status})")) == ("UnusableReply", True)
    assert "it redirects to " in text


def test_case_21_redirects_do_not_go_on_for_ever() -> None:
    client = opened(NEWEST, config=ClientConfig(max_redirects=3))
    call = client.call()
    for number in range(4):
        client.respond(client.request(), **redirect(307, f"/mcp/{number}"))
    client.take()
    assert outcome(call)[1].endswith(
        "it redirects to 'http://server.example/mcp/3', after 3 other redirects (HTTP 307)"
    )


@pytest.mark.parametrize(
    ("uri", "header"),
    [
        ("note:/ż/漢", "=?base64?bm90ZTovxbwv5ryi?="),
        (" a ", "=?base64?IGEg?="),
        ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
        ("=?BASE64?YQ==?=", "=?BASE64?YQ==?="),
        ("file:///a b.txt", "file:///a b.txt"),
        ("a\tb", "=?base64?YQli?="),
        ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
    ],
)
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_24_a_name_is_encoded_wherever_a_header_could_not_hold_it(version: str, uri: str, header: str) -> None:
    client = opened(version)
    client.call(uri)
    request = client.request()
    assert (request.headers["Mcp-Name"], message_of(request)["params"]["name"]) == (header, uri)


def tool(name: str, **properties: JSON) -> JSON:
    """A tool as a server lists it."""
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def mirrored(kind: str, header: JSON) -> JSON:
    """The schema of an argument that goes into a header."""
    return {"type": kind, "x-mcp-header": header}


INVALID = {
    "empty": {"a": mirrored("string", "")},
    "blank": {"a": mirrored("string", "A B")},
    "line end": {"a": mirrored("string", "Ok\r\nX: y")},
    "twice": {"a": mirrored("string", "Region"), "b": mirrored("string", "region")},
    "number": {"a": mirrored("number", "A")},
    "array": {"a": mirrored("array", "A")},
    "no text": {"a": mirrored("string", 5)},
    "items": {"a": {"type": "array", "items": mirrored("string", "A")}},
    "anyOf": {"a": {"anyOf": [mirrored("string", "A")]}},
}


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_25_a_tool_with_a_bad_annotation_is_left_out_and_no_other(version: str) -> None:
    client = opened(version)
    call = client.engine.call(Operation.LIST_TOOLS)
    good = tool("good", deep={"type": "object", "properties": {"x": mirrored("boolean", "X")}})
    tools = [*(tool(name, **properties) for name, properties in INVALID.items()), good]
    client.result(client.request(), {"tools": tools, "ttlMs": 0, "cacheScope": "public"})
    client.take()
    assert (outcome(call)["tools"], len(client.faults)) == ([good], len(INVALID))


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("eu", "eu"),
        ("", ""),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ("ż", "=?base64?xbw=?="),
        (" a", "=?base64?IGE=?="),
        (None, None),
        (..., None),
    ],
)
def test_case_25_arguments_are_mirrored_as_the_listed_tool_has_it(version: str, value: JSON, header: JSON) -> None:
    client = opened(version)
    client.engine.call(Operation.LIST_TOOLS)
    client.result(
        client.request(), {"tools": [tool("where", region=mirrored("string", "Region"), n={"type": "number"})]}
    )
    client.call("where", {"n": 1.5} if value is ... else {"region": value, "n": 1.5})
    headers = client.request().headers
    assert (headers.get("Mcp-Param-Region"), [name for name in headers if name.startswith("Mcp-Param")]) == (
        header,
        [] if header is None else ["Mcp-Param-Region"],
    )


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_25_refused_headers_have_the_tools_listed_again_and_the_call_made_once_more(version: str) -> None:
    client = opened(version)
    call = client.call("where", {"region": "eu"})
    mismatch = {"code": -32020, "message": "Mcp-Param-Region is missing"}
    first = client.request()
    client.respond(first, {"jsonrpc": "2.0", "id": id_of(first), "error": mismatch}, status=400)
    listing = client.request()
    assert message_of(listing)["method"] == "tools/list"
    client.result(listing, {"tools": [tool("where", region=mirrored("string", "Region"))]})
    again = client.request()
    assert (again.headers["Mcp-Param-Region"], id_of(again) == id_of(first)) == ("eu", False)
    client.respond(again, {"jsonrpc": "2.0", "id": id_of(again), "error": mismatch}, status=400)
    assert client.take() == []
    assert outcome(call) == ("ServerError", "Mcp-Param-Region is missing (code -32020, HTTP 400)")


ENDLESS = {
    "a body": (JSON_TYPE, b"[" * 4096),
    "a line": (STREAM_TYPE, b"data: " + b"x" * 4096),
    "a field": (STREAM_TYPE, b"x" * 4096),
}


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("name", ENDLESS)
def test_case_28_no_response_is_kept_beyond_the_limit(version: str, name: str) -> None:
    headers, piece = ENDLESS[name]
    client = opened(version, config=ClientConfig(max_message=10_000, timeout=30))
    call = client.call()
    request = client.request()
    client.engine.receive_response(request.exchange, 200, headers)
    for _ in range(10):
        client.engine.receive_data(request.exchange, piece)
    if headers is JSON_TYPE:
        assert client.take() == [HttpAbort(request.exchange)]
        assert outcome(call)[1].endswith("it is larger than 10000 bytes (HTTP 200)")
    else:
        client.engine.receive_data(request.exchange, b"\n\n")
        client.advance(30)
        assert call.ended
    assert client.engine.is_idle or version in HANDSHAKE


@pytest.mark.parametrize("version", EVERY)
def test_case_28_a_long_stream_of_small_events_lives(version: str) -> None:
    client = opened(version, config=ClientConfig(max_message=1000))
    call = client.call()
    request = client.request()
    client.stream(request, end=False)
    for number in range(2000):
        client.engine.receive_data(request.exchange, event({"jsonrpc": "2.0", "method": "x", "params": {"n": number}}))
    client.engine.receive_data(request.exchange, event(response(id_of(request))))
    client.take()
    assert outcome(call) == DONE

"""The requests of a whole visit, compared whole: on each revision, and over each of the two transports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from mcp_sansio import Implementation
from mcp_sansio.client.http_requests import HttpAbort, HttpRequest
from mcp_sansio.operation import Operation
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, HANDSHAKE
from web import URL, Client, event

INFO = Implementation(name="client", version="1")
WHO = {"name": "client", "version": "1"}
POST = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
SESSION = {"Mcp-Session-Id": "!~s"}
CALL = {"name": "echo", "arguments": {"text": "é"}}


def named(version: str) -> dict[str, str]:
    """The header that names the revision, on those that have it."""
    return {"MCP-Protocol-Version": version} if version >= "2025-06-18" else {}


def message(method: str, params: Any = None, id: int | None = None) -> bytes:
    """A message as it is sent."""
    held = {"jsonrpc": "2.0"} | ({} if id is None else {"id": id}) | {"method": method}
    return encode(held if params is None else held | {"params": params})


def post(exchange: int, body: bytes, headers: Mapping[str, str] = {}, url: str = URL) -> HttpRequest:
    """A POST, whole."""
    return HttpRequest(exchange, "POST", url, POST | headers, body)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_visit_with_a_handshake(version: str) -> None:
    client = Client(version, client_info=INFO, capabilities={"roots": {}}, wants_changes=True)
    call = client.call(arguments=CALL["arguments"])
    wanted: list[Any] = []
    shaken = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": WHO}
    wanted.append(post(1, message("initialize", shaken, 1)))
    wanted.append(post(2, message("notifications/initialized"), SESSION | named(version)))
    assert client.shake(version, session="!~s") == wanted

    listening = client.request()
    accept = {"Accept": "text/event-stream"}
    assert listening == HttpRequest(3, "GET", URL, accept | SESSION | named(version))
    client.stream(listening, end=False)
    request = client.request()
    assert request == post(4, message("tools/call", CALL, 2), SESSION | named(version))
    client.result(request, {"content": []})
    client.take()
    assert call.result() == {"content": []}

    client.engine.close()
    assert client.take() == [HttpAbort(3), HttpRequest(5, "DELETE", URL, SESSION | named(version))]
    client.respond(client.sent[-1], status=405)  # type: ignore[arg-type]
    assert (client.take(), client.faults, client.engine.is_idle, client.engine.next_deadline()) == ([], [], True, None)


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_visit_without_a_handshake(version: str) -> None:
    client = Client(version, client_info=INFO, capabilities={"roots": {}}, wants_changes=False)
    call = client.call(arguments=CALL["arguments"])
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": WHO,
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
    }
    probe = client.request()
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": "server/discover"}
    assert probe == post(1, message("server/discover", {"_meta": meta}, 1), headers)
    # A session is nothing that this revision has, whatever a server says.
    client.result(
        probe,
        {"supportedVersions": [version], "capabilities": {}},
        headers={"Content-Type": "application/json"} | SESSION,
    )
    request = client.request()
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
    assert request == post(2, message("tools/call", CALL | {"_meta": meta}, 2), headers)
    client.result(request, {"content": [], "resultType": "complete"})
    client.take()
    assert call.result() == {"content": [], "resultType": "complete"}
    client.engine.close()
    assert (client.take(), client.engine.is_idle) == ([], True)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_visit_to_the_pair(version: str) -> None:
    client = Client(version, client_info=INFO, capabilities={}, wants_changes=True)
    call = client.call(arguments=CALL["arguments"])
    shaken = {"protocolVersion": version, "capabilities": {}, "clientInfo": WHO}
    opening = client.request()
    assert opening == post(1, message("initialize", shaken, 1))
    client.respond(opening, b"Method Not Allowed", status=405)
    stream = client.request()
    assert stream == HttpRequest(2, "GET", URL, {"Accept": "text/event-stream"})
    client.stream(stream, event(b"/messages?s=1", name="endpoint"), end=False)
    where = "http://server.example/messages?s=1"
    posted = client.request()
    assert posted == post(3, message("initialize", shaken, 2), url=where)
    client.respond(posted, b"Accepted", status=202)
    answer = {"jsonrpc": "2.0", "id": 2, "result": {"protocolVersion": version, "capabilities": {}, "serverInfo": WHO}}
    client.engine.receive_data(2, event(answer, name="message"))
    notice = client.request()
    assert notice == post(4, message("notifications/initialized"), named(version), where)
    client.respond(notice, status=202)
    request = client.request()
    assert request == post(5, message("tools/call", CALL, 3), named(version), where)
    client.respond(request, status=202)
    client.engine.receive_data(2, event({"jsonrpc": "2.0", "id": 3, "result": {"content": []}}))
    client.take()
    assert call.result() == {"content": []}
    client.engine.close()
    assert (client.take(), client.engine.is_idle) == ([HttpAbort(2)], True)


def test_the_callers_headers_go_everywhere_and_those_of_a_call_with_it() -> None:
    headers = {"Authorization": "Bearer a", "accept": "text/x", "Mcp-Method": "no"}
    client = Client("2025-11-25", headers=headers, can_answer=True)
    client.call("ask", headers={"AUTHORIZATION": "Bearer b", "X-Trace": "1"})
    opening, notice = client.shake("2025-11-25", session="s")
    listening = client.request()
    client.respond(listening, status=405)
    request = client.request()
    question = {
        "jsonrpc": "2.0",
        "id": "q",
        "method": "elicitation/create",
        "params": {"message": "?", "requestedSchema": {}},
    }
    client.stream(request, event(question, id="e1", retry=1), end=False)
    client.take()
    client.engine.answer(client.questions[0], {"action": "accept", "content": {}})
    answer = client.request()
    client.engine.receive_end(request.exchange)
    client.advance(1)
    resumed = client.sent[-1]
    assert isinstance(resumed, HttpRequest)
    client.engine.cancel(client.engine.call(Operation.PING))
    client.engine.close()
    client.take()
    goodbye = client.sent[-1]
    assert isinstance(goodbye, HttpRequest)

    mine = {"Authorization": "Bearer a", "Mcp-Method": "no", "Accept": "application/json, text/event-stream, text/x"}
    for sent in (opening, notice):
        assert mine.items() <= sent.headers.items()
    assert listening.headers == {
        "Authorization": "Bearer a",
        "Mcp-Method": "no",
        "Accept": "text/event-stream, text/x",
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": "s",
    }
    its = {"AUTHORIZATION": "Bearer b", "X-Trace": "1", "Accept": "application/json, text/event-stream, text/x"}
    for sent in (request, answer):
        assert its.items() <= sent.headers.items()
        assert "Authorization" not in sent.headers
    assert resumed.headers == {
        "AUTHORIZATION": "Bearer b",
        "X-Trace": "1",
        "Mcp-Method": "no",
        "Accept": "text/event-stream, text/x",
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": "s",
        "Last-Event-ID": "e1",
    }
    assert (goodbye.method, goodbye.headers["Authorization"]) == ("DELETE", "Bearer a")


@pytest.mark.parametrize(
    "url", ["", "server.example", "ftp://server.example/", "http://", "/mcp", "http://server.example:x/"]
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="not an http or https URL"):
        Client(url=url)


def test_what_cannot_be_a_header_is_refused() -> None:
    with pytest.raises(ValueError, match="line ends"):
        Client(headers={"X": "a\r\nY: b"})
    client = Client()
    with pytest.raises(ValueError, match="name of a header"):
        client.call(headers={"X Y": "a"})
    assert client.take() == []

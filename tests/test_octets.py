"""Every engine takes whatever holds bytes, and says of anything else what is wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

import web
from calling import settled
from mcp_sansio import Registry
from mcp_sansio.operation import Operation
from mcp_sansio.testing import SimulatedHttp, Simulation
from mcp_sansio.wire.json import encode
from mcp_sansio.wire.lines import LineDecoder
from mcp_sansio.wire.sse import EventDecoder
from speak import VERSIONS, Channel, Http

Make = Callable[[bytes], Any]
WAYS = ("body", "pieces", "end")


def strided(data: bytes) -> memoryview:
    """One whose bytes do not lie side by side."""
    return memoryview(b"".join(b"%c-" % byte for byte in data))[::2]


KINDS = pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, strided])


def refused() -> Any:
    return pytest.raises(TypeError, match=r"^what comes in is bytes, not str: encode it as UTF-8$")


def registry() -> Registry:
    made = Registry("octets", "1")

    @made.tool
    async def echo(text: str) -> str:
        """Echo."""
        return text

    return made


def post(client: Http, body: Any, way: str) -> str:
    """What a call gives whose `body` is handed over in that way."""
    simulation = client.simulation
    call = client.message("tools/call", {"name": "echo", "arguments": {"text": "é"}})
    engine = simulation.server.http_transaction(wake=simulation.stir)
    exchange = SimulatedHttp(simulation, engine)
    simulation.add(exchange)
    accepted = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    engine.receive_request("POST", "/mcp", accepted | client.headers(call))
    if way == "end":
        engine.receive_end(body)
    else:
        for piece in [body] if way == "body" else [body[:9], body[9:]]:
            engine.receive_body(piece)
        engine.receive_end()
    simulation.settle()
    return str(exchange.messages[0]["result"]["content"][0]["text"])


def call_of(client: Http | Channel) -> bytes:
    return encode(client.message("tools/call", {"name": "echo", "arguments": {"text": "é"}}))


@KINDS
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_over_http(version: str, way: str, kind: Make) -> None:
    client = Http(version, registry())
    for body in (kind(call_of(client)), call_of(client), kind(call_of(client))):  # the last is like one before
        assert post(client, body, way) == "é"


@pytest.mark.parametrize("way", WAYS)
def test_a_request_over_http_that_is_no_bytes(way: str) -> None:
    client = Http(VERSIONS[0], registry())
    for _ in range(2):
        with refused():
            post(client, call_of(client).decode(), way)
        assert post(client, call_of(client), way) == "é"


@KINDS
@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_to_a_server(version: str, kind: Make) -> None:
    client = Channel(version, registry())
    for body in (kind(call_of(client)), call_of(client), kind(call_of(client))):
        before = len(client.end.sent)
        client.end.engine.receive_message(body)
        client.simulation.settle()
        (answer,) = client.end.sent[before:]
        assert '"text":"é"'.encode() in answer


def test_a_message_to_a_server_that_is_no_bytes() -> None:
    client = Channel(VERSIONS[0], registry())
    for _ in range(2):
        with refused():
            client.end.engine.receive_message(call_of(client).decode())
        assert client.call("echo", {"text": "é"})


@KINDS
def test_a_message_to_a_client(kind: Make) -> None:
    line = settled(VERSIONS[0])
    call = line.engine.call(Operation.CALL_TOOL, {"name": "echo", "arguments": {}})
    line.engine.receive_message(kind(encode({"jsonrpc": "2.0", "id": line.last_id, "result": {"content": []}})))
    assert call.result() == {"content": []}


def test_a_message_to_a_client_that_is_no_bytes() -> None:
    line = settled(VERSIONS[0])
    call = line.engine.call(Operation.CALL_TOOL, {"name": "echo", "arguments": {}})
    answer = encode({"jsonrpc": "2.0", "id": line.last_id, "result": {"content": []}})
    with refused():
        line.engine.receive_message(answer.decode())
    line.engine.receive_message(answer)
    assert call.result() == {"content": []}


def answered(headers: dict[str, str], *pieces: Any, end: Any) -> Any:
    """What comes of a call whose response is handed over so."""
    client = web.opened(VERSIONS[0])
    call = client.call()
    request = client.request()
    client.engine.receive_response(request.exchange, 200, headers)
    for piece in pieces:
        client.engine.receive_data(request.exchange, piece)
    client.engine.receive_end(request.exchange, end)
    client.take()
    return call.result()


@KINDS
def test_a_response_to_a_client(kind: Make) -> None:
    answer = encode({"jsonrpc": "2.0", "id": 3, "result": {"content": []}})
    for pieces in ([kind(answer)], [kind(answer[:5]), kind(answer[5:])], [kind(answer[:5]), answer[5:]]):
        for size in (len(pieces), len(pieces) - 1):
            end = pieces[size] if size < len(pieces) else b""
            assert answered(web.JSON_TYPE, *pieces[:size], end=end) == {"content": []}
    event = web.event(answer)
    assert answered(web.STREAM_TYPE, kind(event), end=b"") == {"content": []}


def test_a_response_to_a_client_that_is_no_bytes() -> None:
    for headers in (web.JSON_TYPE, web.STREAM_TYPE):
        for pieces, end in (((), "{}"), (("{}",), b""), ((b"{}", "{}"), b"")):
            with refused():
                answered(headers, *pieces, end=end)


@pytest.mark.parametrize("decoder", [LineDecoder, EventDecoder])
def test_a_stream_that_is_no_bytes(decoder: Any) -> None:
    with refused():
        decoder(100).receive_data("a")
    with pytest.raises(TypeError, match=r"^what comes in is bytes, not int$"):
        decoder(100).receive_data(5)


@KINDS
def test_it_is_logged_as_what_it_holds(kind: Make, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="mcp_sansio.wire")
    channel = Simulation(registry()).channel()
    channel.engine.receive_message(kind(b"not JSON"))
    assert [record.getMessage() for record in caplog.records] == ["< not JSON"]

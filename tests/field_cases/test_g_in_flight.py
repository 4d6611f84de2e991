"""Cases 68 to 76: calls that are cancelled, reported on, pinged beside, left alone, or ask from within."""

from __future__ import annotations

from typing import Any

import pytest

import speak
from mcp_sansio import CallCancelled, Config, Exchange, Registry, elicit
from mcp_sansio.testing import SimulatedHttp, Simulation

from .common import ENVELOPE, EVERYWHERE, HANDSHAKE, Shop, error, result, say, text

JSON = Any
PUSHING = [version for version in HANDSHAKE if version >= "2025-06-18"]


def cancel(request_id: JSON = ..., **more: JSON) -> JSON:
    """The notification that gives a request up; an id of ``...`` is left out."""
    held = {} if request_id is ... else {"requestId": request_id}
    return speak.notification("notifications/cancelled", {**held, **more})


@pytest.mark.parametrize("wrong", [..., None, 2, "1", 1.5, True, [], {}, [1], "x" * 10_000])
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_68_a_cancellation_of_nothing_is_ignored(end: str, version: str, wrong: JSON) -> None:
    shop = Shop()
    client = shop.client(end, version)
    call = client.call("nap", {"name": "a"}, id=1)
    for message in (cancel(wrong), cancel(wrong, reason=5), cancel(wrong, reason=None)):
        assert say(client, message) == []
    before = 0 if end == "http" else len(client.end.sent)
    shop.open("a")
    assert (call.messages if end == "http" else client.since(before)) == [text(version, 1, "a")]


@pytest.mark.parametrize("version", speak.VERSIONS)
@pytest.mark.parametrize("moment", ["before it begins", "in its middle", "as it returns", "after its reply"])
def test_case_68_and_69_a_cancellation_at_each_moment(version: str, moment: str) -> None:
    shop = Shop()
    channel = shop.client("channel", version)
    engine = channel.end.engine
    request = channel.message("tools/call", {"name": "nap", "arguments": {"name": "a"}}, id=1, token=1)
    before = len(channel.end.sent)
    if moment == "before it begins":
        # Both are there before anything has run.
        engine.receive_message(speak.wire(request))
        engine.receive_message(speak.wire(cancel(1)))
    else:
        channel.send(request)
        if moment != "in its middle":
            shop.doors["a"].set()
        if moment == "after its reply":
            shop.simulation.settle()
        engine.receive_message(speak.wire(cancel(1)))
    engine.receive_message(speak.wire(cancel(1, reason="twice")))
    shop.simulation.settle()
    said = channel.since(before)
    started = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}}
    ended = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 2}}
    assert (
        said
        == {
            "before it begins": [],
            "in its middle": [started],
            "as it returns": [started],
            "after its reply": [started, ended, text(version, 1, "a")],
        }[moment]
    )
    cancelled = [event for event in channel.end.happened if isinstance(event, CallCancelled)]
    assert len(cancelled) == (0 if moment == "after its reply" else 1)
    assert len(shop.simulation.scheduler) == 0
    # Nothing more for that id, ever; and the id, and the server, serve on.
    for name, door in shop.doors.items():
        assert name == "a"
        door.set()
    shop.simulation.advance(100)
    assert channel.since(before) == said
    assert channel.call("echo", {"text": "b"}, id=1) == [text(version, 1, "b")]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_69_a_cancelled_exchange_over_http_ends_without_a_response(version: str) -> None:
    for token in (None, 1):
        shop = Shop()
        client = shop.client("http", version)
        call = client.call("nap", {"name": "a"}, id=1, token=token)
        accepted = client.post(cancel(1))
        assert (accepted.status, accepted.body) == (202, b"")
        assert (call.status, call.ended, call.is_stream) == (200, True, True)
        assert [message for message in call.messages if "id" in message] == []
        assert len(shop.simulation.scheduler) == 0
        assert client.post(cancel(1)).status == 202


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_69_a_client_without_streams_is_let_go_too(version: str) -> None:
    shop = Shop()
    client = shop.client("http", version)
    message = client.message("tools/call", {"name": "nap", "arguments": {"name": "a"}}, id=1)
    call = client.post(message, headers={"Accept": "application/json"})
    client.post(cancel(1))
    assert (call.status, call.body, call.ended) == (202, b"", True)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_69_a_handshake_cannot_be_cancelled(version: str) -> None:
    channel = Shop().simulation.channel()
    client = speak.Speaker(version, channel.simulation)
    channel.engine.receive_message(speak.wire(client.initialize(id=7)))
    channel.engine.receive_message(speak.wire(cancel(7)))
    channel.simulation.settle()
    (reply,) = channel.messages
    assert (reply["id"], reply["result"]["protocolVersion"]) == (7, version)


@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_72_progress_only_with_the_clients_token_and_only_while_it_runs(end: str, version: str) -> None:
    registry = Registry("shop", "1.0")
    kept: list[Exchange] = []

    @registry.tool
    async def work(fails: bool, ex: Exchange) -> str:
        kept.append(ex)
        for done in (1, 1, 0.5, 2, -1, 2):
            await ex.progress(done, 3)
        if fails:
            raise RuntimeError("no")
        return "done"

    simulation = Simulation(registry)
    client = {"http": speak.Http, "channel": speak.Channel}[end](version, simulation)

    def said(token: JSON, fails: bool) -> JSON:
        params = {"name": "work", "arguments": {"fails": fails}}
        return say(client, client.message("tools/call", params, token=token))

    reports = [
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": "t", "progress": d, "total": 3},
        }
        for d in (1, 2)
    ]
    failed = text(version, 1, "The tool failed because of an internal error.", isError=True)
    assert said(None, fails=False) == [text(version, 1, "done")]
    assert said("t", fails=False) == [*reports, text(version, 1, "done")]
    assert said("t", fails=True) == [*reports, failed]
    for token in (True, 1.5, [], {}):
        assert said(token, fails=False) == [text(version, 1, "done")]

    async def report_late() -> None:
        for ex in kept:
            await ex.progress(100)
            await ex.log("emergency", "late")

    before = [len(peer.body) if isinstance(peer, SimulatedHttp) else len(peer.sent) for peer in simulation.peers]
    simulation.scheduler.spawn(report_late())
    simulation.settle()
    after = [len(peer.body) if isinstance(peer, SimulatedHttp) else len(peer.sent) for peer in simulation.peers]
    assert after == before


@pytest.mark.parametrize("params", [..., {}, None, {"_meta": {"progressToken": 1}}, {"x": 1}])
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_73_a_ping_is_answered_at_any_time(version: str, params: JSON) -> None:
    shop = Shop()
    ping = {"jsonrpc": "2.0", "id": "p", "method": "ping", **({} if params is ... else {"params": params})}
    pong = {"jsonrpc": "2.0", "id": "p", "result": {}}
    if version in ENVELOPE:
        client = shop.client("channel", version)
        message = client.message("ping", params if isinstance(params, dict) else {}, id="p")
        unknown = error("p", -32601, "unknown method: 'ping'")
        assert client.send(message) == [unknown]
        speak.assert_json(shop.client("http", version).post(message), 404, unknown)
        return
    channel = shop.simulation.channel()
    client = speak.Speaker(version, shop.simulation)
    assert channel.send(ping) == [pong]
    channel.send(client.initialize())
    assert channel.send(ping) == [pong]
    channel.send(speak.notification("notifications/initialized"))
    channel.send(client.message("tools/call", {"name": "nap", "arguments": {"name": "a"}}, id=1))
    assert channel.send(ping) == [pong]
    assert shop.simulation.http(ping).messages == [pong]
    http = shop.client("http", version)
    speak.assert_json(http.post(ping), 200, pong)


# A client that vanishes


@pytest.mark.parametrize("version", speak.VERSIONS)
@pytest.mark.parametrize(
    "moment", ["within the body", "after the head", "before the stream", "in the stream", "after it"]
)
def test_case_74_a_client_that_vanishes_takes_nothing_with_it(version: str, moment: str) -> None:
    shop = Shop()
    client = shop.client("http", version)
    message = client.message("tools/call", {"name": "nap", "arguments": {"name": "a"}}, id=1, token=1)
    exchange = SimulatedHttp(shop.simulation, shop.simulation.server.http_transaction())
    shop.simulation.peers.append(exchange)
    engine = exchange.engine
    engine.receive_request("POST", "/mcp", {**client.headers(message), "Content-Type": "application/json"})
    if moment != "after the head":
        body = speak.wire(message)
        engine.receive_body(body[:20] if moment == "within the body" else body)
    if moment in ("before the stream", "in the stream", "after it"):
        engine.receive_end()
    if moment in ("in the stream", "after it"):
        shop.simulation.settle()
        assert exchange.is_stream
    if moment == "after it":
        shop.open("a")
        assert exchange.ended
    exchange.disconnect()
    exchange.disconnect()
    engine.receive_body(b"more")
    engine.receive_end()
    shop.simulation.settle()
    # What the disconnect means to a call that has begun is the revision's to say: it is given up, or it goes on.
    goes_on = version in HANDSHAKE and moment in ("before the stream", "in the stream")
    assert len(shop.simulation.scheduler) == (1 if goes_on else 0)
    other = shop.client("http", version)
    assert other.call("echo", {"text": "b"}).messages == [text(version, 1, "b")]
    if goes_on:
        before = exchange.body
        shop.open("a")
        assert exchange.body == before
    assert len(shop.simulation.scheduler) == 0
    assert client.call("echo", {"text": "b"}).messages == [text(version, 1, "b")]
    assert engine.next_deadline() is None


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_case_74_a_handler_that_writes_to_nobody_is_not_hurt_by_it(version: str) -> None:
    registry = Registry("shop", "1.0")
    survived: list[str] = []

    @registry.tool
    async def persist(ex: Exchange) -> str:
        try:
            await ex.wait_cancelled()
        finally:
            survived.append("unwound")
            await ex.progress(5)
            await ex.log("error", "the client is gone")
        return "never"

    for end in ("http", "channel"):
        client = {"http": speak.Http, "channel": speak.Channel}[end](version, registry)
        call = client.call("persist", id=1, token=1)
        if end == "channel":
            client.end.close()
        elif version in ENVELOPE:
            call.disconnect()
        else:
            client.post(cancel(1))
        assert len(client.simulation.scheduler) == 0
    assert survived == ["unwound"] * 2


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_74_a_session_that_ends_while_a_tool_runs_ends_the_call(version: str) -> None:
    shop = Shop(config=Config(deletable_sessions=True))
    client = shop.client("http", version)
    call = client.call("nap", {"name": "a"}, token=1)
    assert client.delete().status == 204
    assert (call.ended, [message for message in call.messages if "id" in message]) == (True, [])
    assert len(shop.simulation.scheduler) == 0
    assert client.call("echo", {"text": "a"}).status == 404


# A tool that asks


@pytest.mark.parametrize("version", PUSHING)
def test_case_76_a_question_goes_where_its_call_came_from(version: str) -> None:
    shop = Shop()
    client = shop.client("http", version)
    standalone = client.get()
    call = client.call("confirm", id=1)
    question = call.messages[-1]
    assert question["method"] == "elicitation/create"
    assert standalone.messages == []
    # The session serves on meanwhile, an open stream and an open question or not.
    assert client.call("echo", {"text": "a"}, id=2).messages == [text(version, 2, "a")]
    accepted = client.answer(question, {"action": "accept", "content": {}})
    assert (accepted.status, accepted.body) == (202, b"")
    assert (call.messages[-1], call.ended) == (text(version, 1, "accept"), True)
    assert standalone.messages == []


@pytest.mark.parametrize("version", PUSHING)
def test_case_76_where_nobody_can_be_asked_the_call_fails_at_once(version: str) -> None:
    shop = Shop()
    cannot = "the client cannot be asked here: it has no session, or accepts no event stream"
    lacks = "this needs the client capability 'elicitation', which the client did not declare"
    json_only = shop.client("http", version).call("confirm", headers={"Accept": "application/json"})
    speak.assert_json(json_only, 200, error(1, -32600, cannot))
    stateless = shop.client("http", version)
    stateless.session = None
    assert stateless.call("confirm").messages[0]["error"]["code"] == -32600
    data = {"requiredCapabilities": {"elicitation": {}}}
    incapable = shop.client("http", version, capabilities={})
    speak.assert_json(incapable.call("confirm"), 200, error(1, -32600, lacks, data=data))
    assert incapable.simulation.scheduler.ready is False
    assert len(shop.simulation.scheduler) == 0


@pytest.mark.parametrize("version", PUSHING)
def test_case_76_a_channel_reads_on_while_a_tool_waits(version: str) -> None:
    shop = Shop()
    channel = shop.client("channel", version)
    questions = [channel.call("confirm", id=number)[-1] for number in range(3)]
    assert channel.call("echo", {"text": "a"}, id="e") == [text(version, "e", "a")]
    for number in (1, 2, 0):
        assert channel.answer(questions[number], {"action": "decline"}) == [text(version, number, "decline")]


@pytest.mark.parametrize("version", PUSHING)
def test_case_76_and_71_a_question_that_nobody_answers_ends(version: str) -> None:
    registry = Registry("shop", "1.0")

    @registry.tool
    async def confirm(ex: Exchange) -> str:
        return (await ex.ask("sure", elicit("Sure?"))).action

    channel = speak.Channel(version, Simulation(registry, config=Config(ask_timeout=30)))
    (question,) = channel.call("confirm")
    before = len(channel.end.sent)
    channel.simulation.advance(30)
    withdrawn, failed = channel.since(before)
    assert withdrawn["params"]["requestId"] == question["id"]
    assert failed == error(1, -32603, "the client did not answer the question 'sure' in time")
    assert channel.answer(question, {"action": "accept", "content": {}}) == []
    assert channel.request("ping", id=2) == [result(version, 2, {})]

"""Responses that become streams, streams of changes, coming back to one, and their limits."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcp_sansio import Body, Config, Exchange, Registry, elicit, elicit_accept
from mcp_sansio.events import CallReceived
from mcp_sansio.runtime import Event
from mcp_sansio.testing import FakeEvent, SimulatedHttp, Simulation
from mcp_sansio.wire.json import encode
from mcp_sansio.wire.sse import ServerSentEvent
from speak import ENVELOPE, HANDSHAKE, META, STREAM_HEAD, VERSIONS, Channel, DistantStore, Http, notification

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CHANGED = {"tools": "notifications/tools/list_changed", "prompts": "notifications/prompts/list_changed"}


class Gates:
    """Handlers wait here until a test lets them go on."""

    def __init__(self) -> None:
        self.open: dict[str, Event] = {}
        self.simulation: Simulation | None = None

    async def __call__(self, name: str) -> None:
        assert self.simulation is not None
        event = self.open[name] = FakeEvent(self.simulation.scheduler)
        await event.wait()

    def go(self, name: str) -> None:
        assert self.simulation is not None
        self.open.pop(name).set()
        self.simulation.settle()


def serve(config: Config | None = None, **options: Any) -> tuple[Registry, Gates, Simulation]:
    registry, gates = Registry("s", "1"), Gates()

    @registry.tool(**options)
    async def work(ex: Exchange) -> str:
        """Report and wait, in turn."""
        await gates("first")
        await ex.progress(1)
        await gates("second")
        await ex.progress(2)
        await gates("third")
        return "done"

    @registry.tool
    async def quick() -> str:
        """Quick."""
        return "quick"

    @registry.resource("a:b")
    async def read() -> str:
        return "x"

    gates.simulation = Simulation(registry, config=config)
    return registry, gates, gates.simulation


def ids(stream: SimulatedHttp) -> list[str]:
    """The ids of a stream's events, those without data too."""
    return re.findall(r"^id: (.+)$", stream.body.decode(), re.MULTILINE)


def texts(stream: SimulatedHttp) -> list[Any]:
    """What a stream told: a progress, or a result's text."""
    return [
        message["params"]["progress"] if "params" in message else message["result"]["content"][0]["text"]
        for message in stream.messages
    ]


# From JSON to a stream ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reply_is_json_until_something_precedes_it(version: str) -> None:
    _, gates, simulation = serve()
    speaker = Http(version, simulation)
    response = speaker.call("work", token="t")
    assert (response.head, response.body) == (None, b"")
    gates.go("first")
    assert (response.head, texts(response), response.ended) == (STREAM_HEAD, [1], False)
    gates.go("second")
    gates.go("third")
    assert (texts(response), response.ended) == ([1, 2, "done"], True)
    without = speaker.call("work")
    for name in ("first", "second", "third"):
        gates.go(name)
    assert (without.header("content-type"), without.ended) == ("application/json", True)


@pytest.mark.parametrize("version", VERSIONS)
def test_event_ids_and_priming(version: str) -> None:
    _, gates, simulation = serve()
    response = Http(version, simulation).call("work", token="t")
    for name in ("first", "second", "third"):
        gates.go(name)
    if version in ENVELOPE:
        assert ids(response) == []
        return
    primed = version == "2025-11-25"
    held = ids(response)
    stream = held[0].rpartition("-")[0]
    assert held == [f"{stream}-{number}" for number in range(1, 5 if primed else 4)]
    first = f"id: {stream}-1\nretry: 1000\ndata:\n\n".encode()
    assert response.body.startswith(first) is primed
    assert response.body.count(b"retry:") == primed


@pytest.mark.parametrize("version", VERSIONS)
def test_silence_turns_a_reply_into_a_stream(version: str) -> None:
    _, _, simulation = serve()
    response = Http(version, simulation).call("work")
    simulation.advance(14.9)
    assert response.head is None
    simulation.advance(0.1)
    assert response.head == STREAM_HEAD
    # The event that primes a stream is a sign of life as well.
    primed = response.body.count(b"data:\n\n")
    assert response.body.endswith(b"data:\n\n" if primed else b":\n\n")
    simulation.advance(30)
    assert response.body.count(b":\n\n") == 3


def test_signs_of_life_do_not_pile_up_before_a_driver_that_does_not_take() -> None:
    _, _, simulation = serve()
    transaction = simulation.server.http_transaction()
    transaction.receive_request("POST", "/mcp", {"content-type": "application/json"})
    transaction.receive_body(encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "work"}}))
    transaction.receive_end()
    for now in (15, 30, 45, 60):
        transaction.handle_timeout(now)
    assert transaction.data_to_send() == [STREAM_HEAD, Body(b":\n\n")]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_follows_a_stream_that_began_in_silence(version: str) -> None:
    _, gates, simulation = serve()
    response = Http(version, simulation).call("work")
    simulation.advance(45)
    for name in ("first", "second", "third"):
        gates.go(name)
    assert (texts(response), response.ended) == (["done"], True)
    before = response.body
    simulation.advance(100)
    assert (response.body, response.engine.next_deadline()) == (before, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_streaming_tool_is_a_stream_at_once(version: str) -> None:
    _, _, simulation = serve(streaming=True)
    assert Http(version, simulation).call("work").head == STREAM_HEAD


ACCEPTS: list[tuple[str | None, str]] = [
    ("application/json, text/event-stream", "json"),
    ("*/*", "json"),
    (None, "json"),
    ("application/*, text/*", "json"),
    ("Application/JSON;q=0.5 , TEXT/EVENT-STREAM", "json"),
    ("application/json", "json"),
    ("text/event-stream", "stream"),
    ("text/event-stream, application/json;q=0", "stream"),
    ("text/html", "no"),
    ("application/json;q=0", "no"),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("accept", "form"), ACCEPTS)
def test_accept(version: str, accept: str | None, form: str) -> None:
    _, gates, simulation = serve()
    speaker = Http(version, simulation)
    headers = {"Accept": accept or ""}
    for answered in (
        speaker.call("quick", headers=headers),
        speaker.request("tools/list", headers=headers),
        speaker.request("nonsense", headers=headers) if form == "json" else speaker.call("quick", headers=headers),
    ):
        assert answered.ended
        if form == "no":
            assert answered.status == 406
            text = "the Accept header admits neither application/json nor text/event-stream"
            assert answered.messages[0]["error"] == {"code": -32600, "message": text}
        else:
            assert answered.is_stream is (form == "stream")
            assert len(answered.messages) == 1
    if form == "no":
        return
    # What cannot be streamed is left out; the reply comes all the same.
    working = speaker.call("work", token="t", headers=headers)
    for name in ("first", "second", "third"):
        gates.go(name)
    assert texts(working)[-1] == "done"
    assert len(working.messages) == (1 if accept == "application/json" else 3)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_handshake_as_a_stream(version: str) -> None:
    _, _, simulation = serve()
    speaker = Http(version, simulation)
    opened = speaker.post(speaker.initialize(id=5), headers={"Accept": "text/event-stream"})
    assert (opened.status, opened.is_stream, opened.ended) == (200, True, True)
    assert opened.header("mcp-session-id") not in (None, speaker.session)
    assert opened.messages[0]["id"] == 5


# Letting go and coming back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_poll_after(version: str) -> None:
    _, gates, simulation = serve(poll_after=2.0)
    speaker = Http(version, simulation)
    response = speaker.call("work", token="t")
    assert (response.head is None) is (version != "2025-11-25")
    simulation.advance(2)
    assert response.ended is (version == "2025-11-25")
    if version != "2025-11-25":
        return
    gates.go("first")
    [last] = ids(response)
    again = speaker.get(headers={"Last-Event-ID": last})
    assert (texts(again), again.ended) == ([1], False)
    for name in ("second", "third"):
        gates.go(name)
    assert (texts(again), again.ended) == ([1, 2, "done"], True)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_coming_back_at_each_point(version: str) -> None:
    _, gates, simulation = serve()
    speaker = Http(version, simulation)
    response = speaker.call("work", token="t")
    gates.go("first")
    last = ids(response)[-1]
    response.disconnect()
    gates.go("second")
    # What was missed comes first, then what follows; nothing twice.
    again = speaker.get(headers={"Last-Event-ID": last})
    assert (again.head, texts(again)) == (STREAM_HEAD, [2])
    simulation.advance(15)
    assert again.body.endswith(b":\n\n")
    again.disconnect()
    gates.go("third")
    finished = speaker.get(headers={"Last-Event-ID": last})
    assert (texts(finished), finished.ended) == ([2, "done"], True)
    rest = speaker.get(headers={"Last-Event-ID": ids(again)[-1]})
    assert (texts(rest), rest.ended) == (["done"], True)
    nothing = speaker.get(headers={"Last-Event-ID": ids(finished)[-1]})
    assert (nothing.head, nothing.body, nothing.ended) == (STREAM_HEAD, b"", True)
    assert ids(response) + ids(finished) == sorted(ids(response) + ids(finished), key=lambda held: held[-1])


@pytest.mark.parametrize("version", HANDSHAKE)
def test_coming_back_before_the_old_connection_is_known_to_be_gone(version: str) -> None:
    registry, gates, simulation = serve()
    speaker = Http(version, simulation)
    response = speaker.call("work", token="t")
    gates.go("first")
    again = speaker.get(headers={"Last-Event-ID": ids(response)[-1]})
    assert (response.ended, again.ended) == (True, False)
    response.disconnect()
    gates.go("second")
    assert (texts(response), texts(again)) == ([1], [2])

    standalone = speaker.get()
    registry.remove_tool("quick")
    simulation.settle()
    second = speaker.get(headers={"Last-Event-ID": ids(standalone)[-1]})
    assert (standalone.ended, second.ended) == (True, False)
    standalone.disconnect()
    second.disconnect()
    third = speaker.get(headers={"Last-Event-ID": ids(standalone)[-1]})
    registry.remove_resource("a:b")
    simulation.settle()
    assert [message["method"] for message in third.messages] == ["notifications/resources/list_changed"]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_stream_of_changes_is_kept_while_its_client_is_away(version: str) -> None:
    registry, _, simulation = serve()
    speaker = Http(version, simulation)
    stream = speaker.get()
    registry.remove_tool("quick")
    simulation.settle()
    stream.disconnect()
    registry.remove_resource("a:b")
    again = speaker.get(headers={"Last-Event-ID": ids(stream)[-1]})
    assert [message["method"] for message in again.messages] == ["notifications/resources/list_changed"]
    registry.remove_tool("work")
    simulation.settle()
    assert [message["method"] for message in again.messages][1:] == ["notifications/tools/list_changed"]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_only_the_very_stream_of_the_very_session_is_replayed(version: str) -> None:
    _, gates, simulation = serve()
    one, two = Http(version, simulation), Http(version, simulation)
    response = one.call("work", token="t")
    for name in ("first", "second", "third"):
        gates.go(name)
    held = ids(response)[0]
    stream = held.rpartition("-")[0]
    wrong = [(two, held)]
    wrong += [(one, text) for text in ("", "x", "-", "x-1", stream, f"{stream}-", f"{stream}-x", f"{stream}--1")]
    wrong += [(one, f"{stream}-{'9' * 30}"), (one, f"{stream}-²"), (one, f"{stream[:-1]}-1")]
    wrong += [(one, f"{stream}-{'9' * 5000}")]  # of which Python makes no number
    for speaker, last in wrong:
        refused = speaker.get(headers={"Last-Event-ID": last})
        assert (refused.status, refused.ended) == (405, True)
        error = {"code": -32600, "message": "there is no stream of this session with that Last-Event-ID"}
        assert refused.messages[0]["error"] == error
    assert texts(one.get(headers={"Last-Event-ID": held}))[-1] == "done"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_is_kept_is_bounded(version: str) -> None:
    registry, _, simulation = serve(Config(replay_events=3, replay_streams=2))
    speaker = Http(version, simulation)
    stream = speaker.get()
    registry.remove_tool("quick")
    simulation.settle()
    for number in range(5):
        registry.resource(f"x:{number}")(lambda: "x")
    simulation.settle()
    assert len(stream.messages) == 6
    last_with_all_after = ids(stream)[-4]
    assert len(speaker.get(headers={"Last-Event-ID": last_with_all_after}).messages) == 3
    # Two more streams: the oldest is forgotten.
    speaker.get()
    speaker.get()
    assert stream.ended
    assert_begins_anew(speaker, last_with_all_after)


@pytest.mark.parametrize("store", [None, DistantStore], ids=["at once", "later"])
@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_gap_in_the_announcements_is_told_and_not_skipped(version: str, store: Any) -> None:
    registry = Registry("s", "1")
    registry.prompt(name="p")(lambda: "p")
    registry.tool(name="t")(lambda: "t")
    simulation = Simulation(registry, config=Config(replay_events=3), store=store and store())
    speaker = Http(version, simulation)
    stream = speaker.get()
    for number in range(5):
        registry.resource(f"x:{number}")(lambda: "x")
        simulation.settle()
    stream.disconnect()
    assert_begins_anew(speaker, ids(stream)[0])


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_rest_of_a_stream_is_what_is_kept_to_the_last_event(version: str) -> None:
    for config in (Config(replay_events=2), Config(replay_bytes=1)):
        _, gates, simulation = serve(config)
        speaker = Http(version, simulation)
        response = speaker.call("work", token="t")
        for name in ("first", "second", "third"):
            gates.go(name)
        *_, gone, before, last = ids(response)
        kept = {gone: [2, "done"], before: ["done"], last: []}
        if config.replay_bytes == 1:  # the newest event is kept, whatever its size
            del kept[gone]
            assert speaker.get(headers={"Last-Event-ID": gone}).status == 405
        for held, rest in kept.items():
            assert texts(speaker.get(headers={"Last-Event-ID": held})) == rest


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_bytes_that_are_kept_of_a_stream_are_those_of_its_newest_events(version: str) -> None:
    registry, _, simulation = serve(Config(replay_bytes=1000))
    speaker = Http(version, simulation)
    stream = speaker.get()
    for number in range(50):
        registry.resource(f"x:{number}")(lambda: "x")
        simulation.settle()
    assert len(stream.messages) == 50
    assert speaker.get(headers={"Last-Event-ID": ids(stream)[-4]}).messages == stream.messages[-3:]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_resource_that_is_not_subscribed_to_any_more_is_not_told_of(version: str) -> None:
    registry, _, simulation = serve()
    speaker = Http(version, simulation)
    stream = speaker.get()
    for method, told in (("subscribe", 1), ("unsubscribe", 1), ("subscribe", 2)):
        speaker.request(f"resources/{method}", {"uri": "a:b"})
        registry.resource_updated("a:b")
        simulation.settle()
        assert len(stream.messages) == told


def assert_begins_anew(speaker: Http, last_event_id: str) -> None:
    """Whoever comes back with that is told on another stream that whatever is announced may have changed."""
    fresh = speaker.get(headers={"Last-Event-ID": last_event_id})
    assert [message["method"] for message in fresh.messages] == [
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
    ]
    assert last_event_id.rpartition("-")[0] not in {event_id.rpartition("-")[0] for event_id in ids(fresh)}


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_streams_of_calls_do_not_end_that_of_the_session(version: str) -> None:
    registry, gates, simulation = serve(Config(replay_streams=2))
    speaker = Http(version, simulation)
    stream = speaker.get()
    calls = []
    for _ in range(4):
        calls.append(speaker.call("work", token="t"))
        gates.go("first")
    registry.remove_tool("quick")
    simulation.settle()
    assert ([message["method"] for message in stream.messages], stream.ended) == ([CHANGED["tools"]], False)
    # It is the oldest call that cannot be come back to.
    kept = [speaker.get(headers={"Last-Event-ID": ids(call)[0]}).status for call in calls]
    assert kept == [405, 405, 405, 200]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_is_kept_is_bounded_in_bytes(version: str) -> None:
    registry, _, simulation = serve(Config(replay_bytes=400))
    speaker = Http(version, simulation)
    stream = speaker.get()
    for number in range(10):
        registry.resource(f"x:{number}")(lambda: "x")
    simulation.settle()
    first = ids(stream)[0]
    again = speaker.get(headers={"Last-Event-ID": first})
    assert 0 < len(again.messages) < 9
    assert sum(len(event.data) for event in again.events() if isinstance(event, ServerSentEvent)) <= 400


@pytest.mark.parametrize("version", [version for version in ("2025-11-25", "2025-06-18") if version in VERSIONS])
def test_a_question_waits_for_who_comes_back(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def gate(ex: Exchange) -> str:
        """Ask."""
        return (await ex.ask("q", elicit("Sure?"))).action

    speaker = Http(version, registry)
    response = speaker.call("gate")
    [question] = response.messages
    first = ids(response)[0]
    response.disconnect()
    speaker.answer(question, elicit_accept())
    again = speaker.get(headers={"Last-Event-ID": first})
    assert again.messages[-1]["result"]["content"][0]["text"] == "accept"


# Going away -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_disconnect_at_each_point_of_a_call(version: str, after: int) -> None:
    _, gates, simulation = serve()
    speaker = Http(version, simulation)
    response = speaker.call("work", token="t")
    for name in ("first", "second")[:after]:
        gates.go(name)
    response.disconnect()
    response.engine.receive_disconnect()
    assert len(simulation.scheduler) == (0 if version in ENVELOPE else 1)
    if version in HANDSHAKE:
        for name in ("first", "second", "third")[after:]:
            gates.go(name)
    assert (len(simulation.scheduler), response.engine.next_deadline()) == (0, None)
    assert speaker.call("quick").status == 200


def test_a_disconnect_within_the_request() -> None:
    _, _, simulation = serve()
    for feed in (0, 1, 2):
        transaction = simulation.server.http_transaction()
        if feed > 0:
            transaction.receive_request("POST", "/mcp", {"Content-Type": "application/json"})
        if feed > 1:
            transaction.receive_body(b'{"jsonrpc"')
        transaction.receive_disconnect()
        transaction.receive_body(b"x")
        transaction.receive_end()
        assert (transaction.events(), transaction.data_to_send(), transaction.ended) == ([], [], True)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_disconnect_while_the_store_is_asked(version: str) -> None:
    simulation = Simulation(Registry("s", "1"), store=DistantStore())
    speaker = Http(version, simulation)
    transaction = simulation.server.http_transaction()
    headers = {"Content-Type": "application/json", **speaker.headers()}
    transaction.receive_request("POST", "/mcp", headers)
    transaction.receive_body(b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
    transaction.receive_end()
    [needed] = transaction.events()
    transaction.receive_disconnect()
    simulation.scheduler.spawn(needed.run())  # type: ignore[union-attr]
    simulation.settle()
    assert (transaction.events(), transaction.data_to_send()) == ([], [])
    assert len(simulation.server._live) == 0


# Listening ------------------------------------------------------------------------------------------------------------


def tagged(id: Any, **params: Any) -> dict[str, Any]:
    return {"_meta": {META + "subscriptionId": id}, **params}


def acknowledged(id: Any, honoured: dict[str, Any]) -> dict[str, Any]:
    return notification(ACKNOWLEDGED, tagged(id, notifications=honoured))


FILTERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"toolsListChanged": False}, {}),
    ({"toolsListChanged": True, "somethingElse": True}, {"toolsListChanged": True}),
    ({"toolsListChanged": 1}, {}),
    ({"promptsListChanged": True, "resourceSubscriptions": []}, {"promptsListChanged": True}),
    ({"resourceSubscriptions": ["a:b", "a:b", "x:y"]}, {"resourceSubscriptions": ["a:b", "x:y"]}),
    ({"resourcesListChanged": True}, {"resourcesListChanged": True}),
]


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize(("wanted", "honoured"), FILTERS)
@pytest.mark.parametrize("id", [0, "0", 'a\u2028b\x00"', 9007199254740993])
def test_what_a_listener_is_told(version: str, wanted: Any, honoured: Any, id: Any) -> None:
    registry, _, simulation = serve()
    speaker, channel = Http(version, simulation), Channel(version, simulation)
    stream = speaker.request(LISTEN, {"notifications": wanted}, id=id)
    before = len(channel.end.sent)
    assert channel.request(LISTEN, {"notifications": wanted}, id=id) == [acknowledged(id, honoured)]
    assert (stream.head, stream.messages, ids(stream)) == (STREAM_HEAD, [acknowledged(id, honoured)], [])
    registry.remove_tool("quick")
    registry.resource_updated("a:b")
    registry.resource_updated("a:c")
    registry.remove_resource("a:b")
    registry.prompt(name="p")(lambda: "x")
    simulation.settle()
    told = []
    if "toolsListChanged" in honoured:
        told.append(notification("notifications/tools/list_changed", tagged(id)))
    if "resourceSubscriptions" in honoured:
        told.append(notification("notifications/resources/updated", tagged(id, uri="a:b")))
    if "resourcesListChanged" in honoured:
        told.append(notification("notifications/resources/list_changed", tagged(id)))
    if "promptsListChanged" in honoured:
        told.append(notification("notifications/prompts/list_changed", tagged(id)))
    assert stream.messages[1:] == told
    assert channel.since(before)[1:] == told
    stream.disconnect()
    channel.send(notification("notifications/cancelled", {"requestId": id}))
    assert (len(simulation.server.topics), len(simulation.server._streams)) == (0, 0)
    registry.remove_tool("work")
    simulation.settle()
    assert channel.since(before)[1:] == told


NO_FILTERS: list[Any] = [None, [], "tools", "missing"]
NO_FILTERS += [{"resourceSubscriptions": uris} for uris in ("a:b", [5], None)]


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("wanted", NO_FILTERS)
def test_a_filter_that_is_none(version: str, wanted: Any) -> None:
    _, _, simulation = serve()
    params = {} if wanted == "missing" else {"notifications": wanted}
    error = {
        "code": -32602,
        "message": "params.notifications must be a filter object, with resourceSubscriptions a list of strings",
    }
    refused = Http(version, simulation).request(LISTEN, params)
    assert (refused.status, refused.messages[0]["error"]) == (400, error)
    assert Channel(version, simulation).request(LISTEN, params)[0]["error"] == error


@pytest.mark.parametrize("version", ENVELOPE)
def test_two_listeners_on_one_channel(version: str) -> None:
    registry, _, simulation = serve()
    channel = Channel(version, simulation)
    wanted = {"notifications": {"toolsListChanged": True}}
    channel.request(LISTEN, wanted, id=1)
    channel.request(LISTEN, wanted, id="1")
    [twice] = channel.request(LISTEN, wanted, id=1)
    assert twice["error"]["message"] == "the id of a request that is still in flight was used again"
    before = len(channel.end.sent)
    registry.remove_tool("quick")
    simulation.settle()
    assert channel.since(before) == [notification(CHANGED["tools"], tagged(id)) for id in (1, "1")]
    channel.send(notification("notifications/cancelled", {"requestId": 1}))
    before = len(channel.end.sent)
    registry.remove_tool("work")
    simulation.settle()
    assert channel.since(before) == [notification(CHANGED["tools"], tagged("1"))]
    channel.end.close()
    assert (len(simulation.server.topics), len(simulation.server._streams)) == (0, 0)


@pytest.mark.parametrize("version", ENVELOPE)
def test_listening_needs_a_stream(version: str) -> None:
    _, _, simulation = serve()
    speaker = Http(version, simulation)
    refused = speaker.request(LISTEN, {"notifications": {}}, headers={"Accept": "application/json"})
    text = "listening needs an Accept header that admits text/event-stream"
    assert (refused.status, refused.messages[0]["error"]) == (406, {"code": -32600, "message": text})


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_listener_hears_comments_and_is_ended_gracefully(version: str) -> None:
    _, _, simulation = serve()
    speaker, channel = Http(version, simulation), Channel(version, simulation)
    stream = speaker.request(LISTEN, {"notifications": {}}, id="L")
    channel.request(LISTEN, {"notifications": {}}, id="C")
    simulation.advance(45)
    assert stream.body.count(b":\n\n") == 3
    before = len(channel.end.sent)
    simulation.server.shutdown()
    simulation.settle()

    def result(id: str) -> dict[str, Any]:
        info = {META + "serverInfo": {"name": "s", "version": "1"}}
        meta = {META + "subscriptionId": id, **info}
        return {"jsonrpc": "2.0", "id": id, "result": {"_meta": meta, "resultType": "complete"}}

    assert (stream.messages[1:], stream.ended) == ([result("L")], True)
    assert channel.since(before) == [result("C")]
    refused = speaker.request("tools/list")
    assert refused.status == 503
    assert refused.messages[0]["error"] == {"code": -32603, "message": "this server is shutting down"}
    assert (len(simulation.server.topics), len(simulation.server._streams)) == (0, 0)


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_listener_that_does_not_read_loses_its_stream(version: str) -> None:
    registry, _, simulation = serve(Config(max_unsent=1000))
    transaction = simulation.server.http_transaction()
    speaker = Http(version, simulation)
    message = speaker.message(LISTEN, {"notifications": {"resourcesListChanged": True}})
    transaction.receive_request("POST", "/mcp", {"Content-Type": "application/json", **speaker.headers(message)})
    transaction.receive_body(encode(message))
    transaction.receive_end()
    for number in range(100):
        registry.resource(f"x:{number}")(lambda: "x")
    assert transaction.ended
    assert sum(len(getattr(part, "data", b"")) for part in transaction.data_to_send()) < 1300
    assert (len(simulation.server.topics), len(simulation.server._streams)) == (0, 0)


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_long_acknowledgement_ends_no_stream(version: str) -> None:
    registry, _, simulation = serve(Config(max_unsent=64))
    uris = [f"x:{number}" for number in range(100)]
    stream = Http(version, simulation).request(LISTEN, {"notifications": {"resourceSubscriptions": uris}})
    registry.resource_updated("x:7")
    simulation.settle()
    assert (len(stream.messages), stream.ended, len(simulation.server.topics)) == (2, False, 100)
    stream.disconnect()
    assert (len(simulation.server.topics), len(simulation.server._streams)) == (0, 0)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_call_waits_for_who_does_not_read_and_its_stream_is_not_let_go(version: str) -> None:
    _, gates, simulation = serve(Config(max_unsent=1))
    response = Http(version, simulation).call("work", token="t")
    for name in ("first", "second", "third"):
        gates.go(name)
    assert (texts(response), response.ended) == ([1, 2, "done"], True)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_standalone_stream_that_is_not_read_is_let_go(version: str) -> None:
    registry, _, simulation = serve(Config(max_unsent=1000))
    speaker = Http(version, simulation)
    stream = speaker.get()
    first = None
    for number in range(100):
        registry.resource(f"x:{number}")(lambda: "x")
        if number == 0:
            simulation.settle()
            first = ids(stream)[-1]
    assert stream.engine.ended
    simulation.settle()
    assert len(stream.body) < 1500
    # Nothing is lost to a client that comes back in time.
    again = speaker.get(headers={"Last-Event-ID": first or ""})
    assert len(again.messages) == 99


@pytest.mark.parametrize("version", VERSIONS)
def test_a_channel_that_is_not_read_holds_each_announcement_once(version: str) -> None:
    registry, _, simulation = serve()
    channel = Channel(version, simulation)
    if version in ENVELOPE:
        channel.request(LISTEN, {"notifications": {"resourcesListChanged": True, "resourceSubscriptions": ["a:b"]}})
    else:
        channel.request("resources/subscribe", {"uri": "a:b"})
    before = len(channel.end.sent)
    for number in range(100):
        registry.resource(f"x:{number}")(lambda: "x")
        registry.resource_updated("a:b")
    simulation.settle()
    methods = [message["method"] for message in channel.since(before)]
    assert methods == ["notifications/resources/list_changed", "notifications/resources/updated"]
    registry.remove_resource("x:1")
    simulation.settle()
    assert len(channel.since(before)) == 3


@pytest.mark.parametrize("version", HANDSHAKE)
def test_each_message_goes_on_one_stream(version: str) -> None:
    registry, _, simulation = serve()
    speaker = Http(version, simulation)
    one, two = speaker.get(), speaker.get()
    speaker.request("resources/subscribe", {"uri": "a:b"})
    registry.remove_tool("quick")
    registry.resource_updated("a:b")
    simulation.settle()
    assert (len(one.messages), len(two.messages)) == (0, 2)
    # Another session's stream is told as well: it is another client's.
    other = Http(version, simulation)
    theirs = other.get()
    registry.remove_resource("a:b")
    simulation.settle()
    assert (len(one.messages), len(two.messages), len(theirs.messages)) == (0, 3, 1)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_shutdown_ends_standalone_streams(version: str) -> None:
    _, gates, simulation = serve()
    speaker = Http(version, simulation)
    stream, response = speaker.get(), speaker.call("work")
    simulation.server.shutdown()
    simulation.settle()
    assert (stream.ended, response.ended) == (True, False)
    # Calls in flight are left to finish.
    for name in ("first", "second", "third"):
        gates.go(name)
    assert (texts(response), response.ended) == (["done"], True)
    refused = speaker.get()
    assert (refused.status, refused.header("content-type")) == (503, "application/json")


# Back-pressure --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handler_waits_for_a_client_that_reads_slowly(version: str) -> None:
    registry, reached = Registry("s", "1"), []

    @registry.tool
    async def flood(ex: Exchange) -> str:
        """Flood."""
        for number in range(1000):
            await ex.progress(number + 1)
            reached.append(number)
        return "done"

    simulation = Simulation(registry, config=Config(max_unsent=10_000))
    speaker = Channel(version, simulation)
    connection = speaker.end.engine
    simulation.peers.remove(speaker.end)
    connection.receive_message(encode(speaker.message("tools/call", {"name": "flood", "arguments": {}}, token="t")))
    [received] = connection.events()
    assert isinstance(received, CallReceived)

    async def run() -> None:
        await received.run()

    simulation.scheduler.spawn(run())
    simulation.scheduler.run()
    assert 0 < len(reached) < 200
    total = 0
    while connection._calls:
        total += len(connection.data_to_send())
        simulation.scheduler.run()
    assert len(reached) == 1000
    assert total + len(connection.data_to_send()) == 1001


@pytest.mark.parametrize("version", VERSIONS)
def test_who_goes_away_holds_nobody_up(version: str) -> None:
    registry, reached = Registry("s", "1"), []

    @registry.tool
    async def flood(ex: Exchange) -> str:
        """Flood."""
        for number in range(100):
            await ex.log("error", "x" * 1000)
            reached.append(number)
        return "done"

    simulation = Simulation(registry, config=Config(max_unsent=10_000))
    speaker = Http(version, simulation)
    speaker.log_level = "debug"
    if version in HANDSHAKE:
        speaker.request("logging/setLevel", {"level": "debug"})
    running = speaker.call("flood")
    assert (len(reached), running.ended) == (100, True)

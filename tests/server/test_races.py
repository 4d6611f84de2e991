"""What can cross on the wire, in every order: cancellations, answers, equal ids, a shutdown; and pages that change."""

from __future__ import annotations

from typing import Any

import pytest

from listed import LISTS, declare, remove
from mcp_sansio import Config, Exchange, Registry, elicit, elicit_accept, elicit_decline
from mcp_sansio.events import CallCancelled, CallReceived
from mcp_sansio.runtime import Event
from mcp_sansio.testing import FakeEvent, Simulation
from mcp_sansio.wire.json import decode, encode
from speak import ENVELOPE, HANDSHAKE, VERSIONS, Channel, Http, assert_json, notification

PUSHED = tuple(version for version in HANDSHAKE if version in ("2025-11-25", "2025-06-18"))
BUSY = "the id of a request that is still in flight was used again"


class Naps:
    """A tool `nap(name)` that ends when its nap does."""

    def __init__(self, config: Config | None = None) -> None:
        self.registry = Registry("s", "1")
        self.events: dict[str, Event] = {}
        self.ended: list[str] = []

        @self.registry.tool
        async def nap(name: str, ex: Exchange) -> str:
            """Nap."""
            event = self.events[name] = FakeEvent(self.simulation.scheduler)
            try:
                await event.wait()
            finally:
                self.ended.append(name)
            await ex.progress(1)
            return name

        @self.registry.tool
        async def give_up(ex: Exchange) -> str:
            """Give up."""
            ex.cancel()
            ex.cancel()
            await ex.progress(1)
            await ex.wait_cancelled()
            return "late"

        @self.registry.tool
        async def gate(ex: Exchange) -> str:
            """Ask."""
            return (await ex.ask("q", elicit("Sure?"))).action

        self.simulation = Simulation(self.registry, config=config)

    def wake(self, name: str) -> None:
        self.events.pop(name).set()
        self.simulation.settle()


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_log_level_holds_for_what_was_sent_right_after_it(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def talk(ex: Exchange) -> str:
        """Talk."""
        await ex.log("debug", "hello")
        return "said"

    channel = Channel(version, registry)
    before = len(channel.end.sent)
    for message in (
        channel.message("logging/setLevel", {"level": "debug"}, id=1),
        channel.message("tools/call", {"name": "talk", "arguments": {}}, id=2),
    ):
        channel.end.engine.receive_message(encode(message))
    channel.simulation.settle()
    sent = [decode(data) for data in channel.end.sent[before:]]
    assert {message.get("method", message.get("id")) for message in sent} == {1, "notifications/message", 2}


def text(message: dict[str, Any]) -> Any:
    return message["result"]["content"][0]["text"]


def cancelled(id: Any) -> dict[str, Any]:
    return notification("notifications/cancelled", {"requestId": id, "reason": "x"})


# Cancelling -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_cancelled_before_it_is_asked(version: str) -> None:
    naps = Naps()
    channel = Channel(version, naps.simulation)
    assert channel.send(cancelled(1)) == []
    assert channel.call("nap", {"name": "a"}) == []
    naps.wake("a")
    assert text(channel.end.messages[-1]) == "a"


@pytest.mark.parametrize("version", VERSIONS)
def test_cancelled_before_its_task_starts(version: str) -> None:
    naps = Naps()
    channel = Channel(version, naps.simulation)
    naps.simulation.peers.remove(channel.end)
    connection = channel.end.engine
    connection.receive_message(encode(channel.message("tools/call", {"name": "nap", "arguments": {"name": "a"}})))
    connection.receive_message(encode(cancelled(1)))
    received, gone = connection.events()
    assert isinstance(received, CallReceived)
    assert isinstance(gone, CallCancelled)
    assert received.call is gone.call

    async def run() -> None:
        await received.run()

    # A driver may start what is cancelled already; nothing comes of it.
    naps.simulation.scheduler.spawn(run())
    naps.simulation.scheduler.run()
    naps.wake("a")
    assert (connection.data_to_send(), connection.events(), len(naps.simulation.scheduler)) == ([], [], 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_cancelled_as_it_ends(version: str) -> None:
    naps = Naps()
    channel = Channel(version, naps.simulation)
    channel.call("nap", {"name": "a"})
    before = len(channel.end.sent)
    # The handler is done, and its reply not taken yet, when the cancellation comes in.
    naps.events.pop("a").set()
    naps.simulation.scheduler.run()
    channel.end.engine.receive_message(encode(cancelled(1)))
    naps.simulation.settle()
    assert [text(message) for message in channel.since(before)] == ["a"]
    assert channel.send(cancelled(1)) == []
    assert [event for event in channel.end.happened if isinstance(event, CallCancelled)] == []


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_more_is_sent_for_what_was_cancelled(version: str) -> None:
    naps = Naps()
    channel = Channel(version, naps.simulation)
    channel.call("nap", {"name": "a"}, token="t")
    event = naps.events["a"]
    assert channel.send(cancelled(1)) == []
    event.set()
    naps.simulation.settle()
    assert naps.ended == ["a"]
    assert (channel.end.engine.next_deadline(), len(naps.simulation.scheduler)) == (None, 0)
    # The id is free again.
    assert channel.call("nap", {"name": "b"}) == []
    naps.wake("b")
    assert text(channel.end.messages[-1]) == "b"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handler_gives_its_own_call_up(version: str) -> None:
    naps = Naps()
    channel, speaker = Channel(version, naps.simulation), Http(version, naps.simulation)
    assert channel.call("give_up", token="t") == []
    response = speaker.call("give_up", token="t")
    assert (response.status, response.body, response.ended) == (200, b"", True)
    assert len(naps.simulation.scheduler) == 0


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_handshake_cannot_be_cancelled(version: str) -> None:
    channel = Channel(version, Naps().simulation)
    assert channel.send(cancelled(0)) == []
    assert "result" in channel.request("tools/list")[0]


@pytest.mark.parametrize("version", [version for version in HANDSHAKE if version == "2025-03-26"])
def test_cancelling_within_a_batch(version: str) -> None:
    naps = Naps()
    channel, speaker = Channel(version, naps.simulation), Http(version, naps.simulation)
    batch = [channel.message("tools/call", {"name": "nap", "arguments": {"name": str(id)}}, id=id) for id in (1, 2)]
    assert channel.send(batch) == []
    channel.send(cancelled(1))
    before = len(channel.end.sent)
    naps.wake("2")
    [replies] = channel.since(before)
    assert [(reply["id"], text(reply)) for reply in replies] == [(2, "2")]
    response = speaker.post(batch)
    speaker.post(cancelled(2))
    naps.wake("1")
    assert [[reply["id"] for reply in replies] for replies in response.messages] == [[1]]
    both = speaker.post(batch)
    speaker.post(cancelled(1))
    speaker.post(cancelled(2))
    assert (both.status, both.body, both.ended) == (200, b"", True)
    assert channel.send(batch) == []
    for id in (1, 2):
        assert channel.send(cancelled(id)) == []
    assert len(naps.simulation.scheduler) == 0


# Answers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", PUSHED)
def test_answers_that_come_twice_late_or_from_elsewhere(version: str) -> None:
    naps = Naps()
    channel, other = Channel(version, naps.simulation), Channel(version, naps.simulation)
    speaker = Http(version, naps.simulation)
    [question] = channel.call("gate")
    assert other.answer(question, elicit_decline()) == []
    assert speaker.answer(question, elicit_decline()).status == 202
    for id in ("ask-unknown", 0, "", 1):
        assert channel.answer({"id": id}, elicit_decline()) == []
    assert len(naps.simulation.server.questions) == 1
    [done] = channel.answer(question, elicit_accept())
    assert text(done) == "accept"
    assert channel.answer(question, elicit_decline()) == []
    [question] = channel.call("gate")
    naps.simulation.advance(600)
    assert channel.answer(question, elicit_accept()) == []
    assert len(naps.simulation.server.questions) == 0


def withdrawn(question: Any, reason: str) -> Any:
    params = {"requestId": question["id"], "reason": reason}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


@pytest.mark.parametrize("version", PUSHED)
def test_an_answer_after_its_call_was_cancelled(version: str) -> None:
    naps = Naps()
    channel, speaker = Channel(version, naps.simulation), Http(version, naps.simulation)
    [question] = channel.call("gate")
    assert channel.send(cancelled(1)) == [withdrawn(question, "the call that asked was cancelled")]
    assert channel.answer(question, elicit_accept()) == []
    response = speaker.call("gate")
    [question] = response.messages
    speaker.post(cancelled(1))
    assert speaker.answer(question, elicit_accept()).status == 202
    assert response.messages == [question, withdrawn(question, "the call that asked was cancelled")]
    assert response.ended
    assert (len(naps.simulation.server.questions), len(naps.simulation.scheduler)) == (0, 0)


@pytest.mark.parametrize("version", PUSHED)
def test_two_questions_at_once_are_answered_in_any_order(version: str) -> None:
    naps = Naps()
    channel = Channel(version, naps.simulation)
    [first], [second] = channel.call("gate", id=1), channel.call("gate", id=2)
    assert first["id"] != second["id"]
    assert text(channel.answer(second, elicit_decline())[0]) == "decline"
    [done] = channel.answer(first, elicit_accept())
    assert (done["id"], text(done)) == (1, "accept")


@pytest.mark.parametrize("version", ENVELOPE)
def test_responses_from_clients_are_not_for_every_revision(version: str) -> None:
    channel, speaker = Channel(version, Naps().simulation), Http(version, Naps().simulation)
    reply = {"jsonrpc": "2.0", "id": 1, "result": {}}
    text = "this protocol revision has no responses from clients"
    refused = speaker.post(reply)
    assert refused.status == 400
    assert refused.messages[0]["error"] == {"code": -32600, "message": text}
    assert channel.send(reply) == []


# Equal ids ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("same", [True, False])
def test_two_calls_with_one_id_over_http(version: str, same: bool) -> None:
    naps = Naps()
    one = Http(version, naps.simulation)
    two = one if same else Http(version, naps.simulation)
    first, second = one.call("nap", {"name": "a"}, token="t"), two.call("nap", {"name": "b"}, token="t")
    naps.wake("b")
    assert (first.head, [message.get("id") for message in second.messages]) == (None, [None, 1])
    naps.wake("a")
    assert (text(first.messages[-1]), text(second.messages[-1])) == ("a", "b")


@pytest.mark.parametrize("version", HANDSHAKE)
def test_cancelling_an_id_that_is_used_twice_cancels_both(version: str) -> None:
    naps = Naps()
    speaker = Http(version, naps.simulation)
    responses = [speaker.call("nap", {"name": name}) for name in "ab"]
    speaker.post(cancelled(1))
    assert [(response.body, response.ended) for response in responses] == [(b"", True)] * 2
    assert sorted(naps.ended) == ["a", "b"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("id", [0, "", "0", -1, 9007199254740993, "ż" * 200])
def test_two_calls_with_one_id_on_a_channel(version: str, id: Any) -> None:
    naps = Naps()
    channel, other = Channel(version, naps.simulation), Channel(version, naps.simulation)
    assert channel.call("nap", {"name": "a"}, id=id) == []
    refused = {"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": BUSY}}
    assert channel.call("nap", {"name": "b"}, id=id) == [refused]
    assert channel.end.send(channel.message("tools/list", id=id)) == [refused]
    assert other.call("nap", {"name": "c"}, id=id) == []
    # An id of another type is another id.
    different: Any = str(id) if isinstance(id, int) else 12345
    assert "result" in channel.request("tools/list", id=different)[0]
    before, there = len(channel.end.sent), len(other.end.sent)
    naps.wake("c")
    naps.wake("a")
    assert [(reply["id"], text(reply)) for reply in channel.since(before)] == [(id, "a")]
    assert [(reply["id"], text(reply)) for reply in other.since(there)] == [(id, "c")]


# Shutting down --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_shutdown_with_everything_open(version: str) -> None:
    naps = Naps()
    simulation = naps.simulation
    speaker, channel = Http(version, simulation), Channel(version, simulation)
    running = [speaker.call("nap", {"name": "a"}), speaker.call("gate")]
    channel.call("nap", {"name": "b"}, id=7)
    asked = channel.call("gate", id=8)
    if version in HANDSHAKE:
        streams = [speaker.get(), simulation.pair()]
    else:
        streams = [speaker.request("subscriptions/listen", {"notifications": {}})]
        channel.request("subscriptions/listen", {"notifications": {}}, id=9)
    simulation.server.shutdown()
    simulation.server.shutdown()
    simulation.settle()
    assert all(stream.ended for stream in streams)
    # Calls finish, and so do questions; new requests over HTTP are refused.
    naps.wake("a")
    naps.wake("b")
    assert text(running[0].messages[0]) == "a"
    assert any(message.get("id") == 7 and text(message) == "b" for message in channel.end.messages)
    if version in PUSHED:
        [done] = channel.answer(asked[0], elicit_accept())
        assert text(done) == "accept"
    assert speaker.request("tools/list").status == 503
    naps.registry.remove_tool("nap")
    simulation.settle()
    for peer in simulation.peers:
        if hasattr(peer, "disconnect"):
            peer.disconnect()
        else:
            peer.close()
    simulation.advance(3600)
    server = simulation.server
    assert (len(server._streams), len(server.pairs), len(server.questions), len(simulation.scheduler)) == (0, 0, 0, 0)
    assert len(server.topics) == 0 or version in HANDSHAKE


@pytest.mark.parametrize("version", VERSIONS)
def test_a_channel_that_ends_gives_everything_up(version: str) -> None:
    naps = Naps()
    channel = Channel(version, naps.simulation)
    channel.call("nap", {"name": "a"}, id=1)
    channel.call("gate", id=2)
    if version in ENVELOPE:
        channel.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=3)
    sent = len(channel.end.sent)
    channel.end.close()
    server = naps.simulation.server
    assert naps.ended == ["a"]
    assert (len(naps.simulation.scheduler), len(server.questions), len(server.topics)) == (0, 0, 0)
    assert (len(channel.end.sent), channel.end.engine.next_deadline()) == (sent, None)


# Running out of time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_that_takes_too_long(version: str) -> None:
    naps = Naps(Config(call_timeout=10, keep_alive=1000))
    speaker, channel = Http(version, naps.simulation), Channel(version, naps.simulation)
    response = speaker.call("nap", {"name": "a"})
    channel.call("nap", {"name": "b"})
    before = len(channel.end.sent)
    naps.simulation.advance(9.9)
    assert response.head is None
    naps.simulation.advance(0.1)
    error = {"code": -32603, "message": "the call took longer than 10 seconds"}
    late = {"jsonrpc": "2.0", "id": 1, "error": error}
    assert_json(response, 200, late)
    assert channel.since(before) == [late]
    assert (sorted(naps.ended), len(naps.simulation.scheduler)) == (["a", "b"], 0)
    assert channel.send(cancelled(1)) == []


# Pages ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "member"), LISTS)
def test_pages(version: str, method: str, member: str) -> None:
    registry = Registry("s", "1", page_size=2)
    for number in range(5):
        declare(registry, method, number)
    channel = Channel(version, registry)

    def page(cursor: str | None = None) -> tuple[list[str], str | None]:
        # Announcements may come before it.
        reply = channel.request(method, {} if cursor is None else {"cursor": cursor})[-1]
        result = reply["result"]
        return [item["name"] for item in result[member]], result.get("nextCursor")

    names, second = page()
    assert names == ["n0", "n1"]
    names, third = page(second)
    assert names == ["n2", "n3"]
    assert page(third) == (["n4"], None)
    # What goes before the cursor shifts nothing, what comes is at the end, and what the cursor stood on may go.
    for number in (0, 1, 3):
        remove(registry, method, number)
    declare(registry, method, 5)
    assert page(second) == (["n2", "n4"], "5")
    assert page(third) == (["n4", "n5"], None)
    declare(registry, method, 0)
    assert page(third)[0] == ["n4", "n5"]
    assert page() == (["n2", "n4"], "5")
    for number in (5, 0):
        remove(registry, method, number)
    assert page("5") == ([], None)
    everything = Registry("s", "1", page_size=2)
    for number in range(2):
        declare(everything, method, number)
    assert "nextCursor" not in Channel(version, everything).request(method)[0]["result"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "member"), LISTS)
def test_cursors_of_other_kinds(version: str, method: str, member: str) -> None:
    channel, speaker = Channel(version, Registry("s", "1")), Http(version, Registry("s", "1"))
    for cursor in ("", "x", "-1", "1.0", " 1", "+1", "²", "9" * 20, "1" * 100_000):
        error = {"code": -32602, "message": "cursor was not given out by this server"}
        refused = {"jsonrpc": "2.0", "id": 1, "error": error}
        assert channel.request(method, {"cursor": cursor}) == [refused]
        assert_json(speaker.request(method, {"cursor": cursor}), 400 if version in ENVELOPE else 200, refused)
    for cursor in (5, True, [], {}):
        error = {"code": -32602, "message": "params.cursor must be a string"}
        assert channel.request(method, {"cursor": cursor}) == [{"jsonrpc": "2.0", "id": 1, "error": error}]
    assert channel.request(method, {"cursor": None})[0]["result"][member] == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "member"), LISTS)
def test_kept_bytes_change_with_the_registry(version: str, method: str, member: str) -> None:
    registry = Registry("s", "1")
    channel = Channel(version, registry)
    empty = channel.request(method)[-1]["result"][member]
    declare(registry, method, 1)
    one = channel.request(method, id=2)[-1]["result"][member]
    again = channel.request(method, id=3)
    remove(registry, method, 1)
    assert (len(empty), len(one), again[0]["id"], again[0]["result"][member]) == (0, 1, 3, one)
    assert channel.request(method)[-1]["result"][member] == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("method", "member"), LISTS)
def test_made_up_cursors_leave_nothing_behind(version: str, method: str, member: str) -> None:
    registry = Registry("s", "1", page_size=2)
    for number in range(5):
        declare(registry, method, number)
    channel = Channel(version, registry)
    for cursor in [*range(5), *range(10**10, 10**10 + 100)]:
        channel.request(method, {"cursor": str(cursor)})
    # A page from each entry on, and the empty one.
    pages = [rendered for rendered in registry._rendered.values() if isinstance(rendered, bytes)]
    assert len(pages) == 6

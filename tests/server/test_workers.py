"""Workers of one deployment: a session that is opened at one goes on at another."""

from __future__ import annotations

from typing import Any

import pytest

from deployment import Deployment
from mcp_sansio import (
    Change,
    ChangeKind,
    Exchange,
    MemoryHub,
    NeedInput,
    Registry,
    Server,
    elicit,
    elicit_accept,
    elicit_decline,
)
from mcp_sansio.server.workers import MAX_UNSAID
from mcp_sansio.testing import FakeEvent, Simulation
from mcp_sansio.wire.json import decode
from speak import HANDSHAKE, VERSIONS, Http, notification

PUSHED = tuple(version for version in HANDSHAKE if version in ("2025-11-25", "2025-06-18"))


def declare() -> Registry:
    registry = Registry("s", "1")

    @registry.tool
    async def gate(ex: Exchange) -> str:
        """Ask."""
        return (await ex.ask("q", elicit("Sure?"))).action

    @registry.tool
    async def wait(ex: Exchange) -> str:
        """Wait."""
        await ex.wait_cancelled()
        return "late"

    @registry.tool
    async def purge(ex: Exchange) -> str:
        """Leave state behind."""
        if ex.answered("q"):
            return f"had {ex.state}"
        raise NeedInput({"q": elicit("Sure?")}, state=1)

    @registry.tool
    async def count(ex: Exchange) -> str:
        """Count."""
        assert ex.session is not None
        await ex.session.set("n", ex.session.get("n", 0) + 1)
        return str(ex.session.get("n"))

    @registry.resource("a:b")
    async def read() -> str:
        return "x"

    return registry


def text(messages: list[Any]) -> str:
    return messages[-1]["result"]["content"][0]["text"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_session_goes_on_at_another_worker(version: str) -> None:
    both = Deployment(declare)
    speaker = Http(version, both.simulation)
    for worker, expected in ((0, "1"), (1, "2"), (0, "3")):
        both.at(worker)
        assert text(speaker.call("count").messages) == expected


@pytest.mark.parametrize("version", [version for version in VERSIONS if version not in PUSHED])
def test_what_a_handler_left_is_found_at_another_worker(version: str) -> None:
    both = Deployment(declare)
    speaker = Http(version, both.simulation)
    result = speaker.call("purge").messages[0]["result"]
    both.at(1)
    if version in HANDSHAKE:
        state = result["_meta"]["mcp-sansio/input-required"]["requestState"]
        done = speaker.call("purge", {"mcpAnswers": {"q": elicit_accept()}, "mcpState": state})
    else:
        more = {"inputResponses": {"q": elicit_accept()}, "requestState": result["requestState"]}
        done = speaker.call("purge", **more)
    assert text(done.messages) == "had 1"


@pytest.mark.parametrize(
    "junk",
    [b"", b"\xff", b"[]", b"null", b"{}", b'{"from":"x","change":"of mind","uri":null}', b'{"from":"x","answer":1}'],
)
def test_a_message_that_no_worker_says_costs_none_of_the_others(junk: bytes, caplog: pytest.LogCaptureFixture) -> None:
    both = Deployment(declare)
    speaker = Http(PUSHED[0], both.simulation)
    running = speaker.call("gate")
    [question] = running.messages
    both.simulation.scheduler.complete(both.hub.publish("mcp-sansio", junk))
    both.at(1)
    assert speaker.answer(question, elicit_accept()).status == 202
    assert (text(running.messages), running.ended) == ("accept", True)
    assert [record.getMessage() for record in caplog.records] == ["a message of another worker was not understood"] * 2


@pytest.mark.parametrize("version", PUSHED)
def test_an_answer_comes_in_at_another_worker(version: str) -> None:
    both = Deployment(declare)
    speaker, other = Http(version, both.simulation), Http(version, both.simulation)
    running = speaker.call("gate")
    [question] = running.messages
    both.at(1)
    assert other.answer(question, elicit_decline()).status == 202
    assert not running.ended
    assert speaker.answer(question, elicit_accept()).status == 202
    assert (text(running.messages), running.ended) == ("accept", True)
    assert speaker.answer(question, elicit_decline()).status == 202
    assert len(both.simulation.scheduler) == both.idle


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_cancellation_comes_in_at_another_worker(version: str) -> None:
    both = Deployment(declare)
    speaker = Http(version, both.simulation)
    running = speaker.call("wait", id=7)
    both.at(1)
    speaker.post(notification("notifications/cancelled", {"requestId": "7"}))
    assert not running.ended
    speaker.post(notification("notifications/cancelled", {"requestId": 7}))
    assert (running.body, running.ended) == (b"", True)


@pytest.mark.parametrize("version", VERSIONS)
def test_changes_reach_the_streams_of_every_worker_once(version: str) -> None:
    both = Deployment(declare)
    speaker = Http(version, both.simulation)
    if version in HANDSHAKE:
        stream = speaker.get()
        both.at(1)
        speaker.request("resources/subscribe", {"uri": "a:b"})
    else:
        wanted = {"toolsListChanged": True, "resourceSubscriptions": ["a:b"]}
        stream = speaker.request("subscriptions/listen", {"notifications": wanted})
    before = len(stream.messages)
    for registry in reversed(both.registries):
        registry.resource_updated("a:b")
        registry.remove_tool("wait")
    both.simulation.settle()
    assert [message["method"] for message in stream.messages[before:]] == [
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    ] * 2
    if version in HANDSHAKE:
        speaker.request("resources/unsubscribe", {"uri": "a:b"})
        before = len(stream.messages)
        both.registries[0].resource_updated("a:b")
        both.simulation.settle()
        assert len(stream.messages) == before


@pytest.mark.parametrize("version", HANDSHAKE)
def test_an_end_comes_in_at_another_worker(version: str) -> None:
    both = Deployment(declare)
    speaker = Http(version, both.simulation)
    stream, running = speaker.get(), speaker.call("wait")
    both.at(1)
    assert speaker.delete().status == 204
    assert (stream.ended, running.ended) == (True, True)
    both.at(0)
    assert speaker.request("tools/list").status == 404
    assert all(len(server._live) == 0 and len(server.topics) == 0 for server in both.servers)
    assert len(both.simulation.scheduler) == both.idle


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_hub_nothing_is_said(version: str) -> None:
    simulation = Simulation(declare())
    speaker = Http(version, simulation)
    speaker.post(notification("notifications/cancelled", {"requestId": 7}))
    simulation.server.registry.remove_tool("wait")
    assert len(simulation.server.workers._outbox) == 0
    simulation.scheduler.spawn(simulation.server.workers.ready())
    simulation.settle()
    assert len(simulation.scheduler) == 0


class UnreachableHub(MemoryHub):
    """A hub that takes nothing while it is `down`."""

    down = True

    async def publish(self, topic: str, data: bytes) -> None:
        if self.down:
            raise ConnectionError("the hub cannot be reached")
        await super().publish(topic, data)


def test_what_a_hub_did_not_take_is_said_later_in_order_and_not_without_limit() -> None:
    simulation = Simulation(declare())
    hub = UnreachableHub(event=lambda: FakeEvent(simulation.scheduler), keep=2 * MAX_UNSAID)
    server = Server(simulation.server.registry, runtime=simulation.runtime, hub=hub)
    for number in range(MAX_UNSAID + 5):
        server.publish(Change(ChangeKind.RESOURCE_UPDATED, str(number)))
    with pytest.raises(ConnectionError):
        server.relay().send(None)
    hub.down = False
    simulation.scheduler.spawn(server.relay())
    simulation.settle()
    [said] = [topic.messages for topic in hub._topics.values()]
    assert [decode(message.data)["uri"] for message in said] == [str(number) for number in range(5, MAX_UNSAID + 5)]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_concerns_another_worker_is_acknowledged_once_that_will_hear_it(version: str) -> None:
    """A worker that dies after its reply has told the others: nothing that a client was told is lost with it."""
    both = Deployment(declare)
    speaker = Http(version, both.simulation)
    stream, running = speaker.get(), speaker.call("wait", id=7)
    both.at(1)
    relay = both._lines[1][1]
    both.simulation.scheduler.cancel(relay)
    said = [
        speaker.post({"jsonrpc": "2.0", "id": "ask-1", "result": {}}),
        speaker.post(notification("notifications/cancelled", {"requestId": 7})),
        speaker.delete(),
    ]
    assert [exchange.head for exchange in said] == [None, None, None]
    assert (stream.ended, running.ended) == (False, False)
    both.simulation.scheduler.spawn(both.servers[1].relay())
    both.simulation.settle()
    assert [exchange.status for exchange in said] == [202, 202, 204]
    assert (stream.ended, running.ended) == (True, True)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_the_hub_does_not_take_is_not_acknowledged(version: str) -> None:
    both = Deployment(declare)
    speaker = Http(version, both.simulation)
    both.at(1)
    both.simulation.scheduler.cancel(both._lines[1][1])
    said = speaker.post(notification("notifications/cancelled", {"requestId": 7}))

    async def publish(topic: str, data: bytes) -> None:
        raise ConnectionError("the hub is gone")

    both.hub.publish = publish  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        both.servers[1].relay().send(None)
    both.simulation.settle()
    error = {"code": -32603, "message": "the session store cannot be reached"}
    assert (said.status, said.messages[0]["error"]) == (503, error)
    assert speaker.post(notification("notifications/initialized")).status == 202


def test_a_worker_that_ends_says_the_rest_first() -> None:
    both = Deployment(declare)
    server = both.servers[0]
    for number in range(3):
        server.publish(Change(ChangeKind.RESOURCE_UPDATED, str(number)))
    ending = both.simulation.scheduler.start(server.farewell())
    both.simulation.settle()
    assert ending.done
    [topic] = both.hub._topics.values()
    assert [decode(message.data)["uri"] for message in topic.messages] == ["0", "1", "2"]


def test_a_worker_that_ends_does_not_wait_for_a_hub_that_fails_or_is_not_told() -> None:
    simulation = Simulation(declare())
    hub = UnreachableHub(event=lambda: FakeEvent(simulation.scheduler))
    server = Server(simulation.server.registry, runtime=simulation.runtime, hub=hub)
    server.publish(Change(ChangeKind.TOOLS))
    simulation.scheduler.complete(server.farewell())  # nobody relays
    waiting = simulation.scheduler.start(server.farewell())
    relaying = simulation.scheduler.start(server.relay())
    simulation.settle()
    assert (waiting.done, relaying.done) == (True, True)
    with pytest.raises(ConnectionError):
        relaying.result()

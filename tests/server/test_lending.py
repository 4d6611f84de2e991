"""A request that comes in at the wrong worker: who has its stream lends it, and the client sees no difference."""

from __future__ import annotations

import re
from typing import Any

import pytest

from deployment import Deployment
from mcp_sansio import Config, Exchange, Registry, Server
from mcp_sansio.runtime import Event
from mcp_sansio.testing import FakeEvent, SimulatedHttp
from speak import HANDSHAKE, STREAM_HEAD, Http, notification

NO_STREAM = {"code": -32600, "message": "there is no stream of this session with that Last-Event-ID"}
NO_PAIR = {"code": -32600, "message": "there is no open stream with that session_id"}
ALL_CHANGED = [f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")]
UPDATED = "notifications/resources/updated"
OLDEST = HANDSHAKE[-1:]


class Shop(Deployment):
    """Workers whose handlers wait until a test lets them go on."""

    def __init__(self, **options: Any) -> None:
        self.gates: dict[str, Event] = {}
        super().__init__(self.declare, **options)

    def declare(self) -> Registry:
        registry = Registry("s", "1")

        @registry.tool
        async def work(ex: Exchange) -> str:
            """Report and wait, in turn."""
            for number, name in enumerate(("first", "second", "third"), 1):
                event = self.gates[name] = FakeEvent(self.simulation.scheduler)
                await event.wait()
                if number < 3:
                    await ex.progress(number)
            return "done"

        @registry.tool
        async def other() -> str:
            """Something to remove."""
            return "other"

        @registry.resource("a:b")
        async def read() -> str:
            return "x"

        return registry

    def go(self, *names: str) -> None:
        for name in names:
            self.gates.pop(name).set()
            self.simulation.settle()

    def update(self, worker: int) -> None:
        """A resource is updated at that worker."""
        self.registries[worker].resource_updated("a:b")
        self.simulation.settle()

    def assert_nothing_is_left(self) -> None:
        """No worker keeps anything for a stream that is over."""
        for server in self.servers:
            kept = (
                server._live,
                server._streams,
                server.topics,
                server.pairs,
                server.lender._lent,
                server.workers._asked,
            )
            assert [len(held) for held in kept] == [0] * len(kept)
        assert len(self.simulation.scheduler) == self.idle


def ids(stream: SimulatedHttp) -> list[str]:
    """The ids of a stream's events, those without data too."""
    return re.findall(r"^id: (.+)$", stream.body.decode(), re.MULTILINE)


def texts(stream: SimulatedHttp) -> list[Any]:
    """What a stream told: a progress, or a result's text."""
    return [
        message["params"]["progress"] if "params" in message else message["result"]["content"][0]["text"]
        for message in stream.messages
    ]


def methods(stream: SimulatedHttp) -> list[str]:
    return [message["method"] for message in stream.messages]


def again(speaker: Http, last: str) -> SimulatedHttp:
    """Come back for the rest of a stream."""
    return speaker.get(headers={"Last-Event-ID": last})


# The stream of a call -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_coming_back_at_each_point_to_another_worker(version: str) -> None:
    shop = Shop(workers=3)
    speaker = Http(version, shop.simulation)
    response = speaker.call("work", token="t")
    shop.go("first")
    last = ids(response)[-1]
    response.disconnect()
    shop.go("second")
    shop.at(1)
    second = again(speaker, last)
    assert (second.head, texts(second), second.ended) == (STREAM_HEAD, [2], False)
    shop.at(2)  # before the connection to the second worker is known to be gone
    third = again(speaker, last)
    assert (texts(second), second.ended, texts(third), third.ended) == ([2], True, [2], False)
    third.disconnect()
    shop.go("third")
    assert texts(third) == [2]
    finished = again(speaker, last)
    assert (texts(finished), finished.ended) == ([2, "done"], True)
    rest = again(speaker, ids(third)[-1])
    assert (texts(rest), rest.ended) == (["done"], True)
    nothing = again(speaker, ids(finished)[-1])
    assert (nothing.head, nothing.body, nothing.ended) == (STREAM_HEAD, b"", True)
    shop.at(0)
    assert again(speaker, last).body == finished.body
    assert speaker.delete().status == 204
    shop.assert_nothing_is_left()


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_follows_goes_to_the_worker_that_reads(version: str) -> None:
    shop = Shop()
    speaker = Http(version, shop.simulation)
    response = speaker.call("work", token="t")
    shop.go("first")
    shop.at(1)
    second = again(speaker, ids(response)[-1])
    assert (response.ended, second.ended) == (True, False)
    shop.go("second", "third")
    assert (texts(response), texts(second), second.ended) == ([1], [2, "done"], True)
    assert ids(response)[-2:] + ids(second) == sorted(ids(response)[-2:] + ids(second), key=lambda held: held[-1])


@pytest.mark.parametrize("version", HANDSHAKE)
def test_only_the_very_stream_of_the_very_session_is_lent(version: str) -> None:
    shop = Shop()
    one, two = Http(version, shop.simulation), Http(version, shop.simulation)
    bob = Http(version, shop.simulation, principal="bob")
    response, announced = one.call("work", token="t"), one.get()
    shop.go("first", "second", "third")
    shop.update(0)
    held = ids(response)[0]
    stream = held.rpartition("-")[0]
    listening = (ids(announced) or [f"{'0' * 32}-1"])[0]
    wrong = [(speaker, last) for speaker in (two, bob) for last in (held, listening)]
    wrong += [(one, text) for text in ("", "x", "-", "x-1", stream, f"{stream}-", f"{stream}-x", f"{stream}--1")]
    wrong += [(one, f"{stream}-{'9' * 30}"), (one, f"{stream}-²"), (one, f"{stream[:-1]}-1"), (one, f"{'0' * 32}-1")]
    wrong += [(one, f"{stream[:-1]}G-1"), (one, f"{stream}:*-1"), (one, f"../{stream}-1"), (one, f"{stream[:31]}é-1")]
    shop.at(1)
    seen = set()
    for speaker, last in wrong:
        refused = again(speaker, last)
        shop.simulation.advance(3)
        assert (refused.status, refused.ended) == (405, True)
        seen.add((refused.head, refused.body))
    assert len(seen) == 1
    assert refused.messages[0]["error"] == NO_STREAM
    # What no worker can have given out is not asked for.
    assert [again(one, last).status for last in (f"{stream[:-1]}-1", f"{stream}0-1", f"{stream[:-1]}G-1")] == [405] * 3
    assert texts(again(one, held))[-1] == "done"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_stream_whose_worker_died_is_given_up_in_time(version: str) -> None:
    shop = Shop()
    speaker = Http(version, shop.simulation)
    response = speaker.call("work", token="t")
    shop.go("first")
    shop.kill(0)
    shop.at(1)
    waiting = again(speaker, ids(response)[-1])
    shop.simulation.advance(2.9)
    assert (waiting.head, waiting.ended) == (None, False)
    shop.simulation.advance(0.1)
    assert (waiting.status, waiting.messages[0]["error"]) == (405, NO_STREAM)
    # The session goes on.
    assert speaker.request("tools/list").status == 200


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_worker_that_dies_while_its_stream_is_read_elsewhere(version: str) -> None:
    shop = Shop()
    speaker = Http(version, shop.simulation)
    response = speaker.call("work", token="t")
    shop.go("first")
    shop.at(1)
    second = again(speaker, ids(response)[-1])
    shop.simulation.advance(100)
    assert not second.ended  # the worker says that it is there, as long as it is
    assert second.body.count(b":\n\n") == 6
    shop.kill(0)
    shop.simulation.advance(30)
    assert second.ended
    last = again(speaker, ids(response)[-1])
    shop.simulation.advance(3)
    assert (last.status, last.messages[0]["error"]) == (405, NO_STREAM)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_reader_that_died_is_not_written_to_for_ever(version: str) -> None:
    shop = Shop()
    speaker = Http(version, shop.simulation)
    response = speaker.call("work", token="t")
    shop.go("first")
    shop.at(1)
    again(speaker, ids(response)[-1])
    shop.kill(1)
    shop.simulation.peers.clear()  # nobody drives what was there
    shop.simulation.clock.advance(46)
    shop.go("second")
    assert len(shop.servers[0].lender._lent) == 0
    shop.at(0)
    shop.go("third")
    assert texts(again(speaker, ids(response)[-1])) == [2, "done"]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_without_the_hub_a_client_is_told_to_try_later(version: str) -> None:
    """What is not known to be gone must not be said to be gone."""
    shop = Shop()
    speaker = Http(version, shop.simulation)
    response = speaker.call("work", token="t")
    shop.go("first")
    speaking = shop._lines[1][1]
    shop.simulation.scheduler.cancel(speaking)  # nothing that this worker says is taken
    shop.at(1)
    waiting = again(speaker, ids(response)[-1])
    shop.simulation.advance(3)
    error = {"code": -32603, "message": "the other workers cannot be reached"}
    assert (waiting.status, waiting.messages[0]["error"]) == (503, error)

    async def publish(topic: str, data: bytes) -> None:
        raise ConnectionError("the hub is gone")

    shop.hub.publish, working = publish, shop.hub.publish  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        shop.servers[1].relay().send(None)
    at_once = again(speaker, ids(response)[-1])  # it is known by now
    assert (at_once.body, at_once.status) == (waiting.body, 503)
    shop.hub.publish = working  # type: ignore[method-assign]
    shop.simulation.scheduler.spawn(shop.servers[1].relay())
    shop.simulation.settle()
    shop.go("second", "third")
    assert texts(again(speaker, ids(response)[-1])) == [2, "done"]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_client_that_leaves_before_the_answer_leaves_nothing_behind(version: str) -> None:
    shop = Shop()
    speaker = Http(version, shop.simulation)
    response = speaker.call("work", token="t")
    shop.go("first")
    shop.kill(0)
    shop.at(1)
    waiting = again(speaker, ids(response)[-1])
    waiting.disconnect()
    shop.simulation.advance(10)
    assert (waiting.head, len(shop.servers[1].workers._asked)) == (None, 0)
    assert waiting.engine.next_deadline() is None


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_subscription_is_made_once_every_worker_will_hear_of_it(version: str) -> None:
    """So an update that follows the reply is not missed, wherever it comes from."""
    shop = Shop()
    speaker = Http(version, shop.simulation)
    shop.at(1)
    stream = speaker.get()
    shop.at(0)
    shop.simulation.scheduler.cancel(shop._lines[0][1])
    for method, told_before, told in (("resources/subscribe", 0, 1), ("resources/unsubscribe", 2, 2)):
        asked = speaker.request(method, {"uri": "a:b"})
        shop.update(1)
        assert (asked.head, len(stream.messages)) == (None, told_before)
        line = shop.simulation.scheduler.spawn(shop.servers[0].relay())
        shop.simulation.settle()
        shop.update(1)
        assert (asked.status, methods(stream)) == (200, [UPDATED] * told)
        shop.simulation.scheduler.cancel(line)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_subscription_that_the_others_cannot_hear_of_fails_clearly(version: str) -> None:
    shop = Shop()
    speaker = Http(version, shop.simulation)

    async def publish(topic: str, data: bytes) -> None:
        raise ConnectionError("the hub is gone")

    shop.hub.publish, working = publish, shop.hub.publish  # type: ignore[method-assign]
    shop.simulation.scheduler.cancel(shop._lines[0][1])
    asked = speaker.request("resources/subscribe", {"uri": "a:b"})
    with pytest.raises(ConnectionError):
        shop.servers[0].relay().send(None)
    shop.simulation.settle()
    error = {"code": -32603, "message": "the session store cannot be reached"}
    assert (asked.status, asked.messages[0]["error"]) == (503, error)
    shop.hub.publish = working  # type: ignore[method-assign]
    shop.simulation.scheduler.spawn(shop.servers[0].relay())
    assert speaker.request("resources/subscribe", {"uri": "a:b"}).status == 200


# Announcements --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_announcements_are_read_at_another_worker(version: str) -> None:
    shop = Shop(workers=3)
    speaker = Http(version, shop.simulation)
    speaker.request("resources/subscribe", {"uri": "a:b"})
    stream = speaker.get()
    shop.update(1)
    stream.disconnect()
    shop.update(2)
    shop.at(1)
    second = again(speaker, ids(stream)[-1])
    assert methods(second) == [UPDATED]
    for worker in range(3):
        shop.update(worker)
    assert methods(second) == [UPDATED] * 4
    shop.at(0)
    back = again(speaker, ids(stream)[-1])
    assert (second.ended, methods(back)) == (True, [UPDATED] * 4)
    assert back.body == second.body
    shop.at(2)
    assert speaker.delete().status == 204
    assert back.ended
    shop.assert_nothing_is_left()


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_client_that_does_not_read_elsewhere_loses_its_connection_and_not_its_stream(version: str) -> None:
    shop = Shop(max_unsent=1000)
    speaker, last = open_at(shop, 0, version)
    shop.at(1)
    slow = again(speaker, last)
    shop.simulation.remove(slow)  # nobody takes what there is to send
    for _ in range(100):
        shop.update(0)
    assert slow.engine.ended
    assert sum(len(getattr(part, "data", b"")) for part in slow.engine.data_to_send()) < 1200
    assert methods(again(speaker, last)) == [UPDATED] * 100


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_end_of_a_session_ends_what_is_read_elsewhere(version: str) -> None:
    shop = Shop(workers=3)
    speaker = Http(version, shop.simulation)
    stream = speaker.get()
    shop.registries[0].remove_tool("other")
    shop.simulation.settle()
    shop.at(1)
    second = again(speaker, ids(stream)[-1])
    shop.at(2)
    assert speaker.delete().status == 204
    assert (stream.ended, second.ended) == (True, True)
    shop.assert_nothing_is_left()


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_session_has_its_announcements_on_one_stream_whichever_worker_has_it(version: str) -> None:
    shop = Shop(workers=3)
    speaker = Http(version, shop.simulation)
    streams = []
    for worker in (0, 1, 2, 0, 1):
        shop.at(worker)
        streams.append(speaker.get())
        shop.at((worker + 1) % 3)
        speaker.request("resources/subscribe", {"uri": "a:b"})  # wherever that comes in
        shop.update(worker)
        shop.registries[worker].resource_updated("nobody:wants")
        assert [len(stream.messages) for stream in streams] == [1] * len(streams)
    assert not any(stream.ended for stream in streams)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_is_subscribed_to_after_the_stream_came_back_to_a_worker_is_told_there(version: str) -> None:
    shop = Shop()
    speaker = Http(version, shop.simulation)
    for worker in (0, 1, 0):
        shop.at(worker)
        stream = speaker.get()
    speaker.request("resources/subscribe", {"uri": "a:b"})
    shop.update(1)
    assert methods(stream) == [UPDATED]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_of_two_streams_that_open_at_once_one_has_the_announcements(version: str) -> None:
    shop = Shop()
    speaker = Http(version, shop.simulation)
    lines = [shop._lines[worker][1] for worker in (0, 1)]
    for line in lines:  # neither is heard yet
        shop.simulation.scheduler.cancel(line)
    streams = []
    for worker in (0, 1):
        shop.at(worker)
        streams.append(speaker.get())
    for worker in (1, 0):
        shop.simulation.scheduler.spawn(shop.servers[worker].relay())
    shop.simulation.settle()
    shop.registries[0].remove_tool("other")
    shop.simulation.settle()
    assert [len(stream.messages) for stream in streams] == [1, 0]


def open_at(shop: Shop, worker: int, version: str) -> tuple[Http, str]:
    """A session that listens at that worker, and the event after which its client comes back."""
    speaker = Http(version, shop.simulation)
    speaker.request("resources/subscribe", {"uri": "a:b"})
    shop.at(worker)
    stream = speaker.get()
    shop.update(worker)
    return speaker, ids(stream)[-1]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_announcements_whose_worker_died_may_all_have_been_missed(version: str) -> None:
    """A 404 would be the end of the session; and nobody knows what was announced meanwhile, so it is all announced."""
    shop = Shop()
    speaker, last = open_at(shop, 0, version)
    shop.kill(0)
    shop.at(1)
    speaker.request("resources/subscribe", {"uri": "c:d"})  # no such resource: refused
    fresh = again(speaker, last)
    assert fresh.head is None
    shop.simulation.advance(3)
    assert (fresh.head, methods(fresh), fresh.ended) == (STREAM_HEAD, [*ALL_CHANGED, UPDATED], False)
    assert fresh.messages[-1]["params"] == {"uri": "a:b"}
    assert ids(fresh)[0].rpartition("-")[0] != last.rpartition("-")[0]
    shop.update(1)
    assert methods(fresh) == [*ALL_CHANGED, UPDATED, UPDATED]
    # The new stream can be resumed like any other.
    fresh.disconnect()
    assert methods(again(speaker, ids(fresh)[-2])) == [UPDATED]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_worker_that_leaves_says_so_and_nobody_waits(version: str) -> None:
    shop = Shop(workers=3)
    speaker, last = open_at(shop, 0, version)
    shop.at(1)
    lent = again(speaker, last)
    shop.servers[0].shutdown()
    shop.simulation.settle()
    assert (lent.ended, lent.messages) == (True, [])
    shop.at(2)
    fresh = again(speaker, last)  # the leaving worker still hears it, and is asked in vain, but at once
    assert (fresh.head, methods(fresh)) == (STREAM_HEAD, [*ALL_CHANGED, UPDATED])


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_call_goes_on_at_a_worker_that_leaves_and_is_read_at_another(version: str) -> None:
    shop = Shop()
    speaker = Http(version, shop.simulation)
    response = speaker.call("work", token="t")
    shop.go("first")
    shop.servers[0].shutdown()
    shop.at(1)
    second = again(speaker, ids(response)[-1])
    shop.go("second", "third")
    assert (texts(second), second.ended) == ([2, "done"], True)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_after_a_restart_of_the_only_worker_a_session_listens_again(version: str) -> None:
    """Its store outlived it; there is no hub, and nobody to ask."""
    shop = Shop(workers=1)
    speaker, last = open_at(shop, 0, version)
    response = speaker.call("work", token="t")
    shop.go("first")
    shop.simulation.server = Server(
        shop.declare(), runtime=shop.simulation.runtime, config=shop.config, store=shop.store
    )
    fresh = again(speaker, last)
    assert (fresh.head, methods(fresh)) == (STREAM_HEAD, [*ALL_CHANGED, UPDATED])
    refused = again(speaker, ids(response)[-1])
    assert (refused.status, refused.messages[0]["error"]) == (405, NO_STREAM)


# The pair of endpoints ------------------------------------------------------------------------------------------------


class Pair:
    """A client of the first transport: its stream is at one worker, and its messages go where they are sent."""

    def __init__(self, version: str, shop: Shop, **options: Any) -> None:
        self.shop = shop
        self.options = options
        self.speaker = Http.__new__(Http)
        super(Http, self.speaker).__init__(version, shop.simulation)
        self.stream = shop.simulation.pair(**options)
        self.address = self.stream.events()[0].data.decode()  # type: ignore[union-attr]

    def post(self, message: Any, *, address: str | None = None) -> SimulatedHttp:
        return self.shop.simulation.pair(message, method="POST", target=address or self.address, **self.options)


@pytest.mark.parametrize("version", OLDEST)
def test_a_message_reaches_its_pair_at_another_worker(version: str) -> None:
    shop = Shop()
    pair = Pair(version, shop)
    for worker in (1, 0, 1):
        shop.at(worker)
        assert pair.post(pair.speaker.initialize(id=worker)).status == 202
    assert [message["id"] for message in pair.stream.messages] == [1, 0, 1]
    assert pair.post(notification("notifications/initialized")).status == 202
    shop.at(1)
    assert pair.post(b"\xff\xfe").status == 202
    assert pair.stream.messages[-1]["error"]["code"] == -32700
    pair.stream.disconnect()
    gone = pair.post(notification("notifications/initialized"))
    shop.simulation.advance(3)
    assert (gone.status, gone.messages[0]["error"]) == (404, NO_PAIR)
    shop.assert_nothing_is_left()


@pytest.mark.parametrize("version", OLDEST)
def test_a_pair_of_somebody_else_or_of_nobody(version: str) -> None:
    shop = Shop()
    pair, bob = Pair(version, shop, principal="ada"), Pair(version, shop, principal="bob")
    stream_id = pair.address.partition("=")[2]
    shop.at(1)
    seen = set()
    for text in (stream_id, stream_id.upper(), stream_id[:-1], f"{stream_id}*", "0" * 32, "", "session:x", "*"):
        refused = bob.post(pair.speaker.initialize(), address=f"/messages?session_id={text}")
        shop.simulation.advance(3)
        assert (refused.status, refused.messages[0]["error"]) == (404, NO_PAIR)
        seen.add((refused.head, refused.body))
    assert len(seen) == 1
    assert pair.stream.messages == bob.stream.messages == []
    assert pair.post(pair.speaker.initialize()).status == 202
    assert len(pair.stream.messages) == 1


@pytest.mark.parametrize("version", OLDEST)
def test_a_pair_that_is_not_read_takes_no_more_at_any_worker(version: str) -> None:
    shop = Shop(max_unsent=100)
    pair = Pair(version, shop)
    shop.simulation.peers.remove(pair.stream)  # nobody takes what is to be sent
    shop.at(1)
    statuses = [pair.post(pair.speaker.initialize(id=number)).status for number in range(3)]
    assert statuses == [202, 429, 429]


def test_what_another_worker_must_take_has_a_limit_of_time() -> None:
    with pytest.raises(ValueError, match=r"Config\.worker_timeout"):
        Config(worker_timeout=0)

"""Cases 13 to 16: sessions that are unknown, abandoned, somebody else's, or at another worker."""

from __future__ import annotations

import gc
import inspect
import weakref
from typing import Any

import pytest

import speak
from mcp_sansio import Config, MemorySessionStore
from mcp_sansio.server.sessions import LiveSession
from mcp_sansio.testing import SimulatedHttp

from .common import ENVELOPE, HANDSHAKE, Shop, summary, text

JSON = Any
DELETABLE = Config(deletable_sessions=True)
GONE = "there is no such session; initialize again"


def on_each_method(client: Any, session: str | None) -> dict[str, SimulatedHttp]:
    """What each method brings for that session id."""
    headers = {"MCP-Protocol-Version": client.version, **({} if session is None else {"Mcp-Session-Id": session})}
    simulation, options = client.simulation, client.options
    ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
    return {
        "POST": simulation.http(ping, headers=headers, **options),
        "GET": simulation.http(method="GET", headers=headers, **options),
        "DELETE": simulation.http(method="DELETE", headers=headers, **options),
    }


@pytest.mark.parametrize("session", ["gone-123", "", " ", "é", "x" * 5000, "00000000000000000000000000000000"])
@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_13_an_unknown_session_is_not_found_by_any_method(version: str, session: str) -> None:
    client = Shop(config=DELETABLE).client("http", version)
    for method, reply in on_each_method(client, session).items():
        # An error answers the POST's request; without a body there is none, which each revision spells its own way.
        assert (reply.status, reply.messages[0]["error"]) == (404, {"code": -32600, "message": GONE})
        assert reply.messages[0].get("id") == (7 if method == "POST" else None)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_13_a_session_that_ended_is_not_found_and_one_that_is_missing_is_a_bad_request(version: str) -> None:
    client = Shop(config=Config(deletable_sessions=True, require_session=True)).client("http", version)
    assert client.delete().status == 204
    assert [reply.status for reply in on_each_method(client, client.session).values()] == [404, 404, 404]
    assert [reply.status for reply in on_each_method(client, None).values()] == [400, 400, 400]


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_13_where_there_are_no_sessions_none_is_looked_for(version: str) -> None:
    client = Shop(config=Config(deletable_sessions=True, require_session=True)).client("http", version)
    assert client.post(client.message("tools/list"), headers={"Mcp-Session-Id": "gone-123"}).status == 200
    for method in ("GET", "DELETE"):
        for session in ({}, {"Mcp-Session-Id": "gone-123"}):
            reply = client.simulation.http(method=method, headers={"MCP-Protocol-Version": version, **session})
            assert (reply.status, reply.header("allow")) == (405, "GET, POST, DELETE, OPTIONS")


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("says_goodbye", [True, False])
def test_case_14_nothing_stays_of_three_hundred_sessions(version: str, says_goodbye: bool) -> None:
    shop = Shop(config=DELETABLE)
    server = shop.simulation.server
    for _ in range(300):
        client = shop.client("http", version)
        client.get()
        if says_goodbye:
            assert client.delete().status == 204
        shop.simulation.peers.clear()
    if not says_goodbye:
        assert len(server.store) == 300  # type: ignore[arg-type]
        shop.simulation.clock.advance(server.config.session_ttl + 1)
        last = shop.client("http", version)
        assert [reply.status for reply in on_each_method(client, client.session).values()] == [404, 404, 404]
        assert last.delete().status == 204
        shop.simulation.peers.clear()
    gc.collect()
    assert (len(server.store), len(shop.simulation.scheduler), len(server.topics)) == (0, 0, 0)  # type: ignore[arg-type]
    assert [held for held in gc.get_objects() if type(held) is LiveSession and held._server is server] == []


def test_case_14_there_is_a_most_by_default() -> None:
    assert "max_records: 'int' = 100000" in str(inspect.signature(MemorySessionStore))
    small = Shop(store=MemorySessionStore(clock=lambda: 0.0, max_records=1))
    small.client("http", HANDSHAKE[0])
    refused = small.simulation.http(speak.Speaker(HANDSHAKE[0], small.simulation).initialize())
    assert (refused.status, refused.messages[0]["error"]["code"]) == (503, -32603)


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("other", ["mallory", None, "", "ALICE", "alice "])
def test_case_15_for_anybody_else_a_session_looks_like_one_that_never_was(version: str, other: str | None) -> None:
    shop = Shop(config=DELETABLE)
    alice = shop.client("http", version, principal="alice")
    stream = alice.get()
    call = alice.call("nap", {"name": "a"}, token="t")
    event_id = stream.events()[0].id if alice.adapter.primes_streams else call.events()[0].id
    eve = shop.client("http", version, principal=other)

    for last in ({}, {"Last-Event-ID": event_id}):
        theirs = {"Mcp-Session-Id": alice.session, "MCP-Protocol-Version": version, **last}
        never = {**theirs, "Mcp-Session-Id": "gone-123"}
        for method in ("POST", "GET", "DELETE"):
            ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
            seen = [
                summary(shop.simulation.http(ping, method=method, headers=headers, principal=other))
                for headers in (theirs, never)
            ]
            assert seen[0] == seen[1]
            assert seen[0][0] == 404
    # Neither does an attempt count as use or as an end, nor can a cancellation or an answer come from there.
    cancel = speak.notification("notifications/cancelled", {"requestId": 1})
    assert eve.post(cancel, headers={"Mcp-Session-Id": alice.session}).status == 404
    assert eve.post(cancel).status == 202
    assert (stream.ended, call.ended) == (False, False)
    shop.open("a")
    assert call.messages[-1] == text(version, 1, "a")


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_15_a_session_belongs_to_a_user_and_not_to_a_token(version: str) -> None:
    # What a token is, the operator's own check knows; the session sees the user alone, whatever else changes.
    shop = Shop()
    alice = shop.client("http", version, principal="alice")
    for token in ("Bearer 1", "Bearer 2", None):
        reply = alice.post(alice.message("ping"), headers={"Authorization": token})
        assert (reply.status, reply.messages) == (200, [{"jsonrpc": "2.0", "id": 1, "result": {}}])


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_16_a_session_is_served_by_every_worker_that_shares_its_store(version: str) -> None:
    store = MemorySessionStore(clock=lambda: 0.0)
    workers = [Shop(store=store) for _ in range(2)]
    client = workers[0].client("http", version)
    for number in range(6):
        client.simulation = workers[number % 2].simulation
        assert client.call("echo", {"text": "a"}, id=number).messages == [text(version, number, "a")]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_16_without_a_store_in_common_a_session_is_not_needed(version: str) -> None:
    workers = [Shop() for _ in range(2)]
    client = workers[0].client("http", version)
    client.session = None
    for number in range(4):
        client.simulation = workers[number % 2].simulation
        assert client.call("echo", {"text": "a"}, id=number).messages == [text(version, number, "a")]


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_16_no_request_depends_on_an_earlier_one(version: str) -> None:
    workers = [Shop() for _ in range(2)]
    client = workers[0].client("http", version)
    seen = []
    for number in range(4):
        client.simulation = workers[number % 2].simulation
        calls = [client.call("echo", {"text": "a"}), client.request("tools/list"), client.call("confirm")]
        answers = {"sure": {"action": "accept", "content": {}}}
        calls.append(client.call("confirm", {}, inputResponses=answers))
        seen.append([summary(call) for call in calls])
    assert seen[1:] == seen[:-1]
    assert seen[0][-1][2] == [text(version, 1, "accept")]


def test_case_14_a_live_session_is_not_held_by_what_ended() -> None:
    shop = Shop(config=DELETABLE)
    client = shop.client("http", HANDSHAKE[0])
    client.get()
    (live,) = shop.simulation.server._live.values()
    held = weakref.ref(live)
    del live
    client.delete()
    shop.simulation.peers.clear()
    gc.collect()
    assert held() is None

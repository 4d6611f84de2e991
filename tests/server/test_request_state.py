"""The state that a client brings back: what is wrong with it is refused in one way, whatever it is."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import Exchange, MemorySessionStore, NeedInput, Registry, StoreUnavailable, elicit, elicit_accept
from mcp_sansio.testing import FakeClock
from speak import Channel
from stateful import ANSWERS, CARRIERS, KINDS, REFUSAL, Caller, registry, simulation


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", CARRIERS)
def test_the_right_state(version: str, kind: str) -> None:
    caller = Caller(version, simulation(kind))
    for arguments in ({}, {"x": 1}):
        caller.assert_done(caller.call("one", arguments, state=caller.first("one", arguments)))
    # Nothing of it is kept; where there is a session, that is.
    assert len(caller.simulation.server.store) == (0 if caller.modern else 1)


FORGED: list[Any] = ["", "0" * 32, "x", "session:1", 5, 0, True, [], {}, 1.5, "y" * 2**20]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", CARRIERS)
@pytest.mark.parametrize("state", FORGED, ids=lambda value: repr(value)[:12])
def test_forged(version: str, kind: str, state: Any) -> None:
    caller = Caller(version, simulation(kind))
    token = caller.first()
    caller.assert_refused(caller.call("one", {}, state=state))
    # Nothing was lost by it.
    caller.assert_done(caller.call("one", {}, state=token))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", CARRIERS)
def test_altered(version: str, kind: str) -> None:
    caller = Caller(version, simulation(kind))
    token = caller.first()
    other = "f" if token[-1] != "f" else "e"
    for altered in (
        token[:-1],
        token[1:],
        token + "=",
        token + " ",
        token.upper() + "A",
        token[:-1] + other,
        token * 2,
    ):
        caller.assert_refused(caller.call("one", {}, state=altered))
    for at in range(len(token)):
        flipped = token[:at] + ("1" if token[at] != "1" else "2") + token[at + 1 :]
        caller.assert_refused(caller.call("one", {}, state=flipped))
    caller.assert_done(caller.call("one", {}, state=token))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", CARRIERS)
def test_for_something_else(version: str, kind: str) -> None:
    caller = Caller(version, simulation(kind))
    token = caller.first("one", {"x": 1})
    caller.assert_refused(caller.call("two", {"x": 1}, state=token))
    for arguments in ({}, {"x": 2}, {"x": "1"}, {"x": 1, "y": 2}, {"x": 1.0}):
        caller.assert_refused(caller.call("one", arguments, state=token))
    if caller.modern:
        params = {"name": "one", "inputResponses": ANSWERS, "requestState": token}
        caller.assert_refused(caller.speaker.request("prompts/get", {**params, "arguments": {"x": "1"}}))
    caller.assert_done(caller.call("one", {"x": 1}, state=token))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", CARRIERS)
@pytest.mark.parametrize("principals", [("ada", "bob"), ("ada", None), (None, "bob"), ("", None)])
def test_of_somebody_else(version: str, kind: str, principals: tuple[str | None, str | None]) -> None:
    held = simulation(kind)
    mine, other = (Caller(version, held, principal=principal) for principal in principals)
    token = mine.first()
    other.assert_refused(other.call("one", {}, state=token))
    mine.assert_done(mine.call("one", {}, state=token))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", CARRIERS)
def test_expired(version: str, kind: str) -> None:
    caller = Caller(version, simulation(kind))
    token, later = caller.first(), None
    caller.simulation.advance(899)
    later = caller.first()
    caller.simulation.advance(1)
    # It lived for 900 seconds, and is gone with the last of them.
    caller.assert_refused(caller.call("one", {}, state=token))
    caller.assert_done(caller.call("one", {}, state=later))


@pytest.mark.parametrize("version", CARRIERS)
def test_replayed_after_success(version: str) -> None:
    caller = Caller(version, simulation("stored"))
    token = caller.first()
    caller.assert_done(caller.call("one", {}, state=token))
    caller.assert_refused(caller.call("one", {}, state=token))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", CARRIERS)
def test_null_is_no_state(version: str, kind: str) -> None:
    caller = Caller(version, simulation(kind))
    without = caller.call("one", {}, state=None, answers={})
    assert without.status == 200
    assert "Sure?" in without.body.decode()
    # Answered without its state, the handler finds none.
    answered = caller.call("one", {}, state=None)
    assert answered.messages[0]["result"]["content"] == [{"type": "text", "text": "had None"}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", CARRIERS)
def test_all_faults_look_alike(version: str, kind: str) -> None:
    caller = Caller(version, simulation(kind))
    token = caller.first()
    bodies = {
        caller.call("one", {}, state="x").body,
        caller.call("two", {}, state=token).body,
        caller.call("one", {"x": 3}, state=token).body,
        caller.call("one", {}, state=5).body,
    }
    caller.simulation.advance(900)
    bodies.add(caller.call("one", {}, state=token).body)
    assert len(bodies) == 1


@pytest.mark.parametrize("version", CARRIERS)
def test_on_a_channel(version: str) -> None:
    channel = Channel(version, registry())
    more: dict[str, Any] = {"inputResponses": ANSWERS, "requestState": "x"}
    arguments: dict[str, Any] = {}
    if version != "2026-07-28":
        more, arguments = {}, {"mcpAnswers": ANSWERS, "mcpState": "x"}
    error = {"code": -32602, "message": REFUSAL}
    assert channel.call("one", arguments, **more) == [{"jsonrpc": "2.0", "id": 1, "error": error}]


@pytest.mark.parametrize("version", CARRIERS)
def test_a_store_that_is_full(version: str) -> None:
    held = simulation("stored", store=MemorySessionStore(clock=FakeClock(), max_records=2))
    caller = Caller(version, held)
    for _ in range(2 if caller.modern else 1):
        caller.first()
    full = caller.speaker.call("one")
    error = {"code": -32603, "message": "the session store holds 2 records"}
    assert full.status == 503
    assert full.messages == [{"jsonrpc": "2.0", "id": 1, "error": error}]
    assert len(held.scheduler) == 0


@pytest.mark.parametrize("version", CARRIERS)
def test_too_much_state(version: str) -> None:
    made = Registry("s", "1")

    @made.tool
    async def big(ex: Exchange) -> str:
        """Big."""
        raise NeedInput({"q": elicit("Sure?")}, state="x" * 2**16)

    [failed] = Channel(version, made).call("big")
    assert failed["error"]["message"] == "what a call has to keep for its next attempt is over 65536 bytes"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", CARRIERS)
def test_the_deepest_state_comes_back(version: str, kind: str) -> None:
    held = simulation(kind)
    deepest: Any = "x"
    for _ in range(128):
        deepest = [deepest]
    attempts = iter([StoreUnavailable("gone"), None])

    @held.server.registry.tool
    async def deep(ex: Exchange) -> str:
        """Deep."""
        if not ex.answered("q"):
            raise NeedInput({"q": elicit("Sure?")}, state=deepest)
        assert ex.state == deepest
        failure = next(attempts)
        if failure is not None:
            raise failure
        return "deep"

    caller = Caller(version, held)
    token = caller.first("deep")
    # What an attempt that fails puts back is the same.
    assert "error" in caller.call("deep", {}, state=token).messages[0]
    assert caller.call("deep", {}, state=token).messages[0]["result"]["content"] == [{"type": "text", "text": "deep"}]


@pytest.mark.parametrize("version", CARRIERS)
def test_too_many_answers(version: str) -> None:
    caller = Caller(version, simulation("stored"))
    answers = {f"a{number}": elicit_accept() for number in range(65)}
    [failed] = caller.call("one", {}, state=None, answers=answers).messages
    assert failed["error"]["message"] == "a call may bring 64 answers at most"

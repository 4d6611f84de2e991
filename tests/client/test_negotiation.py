"""What a client does to find out what a server speaks, over a channel, and what it makes of each answer."""

from __future__ import annotations

from typing import Any

import pytest

from calling import ANNOUNCING, DISCOVER, INFO, Line, description, failure_of, faults, meta, outcome_of, settled
from mcp_sansio import (
    AdapterSet,
    ClientConfig,
    ClientConnection,
    ConnectionEnded,
    ConnectionLost,
    Known,
    Negotiated,
    Operation,
    ServerError,
)
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, HANDSHAKE, VERSIONS

JSON = Any
NEWEST_HANDSHAKE = HANDSHAKE[0]
both_eras = pytest.mark.skipif(not ENVELOPE or not HANDSHAKE, reason="needs a revision of each kind")


def server_of(version: str, instructions: str | None = None) -> Any:
    return AdapterSet.default().by_version[version].client_description(description(version))


def initialize(version: str, id: JSON) -> JSON:
    capabilities = AdapterSet.default().by_version[version].client_capabilities(False)
    params = {"protocolVersion": version, "capabilities": capabilities}
    params["clientInfo"] = {"name": INFO.name, "version": INFO.version}
    return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


def discover(version: str, id: JSON) -> JSON:
    capabilities = AdapterSet.default().by_version[version].client_capabilities(False)
    params = {"_meta": meta(version, capabilities)}
    return {"jsonrpc": "2.0", "id": id, "method": DISCOVER, "params": params}


INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


# One revision --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_chosen_revision_with_a_handshake_is_not_probed(version: str) -> None:
    line = Line(version)
    call = line.engine.call(Operation.LIST_PROMPTS)
    assert line.engine.data_to_send() == [encode(initialize(version, 1))]
    assert line.reply(description(version), 1) == [Negotiated(Known(version), server_of(version))]
    assert line.take() == [INITIALIZED, {"jsonrpc": "2.0", "id": 2, "method": "prompts/list"}]
    line.reply({"prompts": []})
    assert outcome_of(call) == {"prompts": []}
    assert (line.engine.adapter.version, line.engine.server.name) == (version, "s")


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_chosen_revision_without_a_handshake_is_asked_for_first(version: str) -> None:
    """So that an old server, which may run what it was not asked in its own words, refuses it (basic/versioning)."""
    line = Line(version)
    call = line.engine.call(Operation.LIST_PROMPTS)
    assert line.engine.data_to_send() == [encode(discover(version, 1))]
    assert line.reply(description(version), 1) == [Negotiated(Known(version), server_of(version))]
    assert [message["method"] for message in line.take()] == ["prompts/list"]
    line.reply({"resultType": "complete", "prompts": []})
    assert outcome_of(call) == {"resultType": "complete", "prompts": []}


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_server_that_does_not_speak_the_one_revision(version: str) -> None:
    line = Line(version)
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.refuse(-32601, "Method not found")
    name, text = failure_of(call)
    assert (name, text) == (
        "NegotiationFailed",
        f"the server speaks none of {version}: Method not found (code -32601)",
    )
    assert isinstance(outcome_of(call).__cause__, ServerError)


@pytest.mark.parametrize("version", VERSIONS)
def test_calls_that_are_made_meanwhile_wait_and_share_what_is_found_out(version: str) -> None:
    line = Line(version)
    calls = [line.engine.call(Operation.LIST_PROMPTS), line.engine.call(Operation.LIST_TOOLS)]
    assert len(line.take()) == 1
    line.reply(description(version))
    assert [method for method in line.methods() if "list" in method] == ["prompts/list", "tools/list"]
    assert [call.ended for call in calls] == [False, False]


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("answer", [*HANDSHAKE, "1999-01-01"])
def test_case_4_the_handshake_settles_on_what_the_server_says(version: str, answer: str) -> None:
    """Every revision of the window is accepted and spoken from then on; any other ends the connection by its name."""
    line = Line(*HANDSHAKE[: HANDSHAKE.index(version) + 1])
    call = line.engine.call(Operation.PING)
    assert line.take()[0]["params"]["protocolVersion"] == NEWEST_HANDSHAKE
    info = {"name": "s", "version": "1"}
    events = line.reply({"protocolVersion": answer, "capabilities": ANNOUNCING, "serverInfo": info})
    if answer in line.engine.adapters.by_version:
        assert events == [Negotiated(Known(answer), server_of(answer))]
        assert line.engine.adapter.version == answer
        assert line.methods() == ["notifications/initialized", "ping"]
        return
    ours = ", ".join(line.engine.adapters.versions)
    text = f"no protocol revision in common: the server speaks {answer}, and this client {ours}"
    assert failure_of(call) == ("NegotiationFailed", text)
    assert outcome_of(call).versions == (answer,)
    assert isinstance(events[-1], ConnectionEnded)
    assert (line.take(), line.engine.closed) == ([], True)


@pytest.mark.parametrize(
    "result", [{}, {"capabilities": {}}, {"protocolVersion": 5}, {"protocolVersion": None}, [], None, "x"]
)
def test_case_4_a_handshake_without_a_version(result: JSON) -> None:
    line = Line(*HANDSHAKE)
    call = line.engine.call(Operation.PING)
    line.take()
    line.reply(result)
    assert failure_of(call) == ("UnusableReply", "the reply to the handshake has no protocolVersion")
    line.engine.call(Operation.PING)
    assert line.methods() == ["initialize"], "the next call tries again"


@pytest.mark.skipif(len(HANDSHAKE) < 2, reason="needs two revisions with a handshake")
def test_a_refused_handshake_that_names_what_the_server_speaks() -> None:
    """Whatever the code, the revisions that it names are tried, each once (basic/lifecycle, "Error Handling")."""
    line = Line(*HANDSHAKE)
    call = line.engine.call(Operation.PING)
    line.take()
    line.refuse(-32602, "Unsupported protocol version", {"supported": [HANDSHAKE[-1]], "requested": "x"})
    assert line.take()[0]["params"]["protocolVersion"] == HANDSHAKE[-1]
    line.refuse(-32602, "Unsupported protocol version", {"supported": [HANDSHAKE[-1]], "requested": "x"})
    assert failure_of(call)[0] == "NegotiationFailed"
    assert outcome_of(call).versions == (HANDSHAKE[-1],)


# Both kinds -----------------------------------------------------------------------------------------------------------

#: What a server may answer to the probe that has never heard of it (case 8): no code is special.
NOT_MODERN: list[JSON] = [
    {"error": {"code": code, "message": "no"}}
    for code in (-32601, -32602, -32600, -32000, -32603, -32700, 0, 1, -32002, -32042)
]
NOT_MODERN += [{"result": {}}, {"result": {"supportedVersions": "all"}}, {"result": {"tools": []}}, {"result": 5}]


@both_eras
@pytest.mark.parametrize("answer", NOT_MODERN, ids=str)
def test_case_8_any_other_answer_to_the_probe_means_the_handshake(answer: JSON) -> None:
    line = Line()
    call = line.engine.call(Operation.LIST_PROMPTS)
    assert line.take() == [discover(ENVELOPE[0], 1)]
    line.say({"jsonrpc": "2.0", "id": 1, **answer})
    assert line.take() == [initialize(NEWEST_HANDSHAKE, 2)]
    line.reply(description(HANDSHAKE[-1]))
    assert line.engine.known == Known(HANDSHAKE[-1])
    assert line.methods() == ["notifications/initialized", "prompts/list"]
    line.reply({"prompts": []})
    assert outcome_of(call) == {"prompts": []}


@both_eras
def test_case_8_silence_means_the_handshake_after_a_time_of_its_own() -> None:
    line = Line(config=ClientConfig(probe_timeout=3, timeout=60))
    line.engine.call(Operation.LIST_PROMPTS)
    assert line.methods() == [DISCOVER]
    line.wait(2.9)
    assert line.methods() == []
    line.wait(0.1)
    assert line.methods() == ["initialize"]


@both_eras
@pytest.mark.parametrize(("timeout", "patience"), [(60, 5), (4, 2), (0.5, 0.25)])
def test_case_8_the_probe_leaves_the_call_the_time_to_try_the_handshake(timeout: float, patience: float) -> None:
    line = Line()
    call = line.engine.call(Operation.LIST_PROMPTS, timeout=timeout)
    line.take()
    assert line.engine.next_deadline() == patience
    line.wait(patience)
    assert (line.methods(), call.ended) == (["initialize"], False)
    line.wait(timeout - patience)
    assert failure_of(call)[0] == "CallTimeout"


@both_eras
@pytest.mark.parametrize(("timeout", "due"), [(60, 5.0), (4, 3.0), (0.5, 1.25)])
def test_the_probe_leaves_a_call_that_comes_later_its_time_as_well(timeout: float, due: float) -> None:
    line = Line()
    line.engine.call(Operation.LIST_PROMPTS)
    line.wait(1)
    later = line.engine.call(Operation.LIST_PROMPTS, timeout=timeout)
    line.take()
    assert line.engine.next_deadline() == due
    line.wait(due - 1)
    assert (line.methods(), later.ended) == (["initialize"], False)


@both_eras
@pytest.mark.parametrize("code", [-32020, -32021, -32022])
def test_case_8_a_modern_error_stays_modern(code: int) -> None:
    line = Line()
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.refuse(code, "no", {"supported": list(ENVELOPE), "requested": "x", "requiredCapabilities": {}})
    if code == -32022:
        # The one revision without a handshake is refused and named at once: that is believed once, and no other known.
        assert (call.ended, line.methods()) == (False, [DISCOVER])
        line.refuse(code, "no", {"supported": list(ENVELOPE), "requested": "x"})
        assert failure_of(call)[0] == "NegotiationFailed"
        assert line.methods() == []
    else:
        assert line.methods() == ["prompts/list"]
        assert line.engine.known == Known(ENVELOPE[0])
        assert line.engine.server is None


@both_eras
@pytest.mark.parametrize("data", [None, {}, {"supported": "2026"}, {"supported": ["2099-01-01", 5]}, []])
def test_case_8_a_modern_server_of_other_revisions_is_not_tried_with_the_handshake(data: JSON) -> None:
    line = Line()
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.refuse(-32022, "unsupported", data)
    name, text = failure_of(call)
    theirs = "2099-01-01" if data and "2099-01-01" in data["supported"] else "none"
    assert (name, theirs in text) == ("NegotiationFailed", True)
    assert isinstance(outcome_of(call).__cause__, ServerError)
    assert line.methods() == []


@both_eras
def test_case_8_a_modern_error_that_offers_handshakes() -> None:
    """What is offered counts, and not what offers it."""
    line = Line()
    line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.refuse(-32022, "unsupported", {"supported": [HANDSHAKE[-1]], "requested": "x"})
    assert line.take() == [initialize(HANDSHAKE[-1], 2)]


@both_eras
@pytest.mark.parametrize("offered", [ENVELOPE, (*ENVELOPE, *HANDSHAKE), ("2099-01-01", *ENVELOPE)])
def test_a_description_settles_on_the_newest_in_common(offered: tuple[str, ...]) -> None:
    line = Line()
    line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    events = line.reply(description(ENVELOPE[0], *offered))
    assert [event.known for event in events if isinstance(event, Negotiated)] == [Known(ENVELOPE[0])]
    assert line.methods() == ["prompts/list"]


@both_eras
def test_a_description_that_offers_handshakes_alone() -> None:
    line = Line()
    line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.reply(description(ENVELOPE[0], HANDSHAKE[-1]))
    assert line.take() == [initialize(HANDSHAKE[-1], 2)]


@both_eras
def test_a_server_that_takes_long_to_start_gets_the_probe_first() -> None:
    """Its answer comes late, and counts; what the handshake comes to is dropped then."""
    line = Line()
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.wait(5)
    assert line.methods() == [DISCOVER, "initialize"]
    line.reply(description(ENVELOPE[0]), 1)
    assert (line.engine.adapter.version, line.methods()) == (ENVELOPE[0], ["prompts/list"])
    assert faults(line.refuse(-32601, "no such method", id=2)) == ["an answer that comes too late, or again"]
    line.reply({"prompts": []}, 3)
    assert outcome_of(call) == {"prompts": []}


@both_eras
@pytest.mark.parametrize("answer", NOT_MODERN[:3] + NOT_MODERN[-2:], ids=str)
def test_a_late_refusal_of_the_probe_changes_nothing(answer: JSON) -> None:
    line = Line()
    line.engine.call(Operation.LIST_PROMPTS)
    line.wait(5)
    line.say({"jsonrpc": "2.0", "id": 1, **answer})
    assert line.methods() == [DISCOVER, "initialize"]
    line.reply(description(NEWEST_HANDSHAKE), 2)
    assert line.methods() == ["notifications/initialized", "prompts/list"]


@both_eras
def test_a_server_that_refuses_both() -> None:
    line = Line()
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.refuse(-32601, "never heard of it")
    line.refuse(-32000, "go away")
    ours = ", ".join(VERSIONS)
    assert failure_of(call) == ("NegotiationFailed", f"the server speaks none of {ours}: go away (code -32000)")
    assert not line.engine.closed


def test_the_window_is_what_is_asked_for() -> None:
    for window in (HANDSHAKE[:1], HANDSHAKE[1:], VERSIONS):
        if not window:
            continue
        line = Line(*window)
        line.engine.call(Operation.PING)
        [asked] = line.take()
        params = asked["params"]
        said = params.get("protocolVersion") or params["_meta"]["io.modelcontextprotocol/protocolVersion"]
        assert said == window[0]


# What an earlier client found out ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_what_was_found_out_is_kept_as_json(version: str) -> None:
    known = settled(version).engine.known
    assert known.to_json() == {"revision": version, "pair": False}
    assert Known.from_json(known.to_json()) == known
    assert Known.from_json({"revision": version, "pair": True, "more": 1}) == Known(version, pair=True)


@pytest.mark.parametrize("stored", [None, 5, "x", [], {}, {"revision": 5}, {"pair": True}])
def test_what_was_kept_and_is_no_such_thing(stored: JSON) -> None:
    assert Known.from_json(stored) is None


@both_eras
@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_known_need_not_be_probed(version: str) -> None:
    line = Line(known=Known(version))
    call = line.engine.call(Operation.LIST_PROMPTS)
    if version in ENVELOPE:
        assert line.methods() == ["prompts/list"]
    else:
        assert line.methods() == ["initialize"]
        line.reply(description(version))
        assert line.methods() == ["notifications/initialized", "prompts/list"]
    line.reply({"prompts": []})
    assert outcome_of(call) == {"prompts": []}


@both_eras
def test_known_of_a_revision_outside_the_window_says_nothing() -> None:
    line = Line(known=Known("1999-01-01"))
    line.engine.call(Operation.PING)
    assert line.methods() == [DISCOVER]


@both_eras
@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32000])
def test_stale_the_server_has_become_old(code: int) -> None:
    """A server that is only assumed to be modern begins with a refusal: it is asked, and the call made anew."""
    line = Line(known=Known(ENVELOPE[0]))
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.refuse(code, "what?")
    assert (line.methods(), call.ended) == ([DISCOVER], False)
    line.refuse(code, "what?")
    assert line.methods() == ["initialize"]
    line.reply(description(NEWEST_HANDSHAKE))
    assert line.take() == [INITIALIZED, {"jsonrpc": "2.0", "id": 4, "method": "prompts/list"}]
    line.reply({"prompts": []})
    assert (outcome_of(call), line.engine.known) == ({"prompts": []}, Known(NEWEST_HANDSHAKE))


@both_eras
def test_a_refusal_by_a_server_that_is_what_it_was() -> None:
    """It is the call's own, and is told once it is known that the server is modern; after that without asking."""
    line = Line(known=Known(ENVELOPE[0]))
    calls = [line.engine.call(Operation.GET_PROMPT, {"name": "nope"}) for _ in range(2)]
    line.take()
    line.refuse(-32602, "no such prompt", id=1)
    line.refuse(-32602, "no such prompt", id=2)
    assert line.methods() == [DISCOVER]
    line.reply(description(ENVELOPE[0]))
    assert [failure_of(call) for call in calls] == [("ServerError", "no such prompt (code -32602)")] * 2
    third = line.engine.call(Operation.GET_PROMPT, {"name": "nope"})
    line.take()
    line.refuse(-32602, "no such prompt")
    assert (third.ended, line.methods()) == (True, [])


@both_eras
def test_a_refusal_is_told_where_nothing_can_be_found_out_after_it() -> None:
    """It is what the server said of this call; what came of the look at the server is another matter."""
    line = Line(known=Known(ENVELOPE[0]))
    call = line.engine.call(Operation.GET_PROMPT, {"name": "nope"})
    line.take()
    line.refuse(-32602, "no such prompt")
    later = line.engine.call(Operation.LIST_PROMPTS)
    assert line.methods() == [DISCOVER]
    line.refuse(-32601, "what?")
    assert line.methods() == ["initialize"]
    line.refuse(-32603, "out of order")
    assert failure_of(call) == ("ServerError", "no such prompt (code -32602)")
    assert failure_of(later)[0] == "NegotiationFailed"


@both_eras
def test_a_result_says_that_the_server_is_what_it_was() -> None:
    line = Line(known=Known(ENVELOPE[0]))
    line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.reply({"resultType": "complete", "prompts": []})
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.refuse(-32603, "broken")
    assert (failure_of(call), line.methods()) == (("ServerError", "broken (code -32603)"), [])


@both_eras
def test_stale_the_server_has_become_old_and_keeps_silent() -> None:
    line = Line(known=Known(ENVELOPE[0]))
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.wait(60)
    assert failure_of(call) == ("CallTimeout", "no answer to list_prompts within 60 seconds")
    line.take()
    line.engine.call(Operation.LIST_PROMPTS)
    assert line.methods() == [DISCOVER]


@both_eras
def test_stale_the_server_has_become_modern() -> None:
    line = Line(known=Known(NEWEST_HANDSHAKE))
    call = line.engine.call(Operation.LIST_PROMPTS)
    assert line.methods() == ["initialize"]
    line.refuse(-32601, "unknown method: initialize")
    assert line.methods() == [DISCOVER]
    line.reply(description(ENVELOPE[0]))
    assert line.methods() == ["prompts/list"]
    line.reply({"prompts": []})
    assert (outcome_of(call), line.engine.known) == ({"prompts": []}, Known(ENVELOPE[0]))


@both_eras
def test_a_server_that_is_replaced_by_an_old_one_while_it_is_spoken_with() -> None:
    line = Line()
    line.settle(ENVELOPE[0])
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.refuse(-32022, "unsupported", {"supported": [HANDSHAKE[-1]], "requested": ENVELOPE[0]})
    assert line.take() == [initialize(HANDSHAKE[-1], 3)]
    line.reply(description(HANDSHAKE[-1]))
    assert line.methods()[-1] == "prompts/list"
    line.reply({"prompts": []})
    assert outcome_of(call) == {"prompts": []}


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_server_that_refuses_the_revision_that_it_offered(version: str) -> None:
    line = settled(version)
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.refuse(-32022, "unsupported", {"supported": [version], "requested": version})
    assert (call.ended, line.methods()) == (False, ["prompts/list"])
    line.refuse(-32022, "unsupported", {"supported": [version], "requested": version})
    assert failure_of(call) == ("ServerError", "unsupported (code -32022)")
    assert line.methods() == []


# Ends -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_an_outage_while_it_is_found_out(version: str) -> None:
    line = Line(version)
    call = line.engine.call(Operation.PING)
    line.take()
    line.engine.receive_eof("exit status 1; last words: boom")
    assert failure_of(call) == ("ConnectionLost", "exit status 1; last words: boom")
    assert isinstance(outcome_of(call), ConnectionLost | ConnectionError)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_that_is_given_up_while_it_is_found_out(version: str) -> None:
    """Nothing is cancelled: the handshake must not be, and what comes of it serves the next call."""
    line = Line(version)
    call = line.engine.call(Operation.PING)
    line.take()
    line.engine.cancel(call, "enough")
    assert failure_of(call) == ("CallAbandoned", "enough")
    assert line.methods() == []
    line.reply(description(version), 1)
    again = line.engine.call(Operation.LIST_PROMPTS)
    assert line.methods()[-1] == "prompts/list"
    line.reply({"prompts": []})
    assert outcome_of(again) == {"prompts": []}


class Refusals(ClientConnection):
    """A channel whose refusals have an HTTP status, so that what an outage is can be tried without HTTP."""

    drops_negotiation = True
    asked: list[Any]

    def transmit(self, request: Any) -> None:
        self.asked = [*getattr(self, "asked", []), request]
        super().transmit(request)


@both_eras
@pytest.mark.parametrize("status", [401, 402, 403, 407, 408, 425, 429, 500, 502, 503, 504])
@pytest.mark.parametrize("at", ["probe", "handshake"])
def test_an_outage_or_a_missing_permission_is_never_read_as_old(status: int, at: str) -> None:
    line = Line(make=Refusals)
    call = line.engine.call(Operation.PING)
    line.take()
    if at == "handshake":
        line.engine.failed(line.engine.asked[-1], ServerError(None, "Bad Request", status=400))
        assert line.methods() == ["initialize"]
    line.engine.failed(line.engine.asked[-1], ServerError(None, "later", status=status))
    assert failure_of(call) == ("ServerError", f"later (HTTP {status})")
    assert (line.methods(), line.engine.known) == ([], None)
    line.engine.call(Operation.PING)
    assert line.methods() == [DISCOVER], "the next call finds out anew"


@both_eras
@pytest.mark.parametrize("status", [400, 404, 405, 406, 410, 415, 422])
def test_any_other_refusal_is_read_as_old(status: int) -> None:
    line = Line(make=Refusals)
    line.engine.call(Operation.PING)
    line.take()
    line.engine.failed(line.engine.asked[-1], ServerError(None, "what?", status=status))
    assert line.methods() == ["initialize"]


@both_eras
def test_a_lost_connection_is_never_read_as_old() -> None:
    line = Line(make=Refusals)
    call = line.engine.call(Operation.PING)
    line.engine.failed(line.engine.asked[-1], ConnectionLost("connection refused"))
    assert failure_of(call) == ("ConnectionLost", "connection refused")


@both_eras
def test_where_waiting_costs_something_a_negotiation_is_dropped_with_its_last_call() -> None:
    released = []

    class Costly(Refusals):
        def release(self, request: Any, *, cancelled: bool, reason: str | None = None) -> None:
            released.append((request.method, cancelled))

    line = Line(make=Costly)
    first, second = line.engine.call(Operation.PING), line.engine.call(Operation.PING)
    line.engine.cancel(first)
    assert released == []
    line.engine.cancel(second)
    assert released == [(DISCOVER, False)]
    line.take()
    line.engine.call(Operation.PING)
    assert line.methods() == [DISCOVER]

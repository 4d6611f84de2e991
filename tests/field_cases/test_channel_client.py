"""Cases of a client at the end of a channel: each by name, on every revision that it concerns."""

from __future__ import annotations

from typing import Any

import pytest

from calling import DISCOVER, Line, description, failure_of, faults, outcome_of, settled
from mcp_sansio import AdapterSet, ChangeReceived, Operation, QuestionReceived, elicit, elicit_accept_defaults
from mcp_sansio.wire.json import encode

from .common import ENVELOPE, HANDSHAKE

JSON = Any
VERSIONS = AdapterSet.default().versions
EVERY = pytest.mark.parametrize("version", VERSIONS)
BOTH_ERAS = pytest.mark.skipif(not ENVELOPE or not HANDSHAKE, reason="needs a revision of each kind")
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
DONE = {"content": [{"type": "text", "text": "done"}]}


def call(line: Line, **arguments: JSON) -> Any:
    return line.engine.call(Operation.CALL_TOOL, {"name": "t", "arguments": arguments})


def push(line: Line, request: JSON, id: JSON) -> list[Any]:
    """The server asks; the questions that come of it."""
    events = line.say({"jsonrpc": "2.0", "id": id, **request})
    return [event.question for event in events if isinstance(event, QuestionReceived)]


# Negotiation ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [*HANDSHAKE, "1999-01-01", None])
def test_case_4_every_revision_that_is_known_is_accepted_and_no_other(answer: str | None) -> None:
    line = Line(*HANDSHAKE)
    pending = line.engine.call(Operation.PING)
    line.take()
    line.reply({"protocolVersion": answer, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}})
    if answer in HANDSHAKE:
        assert line.engine.adapter.version == answer
        assert line.methods() == ["notifications/initialized", "ping"]
    else:
        name, text = failure_of(pending)
        assert name == ("UnusableReply" if answer is None else "NegotiationFailed")
        assert answer is None or answer in text
        assert line.methods() == []


@BOTH_ERAS
@pytest.mark.parametrize("answer", [-32601, -32602, -32000, -32700, None])
def test_case_8_the_fallback_is_keyed_to_no_code(answer: int | None) -> None:
    line = Line()
    pending = line.engine.call(Operation.PING)
    assert line.methods() == [DISCOVER]
    line.wait(10) if answer is None else line.refuse(answer)
    assert line.methods() == ["initialize"]
    line.reply(description(HANDSHAKE[0]))
    line.reply({})
    assert outcome_of(pending) == {}
    assert line.engine.known.revision == HANDSHAKE[0]


@BOTH_ERAS
def test_case_8_an_offer_is_taken_and_no_handshake_tried() -> None:
    line = Line()
    line.engine.call(Operation.LIST_TOOLS)
    line.take()
    line.refuse(-32022, "unsupported", {"supported": list(ENVELOPE), "requested": "x"})
    assert line.methods() == [DISCOVER]
    line.reply(description(ENVELOPE[0]))
    assert line.methods() == ["tools/list"]


# Messages -------------------------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize(
    "noise",
    [b"Server started", b"{", b"  x: 1", b"}", b"\x1b[32mok\x1b[0m", b"123", b'"str"', b"null", b"[]", b"\xe2\x82"],
)
def test_case_45_other_text_among_the_messages_is_reported_and_passed_over(version: str, noise: bytes) -> None:
    line = settled(version)
    pending = call(line)
    line.take()
    [fault] = faults(line.say(noise))
    assert len(fault) < 200
    line.reply(DONE)
    assert outcome_of(pending) == DONE


@EVERY
@pytest.mark.parametrize("id", ["2", 2.0, "02", True, None, [2]])
def test_case_53_an_id_of_another_type_answers_nothing(version: str, id: JSON) -> None:
    line = settled(version)
    pending = call(line)
    line.take()
    line.say({"jsonrpc": "2.0", "id": id, "result": DONE})
    assert not pending.ended
    line.reply(DONE, 2)
    assert pending.ended


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("id", [0, "", "0", 2, -1, 9007199254740993])
def test_case_57_ids_of_the_two_directions_are_separate(version: str, id: JSON) -> None:
    """A question has the id of the call in flight, or one that is next to nothing: it comes back as it is."""
    line = settled(version, can_answer=True)
    pending = call(line)
    line.take()
    [question] = push(line, {"method": "roots/list"}, id)
    line.engine.answer(question, {"roots": []})
    assert line.engine.data_to_send() == [encode({"jsonrpc": "2.0", "id": id, "result": {"roots": []}})]
    assert not pending.ended


@EVERY
@pytest.mark.parametrize("method", ["notifications/vendor/x", "codex/event", "window/logMessage", "$/progress"])
def test_case_61_an_unknown_notification_says_nothing(version: str, method: str) -> None:
    line = settled(version)
    assert (line.notify(method, a=[1]), line.take()) == ([], [])


@EVERY
@pytest.mark.parametrize("depth", [200, 10_000, 100_000])
def test_case_64_a_deep_result_costs_nothing_but_its_call(version: str, depth: int) -> None:
    line = settled(version)
    deep, other = call(line), call(line)
    line.take()
    inner = b"[" * depth + b"]" * depth
    assert len(faults(line.say(b'{"jsonrpc":"2.0","id":2,"result":{"content":%b}}' % inner))) == 1
    line.reply(DONE, 3)
    assert outcome_of(other) == DONE
    line.wait(60)
    assert failure_of(deep)[0] == "CallTimeout"


@EVERY
def test_case_65_integers_keep_every_digit(version: str) -> None:
    line = settled(version)
    pending = call(line, n=9007199254740993)
    assert b'"n":9007199254740993' in line.engine.data_to_send()[0]
    line.say(b'{"jsonrpc":"2.0","id":2,"result":{"content":[],"structuredContent":{"n":9007199254740993,"f":1e2}}}')
    assert outcome_of(pending)["structuredContent"] == {"n": 9007199254740993, "f": 100.0}


@EVERY
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_case_66_what_is_no_number_is_refused_before_it_is_sent(version: str, value: float) -> None:
    line = settled(version)
    with pytest.raises(ValueError, match=r"^call_tool: \$\.arguments\.x\[1\]: a number that is not finite$"):
        call(line, x=[1, value])
    assert line.take() == []


@EVERY
def test_case_67_half_a_surrogate_pair_never_stops_the_writer(version: str) -> None:
    line = settled(version)
    call(line, s="a\ud800b")
    assert '"s":"a\ufffdb"'.encode() in line.engine.data_to_send()[0]
    assert len(faults(line.say(b'{"jsonrpc":"2.0","id":2,"result":{"content":["\\ud83d"]}}'))) == 1


# In flight ------------------------------------------------------------------------------------------------------------


@EVERY
def test_case_70_a_late_answer_breaks_nothing(version: str) -> None:
    line = settled(version)
    slow = call(line)
    line.wait(60)
    assert failure_of(slow)[0] == "CallTimeout"
    assert line.methods() == ["tools/call", "notifications/cancelled"]
    assert faults(line.reply(DONE, 2)) == ["an answer that comes too late, or again"]
    again = call(line)
    line.reply(DONE)
    assert outcome_of(again) == DONE


@EVERY
def test_case_71_a_server_that_only_reports_progress_is_given_up_in_the_end(version: str) -> None:
    line = settled(version)
    pending = line.engine.call(Operation.CALL_TOOL, {"name": "t"}, wants_progress=True, timeout=10, max_timeout=100)
    token = line.last_id
    for _ in range(30):
        line.wait(5)
        line.notify("notifications/progress", progressToken=token, progress=1)
    assert failure_of(pending) == ("CallTimeout", "no answer to call_tool within 100 seconds")


@EVERY
@pytest.mark.parametrize("token", [99, "2", None, 2])
def test_case_72_progress_of_no_call_is_a_note_and_no_error(version: str, token: JSON) -> None:
    line = settled(version)
    pending = call(line)
    line.take()
    assert len(faults(line.notify("notifications/progress", progressToken=token, progress=1))) == 1
    line.reply(DONE)
    assert outcome_of(pending) == DONE


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("params", [{}, {"params": {}}, {"params": None}])
def test_case_73_ping_is_answered_before_and_after_the_handshake(version: str, params: JSON) -> None:
    line = Line(version)
    line.engine.call(Operation.DESCRIBE)
    line.take()
    pong = {"jsonrpc": "2.0", "id": "p", "result": {}}
    line.say({"jsonrpc": "2.0", "id": "p", "method": "ping", **params})
    assert line.take() == [pong]
    line.reply(description(version))
    line.take()
    line.say({"jsonrpc": "2.0", "id": "p", "method": "ping", **params})
    assert line.take() == [pong]


# Asking ---------------------------------------------------------------------------------------------------------------

PUSHED = [version for version in HANDSHAKE if AdapterSet.default().by_version[version].can_push_ask]


@pytest.mark.parametrize("version", PUSHED)
@pytest.mark.parametrize(
    ("declared", "mode", "taken"),
    [
        ({}, None, True),
        ({}, "url", False),
        ({"form": {}}, None, True),
        ({"url": {}}, None, False),
        ({}, "video", False),
    ],
)
def test_case_77_no_mode_is_the_form_and_what_was_not_declared_is_refused(
    version: str, declared: JSON, mode: str | None, taken: bool
) -> None:
    line = settled(version, can_answer=True, capabilities={"elicitation": declared})
    request = elicit("Sure?")
    params = {**request["params"], **({} if mode is None else {"mode": mode})}
    assert bool(push(line, {**request, "params": params}, 1)) is taken
    assert [message["error"]["code"] for message in line.take()] == ([] if taken else [-32602])


def test_case_78_defaults_are_filled_in_where_the_answer_leaves_them_out() -> None:
    form = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "boolean"}}}
    assert elicit_accept_defaults(elicit("?", form), {"b": True})["content"] == {"a": "x", "b": True}


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_79_without_somebody_to_answer_nothing_is_declared_and_a_question_refused(version: str) -> None:
    line = Line(version)
    line.engine.call(Operation.DESCRIBE)
    assert line.take()[0]["params"]["capabilities"] == {}
    line.reply(description(version))
    line.take()
    assert push(line, elicit("Sure?"), 1) == []
    assert [message["error"]["code"] for message in line.take()] == [-32601]


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_81_a_question_that_was_not_declared_fails_its_call(version: str) -> None:
    line = settled(version, can_answer=True, capabilities={"elicitation": {"url": {}}})
    pending = call(line)
    line.take()
    line.reply({"resultType": "input_required", "inputRequests": {"q": elicit("Sure?")}})
    assert failure_of(pending) == ("UnusableReply", "the question 'q': this client did not declare the mode 'form'")


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_83_a_subscription_begins_with_its_acknowledgement_and_ends_audibly(version: str) -> None:
    line = settled(version)
    first, second = line.engine.listen(tools=True), line.engine.listen(tools=True)
    line.take()
    for id in (3, 2):
        line.notify(
            "notifications/subscriptions/acknowledged",
            _meta={SUBSCRIPTION: id},
            notifications={"toolsListChanged": True},
        )
    for id, pending in ((2, first), (3, second)):
        [event] = line.notify("notifications/tools/list_changed", _meta={SUBSCRIPTION: id})
        assert isinstance(event, ChangeReceived)
        assert event.call is pending
    line.reply({"resultType": "complete"}, 2)
    line.engine.receive_eof("gone")
    assert (outcome_of(first), failure_of(second)) == ({"resultType": "complete"}, ("ConnectionLost", "gone"))


# Tools, results and lists ---------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("schema", [..., None, {}, {"type": "string"}, {"type": "int"}])
def test_case_87_one_bad_tool_hides_no_other_and_is_named(version: str, schema: JSON) -> None:
    line = settled(version)
    pending = line.engine.call(Operation.LIST_TOOLS)
    line.take()
    good = {"name": "good", "inputSchema": {"type": "object"}}
    bad = {"name": "bad"} if schema is ... else {"name": "bad", "inputSchema": schema}
    found = faults(line.reply({"tools": [bad, None, good]}))
    assert outcome_of(pending) == {"tools": [good]}
    assert ["'bad'" in fault for fault in found] == [True, False]


@EVERY
@pytest.mark.parametrize("result", [[], "x", 5, None, True])
def test_case_90_a_result_that_is_none_is_an_error_of_that_call(version: str, result: JSON) -> None:
    line = settled(version)
    first, second = call(line), call(line)
    line.take()
    line.reply(result, 2)
    line.reply(DONE, 3)
    assert (failure_of(first), outcome_of(second)) == (("UnusableReply", "the result must be an object"), DONE)


@EVERY
@pytest.mark.parametrize("cursors", [["", ""], ["a", "a"], ["a", "b", "a", "b"], [5]])
def test_case_93_a_cursor_that_comes_again_ends_in_an_error(version: str, cursors: list[JSON]) -> None:
    line = settled(version)
    pending = line.engine.call(Operation.LIST_TOOLS)
    for cursor in cursors:
        if not pending.ended:
            line.reply({"tools": [], "nextCursor": cursor})
    assert failure_of(pending)[0] == "UnusableReply"


@EVERY
def test_case_94_an_empty_cursor_is_one(version: str) -> None:
    line = settled(version)
    pending = line.engine.call(Operation.LIST_PROMPTS)
    line.take()
    line.reply({"prompts": [{"name": "a"}], "nextCursor": ""})
    assert [message["params"]["cursor"] for message in line.take()] == [""]
    line.reply({"prompts": [{"name": "b"}], "nextCursor": None})
    assert outcome_of(pending)["prompts"] == [{"name": "a"}, {"name": "b"}]


@EVERY
@pytest.mark.parametrize("uri", ["users/me", "note:Ä b", "x://HOST", "file:///a%2Fb", "data:,x", "urn:a:b", "http://h"])
def test_case_95_a_uri_is_sent_exactly_as_it_was_listed(version: str, uri: str) -> None:
    line = settled(version)
    pending = line.engine.call(Operation.LIST_RESOURCES)
    line.take()
    line.reply({"resources": [{"name": "r", "uri": uri}]})
    line.engine.call(Operation.READ_RESOURCE, {"uri": outcome_of(pending)["resources"][0]["uri"]})
    assert line.take()[0]["params"]["uri"] == uri

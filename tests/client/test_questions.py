"""The questions of a server on every revision: as results, pushed, and in the arguments; and who answers them."""

from __future__ import annotations

from typing import Any

import pytest

from calling import Line, failure_of, faults, outcome_of, settled
from mcp_sansio import (
    AdapterSet,
    CallEnded,
    ClientConfig,
    Operation,
    Question,
    QuestionReceived,
    QuestionWithdrawn,
    ServerFaulted,
    elicit,
    elicit_accept,
    elicit_accept_defaults,
    elicit_decline,
    list_roots,
    sample,
)
from mcp_sansio.asking import CAPABILITY_OF
from mcp_sansio.in_arguments import META_KEY
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, HANDSHAKE, VERSIONS

JSON = Any
ADAPTERS = AdapterSet.default().by_version
IN_ARGUMENTS = tuple(version for version in VERSIONS if ADAPTERS[version].asks_in_arguments)
PUSHED = tuple(version for version in VERSIONS if ADAPTERS[version].can_push_ask)
#: How each revision asks in the result of a call.
IN_RESULT = (*ENVELOPE, *IN_ARGUMENTS)
NAME = elicit("Name?", {"type": "object", "properties": {"v": {"type": "string"}}})
QUEST = elicit("Quest?", {"type": "object", "properties": {"v": {"type": "string"}}})
MODEL = sample("Well?", max_tokens=10)
MADE = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "so"}}
DONE = {"content": [{"type": "text", "text": "done"}]}


def call(line: Line, **options: Any) -> Any:
    return line.engine.call(Operation.CALL_TOOL, {"name": "t", "arguments": {"a": 1}}, **options)


def asking(version: str, requests: JSON, state: str | None = None) -> dict[str, JSON]:
    """A result that asks, the way of `version`."""
    asked = {"inputRequests": requests} if requests is not None else {}
    if state is not None:
        asked["requestState"] = state
    if version in ENVELOPE:
        return {"resultType": "input_required", **asked}
    return {"content": [{"type": "text", "text": "asks"}], "_meta": {META_KEY: asked}}


def answered(version: str, message: JSON) -> tuple[JSON, JSON]:
    """The answers and the state in a request, each ``None`` where there is none; and nothing else is changed."""
    params = {name: value for name, value in message["params"].items() if name != "_meta"}
    if version in ENVELOPE:
        answers, state = params.pop("inputResponses", None), params.pop("requestState", None)
    else:
        answers, state = params["arguments"].pop("mcpAnswers", None), params["arguments"].pop("mcpState", None)
    assert params == {"name": "t", "arguments": {"a": 1}}
    return answers, state


def questions(events: Any) -> list[Question]:
    return [event.question for event in events if isinstance(event, QuestionReceived)]


# In a result ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", IN_RESULT)
@pytest.mark.parametrize("state", [None, "", "s", '\u2028 ż\\/"', "x" * 10_000])
def test_the_call_is_made_again_with_the_answers_and_the_state_as_it_came(version: str, state: str | None) -> None:
    line = settled(version, can_answer=True)
    made = call(line)
    [first] = line.take()
    [question] = questions(line.reply(asking(version, {"name": NAME}, state)))
    assert (question.request, question.key, question.call) == (NAME, "name", made)
    assert (line.take(), made.ended) == ([], False)
    line.engine.answer(question, elicit_accept({"v": "x"}))
    [second] = line.take()
    assert (first["id"], second["id"]) == (2, 3)
    assert answered(version, second) == ({"name": {"action": "accept", "content": {"v": "x"}}}, state)
    line.reply(DONE)
    assert outcome_of(made) == DONE


@pytest.mark.parametrize("version", IN_RESULT)
def test_every_answer_so_far_goes_back_and_only_the_last_state(version: str) -> None:
    line = settled(version, can_answer=True)
    made = call(line)
    line.take()
    [one] = questions(line.reply(asking(version, {"one": NAME}, "first")))
    line.engine.answer(one, elicit_accept({"v": "x"}))
    line.take()
    [two] = questions(line.reply(asking(version, {"two": QUEST})))
    line.engine.answer(two, elicit_decline())
    [third] = line.take()
    both = {"one": {"action": "accept", "content": {"v": "x"}}, "two": {"action": "decline"}}
    assert answered(version, third) == (both, None)
    [again] = questions(line.reply(asking(version, {"one": NAME}, "last")))
    line.engine.answer(again, elicit_decline())
    [fourth] = line.take()
    assert answered(version, fourth) == ({"one": {"action": "decline"}, "two": {"action": "decline"}}, "last")
    line.reply(DONE)
    assert outcome_of(made) == DONE


@pytest.mark.parametrize("version", IN_RESULT)
def test_several_questions_at_once_wait_for_the_last_answer(version: str) -> None:
    line = settled(version, can_answer=True)
    call(line)
    line.take()
    asked = questions(line.reply(asking(version, {"a": NAME, "b": MODEL, "c": list_roots()})))
    assert [question.key for question in asked] == ["a", "b", "c"]
    line.engine.answer(asked[2], {"roots": []})
    line.engine.answer(asked[0], elicit_decline())
    assert line.take() == []
    line.engine.answer(asked[1], MADE)
    line.engine.answer(asked[1], MADE)
    [again] = line.take()
    assert answered(version, again) == ({"c": {"roots": []}, "a": {"action": "decline"}, "b": MADE}, None)


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_state_alone_asks_to_call_again(version: str) -> None:
    line = settled(version)
    made = call(line)
    line.take()
    line.reply(asking(version, None, "later"))
    [again] = line.take()
    assert answered(version, again) == (None, "later")
    line.reply(DONE)
    assert outcome_of(made) == DONE


@pytest.mark.parametrize("version", IN_RESULT)
def test_no_other_call_sees_any_of_it(version: str) -> None:
    line = settled(version, can_answer=True)
    call(line)
    line.take()
    [question] = questions(line.reply(asking(version, {"name": NAME}, "s")))
    call(line)
    [other] = line.take()
    assert answered(version, other) == (None, None)
    line.engine.answer(question, elicit_decline())
    call(line)
    _, third = line.take()
    assert answered(version, third) == (None, None)


@pytest.mark.parametrize("version", IN_RESULT)
def test_where_nothing_answers_the_question_is_the_result(version: str) -> None:
    line = settled(version)
    made = call(line)
    line.take()
    result = asking(version, {"name": NAME}, "s")
    line.reply(result)
    assert (outcome_of(made), made.asks, line.take()) == (result, True, [])
    requests, state = ADAPTERS[version].client_input_requests(result)
    assert (requests, state) == ({"name": NAME}, "s")
    again = call(line, input_responses={"name": elicit_decline()}, request_state=state)
    [message] = line.take()
    assert answered(version, message) == ({"name": {"action": "decline"}}, "s")
    line.reply(DONE)
    assert (outcome_of(again), again.asks) == (DONE, False)


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize(
    "result",
    [
        {},
        {"inputRequests": {}},
        {"inputRequests": []},
        {"inputRequests": {"a": 5}},
        {"inputRequests": {"a": {}}},
        {"inputRequests": {"a": {"method": "elicitation/create", "params": []}}},
        {"requestState": 5},
        {"inputRequests": {"a": NAME}, "requestState": {}},
    ],
)
@pytest.mark.parametrize("can_answer", [True, False])
def test_a_question_that_is_none(version: str, result: JSON, can_answer: bool) -> None:
    line = settled(version, can_answer=can_answer)
    made = call(line)
    line.take()
    line.reply({"resultType": "input_required", **result})
    assert failure_of(made)[0] == "UnusableReply"
    assert line.take() == []


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("operation", [Operation.LIST_TOOLS, Operation.LIST_PROMPTS, Operation.PING])
def test_operations_that_may_not_ask(version: str, operation: Operation) -> None:
    line = settled(version, can_answer=True)
    made = line.engine.call(operation)
    line.take()
    line.reply(asking(version, {"name": NAME}))
    assert failure_of(made) == (
        "UnusableReply",
        "the result cannot be used: resultType 'input_required' is not known here",
    )


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize(
    ("declared", "request_", "fault"),
    [
        ({}, NAME, "this client did not declare elicitation"),
        ({"elicitation": {}}, MODEL, "this client did not declare sampling"),
        ({"elicitation": {}}, list_roots(), "this client did not declare roots"),
        ({"elicitation": {}}, elicit("Go", url="https://x.example"), "this client did not declare the mode 'url'"),
        ({"elicitation": {"url": {}}}, NAME, "this client did not declare the mode 'form'"),
        ({"elicitation": {}}, {"method": "tools/call"}, "there is no 'tools/call'"),
    ],
)
def test_a_question_that_was_not_declared(version: str, declared: JSON, request_: JSON, fault: str) -> None:
    line = settled(version, can_answer=True, capabilities=declared)
    made = call(line)
    line.take()
    line.reply(asking(version, {"k": request_}))
    assert failure_of(made) == ("UnusableReply", f"the question 'k': {fault}")


@pytest.mark.parametrize("version", IN_RESULT)
def test_rounds_are_bounded(version: str) -> None:
    line = settled(version, can_answer=True, config=ClientConfig(max_rounds=3, max_questions=2))
    made = call(line)
    for _ in range(3):
        [question] = questions(line.reply(asking(version, {"again": NAME})))
        line.engine.answer(question, elicit_decline())
    line.reply(asking(version, {"again": NAME}))
    assert failure_of(made) == ("UnusableReply", "the call was answered with questions more than 3 times")
    more = call(line)
    line.reply(asking(version, {"a": NAME, "b": NAME, "c": NAME}))
    assert failure_of(more) == ("UnusableReply", "3 questions at once, where 2 may be")


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_server_that_has_the_call_made_again_for_ever(version: str) -> None:
    line = settled(version, config=ClientConfig(max_rounds=3))
    made = call(line)
    for _ in range(4):
        assert not made.ended
        line.reply(asking(version, None, "later"))
    assert failure_of(made)[0] == "UnusableReply"


@pytest.mark.parametrize("version", IN_RESULT)
def test_who_does_not_know_the_answer_says_so(version: str) -> None:
    line = settled(version, can_answer=True)
    made = call(line)
    line.take()
    asked = questions(line.reply(asking(version, {"a": NAME, "b": NAME})))
    cause = RuntimeError("no idea")
    line.engine.fail(asked[0], "nobody is here", cause)
    assert failure_of(made) == ("AnswerFailed", "nobody is here")
    assert outcome_of(made).__cause__ is cause
    events = line.engine.events()
    assert [event.question for event in events if isinstance(event, QuestionWithdrawn)] == [asked[1]]
    line.engine.answer(asked[1], elicit_decline())
    line.engine.fail(asked[0], "again")
    assert (line.take(), line.engine.events()) == ([], [])


@pytest.mark.parametrize("version", IN_RESULT)
def test_time_stands_still_while_a_question_is_open(version: str) -> None:
    line = settled(version, can_answer=True)
    made = call(line, timeout=10, max_timeout=15)
    line.take()
    line.wait(9)
    [question] = questions(line.reply(asking(version, {"a": NAME})))
    assert line.wait(500) == []
    line.engine.answer(question, elicit_decline())
    line.wait(5.9)
    assert not made.ended
    line.wait(0.1)
    assert failure_of(made) == ("CallTimeout", "no answer to call_tool within 15 seconds")


@pytest.mark.parametrize("version", IN_RESULT)
def test_a_question_that_nobody_answers(version: str) -> None:
    line = settled(version, can_answer=True, config=ClientConfig(ask_timeout=30))
    made = call(line)
    line.take()
    asked = questions(line.reply(asking(version, {"a": NAME, "b": NAME})))
    events = line.wait(30)
    assert [event.question for event in events if isinstance(event, QuestionWithdrawn)] == asked
    assert failure_of(made) == ("CallTimeout", "nobody answered the question 'a' in time")
    assert line.take() == []


@pytest.mark.parametrize("version", IN_RESULT)
def test_a_call_that_is_given_up_while_it_asks(version: str) -> None:
    line = settled(version, can_answer=True)
    made = call(line)
    line.take()
    [question] = questions(line.reply(asking(version, {"a": NAME})))
    line.engine.cancel(made)
    assert [type(event) for event in line.engine.events()] == [QuestionWithdrawn, CallEnded]
    line.engine.answer(question, elicit_decline())
    assert line.take() == [], "its request was answered long ago: there is nothing to cancel"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("asked", [5, [], {}, {"inputRequests": 5}, {"inputRequests": {"a": 5}}])
def test_what_only_looks_like_a_question_in_the_arguments(version: str, asked: JSON) -> None:
    """No revision defines that member: a server may have something else there, but not something half as good."""
    line = settled(version, can_answer=True)
    made = call(line)
    line.take()
    result = {**DONE, "_meta": {META_KEY: asked}}
    line.reply(result)
    if isinstance(asked, dict):
        assert failure_of(made)[0] == "UnusableReply"
    else:
        assert outcome_of(made) == result


# Pushed ---------------------------------------------------------------------------------------------------------------


def push(line: Line, request: JSON, id: JSON = "q1") -> Any:
    return line.say({"jsonrpc": "2.0", "id": id, **request})


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("id", ["q1", "", 0, 1, 2, -5, 9007199254740993])
@pytest.mark.parametrize(("request_", "reply"), [(NAME, elicit_accept({"v": "ż"})), (MODEL, MADE), (list_roots(), {})])
def test_a_pushed_question_is_answered_while_its_call_is_pending(
    version: str, id: JSON, request_: JSON, reply: JSON
) -> None:
    """Ids of the two directions are separate: 2 is also that of the call in flight."""
    line = settled(version, can_answer=True)
    made = call(line)
    line.take()
    events = push(line, request_, id)
    capability = CAPABILITY_OF[request_["method"]]
    if capability not in ADAPTERS[version].askable:
        text = f"this client has no {request_['method']}"
        assert events == [ServerFaulted(f"the request {request_['method']!r} was refused: {text}")]
        assert line.take() == [{"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": text}}]
        return
    [question] = questions(events)
    assert (question.request, question.call, question.key) == (request_, None, None)
    line.engine.answer(question, reply)
    assert line.engine.data_to_send() == [encode({"jsonrpc": "2.0", "id": id, "result": reply})]
    line.engine.answer(question, reply)
    assert line.take() == []
    line.reply(DONE, 2)
    assert outcome_of(made) == DONE


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}])
def test_case_73_ping_is_answered_by_itself_at_any_time(version: str, params: JSON) -> None:
    line = Line(version)
    line.engine.call(Operation.PING)
    line.take()
    for id in (0, "a"):
        message = {"jsonrpc": "2.0", "id": id, "method": "ping"}
        assert line.say(message if params is None else {**message, "params": params}) == []
        assert line.engine.data_to_send() == [encode({"jsonrpc": "2.0", "id": id, "result": {}})]
        line.settle(version) if line.engine.adapter is None else None
        line.take()


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("method", ["ping", "roots/list", "elicitation/create", "x"])
def test_a_request_where_servers_send_none_is_not_answered(version: str, method: str) -> None:
    """A client must not write a response there (basic/transports/stdio, "Sending Messages")."""
    line = settled(version, can_answer=True)
    events = push(line, {"method": method, "params": {}})
    assert (faults(events), line.take()) == ([f"the request {method!r}, where servers send none"], [])


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("method", ["tools/list", "x", "sampling/create", "notifications/cancelled"])
def test_a_request_that_nobody_knows_is_refused(version: str, method: str) -> None:
    line = settled(version, can_answer=True)
    push(line, {"method": method, "params": {}})
    error = {"code": -32601, "message": f"this client has no {method}"}
    assert line.take() == [{"jsonrpc": "2.0", "id": "q1", "error": error}]


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("request_", [NAME, MODEL, list_roots()])
def test_case_79_what_nobody_answers_is_neither_declared_nor_asked(version: str, request_: JSON) -> None:
    line = Line(version)
    line.engine.call(Operation.DESCRIBE)
    assert line.take()[0]["params"]["capabilities"] == {}
    line.settle(version)
    line.take()
    assert questions(push(line, request_)) == []
    assert line.take()[0]["error"]["code"] == -32601


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_is_declared_is_what_is_answered(version: str) -> None:
    line = settled(version, can_answer=True, capabilities={"sampling": {}})
    assert questions(push(line, list_roots())) == []
    assert line.take()[0]["error"]["code"] == -32601
    assert len(questions(push(line, MODEL))) == 1


@pytest.mark.parametrize("version", PUSHED)
@pytest.mark.parametrize(
    ("declared", "mode", "code"),
    [
        ({}, None, None),
        ({}, "form", None),
        ({}, "url", -32602),
        ({"form": {}}, None, None),
        ({"form": {}}, "url", -32602),
        ({"url": {}}, "url", None),
        ({"url": {}}, None, -32602),
        ({"form": {}, "url": {}}, "url", None),
        ({"form": {}, "url": {}}, "video", -32602),
        ({"zzz": {}}, "form", None),
        ({}, 5, -32602),
        ({"form": {}}, [], -32602),
        ({"form": {}}, {"a": 1}, -32602),
    ],
)
def test_case_77_the_mode_of_an_elicitation(version: str, declared: JSON, mode: JSON, code: int | None) -> None:
    line = settled(version, can_answer=True, capabilities={"elicitation": declared})
    params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = questions(
        push(line, {"method": "elicitation/create", "params": params if mode is None else {**params, "mode": mode}})
    )
    assert len(asked) == (code is None)
    assert [message["error"]["code"] for message in line.take()] == ([] if code is None else [code])


@pytest.mark.parametrize("version", HANDSHAKE)
def test_pushed_questions_are_bounded_and_their_ids_are_theirs(version: str) -> None:
    line = settled(version, can_answer=True, config=ClientConfig(max_questions=2))
    first = questions(push(line, MODEL, 1))
    assert questions(push(line, MODEL, 1)) == []
    assert "used again" in line.take()[0]["error"]["message"]
    questions(push(line, MODEL, "1"))
    assert questions(push(line, MODEL, 3)) == []
    assert line.take()[0]["error"]["message"] == "at most 2 questions may be open"
    line.engine.answer(first[0], MADE)
    assert len(questions(push(line, MODEL, 1))) == 1


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_pushed_question_that_is_withdrawn(version: str) -> None:
    line = settled(version, can_answer=True)
    [question] = questions(push(line, MODEL, 7))
    assert faults(line.notify("notifications/cancelled", requestId="7")) == ["the withdrawal of nothing that is open"]
    assert [event.question for event in line.notify("notifications/cancelled", requestId=7)] == [question]
    line.engine.answer(question, MADE)
    assert line.take() == []
    for wrong in ({}, {"requestId": None}, {"requestId": 7}, {"requestId": [7]}):
        assert len(faults(line.notify("notifications/cancelled", **wrong))) == 1


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_pushed_question_that_nobody_answers(version: str) -> None:
    line = settled(version, can_answer=True, config=ClientConfig(ask_timeout=5))
    made = call(line, timeout=4)
    line.take()
    [question] = questions(push(line, MODEL, 7))
    line.wait(4.5)
    assert not made.ended, "its time stands still"
    assert [event.question for event in line.wait(0.5)] == [question]
    assert line.take() == [{"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "nobody answered in time"}}]
    line.wait(4)
    assert failure_of(made)[0] == "CallTimeout"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_questions_without_end_hold_no_call_for_ever(version: str) -> None:
    """One is always open, and none for too long: the time of a call stands still for so long in all."""
    config = ClientConfig(ask_timeout=5, max_rounds=4, max_timeout=20)
    line = settled(version, can_answer=True, config=config)
    asked, quiet = call(line, timeout=3), call(line)
    line.take()
    for number in range(10):
        push(line, MODEL, number)
        if asked.ended:
            break
        line.wait(4)
    assert (line.clock(), failure_of(asked)[0], quiet.ended) == (24.0, "CallTimeout", False)


@pytest.mark.parametrize("version", PUSHED)
def test_a_pushed_elicitation_that_nobody_answers_is_cancelled(version: str) -> None:
    line = settled(version, can_answer=True, config=ClientConfig(ask_timeout=5))
    questions(push(line, NAME, 7))
    line.wait(5)
    assert line.take() == [{"jsonrpc": "2.0", "id": 7, "result": {"action": "cancel"}}]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_pushed_question_that_cannot_be_answered(version: str) -> None:
    line = settled(version, can_answer=True)
    made = call(line)
    line.take()
    [question] = questions(push(line, MODEL, 7))
    line.engine.fail(question, "the model is out")
    assert line.take() == [{"jsonrpc": "2.0", "id": 7, "error": {"code": -32603, "message": "the model is out"}}]
    assert not made.ended


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_end_withdraws_what_is_open(version: str) -> None:
    line = settled(version, can_answer=True)
    [question] = questions(push(line, MODEL, 7))
    line.engine.receive_eof()
    assert [event.question for event in line.engine.events() if isinstance(event, QuestionWithdrawn)] == [question]
    line.engine.answer(question, MADE)
    line.engine.fail(question, "x")
    assert line.take() == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("reply", [None, 5, "x", [], {"a": float("nan")}, {"a": object()}])
def test_an_answer_that_is_none(version: str, reply: Any) -> None:
    line = settled(version, can_answer=True)
    call(line)
    line.take()
    if version in PUSHED:
        [question] = questions(push(line, NAME, 7))
    else:
        [question] = questions(line.reply(asking(version, {"a": NAME})))
    with pytest.raises(ValueError, match=r"^the answer to elicitation/create"):
        line.engine.answer(question, reply)
    assert line.take() == []
    line.engine.answer(question, elicit_decline())
    assert len(line.take()) == 1


# What is declared -----------------------------------------------------------------------------------------------------

FORMS = {"form": {}, "url": {}}
DECLARED = {
    "2026-07-28": ({"elicitation": FORMS, "sampling": {}, "roots": {}}, {"elicitation": FORMS}),
    "2025-11-25": ({"elicitation": FORMS, "sampling": {}, "roots": {}}, {}),
    "2025-06-18": ({"elicitation": {}, "sampling": {}, "roots": {}}, {}),
    "2025-03-26": ({"sampling": {}, "roots": {}}, {}),
    "2024-11-05": ({"sampling": {}, "roots": {}}, {}),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_declared(version: str) -> None:
    for can_answer, declared in zip((True, False), DECLARED[version], strict=True):
        assert settled(version, can_answer=can_answer).engine.capabilities_for(ADAPTERS[version]) == declared


# Defaults -------------------------------------------------------------------------------------------------------------


def test_the_forms_own_defaults_fill_what_is_left_out() -> None:
    """A null is a value too, and so is what the form does not know."""
    properties = {"a": {"type": "string", "default": "x"}, "b": {"type": "boolean", "default": False}, "c": {}}
    request = {"method": "elicitation/create", "params": {"requestedSchema": {"properties": properties}}}
    assert elicit_accept_defaults(request) == {"action": "accept", "content": {"a": "x", "b": False}}
    assert elicit_accept_defaults(request, {"a": "y", "z": 1}) == {
        "action": "accept",
        "content": {"a": "y", "b": False, "z": 1},
    }


@pytest.mark.parametrize("params", [{}, {"requestedSchema": 5}, {"requestedSchema": {"properties": {"a": 5}}}])
def test_a_form_that_is_none_has_no_defaults(params: JSON) -> None:
    assert elicit_accept_defaults({"method": "elicitation/create", "params": params}) == elicit_accept()

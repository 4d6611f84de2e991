"""Streams and sessions of a client of HTTP: what begins, what ends, and what is waited for, to the second."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import ClientConfig, HttpAbort, HttpRequest, Known, Operation, QuestionWithdrawn, ServerFaulted
from speak import HANDSHAKE
from web import (
    DONE,
    JSON_TYPE,
    STREAM_TYPE,
    Client,
    event,
    finish,
    id_of,
    initialized,
    message_of,
    opened,
    outcome,
    response,
)

NOTE = event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})


def last(client: Client) -> HttpRequest:
    """The last thing that was sent, a request."""
    request = client.sent[-1]
    assert isinstance(request, HttpRequest)
    return request


def pair(version: str = "2024-11-05", **options: Any) -> tuple[Client, HttpRequest]:
    """A client of a server that has only the pair, and the stream; nothing else is in flight."""
    client = Client(version, **options)
    call = client.call()
    client.respond(client.request(), status=405)
    stream = client.request()
    client.stream(stream, event(b"/m", name="endpoint"), end=False)
    for result in (initialized(version), DONE):
        posted = client.request()
        client.respond(posted, status=202)
        client.engine.receive_data(stream.exchange, event(response(id_of(posted), result)))
        if result is not DONE:
            client.respond(client.request(), status=202)
    client.take()
    assert outcome(call) == DONE
    client.sent.clear()
    return client, stream


# Replies


@pytest.mark.parametrize("version", HANDSHAKE)
def test_an_answer_on_the_standalone_stream_is_one_and_its_post_is_hung_up(version: str) -> None:
    client = opened(version, stream=True, wants_changes=True)
    (listening,) = client.sent
    call = client.call()
    request = client.request()
    client.engine.receive_data(listening.exchange, event(response(id_of(request))))
    assert client.take() == [HttpAbort(request.exchange)]
    assert outcome(call) == DONE


def test_what_comes_after_the_response_is_waited_for_a_moment() -> None:
    client = opened("2025-11-25", config=ClientConfig(linger=3))
    call = client.call()
    request = client.request()
    client.stream(request, event(response(id_of(request))), end=False)
    client.take()
    assert outcome(call) == DONE
    client.engine.receive_data(request.exchange, b"x" * 10_000)
    client.advance(2.9)
    assert (client.sent, client.engine.is_idle) == ([request], False)
    client.advance(0.1)
    assert (client.sent, client.engine.is_idle) == ([request, HttpAbort(request.exchange)], True)


def test_the_rest_of_a_redirect_is_waited_for_a_moment_too() -> None:
    client = opened("2025-11-25", config=ClientConfig(linger=3))
    call = client.call()
    request = client.request()
    client.respond(request, b"moved", status=307, headers={"Location": "/other"}, end=False)
    redirected = client.request()
    client.result(redirected, DONE)
    client.take()
    assert outcome(call) == DONE
    client.engine.receive_data(request.exchange, b"x" * 10_000)
    client.advance(3)
    assert (client.sent[2:], client.engine.is_idle) == ([HttpAbort(request.exchange)], True)


def test_a_handshake_may_be_answered_by_a_stream_that_is_resumed() -> None:
    client = Client("2025-11-25")
    call = client.call()
    opening = client.request()
    client.stream(opening, event(b"", id="i/0", retry=200), headers={"Mcp-Session-Id": "s"})
    client.advance(0.2)
    resumed = last(client)
    headers = {"Last-Event-ID": "i/0", "Mcp-Session-Id": "s"}
    assert (resumed.method, headers.items() <= resumed.headers.items()) == ("GET", True)
    client.stream(resumed, event(response(1, initialized("2025-11-25"))))
    client.respond(client.request(), status=202)
    finish(client, call)


@pytest.mark.parametrize("bad", ["a\x01b", "a\x7fb", "x" * 2049])
def test_an_id_that_no_header_could_hold_is_no_place_to_come_back_to(bad: str) -> None:
    client = opened("2025-11-25")
    call = client.call()
    client.stream(client.request(), event(b"", id=bad))
    assert client.take() == []
    assert outcome(call)[0] == "ConnectionLost"


def test_a_server_is_not_reconnected_to_without_any_pause() -> None:
    client = opened("2025-11-25", config=ClientConfig(timeout=10, max_timeout=10))
    call = client.call()
    client.stream(client.request(), event(b"", id="0", retry=0))
    for number in range(1000):
        client.advance(0.05)
        if call.ended:
            break
        if last(client).method == "GET" and not client.engine.is_idle:
            client.stream(last(client), event(b"", id=str(number + 1)))
    assert outcome(call)[0] == "CallTimeout"
    assert len(client.sent) < 10 / 0.05


def test_a_call_that_was_given_up_is_not_reconnected_for() -> None:
    client = opened("2025-11-25")
    call = client.call()
    client.stream(client.request(), event(b"", id="0"))
    client.engine.cancel(call)
    client.respond(client.request(), status=202)
    before = list(client.sent)
    client.advance(100)
    assert client.sent == before


@pytest.mark.parametrize("status", [503, 429, 408])
def test_a_server_that_is_busy_is_asked_again_for_the_rest_of_a_stream(status: int) -> None:
    client = opened("2025-11-25")
    call = client.call()
    request = client.request()
    client.stream(request, event(b"", id="0"))
    client.advance(1)
    client.respond(last(client), status=status)
    client.advance(2)
    client.stream(last(client), event(response(id_of(request))))
    client.take()
    assert outcome(call) == DONE


def test_what_resumes_no_stream_ends_it() -> None:
    client = opened("2025-11-25")
    call = client.call()
    client.stream(client.request(), event(b"", id="0"))
    client.advance(1)
    client.respond(last(client), {})
    client.take()
    text = "the stream of tools/call ended before its response, and cannot be resumed: "
    assert outcome(call) == ("ConnectionLost", text + "it is application/json and not text/event-stream")


def test_a_response_of_another_request_is_none() -> None:
    client = opened("2025-11-25")
    call = client.call()
    client.respond(client.request(), response(999))
    client.take()
    text = "the response to tools/call cannot be read: it is no response to this request"
    assert outcome(call) == ("UnusableReply", text)


def test_a_redirect_of_what_is_due_no_reply_has_the_same_time() -> None:
    client = Client("2025-11-25", config=ClientConfig(notice_timeout=8, settle_timeout=20))
    client.call()
    client.result(client.request(), initialized("2025-11-25"))
    client.respond(client.request(), status=307, headers={"Location": "/other"})
    redirected = client.request()
    client.advance(8)
    assert HttpAbort(redirected.exchange) in client.sent


def test_an_event_that_is_too_large_fails_its_call_and_no_other() -> None:
    client = opened("2025-11-25", config=ClientConfig(max_message=1000))
    calls = [client.call(), client.call()]
    first, second = client.requests()
    client.stream(first, event(b"x" * 2000), end=False)
    assert client.take() == [HttpAbort(first.exchange)]
    kind, text = outcome(calls[0])
    assert (kind, text.startswith("an event of 20")) == ("UnusableReply", True)
    client.result(second, DONE)
    client.take()
    assert outcome(calls[1]) == DONE


# The standalone stream


def test_a_message_that_cannot_be_used_is_passed_over() -> None:
    client = opened("2025-11-25", stream=True, log_level=None, wants_changes=True, config=ClientConfig(max_message=500))
    (listening,) = client.sent
    for said in (event(b"x" * 600), event(b"{]"), event([]), event({"jsonrpc": "2.0"}), NOTE):
        client.engine.receive_data(listening.exchange, said)
    assert (client.take(), len(client.faults)) == ([], 4)


def test_the_stream_goes_on_where_it_was() -> None:
    client = opened("2025-11-25", stream=True, wants_changes=True)
    (listening,) = client.sent
    client.engine.receive_data(listening.exchange, event(b"", id="g/1", retry=300))
    client.engine.receive_failure(listening.exchange, "reset")
    client.advance(0.3)
    again = last(client)
    assert (again.headers["Last-Event-ID"], again.headers["Mcp-Session-Id"]) == ("g/1", "s")
    client.respond(again, status=503)
    client.advance(0.6)
    assert last(client).headers["Last-Event-ID"] == "g/1"


def test_a_stream_that_is_not_found_any_more_says_that_the_session_is_gone() -> None:
    client = opened("2025-11-25", stream=True, session="A", wants_changes=True)
    (listening,) = client.sent
    client.engine.receive_end(listening.exchange)
    client.advance(1)
    client.respond(last(client), status=404)
    client.shake("2025-11-25", session="B")
    again = client.request()
    assert (again.headers["Mcp-Session-Id"], "Last-Event-ID" in again.headers) == ("B", False)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_whoever_begins_to_listen_gets_the_stream(version: str) -> None:
    client = opened(version)
    listening = client.engine.listen(tools=True)
    stream = client.request()
    assert (stream.method, listening.ended) == ("GET", False)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_whoever_listened_before_anything_was_settled_gets_the_stream_too(version: str) -> None:
    client = Client(version)
    listening = client.engine.listen(tools=True)
    client.shake(version)
    stream = client.request()
    assert (stream.method, client.engine.listens(listening)) == ("GET", True)


def test_a_message_that_is_sent_elsewhere_may_not_have_arrived() -> None:
    client = Client("2025-11-25")
    call = client.call()
    client.result(client.request(), initialized("2025-11-25"))
    client.respond(client.request(), status=307, headers={"Location": "http://evil.example/"})
    client.result(client.requests()[-1], DONE)
    client.take()
    fault = "a notification may not have arrived: it redirects to 'http://evil.example/', which is another origin"
    assert (outcome(call), client.faults) == (DONE, [fault])


def test_a_call_that_is_given_up_before_it_was_sent_leaves_no_trace() -> None:
    client = Client("2025-11-25", can_answer=True)
    call, other = client.call("a"), client.call("b")
    client.shake("2025-11-25")
    listening = client.request()
    client.engine.cancel(call)
    assert client.take() == []
    client.stream(listening, end=False)
    request = client.request()
    assert message_of(request)["params"]["name"] == "b"
    client.result(request, DONE)
    client.take()
    assert outcome(other) == DONE


@pytest.mark.parametrize("is_renewed", [False, True])
def test_what_a_call_is_told_goes_to_the_session_of_that_call(is_renewed: bool) -> None:
    """No other session knows that call; and who says that its session is gone may be wrong, or know of less."""
    client = opened("2025-11-25", stream=True, session="A", wants_changes=True, can_answer=True)
    (listening,) = client.sent
    answered, cancelled = client.call(), client.call()
    first, second = client.requests()
    question = {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "Sure?"}}
    client.stream(first, event(question), end=False)
    client.stream(second, event(b""), end=False)
    client.engine.receive_end(listening.exchange)
    client.advance(1)
    client.respond(last(client), status=404)
    if is_renewed:
        client.shake("2025-11-25", session="B")
    client.take()
    client.sent.clear()
    client.engine.answer(client.questions[0], {"action": "accept"})
    client.engine.cancel(cancelled)
    said = [(message_of(one), one.headers["Mcp-Session-Id"]) for one in client.requests()]
    assert said == [
        ({"jsonrpc": "2.0", "id": "q", "result": {"action": "accept"}}, "A"),
        ({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_of(second)}}, "A"),
    ]
    client.engine.receive_data(first.exchange, event(response(id_of(first))))
    client.take()
    assert outcome(answered) == DONE


def test_a_question_on_the_stream_of_a_session_that_is_gone_is_withdrawn() -> None:
    """In the next session its id, which is unique in one alone, is that of another question."""
    client = opened("2025-11-25", stream=True, session="A", wants_changes=True, can_answer=True)
    asked = client.sent[0]
    for session, text in (("A", "Sure?"), ("B", "Really?")):
        question = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": text}}
        client.stream(asked, event(question), end=False)  # type: ignore[arg-type]
        if session == "A":
            client.call()
            client.respond(client.request(), status=404)
            client.shake("2025-11-25", session="B")
            asked = client.request()
    client.take()
    before, after = client.questions
    assert [happened.question for happened in client.happened if isinstance(happened, QuestionWithdrawn)] == [before]
    client.sent.clear()
    client.engine.answer(before, {"action": "decline"})
    client.engine.answer(after, {"action": "accept"})
    said = [(message_of(one), one.headers["Mcp-Session-Id"]) for one in client.requests()]
    assert said == [({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}, "B")]
    assert client.faults == []


def test_a_question_is_answered_on_the_stream_that_its_session_goes_on_with() -> None:
    client = opened("2025-11-25", stream=True, session="A", wants_changes=True, can_answer=True)
    (listening,) = client.sent
    question = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": {"message": "Sure?"}}
    client.stream(listening, event(question))  # type: ignore[arg-type]
    client.advance(1)
    client.take()
    client.engine.answer(client.questions[0], {"action": "accept"})
    answer = client.request()
    assert (message_of(answer)["result"], answer.headers["Mcp-Session-Id"]) == ({"action": "accept"}, "A")


def test_a_session_that_is_gone_takes_its_stream_along() -> None:
    client = opened("2025-11-25", stream=True, session="A", wants_changes=True)
    (listening,) = client.sent
    client.call()
    client.respond(client.request(), status=404)
    hung_up, opening = client.take()
    assert hung_up == HttpAbort(listening.exchange)
    assert message_of(opening)["method"] == "initialize"  # type: ignore[arg-type]


# Time


def test_every_request_that_is_due_no_reply_ends_in_time() -> None:
    client = Client("2025-11-25", config=ClientConfig(notice_timeout=8, settle_timeout=3))
    call = client.call()
    client.result(client.request(), initialized("2025-11-25"), headers={**JSON_TYPE, "Mcp-Session-Id": "s"})
    notice = client.request()
    client.advance(3)
    client.result(last(client), DONE)
    client.advance(5)
    assert (outcome(call), last_abort(client)) == (DONE, notice.exchange)
    assert client.faults == ["a notification may not have arrived: there was no answer in time"]
    client.engine.close()
    goodbye = client.request()
    assert goodbye.method == "DELETE"
    client.advance(8)
    assert (last_abort(client), client.engine.is_idle) == (goodbye.exchange, True)
    assert client.faults == ["a notification may not have arrived: there was no answer in time"]


def last_abort(client: Client) -> Any:
    """The request that was given up last."""
    return [item.exchange for item in client.sent if isinstance(item, HttpAbort)][-1]


@pytest.mark.parametrize("version", [version for version in HANDSHAKE if version != HANDSHAKE[-1]])
def test_what_was_given_up_just_before_the_end_is_still_said(version: str) -> None:
    client = opened(version, session=None, config=ClientConfig(notice_timeout=8))
    call = client.call()
    client.take()
    client.engine.cancel(call)
    client.engine.close()
    aborted, said = client.take()[-2:]
    assert isinstance(aborted, HttpAbort)
    assert isinstance(said, HttpRequest)
    assert (message_of(said)["method"], client.engine.is_idle) == ("notifications/cancelled", False)
    client.advance(8)
    assert (last_abort(client), client.engine.is_idle) == (said.exchange, True)


def test_after_its_end_a_client_hears_nothing_and_says_nothing() -> None:
    client = opened("2025-11-25", stream=True, session=None, wants_changes=True)
    (listening,) = client.sent
    call = client.call()
    request = client.request()
    client.engine.close()
    assert client.take() == [HttpAbort(listening.exchange), HttpAbort(request.exchange)]
    assert outcome(call) == ("ConnectionLost", "the client was closed")
    client.stream(request, event(response(id_of(request))))
    client.engine.receive_data(listening.exchange, NOTE)
    client.engine.close()
    late = client.call()
    assert (client.take(), outcome(late)[0], client.engine.next_deadline()) == ([], "ConnectionLost", None)


@pytest.mark.parametrize("way", ["standalone", "pair"])
def test_a_server_that_asks_on_and_takes_no_answer_is_not_answered_for_ever(way: str) -> None:
    config = ClientConfig(max_answers=5, notice_timeout=10)
    if way == "pair":
        client, stream = pair(config=config)
    else:
        client = opened("2025-11-25", stream=True, wants_changes=True, config=config)
        (listening,) = client.sent
        assert isinstance(listening, HttpRequest)
        stream = listening
    for number in range(20):
        client.engine.receive_data(stream.exchange, event({"jsonrpc": "2.0", "id": number, "method": "ping"}))
    assert len(client.requests()) == 5
    assert client.faults[-1] == "an answer was left out, since 5 others are on their way"
    client.advance(10)
    for number in range(20):
        client.engine.receive_data(stream.exchange, event({"jsonrpc": "2.0", "id": number, "method": "ping"}))
        client.respond(client.request(), status=202)


def test_what_was_to_happen_later_does_not_happen_after_the_end() -> None:
    client = opened("2025-11-25", stream=True, session=None, wants_changes=True)
    client.call()
    client.stream(client.request(), event(b"", id="0"))
    client.engine.receive_end(client.sent[0].exchange)
    client.engine.close()
    before = list(client.sent)
    assert (client.take(), client.engine.next_deadline()) == ([], None)
    client.advance(100)
    assert client.sent == before


def test_what_somebody_misses_is_said_to_matter() -> None:
    client = Client("2025-11-25", wants_changes=True)
    client.call()
    client.result(client.request(), initialized("2025-11-25"))
    client.respond(client.request(), status=400)
    client.respond(client.request(), status=401)
    request = client.request()
    client.stream(request, event({"jsonrpc": "2.0", "id": 1, "method": "ping"}), end=False)
    client.respond(client.request(), status=500)
    assert client.faults
    said = [
        (happened.fault[:15], happened.matters) for happened in client.happened if isinstance(happened, ServerFaulted)
    ]
    assert said == [("a notification ", False), ("the standalone ", True), ("an answer was r", True)]


# The pair


def test_with_its_stream_everything_on_the_pair_is_gone_and_the_next_call_begins_anew() -> None:
    client, stream = pair()
    calls = [client.call(), client.call()]
    posted = client.requests()
    client.respond(posted[0], status=202)
    client.engine.receive_end(stream.exchange)
    client.take()
    assert [outcome(call) for call in calls] == [("ConnectionLost", "the server ended its stream")] * 2
    # The POST that is still out is about nothing any more.
    client.respond(posted[1], status=500)
    call = client.call()
    again = client.request()
    assert (again.method, again.url) == ("GET", stream.url)
    client.stream(again, event(b"/n", name="endpoint"), end=False)
    opening = client.request()
    assert (message_of(opening)["method"], opening.url) == ("initialize", "http://server.example/n")
    assert not call.ended


def test_a_question_on_the_pair_is_withdrawn_with_its_stream() -> None:
    client, stream = pair(can_answer=True, capabilities={"sampling": {}})
    question = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {"messages": []}}
    client.stream(stream, event(question))
    client.take()
    assert [happened.question for happened in client.happened if isinstance(happened, QuestionWithdrawn)] == (
        client.questions
    )
    client.engine.answer(client.questions[0], {"role": "assistant"})
    assert client.take() == []


def test_what_was_not_sent_yet_cannot_be_answered() -> None:
    client = Client("2024-11-05")
    call = client.call()
    client.respond(client.request(), status=405)
    stream = client.request()
    client.stream(stream, event(response(2, initialized("2024-11-05"))), event(b"/m", name="endpoint"), end=False)
    assert message_of(client.request())["method"] == "initialize"
    assert (call.ended, len(client.faults)) == (False, 1)


def test_a_message_that_the_pair_does_not_take_fails_its_call_alone() -> None:
    client, stream = pair()
    calls = [client.call() for _ in range(4)]
    posted = client.requests()
    client.respond(posted[0], b"no", status=400)
    client.engine.receive_failure(posted[1].exchange, "reset")
    client.respond(posted[2], status=307, headers={"Location": "http://evil.example/"})
    client.respond(posted[3], status=202)
    client.engine.receive_data(stream.exchange, event(response(id_of(posted[3]))))
    client.take()
    assert [outcome(call)[0] for call in calls[:3]] == ["ServerError", "ConnectionLost", "UnusableReply"]
    assert outcome(calls[3]) == DONE


def test_what_cannot_be_used_on_the_stream_of_the_pair_is_passed_over() -> None:
    client, stream = pair(config=ClientConfig(max_message=500))
    call = client.call()
    posted = client.request()
    client.respond(posted, status=202)
    for said in (event(b"x" * 600), event(b"{]"), event({}, name="ping"), event(response(id_of(posted)))):
        client.engine.receive_data(stream.exchange, said)
    client.take()
    assert (outcome(call), len(client.faults)) == (DONE, 2)


def test_a_call_on_the_pair_is_cancelled_by_a_message() -> None:
    client, _ = pair()
    call = client.call()
    posted = client.request()
    client.engine.cancel(call)
    notice = client.requests()[-1]
    params = {"requestId": id_of(posted)}
    said = message_of(notice)
    assert (said["method"], said["params"]["requestId"]) == ("notifications/cancelled", params["requestId"])
    assert notice.url == "http://server.example/m"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_refusal_of_the_stream_that_says_who_may_is_the_error(version: str) -> None:
    client = Client(version)
    call = client.call()
    client.respond(client.request(), status=405)
    client.respond(client.request(), b"who?", status=401)
    assert client.take() == []
    assert outcome(call) == ("ServerError", "who? (HTTP 401)")


@pytest.mark.parametrize("refused", [{"status": 405}, {"status": 200, "body": {}}])
def test_a_server_that_has_neither_transport_is_said_to_have_neither(refused: Any) -> None:
    client = Client("2025-11-25")
    call = client.call()
    client.respond(client.request(), b"POST? No.", status=404)
    client.respond(client.request(), **refused)
    client.take()
    kind, text = outcome(call)
    assert kind == "NegotiationFailed"
    assert text.startswith(
        "nothing is found at this URL, whose path may be wrong; or the server speaks none of 2025-11-25: "
        "POST? No. (HTTP 404); there is no older transport either"
    )
    # The next call tries it all again, from the newer transport on.
    client.call()
    assert client.request().method == "POST"


def test_a_pair_that_is_known_is_gone_to_at_once() -> None:
    client = Client(known=Known("2025-06-18", pair=True))
    call = client.call()
    stream = client.request()
    assert stream.method == "GET"
    client.stream(stream, event(b"/m", name="endpoint"), end=False)
    opening = client.request()
    assert message_of(opening)["method"] == "initialize"
    client.engine.receive_end(stream.exchange)
    assert not call.ended or outcome(call)[0] == "ConnectionLost"


def test_a_pair_that_is_known_says_nothing_to_a_client_that_may_not_speak_it() -> None:
    client = Client("2026-07-28", known=Known("2024-11-05", pair=True))
    client.call()
    probe = client.request()
    assert (probe.method, message_of(probe)["method"]) == ("POST", "server/discover")


def test_what_was_known_and_is_tried_again_is_spoken_at_the_one_endpoint() -> None:
    client = Client(known=Known("2026-07-28"))
    call = client.call()
    # Nothing of it seems to be so: the probe is refused, the handshake too, and the pair is tried.
    for _ in range(3):
        client.respond(client.request(), status=405)
    assert client.request().method == "GET"
    client.engine.cancel(call)
    client.call()
    again = client.requests()[-1]
    assert (again.method, again.url, client.engine.is_pair) == ("POST", "http://server.example/mcp", False)


def test_ping_is_a_call_like_any_other() -> None:
    client, stream = pair()
    ping = client.engine.call(Operation.PING)
    posted = client.request()
    assert message_of(posted)["method"] == "ping"
    client.respond(posted, status=202, headers=STREAM_TYPE)
    client.engine.receive_data(stream.exchange, event(response(id_of(posted), {})))
    client.take()
    assert outcome(ping) == {}

"""Cases that concern a client of HTTP: event streams, and calls in flight."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import ClientConfig, HttpAbort, HttpRequest, ServerError
from mcp_sansio.wire.json import encode
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

from .common import ENVELOPE, HANDSHAKE, NEWEST

JSON = Any
EVERY = (*ENVELOPE, *HANDSHAKE)


# D. Event streams -----------------------------------------------------------------------------------------------------


def settled_stream(version: str, data: bytes, pieces: tuple[bytes, ...] | None = None) -> tuple[JSON, list[str]]:
    """What comes of a call whose reply is that stream; the id of its request is 3, or 2 without a handshake."""
    client = opened(version)
    call = client.call()
    request = client.request()
    client.engine.receive_response(request.exchange, 200, STREAM_TYPE)
    for piece in pieces or (data,):
        client.engine.receive_data(request.exchange, piece)
    client.engine.receive_end(request.exchange)
    client.take()
    return (outcome(call) if call.ended else None), client.faults


def cuts(data: bytes) -> list[tuple[bytes, ...]]:
    """The data whole, byte by byte, and in two at each offset."""
    return [
        (data,),
        tuple(data[at : at + 1] for at in range(len(data))),
        *((data[:at], data[at:]) for at in range(1, len(data))),
    ]


TEXT = "a\u2028b\u2029c\u0085d né🌍漢"
RESULT = encode(response(3, {"content": [{"type": "text", "text": TEXT}]}))
STREAMS = {
    "CRLF": b"event: message\r\ndata: " + RESULT + b"\r\n\r\n",
    "CR": b"event: message\rdata: " + RESULT + b"\r\r",
    "mixed": b"data: " + RESULT[:1] + b"\r\ndata:" + RESULT[1:] + b"\n\r\n",
    "primed": b"id: s1/0\nretry: 3000\ndata:\n\nid: s1/1\ndata: " + RESULT + b"\n\n",
    "primed without data": b"id: s1/0\n\ndata: \n\ndata:\ndata:\n\ndata: " + RESULT + b"\n\n",
    "comments": b"\xef\xbb\xbf: hello\n\n:\n\ndata: " + RESULT + b"\n\n: bye",
}


@pytest.mark.parametrize("name", STREAMS)
def test_case_30_and_31_and_32_and_33_and_34_a_stream_is_read_alike_however_it_is_written_and_cut(name: str) -> None:
    for pieces in cuts(STREAMS[name]):
        came = settled_stream("2025-11-25", STREAMS[name], pieces)
        assert came == ({"content": [{"type": "text", "text": TEXT}]}, [])


def test_case_34_half_a_character_is_an_error() -> None:
    client = opened(NEWEST)
    call = client.call()
    body = encode(response(2, {"content": [{"type": "text", "text": "漢"}]}))
    for data in (body[: body.index("漢".encode()) + 1], body[: body.index("漢".encode()) + 2] + b'"}]}}'):
        request = client.request()
        client.respond(request, data, headers=JSON_TYPE)
        client.take()
        kind, text = outcome(call)
        assert (kind, text.startswith("the response to tools/call cannot be read: it is not JSON:")) == (
            "UnusableReply",
            True,
        )
        call = client.call()


UNFINISHED = {
    "no line end": b"data: " + RESULT,
    "no blank line": b"data: " + RESULT + b"\n",
}


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("name", UNFINISHED)
def test_case_35_an_event_that_never_ends_is_none_and_the_end_settles_the_call(version: str, name: str) -> None:
    lost = "the connection was lost before the response to tools/call came: the stream ended"
    assert settled_stream(version, UNFINISHED[name]) == (("ConnectionLost", lost), [])
    # The same on a connection that stays open: the call has its deadline.
    client = opened(version, config=ClientConfig(timeout=20))
    call = client.call()
    request = client.request()
    client.stream(request, UNFINISHED[name], end=False)
    client.advance(20)
    assert outcome(call) == ("CallTimeout", "no answer to call_tool within 20 seconds")
    assert HttpAbort(request.exchange) in client.sent


NOTE = event({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("stream", [b"", NOTE, b": comment\n\n"])
@pytest.mark.parametrize("end", ["the stream ended", "reset by peer"])
def test_case_36_a_stream_without_a_response_and_without_ids_fails_the_call(
    version: str, stream: bytes, end: str
) -> None:
    client = opened(version)
    call = client.call()
    request = client.request()
    client.stream(request, stream, end=False)
    if end == "reset by peer":
        client.engine.receive_failure(request.exchange, end)
    else:
        client.engine.receive_end(request.exchange)
    assert client.take() == []
    lost = f"the connection was lost before the response to tools/call came: {end}"
    assert outcome(call) == ("ConnectionLost", lost)
    finish(client, client.call())


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_36_ids_are_nothing_where_streams_cannot_be_resumed(version: str) -> None:
    client = opened(version)
    call = client.call()
    client.stream(client.request(), event(b"", id="x"))
    assert client.take() == []
    assert outcome(call)[0] == "ConnectionLost"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_36_and_37_a_stream_is_resumed_by_its_own_last_id_after_its_own_delay(version: str) -> None:
    client = opened(version, session="s", headers={"X": "1"})
    calls = [client.call(name) for name in ("a", "b")]
    first, second = client.requests()
    client.stream(first, event(b"", id="a/0", retry=500), end=False)
    client.stream(second, event(b"", id="b/0"), NOTE, end=False)
    client.engine.receive_data(first.exchange, event({"jsonrpc": "2.0", "method": "x"}, id="a/1"))
    client.engine.receive_end(first.exchange)
    client.engine.receive_failure(second.exchange, "reset")
    assert client.take() == []
    client.advance(0.499)
    assert client.sent == [first, second]
    client.advance(0.001)
    resumed = client.sent[-1]
    assert isinstance(resumed, HttpRequest)
    assert (resumed.method, resumed.headers["Last-Event-ID"], resumed.headers["Mcp-Session-Id"]) == ("GET", "a/1", "s")
    client.advance(0.5)
    other = client.sent[-1]
    assert isinstance(other, HttpRequest)
    assert other.headers["Last-Event-ID"] == "b/0"
    client.stream(resumed, event(response(id_of(first)), id="a/2"))
    client.stream(other, event(response(id_of(second)), id="b/1"))
    client.take()
    assert [outcome(call) for call in calls] == [DONE, DONE]
    assert client.faults == []


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_36_resuming_is_tried_so_often_and_then_the_call_fails(version: str) -> None:
    client = opened(version, config=ClientConfig(max_reconnects=3, timeout=600))
    call = client.call()
    client.stream(client.request(), event(b"", id="1"))
    tries: list[float] = []
    start = client.clock()
    while not call.ended:
        client.advance(0.5)
        request = client.sent[-1]
        if isinstance(request, HttpRequest) and request.method == "GET" and len(tries) < len(client.sent) - 1:
            tries.append(client.clock() - start)
            client.engine.receive_failure(request.exchange, "refused")
    assert tries == [1.0, 3.0, 7.0]
    text = "the stream of tools/call ended before its response, and cannot be resumed: "
    assert outcome(call) == ("ConnectionLost", text + "3 attempts to resume its stream brought nothing")


@pytest.mark.parametrize("status", [400, 404, 405, 401, 403])
def test_case_36_a_server_that_does_not_resume_ends_it(status: int) -> None:
    client = opened("2025-11-25")
    call = client.call()
    client.stream(client.request(), event(b"", id="1", retry=0))
    client.advance(1)
    client.respond(client.sent[-1], b"no", status=status)  # type: ignore[arg-type]
    client.take()
    text = "the stream of tools/call ended before its response, and cannot be resumed: "
    assert outcome(call) == ("ConnectionLost", text + f"the server answered {status}")
    assert isinstance(call.outcome.error.__cause__, ServerError)


def test_case_36_a_server_may_be_polled_for_as_long_as_it_gets_on() -> None:
    client = opened("2025-11-25", config=ClientConfig(max_reconnects=2))
    call = client.call()
    request = client.request()
    for number in range(20):
        client.stream(client.sent[-1], event(b"", id=f"e/{number}", retry=500))  # type: ignore[arg-type]
        client.advance(0.5)
    last = client.sent[-1]
    assert isinstance(last, HttpRequest)
    assert (len(client.sent), last.headers["Last-Event-ID"]) == (21, "e/19")
    client.stream(last, event(response(id_of(request))))
    client.take()
    assert outcome(call) == DONE


def test_case_37_a_reply_on_the_stream_of_another_call_answers_nothing() -> None:
    client = opened("2025-11-25")
    calls = [client.call(name) for name in ("a", "b")]
    first, second = client.requests()
    client.stream(first, event(response(id_of(second))))
    client.take()
    assert ([call.ended for call in calls], len(client.faults)) == ([True, False], 1)
    client.result(second, DONE)
    client.take()
    assert [outcome(call)[0] for call in calls[:1]] + [outcome(calls[1])] == ["ConnectionLost", DONE]


def announced(endpoint: bytes, url: str = "http://h.example/a/sse") -> tuple[Client, Any, list[Any]]:
    """A client whose server has only the pair, and names that endpoint; what it sends then."""
    client = Client("2024-11-05", url=url, headers={"Authorization": "Bearer x"})
    call = client.call()
    client.respond(client.request(), status=405)
    client.stream(client.request(), event(endpoint, name="endpoint"), end=False)
    return client, call, client.take()


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        (b"/a/b/messages/?session_id=1", "http://h.example/a/b/messages/?session_id=1"),
        (b"messages?x=1", "http://h.example/a/messages?x=1"),
        (b"?x=1", "http://h.example/a/sse?x=1"),
        (b"//h.example/x", "http://h.example/x"),
        (b"http://h.example:80/x?y=%20", "http://h.example:80/x?y=%20"),
        (b" /m ", "http://h.example/m"),
    ],
)
def test_case_40_the_endpoint_is_found_from_the_streams_own_url(endpoint: bytes, url: str) -> None:
    _, _, sent = announced(endpoint)
    assert [(item.method, item.url) for item in sent] == [("POST", url)]


@pytest.mark.parametrize(
    "endpoint",
    [
        b"https://h.example/x",
        b"http://h.example:8080/x",
        b"http://evil.example/x",
        b"//evil.example/x",
        b"http://user@h.example/x",
        b"/\\evil.example/x",
        b"ftp://h.example/x",
    ],
)
def test_case_41_an_endpoint_of_another_origin_gets_nothing(endpoint: bytes) -> None:
    _, call, sent = announced(endpoint)
    assert [item for item in sent if isinstance(item, HttpRequest)] == []
    assert outcome(call)[1].endswith(", which is no URL of its own origin")


def test_case_41_a_later_endpoint_is_ignored() -> None:
    client, _, (posted,) = announced(b"/m")
    stream = client.sent[1]
    assert isinstance(stream, HttpRequest)
    for later in (b"http://evil.example/m", b"/other"):
        client.engine.receive_data(stream.exchange, event(later, name="endpoint"))
    client.respond(posted, status=202)
    client.engine.receive_data(stream.exchange, event(response(id_of(posted), initialized("2024-11-05"))))
    assert [request.url for request in client.requests()] == ["http://h.example/m"]


def test_case_42_an_endpoint_that_never_comes_is_waited_for_so_long() -> None:
    client = Client("2024-11-05", config=ClientConfig(endpoint_timeout=7))
    call = client.call()
    client.respond(client.request(), b"Not here", status=404)
    stream = client.request()
    client.stream(stream, end=False)
    for _ in range(6):
        client.engine.receive_data(stream.exchange, b": ping\n\nevent: ping\ndata: {}\n\n")
        client.advance(1)
    assert not call.ended
    client.advance(1)
    text = (
        "nothing is found at this URL, whose path may be wrong; or the server speaks none of 2024-11-05: "
        "Not here (HTTP 404); there is no older transport either: "
        "no endpoint event came on the stream of the older transport: there was no answer in time"
    )
    assert outcome(call) == ("NegotiationFailed", text)
    assert client.sent[-1] == HttpAbort(stream.exchange)


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_case_42_any_success_will_do_for_a_message(status: int) -> None:
    client, call, (posted,) = announced(b"/m")
    client.respond(posted, b"Accepted", status=status, headers={"Content-Type": "text/plain"})
    assert (client.take(), call.ended, client.faults) == ([], False, [])


# G. In flight ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_case_68_and_69_a_call_that_is_given_up_is_cancelled_and_left(version: str) -> None:
    client = opened(version, session="s")
    call = client.call()
    request = client.request()
    client.stream(request, NOTE, end=False)
    client.engine.cancel(call, "enough")
    client.engine.cancel(call)
    sent = client.take()
    assert outcome(call) == ("CallAbandoned", "enough")
    (notice,) = (item for item in sent if isinstance(item, HttpRequest))
    assert [item for item in sent if isinstance(item, HttpAbort)] == [HttpAbort(request.exchange)]
    params = {"requestId": id_of(request), "reason": "enough"}
    assert message_of(notice) == {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    assert notice.headers["Mcp-Session-Id"] == "s"
    client.respond(notice, status=202)
    # What still comes for it is about nothing any more.
    client.engine.receive_data(request.exchange, event(response(id_of(request))))
    client.engine.receive_end(request.exchange)
    client.engine.receive_failure(request.exchange, "gone")
    client.engine.receive_response(request.exchange, 500, {})
    assert (client.take(), client.faults) == ([], [])
    finish(client, client.call())


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_69_and_74_hanging_up_is_the_cancellation_where_the_revision_says_so(version: str) -> None:
    client = opened(version)
    call = client.call()
    request = client.request()
    client.engine.cancel(call, "enough")
    assert client.take() == [HttpAbort(request.exchange)]
    finish(client, client.call())


@pytest.mark.parametrize("version", EVERY)
def test_case_70_and_71_every_call_ends_in_time_and_a_late_answer_harms_nothing(version: str) -> None:
    client = opened(version, config=ClientConfig(timeout=10, max_timeout=25))
    silent, chatty, working = client.call("silent"), client.call("chatty"), client.call("working", wants_progress=True)
    requests = client.requests()
    for request in requests[1:]:
        client.stream(request, end=False)
    progress = {"progressToken": id_of(requests[2]), "progress": 1}
    for second in range(1, 31):
        client.engine.receive_data(requests[1].exchange, b": still here\n\n")
        note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress | {"progress": second}}
        client.engine.receive_data(requests[2].exchange, event(note))
        client.advance(1)
        assert [silent.ended, chatty.ended, working.ended] == [second >= 10, second >= 10, second >= 25]
    assert [outcome(call)[0] for call in (silent, chatty, working)] == ["CallTimeout"] * 3
    for request in requests:
        client.result(request, DONE)
    for item in client.sent[3:]:
        if isinstance(item, HttpRequest):
            client.respond(item, status=202)
    assert client.engine.is_idle
    finish(client, client.call())


@pytest.mark.parametrize("version", EVERY)
def test_case_72_progress_for_nobody_is_a_note(version: str) -> None:
    client = opened(version)
    call = client.call()
    request = client.request()
    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "x", "progress": 1}}
    client.stream(request, event(note), event(response(id_of(request))), event(note))
    client.take()
    assert (outcome(call), len(client.faults)) == (DONE, 1)


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("where", ["reply", "stream"])
def test_case_73_a_ping_of_the_server_is_answered(version: str, where: str) -> None:
    client = opened(version, session="s", stream=True, wants_changes=True)
    call = client.call()
    request = client.request()
    ping = event({"jsonrpc": "2.0", "id": "p", "method": "ping"})
    if where == "reply":
        client.stream(request, ping, end=False)
    else:
        client.engine.receive_data(client.sent[0].exchange, ping)
    pong = client.request()
    assert (message_of(pong), pong.headers["Mcp-Session-Id"]) == ({"jsonrpc": "2.0", "id": "p", "result": {}}, "s")
    client.respond(pong, status=202)
    assert not call.ended


@pytest.mark.parametrize("version", [version for version in HANDSHAKE if version >= "2025-06-18"])
@pytest.mark.parametrize("where", ["reply", "stream"])
def test_case_76_a_question_is_answered_while_its_call_is_pending(version: str, where: str) -> None:
    client = Client(version, can_answer=True)
    call = client.call()
    client.shake(version, session="s")
    # The stream that the question may come on is asked for first, and the call waits for what comes of that.
    listening = client.request()
    assert (listening.method, client.take()) == ("GET", [])
    client.stream(listening, end=False)
    request = client.request()
    question = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = event({"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": question})
    if where == "reply":
        client.stream(request, asked, end=False)
    else:
        client.engine.receive_data(listening.exchange, asked)
    client.take()
    (put,) = client.questions
    assert put.request == {"method": "elicitation/create", "params": question}
    client.engine.answer(put, {"action": "accept", "content": {}})
    answer = client.request()
    assert message_of(answer) == response(0, {"action": "accept", "content": {}})
    client.respond(answer, status=202)
    if where == "reply":
        client.engine.receive_data(request.exchange, event(response(id_of(request))))
        client.take()
        assert outcome(call) == DONE
    else:
        client.result(request, DONE)
        client.take()
        assert outcome(call) == DONE


def test_case_76_a_stream_that_does_not_open_holds_calls_up_for_a_moment_only() -> None:
    client = Client("2025-11-25", can_answer=True, config=ClientConfig(settle_timeout=4))
    call = client.call()
    client.shake("2025-11-25")
    client.request()
    client.advance(3.9)
    assert message_of(client.sent[0])["method"] == "initialize"  # type: ignore[arg-type]
    assert len(client.sent) == 3
    client.advance(0.1)
    request = client.sent[-1]
    assert isinstance(request, HttpRequest)
    client.result(request, DONE)
    client.take()
    assert outcome(call) == DONE


# K. Authorization -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY)
@pytest.mark.parametrize("status", [401, 403])
def test_case_98_and_100_a_refusal_is_told_once_with_its_challenge(version: str, status: int) -> None:
    client = opened(version, session="s")
    call = client.call()
    challenge = 'Bearer error="insufficient_scope", scope="a b"'
    client.respond(client.request(), b"", status=status, headers={"WWW-Authenticate": challenge})
    assert client.take() == []
    raised = call.outcome.error
    assert isinstance(raised, ServerError)
    assert (raised.status, raised.headers["WWW-Authenticate"]) == (status, challenge)
    # The session is still there.
    finish(client, client.call())

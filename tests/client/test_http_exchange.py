"""What a client reads in one response, however it is cut; and what it puts into the header section of a request."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.client.exchange import (
    MAX_ERROR_BODY,
    Complete,
    Due,
    Finding,
    Message,
    Named,
    Overlong,
    Redirect,
    Refusal,
    Response,
    Unreadable,
)
from mcp_sansio.client.http_requests import HttpRequest, merged
from mcp_sansio.wire.headers import Headers, check_headers
from mcp_sansio.wire.urls import target_of

JSON, SSE = {"Content-Type": "application/json"}, {"Content-Type": "text/event-stream"}
RESULT = '{"jsonrpc":"2.0","id":1,"result":{"text":"né🌍漢\\u2028 \u2028\u0085"}}'.encode()


def respond(
    *pieces: bytes, due: Due = Due.RESPONSE, status: int = 200, headers: Any = JSON, last: bytes = b"", **limits: int
) -> Any:
    """The response to those facts, and everything found in it. The `last` piece comes with the end."""
    response = Response(due, **{"max_message": 1000, "max_headers": 1000, **limits})
    found: list[Finding] = response.receive_response(status, headers)
    for piece in pieces:
        found += response.receive_data(piece)
    return response, found + response.receive_end(last)


@pytest.mark.parametrize("status", [200, 500])
def test_a_body_in_small_pieces_takes_no_more_memory_than_in_large_ones(status: int) -> None:
    size = MAX_ERROR_BODY
    response = Response(Due.RESPONSE, max_message=size, max_headers=1000)
    response.receive_response(status, JSON)
    tracemalloc.start()
    try:
        for number in range(size // 2):
            response.receive_data(b"%02d" % (number % 100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * size


def found(*pieces: bytes, **options: Any) -> list[Finding]:
    """Everything found in a response, which is the same where its last piece comes with its end."""
    findings: list[Finding] = respond(*pieces, **options)[1]
    assert respond(*pieces[:-1], last=b"".join(pieces[-1:]), **options)[1] == findings
    return findings


def cuts(data: bytes) -> list[tuple[bytes, ...]]:
    """`data` whole, byte by byte, and in two at every offset."""
    bytewise = tuple(data[at : at + 1] for at in range(len(data)))
    return [(data,), bytewise, *((data[:at], data[at:]) for at in range(1, len(data)))]


@pytest.mark.parametrize(
    "kind",
    ["application/json", "Application/JSON", "application/json; charset=utf-8", 'application/json;charset="UTF-8"'],
)
def test_a_body_of_json_is_one_message(kind: str) -> None:
    for pieces in cuts(RESULT):
        assert found(*pieces, headers={"content-type": kind}) == [Message(RESULT), Complete()]


STREAM = (
    b"\xef\xbb\xbf: hello\r\n"
    b"id: s/0\nretry: 300\ndata:\n\n"
    b"event: message\r\ndata: " + RESULT + b"\r\n\r\n"
    b"id: s/1\rdata: {\rdata: }\r\r"
    b"event: endpoint\ndata: /m\n\n"
    b"data: \ndata:\n\n"
    b"id: s/2\n\n"
    b"data: cut"
)


@pytest.mark.parametrize("kind", ["text/event-stream", "Text/Event-Stream;charset=utf-8"])
@pytest.mark.parametrize("due", [Due.RESPONSE, Due.STREAM])
def test_a_stream_is_its_messages_however_it_is_cut(kind: str, due: Due) -> None:
    wanted = [Message(RESULT), Message(b"{\n}"), Named("endpoint", b"/m"), Complete()]
    for pieces in cuts(STREAM):
        for before, last in ((pieces, b""), (pieces[:-1], pieces[-1])):
            response, findings = respond(*before, last=last, due=due, headers={"content-type": kind})
            assert findings == wanted
            assert (response.is_stream, response.last_event_id, response.retry) == (True, "s/2", 300)


def test_an_event_over_the_limit_is_skipped_and_those_around_it_are_not() -> None:
    stream = b"data: 1\n\ndata: " + b"x" * 50 + b"\n\ndata: 2\n\n"
    wanted = [Message(b"1"), Overlong(56), Message(b"2"), Complete()]
    for pieces in cuts(stream):
        assert found(*pieces, headers=SSE, max_message=20) == wanted


def test_a_stream_may_go_on_for_ever() -> None:
    response = Response(Due.RESPONSE, max_message=20, max_headers=1000)
    response.receive_response(200, SSE)
    for _ in range(1000):
        assert response.receive_data(b": alive\n\ndata: 1\n\n") == [Message(b"1")]
    assert response.ending is None


def test_a_body_over_the_limit_ends_the_exchange_at_once() -> None:
    response = Response(Due.RESPONSE, max_message=20, max_headers=1000)
    assert response.receive_response(200, JSON) == []
    assert response.receive_data(b"[" * 20) == []
    assert response.receive_data(b"[") == [Unreadable(200, response.headers, "it is larger than 20 bytes")]
    assert response.receive_data(b"[") == response.receive_end() == response.receive_end(b"[") == []


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {}),
        (200, {"content-type": "application/json", "content-length": "4"}),
        (202, {"content-type": "text/plain"}),
        (204, {}),
        (201, {"content-type": "text/event-stream"}),
    ],
)
@pytest.mark.parametrize("body", [b"", b"null", b"data: {}\n\n", b"x" * 2000])
def test_where_nothing_is_due_any_success_will_do(status: int, headers: Any, body: bytes) -> None:
    assert found(body, due=Due.NOTHING, status=status, headers=headers) == [Complete()]


@pytest.mark.parametrize("status", [400, 404, 500, 304, 599])
@pytest.mark.parametrize("due", Due)
def test_a_refusal_brings_the_servers_words_and_headers(status: int, due: Due) -> None:
    headers = {"Content-Type": "text/html", "WWW-Authenticate": "Bearer x"}
    for pieces in cuts(b"<h1>No</h1>"):
        response, findings = respond(*pieces, due=due, status=status, headers=headers)
        assert findings == [Refusal(status, response.headers, b"<h1>No</h1>")]
        assert findings[0].headers["www-authenticate"] == "Bearer x"


def test_a_refusal_without_end_is_cut() -> None:
    response = Response(Due.RESPONSE, max_message=2**30, max_headers=1000)
    response.receive_response(500, JSON)
    assert response.receive_data(b"x" * MAX_ERROR_BODY) == []
    assert response.receive_data(b"x") == [Refusal(500, response.headers, b"x" * MAX_ERROR_BODY)]
    assert response.receive_data(b"x") == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("due", Due)
def test_a_redirect_is_known_by_its_head(status: int, due: Due) -> None:
    response, findings = respond(b"moved", due=due, status=status, headers={"Location": "/mcp/"})
    assert findings == [Redirect(status, response.headers, "/mcp/")]
    assert found(b"moved", due=due, status=status, headers={}) == [Refusal(status, Headers(), b"moved")]


NO_FORM = "it is {} and not application/json or text/event-stream"


@pytest.mark.parametrize(
    ("due", "headers", "pieces", "reason"),
    [
        (Due.RESPONSE, {"content-type": "text/html"}, [b"<p>"], NO_FORM.format("text/html")),
        (Due.RESPONSE, {"content-type": "application/x-ndjson"}, [b"{}\n"], NO_FORM.format("application/x-ndjson")),
        (Due.RESPONSE, {"content-type": "application/jsonx"}, [b"{}"], NO_FORM.format("application/jsonx")),
        (Due.RESPONSE, {}, [b"{}"], NO_FORM.format("of no media type")),
        (Due.STREAM, JSON, [b"{}"], "it is application/json and not text/event-stream"),
        (Due.RESPONSE, JSON, [], "its body is empty"),
        (Due.RESPONSE, JSON, [b" ", b"\r\n"], "its body is empty"),
        (Due.RESPONSE, {**JSON, "x": "y" * 1000}, [b"{}"], "its headers are larger than 1000 bytes"),
    ],
)  # fmt: skip
def test_what_is_no_response_says_what_it_is(due: Due, headers: Any, pieces: list[bytes], reason: str) -> None:
    assert found(*pieces, due=due, headers=headers) == [Unreadable(200, Headers(headers), reason)]


def test_facts_out_of_order_end_the_exchange_and_do_not_raise() -> None:
    early = Response(Due.RESPONSE, max_message=10, max_headers=10)
    assert early.receive_data(b"x") == [Unreadable(None, Headers(), "its body came before its status")]
    assert early.receive_response(200, JSON) == early.receive_end() == []
    empty = Response(Due.NOTHING, max_message=10, max_headers=10)
    assert empty.receive_end() == [Unreadable(None, Headers(), "it ended before it began")]
    twice = Response(Due.RESPONSE, max_message=100, max_headers=100)
    assert twice.receive_response(100, {}) == twice.receive_response(200, JSON) == twice.receive_response(500, {}) == []
    assert twice.receive_data(b"{}") + twice.receive_end() == [Message(b"{}"), Complete()]


@given(
    st.sampled_from(Due),
    st.integers(100, 599),
    st.dictionaries(
        st.sampled_from(["content-type", "location", "x"]),
        st.sampled_from(["application/json", "text/event-stream", "text/html", "", "/x"]),
    ),
    st.lists(st.binary(max_size=30) | st.sampled_from([b"data: {}\n\n", b"data:", b"\n\n", b"{}", b"id: 1\r"])),
)
def test_every_response_comes_to_one_end(due: Due, status: int, headers: Any, pieces: list[bytes]) -> None:
    response, findings = respond(*pieces, due=due, status=status, headers=headers, max_message=64)
    ends = [finding for finding in findings if isinstance(finding, Complete | Refusal | Redirect | Unreadable)]
    assert ends == findings[-1:] == [response.ending]
    assert respond(b"".join(pieces), due=due, status=status, headers=headers, max_message=64)[1] == findings


# Headers --------------------------------------------------------------------------------------------------------------

OWN = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "Mcp-Method": "x"}


@pytest.mark.parametrize(
    ("given_", "more"),
    [
        ({}, {}),
        ({"Authorization": "Bearer a"}, {"Authorization": "Bearer a"}),
        ({"content-type": "text/plain", "MCP-METHOD": "y"}, {}),
        ({"ACCEPT": "a/b;q=0.1,application/json, "}, {"Accept": "application/json, text/event-stream, a/b;q=0.1"}),
        ({"accept": "*/*", "X": "1"}, {"X": "1", "Accept": "application/json, text/event-stream, */*"}),
        ({"accept": ""}, {}),
    ],
)  # fmt: skip
def test_the_callers_headers_are_kept_and_the_protocols_prevail(given_: Any, more: Any) -> None:
    assert merged(given_, OWN) == {**OWN, **more}
    assert HttpRequest(1, "POST", "http://h/", OWN, b"x").with_headers(given_) == HttpRequest(
        1, "POST", "http://h/", {**OWN, **more}, b"x"
    )


@pytest.mark.parametrize("bad", [{"a b": "x"}, {"": "x"}, {"a:": "x"}, {"a": "x\r\ny: z"}, {"a": "\0"}, {"a": 1}])
def test_a_header_that_could_be_two_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="header"):
        check_headers(bad)
    with pytest.raises(ValueError, match="header"):
        HttpRequest(1, "GET", "http://h/", {}).with_headers(bad)


def test_a_header_may_hold_what_a_header_holds() -> None:
    check_headers({"X-Any_1": 'a b\t"c"é', "authorization": ""})


def test_a_request_has_all_headers_for_a_library_that_writes_none() -> None:
    post = HttpRequest(1, "POST", "http://me:pw@h:81/", {"Accept": "x", "user-agent": "mine"}, b"body")
    assert post.all_headers(target_of(post.url), {"user-agent": "theirs", "accept-encoding": "gzip"}) == {
        "host": "h:81",
        "accept-encoding": "gzip",
        "authorization": "Basic bWU6cHc=",
        "content-length": "4",
        "Accept": "x",
        "user-agent": "mine",
    }
    get = HttpRequest(1, "GET", "http://h/", {"Host": "other", "Authorization": "mine"})
    assert get.all_headers(target_of(get.url), {}) == {"Host": "other", "Authorization": "mine"}

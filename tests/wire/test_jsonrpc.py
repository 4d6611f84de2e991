"""JSON-RPC envelopes: what a message is, what is wrong with it, and the bytes of what we send."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_sansio.wire.json import decode
from mcp_sansio.wire.jsonrpc import (
    Envelope,
    Shape,
    classify,
    encode_batch,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
)


def invalid(
    fault: str, identity: Any = None, method: str | None = None, *, params: bool = False, replies: bool = True
) -> Envelope:
    return Envelope(Shape.INVALID, identity, method, fault=fault, fault_is_params=params, replies=replies)


NO_VERSION = "'jsonrpc' must be \"2.0\""
BAD_ID = "'id' must be a string or an integer"
BAD_PARAMS = "'params' must be an object"
BAD_ERROR = "'error' must have an integer 'code' and a string 'message'"
BOTH = "a response must not have both 'result' and 'error'"
ERROR = {"code": -32601, "message": "no", "data": [1], "more": 1}

MESSAGES: list[tuple[str, Envelope]] = [
    # Requests, with ids that are easily lost or changed.
    ('{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}', Envelope(Shape.REQUEST, 1, "m", {"a": 1})),
    ('{"jsonrpc":"2.0","id":0,"method":"m"}', Envelope(Shape.REQUEST, 0, "m", {})),
    ('{"jsonrpc":"2.0","id":-1,"method":"m"}', Envelope(Shape.REQUEST, -1, "m", {})),
    ('{"jsonrpc":"2.0","id":"","method":"m"}', Envelope(Shape.REQUEST, "", "m", {})),
    ('{"jsonrpc":"2.0","id":"01","method":"m"}', Envelope(Shape.REQUEST, "01", "m", {})),
    ('{"jsonrpc":"2.0","id":"init-ä","method":""}', Envelope(Shape.REQUEST, "init-ä", "", {})),
    (
        '{"jsonrpc":"2.0","id":9007199254740993,"method":"m","more":1}',
        Envelope(Shape.REQUEST, 9007199254740993, "m", {}),
    ),
    ('{"jsonrpc":"2.0","id":2,"method":"m","params":null}', Envelope(Shape.REQUEST, 2, "m", {})),
    # Notifications.
    ('{"jsonrpc":"2.0","method":"n"}', Envelope(Shape.NOTIFICATION, None, "n", {})),
    ('{"jsonrpc":"2.0","method":"n","params":{"b":[]}}', Envelope(Shape.NOTIFICATION, None, "n", {"b": []})),
    ('{"jsonrpc":"2.0","method":"n","params":null}', Envelope(Shape.NOTIFICATION, None, "n", {})),
    # Responses.
    ('{"jsonrpc":"2.0","id":0,"result":{}}', Envelope(Shape.RESPONSE, 0, result={})),
    ('{"jsonrpc":"2.0","id":"a","result":null}', Envelope(Shape.RESPONSE, "a", result=None)),
    (
        '{"jsonrpc":"2.0","id":3,"error":{"code":-32601,"message":"no","data":[1],"more":1}}',
        Envelope(Shape.RESPONSE, 3, error=ERROR),
    ),
    (
        '{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":""}}',
        Envelope(Shape.RESPONSE, error={"code": 1, "message": ""}),
    ),
    ('{"jsonrpc":"2.0","error":{"code":1,"message":""}}', Envelope(Shape.RESPONSE, error={"code": 1, "message": ""})),
    # No objects.
    *[(text, invalid("a message must be an object")) for text in ("[]", "123", '"str"', "null", "true", "[{}]")],
    # Faulty requests: the id is quoted where it can be.
    ('{"id":5,"method":"ping"}', invalid(NO_VERSION, 5, "ping")),
    ('{"jsonrpc":"1.0","id":5,"method":"ping"}', invalid(NO_VERSION, 5, "ping")),
    ('{"jsonrpc":2.0,"id":5,"method":"ping","params":[]}', invalid(NO_VERSION, 5, "ping")),
    ('{"jsonrpc":"2.0","id":5,"method":123}', invalid("'method' must be a string", 5)),
    ('{"jsonrpc":"2.0","id":5,"method":null,"params":"x"}', invalid("'method' must be a string", 5)),
    *[
        (f'{{"jsonrpc":"2.0","id":{bad},"method":"tools/list"}}', invalid(BAD_ID, None, "tools/list"))
        for bad in ("null", "true", "false", "[]", "{}", "1.5", "1e3")
    ],
    *[
        (f'{{"jsonrpc":"2.0","id":5,"method":"m","params":{params}}}', invalid(BAD_PARAMS, 5, "m", params=True))
        for params in ('"x"', "[1]", "[]", "0", "false", '""')
    ],
    ('{"jsonrpc":"2.0","id":null,"method":"m","params":[]}', invalid(BAD_ID, None, "m")),
    *[
        (
            f'{{"jsonrpc":"2.0","id":5,"method":"m","{key}":null}}',
            invalid("a message with 'method' must have neither 'result' nor 'error'", 5, "m"),
        )
        for key in ("result", "error")
    ],
    ('{"jsonrpc":"2.0","id":5}', invalid("'method' is missing", 5)),
    ('{"id":5}', invalid(NO_VERSION, 5)),
    ("{}", invalid(NO_VERSION)),
    ('{"jsonrpc":"2.0","method":5}', invalid("'method' must be a string")),
    # Faulty notifications: nobody waits for a reply.
    ('{"method":"n"}', invalid(NO_VERSION, None, "n", replies=False)),
    ('{"jsonrpc":"2.0","method":"n","params":[1]}', invalid(BAD_PARAMS, None, "n", params=True, replies=False)),
    # Faulty responses: to answer one would answer the wrong direction, except where it cannot be told from a request.
    ('{"jsonrpc":"2.0","id":5,"result":1,"error":{}}', invalid(BOTH, 5)),
    ('{"id":5,"result":1,"error":{}}', invalid(NO_VERSION, 5)),
    ('{"id":5,"result":{}}', invalid(NO_VERSION, 5, replies=False)),
    ('{"id":5,"error":{"code":1,"message":"m"}}', invalid(NO_VERSION, 5, replies=False)),
    ('{"jsonrpc":"2.0","result":{}}', invalid(BAD_ID, replies=False)),
    ('{"jsonrpc":"2.0","id":null,"result":{}}', invalid(BAD_ID, replies=False)),
    ('{"jsonrpc":"2.0","id":1.0,"result":{}}', invalid(BAD_ID, replies=False)),
    ('{"jsonrpc":"2.0","id":true,"error":{"code":1,"message":"m"}}', invalid(BAD_ID, replies=False)),
    *[
        (f'{{"jsonrpc":"2.0","id":5,"error":{error}}}', invalid(BAD_ERROR, 5, replies=False))
        for error in (
            "null",
            '"boom"',
            "{}",
            '{"code":1}',
            '{"message":"m"}',
            '{"code":"1","message":"m"}',
            '{"code":true,"message":"m"}',
            '{"code":1,"message":null}',
        )
    ],
]


@pytest.mark.parametrize(("text", "envelope"), MESSAGES, ids=[text for text, _ in MESSAGES])
def test_classify(text: str, envelope: Envelope) -> None:
    assert classify(decode(text.encode())) == envelope
    found = classify(decode(text.encode())).id
    assert type(found) is type(envelope.id)


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
anything = scalars | st.lists(scalars) | st.dictionaries(st.sampled_from(["code", "message", "a"]), scalars)
members = {
    "jsonrpc": st.just("2.0") | anything,
    "id": anything,
    "method": st.text() | anything,
    "params": anything,
    "result": anything,
    "error": st.fixed_dictionaries({"code": st.integers(), "message": st.text()}) | anything,
}


@given(st.fixed_dictionaries({}, optional=members) | anything)
def test_any_value_is_classified(message: Any) -> None:
    envelope = classify(message)
    assert (envelope.shape is Shape.INVALID) == (envelope.fault is not None)
    assert type(envelope.id) in (str, int, type(None))
    assert not (envelope.fault_is_params and envelope.shape is not Shape.INVALID)
    if envelope.shape is Shape.REQUEST:
        assert envelope.id is not None


@given(st.fixed_dictionaries({}, optional=members) | anything)
def test_two_peers_never_answer_each_other_forever(message: Any) -> None:
    envelope = classify(message)
    if not envelope.replies:
        return
    for null_id in (True, False):
        reply = classify(decode(encode_error(envelope.id, -32600, envelope.fault or "", null_id=null_id)))
        assert (reply.shape, reply.id) == (Shape.RESPONSE, envelope.id)


def test_params_are_not_shared_between_envelopes() -> None:
    message = {"jsonrpc": "2.0", "method": "n"}
    classify(message).params["a"] = 1
    assert classify(message).params == {}


ENCODED: list[tuple[bytes, str]] = [
    (encode_result(1, b'{"a":[]}'), '{"jsonrpc":"2.0","id":1,"result":{"a":[]}}'),
    (encode_result('"\n\u00e9\ud800', b"{}"), '{"jsonrpc":"2.0","id":"\\"\\n\u00e9\ufffd","result":{}}'),
    (encode_result("", b"{}"), '{"jsonrpc":"2.0","id":"","result":{}}'),
    (encode_error(0, -1, "m", null_id=True), '{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"m"}}'),
    (encode_error(0, -1, "m", null_id=False), '{"jsonrpc":"2.0","id":0,"error":{"code":-1,"message":"m"}}'),
    (encode_error(None, -1, "m", null_id=True), '{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"m"}}'),
    (encode_error(None, -1, "m", null_id=False), '{"jsonrpc":"2.0","error":{"code":-1,"message":"m"}}'),
    (
        encode_error("a", -1, "\ud800", None, null_id=True),
        '{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"\ufffd","data":null}}',
    ),
    (
        encode_error(None, -1, "m", {"a": 1}, null_id=False),
        '{"jsonrpc":"2.0","error":{"code":-1,"message":"m","data":{"a":1}}}',
    ),
    (encode_notification("n/a", None), '{"jsonrpc":"2.0","method":"n/a"}'),
    (encode_notification("n", {}), '{"jsonrpc":"2.0","method":"n","params":{}}'),
    (encode_notification("n", MappingProxyType({"a": 1})), '{"jsonrpc":"2.0","method":"n","params":{"a":1}}'),
    (encode_request(0, "m", None), '{"jsonrpc":"2.0","id":0,"method":"m"}'),
    (encode_request("x", "m", {"a": None}), '{"jsonrpc":"2.0","id":"x","method":"m","params":{"a":null}}'),
    (encode_batch([b"{}"]), "[{}]"),
    (encode_batch([b"{}", b'{"a":1}']), '[{},{"a":1}]'),
]


@pytest.mark.parametrize(("message", "text"), ENCODED, ids=[text for _, text in ENCODED])
def test_encode(message: bytes, text: str) -> None:
    assert message == text.encode()


def test_a_batch_is_never_empty() -> None:
    with pytest.raises(ValueError, match=r"^a batch must hold at least one message$"):
        encode_batch([])


@given(st.text() | st.integers(), st.text(), st.none() | st.dictionaries(st.text(), st.text()))
def test_what_is_encoded_is_classified_as_what_it_is(
    key: str | int, method: str, params: dict[str, str] | None
) -> None:
    wanted = params or {}
    assert classify(decode(encode_request(key, method, params))) == Envelope(Shape.REQUEST, key, method, wanted)
    assert classify(decode(encode_notification(method, params))) == Envelope(Shape.NOTIFICATION, None, method, wanted)
    assert classify(decode(encode_result(key, b"{}"))) == Envelope(Shape.RESPONSE, key, result={})

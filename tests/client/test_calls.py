"""Calls over a channel: what is sent, what comes of each reply, time, cancellation and the end."""

from __future__ import annotations

import re
from typing import Any

import pytest

from calling import INFO, Line, description, ended, failure_of, faults, meta, outcome_of, settled
from mcp_sansio import (
    AdapterSet,
    CallEnded,
    ClientConfig,
    ClientConnection,
    ConnectionEnded,
    LocalProtocolError,
    LogReceived,
    Operation,
    ProgressReceived,
    ServerError,
    ServerFaulted,
)
from mcp_sansio.client.calls import Failed
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, HANDSHAKE, VERSIONS

JSON = Any


def echo(line: Line, **options: Any) -> Any:
    return line.engine.call(Operation.CALL_TOOL, {"name": "echo", "arguments": {"text": "a"}}, **options)


RESULT = {"content": [{"type": "text", "text": "a"}]}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_bytes_of_a_call(version: str) -> None:
    line = settled(version)
    echo(line)
    params: dict[str, JSON] = {"name": "echo", "arguments": {"text": "a"}}
    if version in ENVELOPE:
        capabilities = AdapterSet.default().by_version[version].client_capabilities(False)
        params["_meta"] = meta(version, capabilities)
    assert line.engine.data_to_send() == [
        encode({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_caller_says_in_the_meta_of_a_call_stands_beside_what_the_client_says(version: str) -> None:
    line = settled(version)
    line.take()
    for wants_progress in (False, True):
        params = {"name": "echo", "_meta": {"example.org/trace": "t"}}
        line.engine.call(Operation.CALL_TOOL, params, wants_progress=wants_progress)
        [asked] = line.take()
        said = {"example.org/trace": "t", **({"progressToken": asked["id"]} if wants_progress else {})}
        capabilities = AdapterSet.default().by_version[version].client_capabilities(False)
        assert asked["params"]["_meta"] == (meta(version, capabilities, **said) if version in ENVELOPE else said)


@pytest.mark.parametrize("version", VERSIONS)
def test_progress_and_the_log_level_are_asked_for_where_they_are_wanted(version: str) -> None:
    line = settled(version, log_level="error")
    line.take()
    echo(line, wants_progress=True)
    [asked] = line.take()
    assert asked["params"]["_meta"]["progressToken"] == asked["id"]
    named = asked["params"]["_meta"].get("io.modelcontextprotocol/logLevel")
    assert named == ("error" if version in ENVELOPE else None)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_log_level_is_set_after_the_handshake(version: str) -> None:
    """Where the server has logs (server/utilities/logging, "Capabilities")."""
    bare = Line(version, log_level="error")
    bare.settle(version)
    assert bare.methods() == ["notifications/initialized"]
    line = Line(version, log_level="error", wants_changes=True)
    echo(line)
    line.reply({**description(version), "capabilities": {"logging": {}}})
    _, asked = line.take()
    assert (asked["method"], asked["params"]) == ("logging/setLevel", {"level": "error"})
    assert line.refuse(-32601, "no logs here") == [
        ServerFaulted("the log level was not taken: no logs here (code -32601)", matters=True)
    ]
    assert line.methods() == ["tools/call"], "what was to be logged by it waited for it"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_log_level_that_is_not_answered_holds_nothing_up_for_long(version: str) -> None:
    line = Line(version, log_level="error")
    call = echo(line)
    line.reply({**description(version), "capabilities": {"logging": {}}})
    line.wait(5)
    assert line.methods()[-1] == "tools/call"
    line.reply(RESULT)
    assert outcome_of(call) == RESULT


@pytest.mark.parametrize("version", HANDSHAKE)
def test_the_end_while_the_log_level_is_set(version: str) -> None:
    line = Line(version, log_level="error")
    call = echo(line)
    line.reply({**description(version), "capabilities": {"logging": {}}})
    line.engine.receive_eof("gone")
    assert (failure_of(call), line.take()) == (("ConnectionLost", "gone"), [])


@pytest.mark.parametrize("version", VERSIONS)
def test_the_log_level_can_be_changed(version: str) -> None:
    line = settled(version)
    call = line.engine.call(Operation.SET_LOG_LEVEL, {"level": "debug"})
    if version in HANDSHAKE:
        assert [message["params"] for message in line.take()] == [{"level": "debug"}]
        line.reply({})
    assert outcome_of(call) == {}
    echo(line)
    [asked] = line.take()
    named = asked["params"].get("_meta", {}).get("io.modelcontextprotocol/logLevel")
    assert named == ("debug" if version in ENVELOPE else None)


@pytest.mark.parametrize("version", VERSIONS)
def test_ping_is_whatever_the_revision_has(version: str) -> None:
    line = settled(version)
    call = line.engine.call(Operation.PING)
    assert line.methods() == (["ping"] if version in HANDSHAKE else ["server/discover"])
    line.reply({} if version in HANDSHAKE else {"supportedVersions": [version], "capabilities": {}})
    assert call.ended
    assert failure_free(call)


def failure_free(call: Any) -> bool:
    return not isinstance(call.outcome, Failed)


@pytest.mark.parametrize("version", ENVELOPE)
def test_what_the_revision_does_not_have_fails_for_itself(version: str) -> None:
    line = settled(version)
    call = line.engine.call(Operation.SUBSCRIBE, {"uri": "x://a"})
    assert failure_of(call) == ("McpError", "the revision that the server speaks has no subscribe")
    assert line.take() == []


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_description_that_is_none(version: str) -> None:
    """What was known of the server before it stays known."""
    line = settled(version)
    server = line.engine.server
    call = line.engine.call(Operation.PING)
    line.reply({"content": []})
    assert failure_of(call) == ("UnusableReply", "the server's description of itself names no revisions")
    assert line.engine.server is server


@pytest.mark.parametrize("version", VERSIONS)
def test_what_comes_before_anything_is_asked_is_passed_over(version: str) -> None:
    line = Line(version)
    assert faults(line.notify("notifications/message", level="info", data=1)) == [
        "'notifications/message' before anything was agreed on"
    ]
    assert faults(line.say({"jsonrpc": "2.0", "id": 1, "method": "ping"})) == [
        "the request 'ping', where servers send none"
    ]
    assert faults(line.reply({}, 1)) == ["an answer to no request"]
    assert line.take() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_result_ends_its_call_alone(version: str) -> None:
    line = settled(version)
    first, second = echo(line), echo(line)
    line.take()
    assert ended(line.reply(RESULT, 3)) == [(second, RESULT)]
    assert ended(line.reply({**RESULT, "isError": True}, 2)) == [(first, {**RESULT, "isError": True})]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_is_told_in_the_servers_own_words(version: str) -> None:
    line = settled(version)
    call = echo(line)
    line.take()
    line.refuse(-32602, "no such tool", {"name": "echo"})
    with pytest.raises(ServerError) as caught:
        call.result()
    error = caught.value
    assert (error.code, error.message, error.data, error.status) == (-32602, "no such tool", {"name": "echo"}, None)
    assert str(error) == "no such tool (code -32602)"


def test_a_call_that_has_not_ended_has_no_result() -> None:
    with pytest.raises(LocalProtocolError, match=r"^the call has not ended$"):
        echo(settled(VERSIONS[0])).result()


# Answers that are none ------------------------------------------------------------------------------------------------

#: What is wrong with a result, and what its caller is told.
UNUSABLE = {
    "[]": "the result must be an object",
    "5": "the result must be an object",
    "null": "the result must be an object",
    '"x"': "the result must be an object",
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("result", UNUSABLE)
def test_a_result_of_no_use_fails_its_call_alone(version: str, result: str) -> None:
    line = settled(version)
    first, second = echo(line), echo(line)
    line.take()
    line.say(b'{"jsonrpc":"2.0","id":2,"result":%b}' % result.encode())
    assert failure_of(first) == ("UnusableReply", UNUSABLE[result])
    line.reply(RESULT, 3)
    assert outcome_of(second) == RESULT


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("rest", "fault"),
    [
        ('"result":{},"error":{"code":1,"message":"x"}', "a response must not have both 'result' and 'error'"),
        ('"error":5', "'error' must have an integer 'code' and a string 'message'"),
        ('"error":{"code":"1","message":"x"}', "'error' must have an integer 'code' and a string 'message'"),
        ('"more":1', "'method' is missing"),
    ],
)
def test_a_response_of_no_use_fails_its_call_alone(version: str, rest: str, fault: str) -> None:
    line = settled(version)
    first, second = echo(line), echo(line)
    line.take()
    events = line.say(b'{"jsonrpc":"2.0","id":2,%b}' % rest.encode())
    assert faults(events) == []
    assert failure_of(first) == ("UnusableReply", f"no usable message: {fault}")
    assert not second.ended


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("kind", ["input_needed", "", 5, None, []])
def test_a_result_of_an_unknown_type(version: str, kind: JSON) -> None:
    line = settled(version)
    call = echo(line)
    line.take()
    line.reply({**RESULT, "resultType": kind})
    assert failure_of(call)[0] == "UnusableReply"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_result_without_a_type_is_complete(version: str) -> None:
    line = settled(version)
    call = echo(line)
    line.take()
    line.reply(RESULT)
    assert outcome_of(call) == RESULT


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "data",
    [
        b"Server started",
        b"{",
        b"  x: 1",
        b"\x1b[32mok\x1b[0m",
        b"123",
        b'"str"',
        b"null",
        b"[]",
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":1,"result":NaN}',
        b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"1.0","method":"x"}',
        b"[" * 100_000,
    ],
)
def test_noise_is_passed_over(version: str, data: bytes) -> None:
    line = settled(version)
    call = echo(line)
    line.take()
    assert len(faults(line.say(data))) == 1
    assert line.methods() == []
    line.reply(RESULT)
    assert outcome_of(call) == RESULT


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_over_the_limit_is_passed_over(version: str) -> None:
    line = settled(version, config=ClientConfig(max_message=300))
    call = echo(line)
    line.take()
    fault = ["a message of 301 bytes, where 300 may be"]
    assert faults(line.say(b" " * 301)) == fault
    line.engine.receive_overlong(301)
    assert faults(line.engine.events()) == fault
    line.reply(RESULT)
    assert outcome_of(call) == RESULT


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("id", ["2", 3, 0, -2, 99, 2.0, "x", None])
def test_ids_are_matched_by_value_and_type(version: str, id: JSON) -> None:
    line = settled(version)
    call = echo(line)
    line.take()
    events = line.say({"jsonrpc": "2.0", "id": id, "result": RESULT})
    assert (call.ended, len(faults(events))) == (False, 1)
    line.reply(RESULT, 2)
    assert call.ended


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_comes_twice(version: str) -> None:
    line = settled(version)
    call = echo(line)
    line.take()
    line.reply(RESULT)
    assert line.reply({"content": []}, 2) == [ServerFaulted("an answer that comes too late, or again")]
    assert outcome_of(call) == RESULT


@pytest.mark.parametrize("version", VERSIONS)
def test_ids_are_never_used_again(version: str) -> None:
    line = settled(version)
    for _ in range(5):
        echo(line)
        line.reply(RESULT)
    asked = [message for data in line.sent for message in [data] if b'"id"' in message]
    ids = [int(message.split(b'"id":')[1].split(b",")[0]) for message in asked]
    assert ids == list(range(1, 7))


@pytest.mark.parametrize("version", VERSIONS)
def test_batches_are_read_where_the_revision_has_them(version: str) -> None:
    line = settled(version)
    calls = [echo(line), echo(line)]
    line.take()
    batch = [{"jsonrpc": "2.0", "id": id, "result": RESULT} for id in (3, 2)]
    events = line.say(batch)
    if AdapterSet.default().by_version[version].allows_batch:
        assert ended(events) == [(calls[1], RESULT), (calls[0], RESULT)]
        assert faults(line.say([])) == ["a batch of 0 messages, where none may be"]
        assert faults(line.say([5] * 101)) == ["a batch of 101 messages, where none may be"]
    else:
        assert events == [ServerFaulted("a batch of 2 messages, where none may be")]


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_without_an_answer_ends_by_itself(version: str) -> None:
    line = settled(version)
    call = echo(line)
    line.take()
    assert line.engine.next_deadline() == 60
    assert line.wait(59.9) == []
    assert [event.call for event in line.wait(0.1) if isinstance(event, CallEnded)] == [call]
    assert failure_of(call) == ("CallTimeout", "no answer to call_tool within 60 seconds")
    assert isinstance(outcome_of(call), TimeoutError)
    assert line.take() == [
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2, "reason": "timeout"}}
    ]
    assert line.reply(RESULT, 2) == [ServerFaulted("an answer that comes too late, or again")]
    again = echo(line)
    line.reply(RESULT)
    assert (outcome_of(again), line.engine.next_deadline()) == (RESULT, None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_timeout_of_its_own(version: str) -> None:
    line = settled(version)
    slow, quick = echo(line, timeout=100), echo(line, timeout=1)
    line.wait(1)
    assert (slow.ended, quick.ended) == (False, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_timeout_beyond_the_most_of_all_calls_counts(version: str) -> None:
    line = settled(version, config=ClientConfig(timeout=5, max_timeout=10))
    call = echo(line, timeout=20)
    line.wait(19)
    assert not call.ended
    line.wait(1)
    assert failure_of(call) == ("CallTimeout", "no answer to call_tool within 20 seconds")


@pytest.mark.parametrize("version", VERSIONS)
def test_progress_extends_the_time_up_to_the_most(version: str) -> None:
    line = settled(version)
    call = echo(line, wants_progress=True, timeout=10, max_timeout=25)
    token = line.last_id
    seen = []
    for _ in range(4):
        seen += line.wait(8)
        if not call.ended:
            seen += line.notify("notifications/progress", progressToken=token, progress=1, total=4, message="on")
    told = [(event.progress, event.total, event.message) for event in seen if isinstance(event, ProgressReceived)]
    assert told == [(1, 4, "on")] * 3
    assert failure_of(call) == ("CallTimeout", "no answer to call_tool within 25 seconds")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("token", [1, 3, "2", "x", 2.5, None, True])
def test_progress_of_nothing_is_passed_over(version: str, token: JSON) -> None:
    line = settled(version)
    call = echo(line, wants_progress=True)
    line.take()
    assert len(faults(line.notify("notifications/progress", progressToken=token, progress=1))) == 1
    line.reply(RESULT)
    assert len(faults(line.notify("notifications/progress", progressToken=2, progress=1))) == 1
    assert outcome_of(call) == RESULT


@pytest.mark.parametrize("version", VERSIONS)
def test_progress_that_nobody_asked_for_extends_nothing(version: str) -> None:
    line = settled(version)
    call = echo(line)
    line.take()
    line.wait(59)
    assert faults(line.notify("notifications/progress", progressToken=2, progress=1)) == [
        "progress of no call that is in flight"
    ]
    line.wait(1)
    assert failure_of(call)[0] == "CallTimeout"


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "10"])
@pytest.mark.parametrize("name", ["timeout", "max_timeout"])
def test_a_time_that_is_none(seconds: float, name: str) -> None:
    with pytest.raises(ValueError, match="a timeout must be a finite number of seconds above zero"):
        echo(settled(VERSIONS[0]), **{name: seconds})


def test_the_time_that_a_call_had_is_told_however_late_that_is() -> None:
    line = Line(VERSIONS[0])
    call = line.engine.call(Operation.DESCRIBE, timeout=0.5)
    line.clock.advance(0.75)
    line.engine.handle_timeout(line.clock())
    assert failure_of(call) == ("CallTimeout", "no answer to initialize within 0.5 seconds")


def test_a_method_is_no_operation() -> None:
    method: Any = "tools/call"
    with pytest.raises(ValueError, match=r"^tools/call: must be an Operation$"):
        settled(VERSIONS[0]).engine.call(method, {"name": "echo"})


@pytest.mark.parametrize("operation", [Operation.HANDSHAKE_COMPLETE, Operation.CANCEL])
def test_a_notification_is_no_call(operation: Operation) -> None:
    with pytest.raises(ValueError, match=f"^{operation}: is a notification, which the engine sends by itself$"):
        settled(VERSIONS[0]).engine.call(operation)


def test_a_level_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match=r"^log_level: 'loud' is none of debug, info, "):
        Line(log_level="loud")


def test_the_name_of_a_revision_is_no_adapter() -> None:
    name: Any = VERSIONS[0]
    with pytest.raises(TypeError, match=rf"^a revision is chosen by an adapter: .*by_version\['{VERSIONS[0]}'\]$"):
        ClientConnection(runtime=Line().engine.runtime, adapters=name)


# Giving up ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("reason", [None, "changed my mind"])
def test_a_call_that_is_given_up(version: str, reason: str | None) -> None:
    line = settled(version)
    call = echo(line)
    line.take()
    line.engine.cancel(call, reason)
    assert [event.call for event in line.engine.events() if isinstance(event, CallEnded)] == [call]
    assert failure_of(call) == ("CallAbandoned", reason or "the call was given up")
    params = {"requestId": 2} if reason is None else {"requestId": 2, "reason": reason}
    assert line.take() == [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}]
    line.engine.cancel(call)
    assert (line.take(), line.engine.events()) == ([], [])
    assert faults(line.reply(RESULT, 2)) == ["an answer that comes too late, or again"]


@pytest.mark.parametrize("version", VERSIONS)
def test_giving_up_what_has_ended_does_nothing(version: str) -> None:
    line = settled(version)
    call = echo(line)
    line.reply(RESULT)
    line.engine.cancel(call)
    assert (line.take(), line.engine.events(), outcome_of(call)) == ([], [], RESULT)


# Logs -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_log_messages(version: str) -> None:
    line = settled(version)
    assert line.notify("notifications/message", level="error", data={"a": 1}, logger="db") == [
        LogReceived("error", {"a": 1}, "db")
    ]
    assert line.notify("notifications/message", level="new", data=None) == [LogReceived("new", None, None)]
    for wrong in ({"data": 1}, {"level": 5, "data": 1}, {"level": "error"}):
        assert len(faults(line.notify("notifications/message", **wrong))) == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("method", ["notifications/vendor/x", "codex/event", "$/progress", "", "x" * 1000])
def test_notifications_that_nobody_knows_say_nothing(version: str, method: str) -> None:
    line = settled(version)
    assert (line.notify(method, a=1), line.take()) == ([], [])


# The end --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", ["eof", "close"])
def test_the_end_fails_everything_that_is_pending(version: str, way: str) -> None:
    line = settled(version)
    calls = [echo(line), echo(line)]
    line.take()
    if way == "eof":
        line.engine.receive_eof("killed by signal 9")
    else:
        line.engine.close()
    reason = "killed by signal 9" if way == "eof" else "the client was closed"
    events = line.engine.events()
    assert [event.call for event in events if isinstance(event, CallEnded)] == calls
    assert [failure_of(call) for call in calls] == [("ConnectionLost", reason)] * 2
    assert isinstance(events[-1], ConnectionEnded)
    assert str(events[-1].error) == reason
    late = echo(line)
    assert (failure_of(late), line.engine.events()[-1].call) == (("ConnectionLost", reason), late)
    line.engine.receive_eof()
    line.engine.close()
    line.engine.receive_message(b"{}")
    line.engine.receive_overlong(10**9)
    line.engine.handle_timeout(1e9)
    assert (line.take(), line.engine.events(), line.engine.next_deadline()) == ([], [], None)


def test_an_end_without_a_reason() -> None:
    line = settled(VERSIONS[0])
    call = echo(line)
    line.engine.receive_eof()
    assert failure_of(call) == ("ConnectionLost", "the server closed the connection")


# What a caller may not give -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "params", "fault"),
    [
        (Operation.CALL_TOOL, {}, "params.name must be a string"),
        (Operation.CALL_TOOL, {"name": 5}, "params.name must be a string"),
        (Operation.CALL_TOOL, {"name": "a", "arguments": []}, "params.arguments must be an object"),
        (Operation.CALL_TOOL, {"name": "a", "arguments": {"x": float("nan")}}, "$.arguments.x: a number that is not"),
        (Operation.CALL_TOOL, {"name": "a", "arguments": {"x": {1, 2}}}, "$.arguments.x: a value of type set"),
        (Operation.READ_RESOURCE, {}, "params.uri must be a string"),
        (Operation.SET_LOG_LEVEL, {"level": "loud"}, "params.level must be one of debug"),
        (Operation.PING, {"_meta": 5}, "params._meta must be a mapping"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(operation: Operation, params: JSON, fault: str) -> None:
    for line in (settled(VERSIONS[0]), Line(VERSIONS[0])):
        with pytest.raises(ValueError, match=f"^{operation}: {re.escape(fault)}"):
            line.engine.call(operation, params)
        assert (line.take(), line.engine.events()) == ([], [])


def test_the_library_introduces_itself_where_nobody_else_does() -> None:
    line = Line(VERSIONS[0], client_info=None)
    assert line.engine.client_info.name == "mcp-sansio"
    assert line.engine.client_info != INFO


@pytest.mark.parametrize("field", ["timeout", "max_rounds", "max_message"])
@pytest.mark.parametrize("value", [0, -1, None, "5", True])
def test_a_limit_that_is_none(field: str, value: JSON) -> None:
    with pytest.raises(ValueError, match=rf"^ClientConfig\.{field} must be a number above zero"):
        ClientConfig(**{field: value})


def test_an_adapter_a_set_or_nothing_says_what_is_spoken() -> None:
    adapters = AdapterSet.default()
    line = Line(VERSIONS[0])
    for given, versions in ((adapters.adapters[0], VERSIONS[:1]), (adapters, VERSIONS), (None, VERSIONS)):
        engine = ClientConnection(runtime=line.engine.runtime, adapters=given)
        assert engine.adapters.versions == versions


@pytest.mark.parametrize("version", VERSIONS)
def test_words_without_end_are_kept_and_not_put_into_every_log(version: str) -> None:
    line = settled(version)
    call = line.engine.call(Operation.LIST_PROMPTS)
    line.refuse(-1, "no" * 10_000)
    error = outcome_of(call)
    assert (str(error), error.message) == ("no" * 1_000 + "… (code -1)", "no" * 10_000)

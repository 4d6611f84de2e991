"""What a handler may know and do: the answers that it has, what it reports, and how a question can be put."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_sansio import (
    Answer,
    AnswerAction,
    ClientInfo,
    Exchange,
    Registry,
    elicit,
    elicit_accept,
    list_roots,
    sample,
)
from mcp_sansio.asking import answer_of, fault_of_answer
from mcp_sansio.testing import Simulation, connect
from speak import CLIENT, EVERYTHING, HANDSHAKE, VERSIONS, Channel, Http

MRTR = "2026-07-28"


@pytest.mark.parametrize("version", VERSIONS)
def test_who_is_calling(version: str) -> None:
    registry, seen = Registry("s", "1"), []

    @registry.tool
    async def who(ex: Exchange) -> str:
        """Who."""
        seen.append((ex.client_info.name, ex.client_info.version, ex.client_info.capabilities, ex.request, ex.state))
        return "x"

    request = object()
    simulation = Simulation(registry)
    Channel(version, simulation, request=request).call("who")
    Http(version, simulation, request=request).call("who")
    assert seen == [(CLIENT["name"], CLIENT["version"], EVERYTHING, request, None)] * 2


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("info", [None, {}, {"name": 5, "version": []}, "absent"])
def test_a_client_that_says_little(version: str, info: Any) -> None:
    registry, seen = Registry("s", "1"), []

    @registry.tool
    async def who(ex: Exchange) -> str:
        """Who."""
        seen.append((ex.client_info.name, ex.client_info.version))
        return "x"

    channel = Channel(version, registry)
    if channel.adapter.has_handshake:
        request = channel.initialize()
        request["params"]["clientInfo"] = info
        if info == "absent":
            del request["params"]["clientInfo"]
        channel.send(request)
        channel.call("who")
    else:
        request = channel.message("tools/call", {"name": "who", "arguments": {}})
        request["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = info
        if info == "absent":
            del request["params"]["_meta"]["io.modelcontextprotocol/clientInfo"]
        channel.send(request)
    assert seen == [(None, None)]


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("capabilities", [None, [], 5, "absent"])
def test_a_client_that_declares_nothing(version: str, capabilities: Any) -> None:
    registry, seen = Registry("s", "1"), []

    @registry.tool
    async def who(ex: Exchange) -> str:
        """Who."""
        seen.append(ex.client_info)
        return "x"

    channel = Channel(version, registry)
    request = channel.initialize()
    request["params"]["capabilities"] = capabilities
    if capabilities == "absent":
        del request["params"]["capabilities"]
    channel.send(request)
    channel.call("who")
    assert seen == [ClientInfo(CLIENT["name"], CLIENT["version"], {})]


@pytest.mark.revision(MRTR)
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"action": "accept"}, (True, True, AnswerAction.ACCEPT)),
        ({"action": "decline"}, (True, False, AnswerAction.DECLINE)),
        ({"action": "cancel"}, (True, False, AnswerAction.CANCEL)),
        ({"action": "whatever"}, (True, False, AnswerAction.DECLINE)),
        ({"roots": []}, (True, True, AnswerAction.ACCEPT)),
        (None, (False, False, None)),
    ],
)
def test_what_is_known_of_an_answer(reply: Any, expected: Any) -> None:
    registry, seen = Registry("s", "1"), []

    @registry.tool
    async def look(ex: Exchange) -> str:
        """Look."""
        seen.append((ex.answered("q"), ex.accepted("q"), ex.action("q")))
        return "x"

    Channel(MRTR, registry).call("look", inputResponses={} if reply is None else {"q": reply})
    assert seen == [expected]


def test_an_answer_reads_like_its_content() -> None:
    answer = Answer(AnswerAction.ACCEPT, {"name": "Ada"})
    assert (answer["name"], dict(answer), len(answer), bool(answer), answer.accepted) == (
        "Ada",
        {"name": "Ada"},
        1,
        True,
        True,
    )
    # An answer without content is an answer all the same.
    assert bool(Answer(AnswerAction.DECLINE)) is True
    with pytest.raises(KeyError):
        answer["other"]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ({"action": "accept", "content": {"a": 1}}, Answer(AnswerAction.ACCEPT, {"a": 1})),
        ({"action": "accept"}, Answer(AnswerAction.ACCEPT)),
        ({"action": "accept", "content": None}, Answer(AnswerAction.ACCEPT)),
        # What was filled in and then not sent is nobody's business.
        ({"action": "decline", "content": {"a": 1}}, Answer(AnswerAction.DECLINE)),
        ({"action": "ACCEPT", "content": {"a": 1}}, Answer(AnswerAction.DECLINE)),
        ({"role": "assistant"}, Answer(AnswerAction.ACCEPT, {"role": "assistant"})),
    ],
)
def test_answer_of(reply: dict[str, Any], expected: Answer) -> None:
    assert answer_of(reply) == expected


def test_questions_on_the_wire() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert elicit("A?", schema) == {
        "method": "elicitation/create",
        "params": {"message": "A?", "requestedSchema": schema},
    }
    assert elicit("A?", url="https://e.example", elicitation_id="7") == {
        "method": "elicitation/create",
        "params": {"mode": "url", "message": "A?", "url": "https://e.example", "elicitationId": "7"},
    }
    assert list_roots() == {"method": "roots/list", "params": {}}
    block = {"role": "user", "content": {"type": "text", "text": "b"}}
    asked = sample([("assistant", "a"), block], max_tokens=1, temperature=0.0, stop_sequences=("x",), metadata={"k": 1})
    assert asked["params"] == {
        "messages": [{"role": "assistant", "content": {"type": "text", "text": "a"}}, block],
        "maxTokens": 1,
        "temperature": 0.0,
        "stopSequences": ["x"],
        "metadata": {"k": 1},
    }


FLAT = "must be a string, number, integer, boolean or a choice of strings; forms are flat"
#: Fields that a form may not have, and why.
NO_FIELDS: list[tuple[Any, str]] = [
    ({"type": "object"}, FLAT),
    ({"type": ["string", "null"]}, FLAT),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, FLAT),
    ({}, FLAT),
    ("string", "must be a schema"),
    ({"type": "string", "format": "ipv4"}, "has an unknown format; known are date, date-time, email, uri"),
    ({"type": "string", "enum": [1, 2]}, "must list its choices as strings"),
    ({"type": "string", "enum": []}, "must list its choices as strings"),
    ({"type": "string", "oneOf": ["a"]}, "must list its choices as strings"),
    (
        {"type": "array", "items": {"type": "string"}},
        "must offer a choice: items with an enum, or with anyOf of const and title",
    ),
    ({"type": "array"}, "must offer a choice: items with an enum, or with anyOf of const and title"),
]


@pytest.mark.parametrize(("field", "fault"), NO_FIELDS)
def test_what_is_no_field_of_a_form(field: Any, fault: str) -> None:
    with pytest.raises(ValueError, match="elicit") as caught:
        elicit("A?", {"type": "object", "properties": {"a": field}})
    assert str(caught.value) == f"elicit: the field 'a' {fault}"


NO_FORMS: list[tuple[Any, str]] = [
    ({"type": "string"}, "a form's schema must be an object with properties"),
    ({"type": "object", "properties": []}, "a form's schema must be an object with properties"),
    (
        {"type": "object", "properties": {}, "required": ["b"]},
        "the required field 'b' is not among the properties",
    ),
]


@pytest.mark.parametrize(("schema", "fault"), NO_FORMS)
def test_what_is_no_form(schema: Any, fault: str) -> None:
    with pytest.raises(ValueError, match="elicit") as caught:
        elicit("A?", schema)
    assert str(caught.value) == f"elicit: {fault}"


TITLED = [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]
#: A field, what fills it in, and what does not, with the reason.
FIELDS: list[tuple[dict[str, Any], list[Any], list[tuple[Any, str]]]] = [
    ({"type": "string"}, ["", "x"], [(5, "must be of type string"), ([], "must be of type string")]),
    (
        {"type": "string", "minLength": 1, "maxLength": 2},
        ["a", "ab"],
        [("", "must be within minLength and maxLength"), ("abc", "must be within minLength and maxLength")],
    ),
    ({"type": "number"}, [1, 1.5], [(True, "must be of type number"), ("1", "must be of type number")]),
    ({"type": "integer"}, [1, 2.0], [(1.5, "must be of type integer"), (True, "must be of type integer")]),
    (
        {"type": "integer", "minimum": 1, "maximum": 2},
        [1, 2],
        [(0, "must be within minimum and maximum"), (3, "must be within minimum and maximum")],
    ),
    ({"type": "boolean"}, [True, False], [(1, "must be of type boolean")]),
    ({"type": "string", "enum": ["a", "b"]}, ["a"], [("c", "must be one of the choices")]),
    ({"type": "string", "oneOf": TITLED}, ["b"], [("B", "must be one of the choices")]),
    (
        {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2},
        [["a"], ["b", "a"]],
        [
            (["c"], "must be a list of the choices"),
            ("a", "must be a list of the choices"),
            ([["a"]], "must be a list of the choices"),
            ([], "must be within minItems and maxItems"),
            (["a", "a", "b"], "must be within minItems and maxItems"),
        ],
    ),
    ({"type": "array", "items": {"anyOf": TITLED}}, [["a", "b"], []], [(["A"], "must be a list of the choices")]),
]


@pytest.mark.parametrize(("field", "good", "bad"), FIELDS)
def test_what_fills_in_a_form(field: dict[str, Any], good: list[Any], bad: list[tuple[Any, str]]) -> None:
    request = elicit("A?", {"type": "object", "properties": {"f": field}})
    for value in (*good, None):
        # More than was asked for is let be, and what is not required may be left out.
        assert fault_of_answer(request, {"action": "accept", "content": {"f": value, "more": 1}}) is None
    assert fault_of_answer(request, {"action": "accept"}) is None
    for value, fault in bad:
        assert fault_of_answer(request, {"action": "accept", "content": {"f": value}}) == f"content.f {fault}"
        assert fault_of_answer(request, {"action": "decline", "content": {"f": value}}) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_asking_again_gives_the_same_answer(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def twice(ex: Exchange) -> str:
        """Twice."""
        one = await ex.ask("q", elicit("Sure?"))
        two = await ex.ask("q", elicit("Sure?"))
        return f"{one is two or one == two} {ex.accepted('q')}"

    asked: list[Any] = []

    def accept(request: Any) -> Any:
        asked.append(request["params"]["message"])
        return elicit_accept()

    with connect(registry, version, on_ask=accept) as client:
        result: Any = client.call_tool("twice")
    assert (result.content[0].text, asked) == ("True True", ["Sure?"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("data", [float("nan"), object(), {"a": {1: 2}}])
def test_log_data_that_is_not_json(version: str, data: Any) -> None:
    registry, seen = Registry("s", "1"), []

    @registry.tool
    async def talk(ex: Exchange) -> str:
        """Talk."""
        try:
            await ex.log("error", data)
        except ValueError as error:
            seen.append(str(error))
        return "said"

    with connect(registry, version) as client:
        client.set_log_level("debug")
        result: Any = client.call_tool("talk")
    assert result.content[0].text == "said"
    assert len(seen) == 1
    assert seen[0].startswith("log data is not JSON: $")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("token", [True, None, 1.5, [], {}])
def test_a_token_that_is_none_asks_for_no_progress(version: str, token: Any) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def work(ex: Exchange) -> str:
        """Work."""
        await ex.progress(1)
        return "done"

    channel = Channel(version, registry)
    request = channel.message("tools/call", {"name": "work", "arguments": {}, "_meta": {"progressToken": token}})
    assert len(channel.send(request)) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_sent_once_the_call_is_over(version: str) -> None:
    registry, kept = Registry("s", "1"), []

    @registry.tool
    async def work(ex: Exchange) -> str:
        """Work."""
        kept.append(ex)
        return "done"

    channel = Channel(version, registry)
    assert len(channel.call("work", token="t")) == 1
    before = len(channel.end.sent)

    async def late() -> None:
        await kept[0].progress(1)
        kept[0].cancel()

    channel.simulation.scheduler.spawn(late())
    channel.simulation.settle()
    assert channel.since(before) == []


HABITS: list[tuple[Callable[[Exchange], Any], str]] = [
    (lambda ex: ex.ask("q", "Really?"), "TypeError: a question is made by elicit(), sample() or list_roots()"),  # type: ignore[arg-type]
    (
        lambda ex: ex.log("warn", "x"),  # type: ignore[arg-type]
        "ValueError: 'warn' is no level of the protocol's; they are debug, info, notice, warning, error, critical, "
        "alert, emergency",
    ),
]


@pytest.mark.parametrize(("do", "text"), HABITS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_handlers_slip_is_told_in_the_log(
    version: str, do: Callable[[Exchange], Any], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def slip(ex: Exchange) -> str:
        """Slip."""
        await do(ex)
        return "unseen"

    [answered] = Channel(version, registry).call("slip")
    assert answered["result"]["isError"] is True
    assert text in caplog.text


def test_it_has_what_a_handler_needs_and_nothing_else() -> None:
    registry, held = Registry("s", "1"), []

    @registry.tool
    async def look(ex: Exchange) -> str:
        """Look."""
        held.extend(name for name in dir(ex) if not name.startswith("_"))
        return "x"

    Channel(VERSIONS[0], registry).call("look")
    reading = ["accepted", "action", "answered", "client_info", "request", "session", "sessions", "state"]
    doing = ["ask", "cancel", "log", "progress", "wait_cancelled"]
    assert held == sorted(reading + doing)

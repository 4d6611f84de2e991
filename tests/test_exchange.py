"""What a handler may know and do: the answers that it has, what it reports, and how a question can be put."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import Answer, AnswerAction, Exchange, Registry, elicit, list_roots, sample
from mcp_sansio.asking import answer_of
from mcp_sansio.testing import Simulation
from speak import CLIENT, EVERYTHING, VERSIONS, Channel, Http

MRTR = "2026-07-28"


def text(messages: list[Any]) -> str:
    return messages[-1]["result"]["content"][0]["text"]  # type: ignore[no-any-return]


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


FORMS: list[tuple[Any, str]] = [
    ({"type": "string"}, "elicit: a form's schema must be an object with properties"),
    (
        {"type": "object", "properties": {"a": {"type": "object"}}},
        "elicit: the field 'a' must be a string, number, integer, boolean or a choice of strings; forms are flat",
    ),
]


@pytest.mark.parametrize(("schema", "fault"), FORMS)
def test_what_is_no_form(schema: Any, fault: str) -> None:
    with pytest.raises(ValueError, match="elicit") as caught:
        elicit("A?", schema)
    assert str(caught.value) == fault


@pytest.mark.parametrize("version", VERSIONS)
def test_asking_again_gives_the_same_answer(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def twice(ex: Exchange) -> str:
        """Twice."""
        one = await ex.ask("q", elicit("Sure?"))
        two = await ex.ask("q", elicit("Sure?"))
        return f"{one is two or one == two} {ex.accepted('q')}"

    channel = Channel(version, registry)
    [asked] = channel.call("twice")
    if "method" in asked:
        done = channel.answer(asked, {"action": "accept"})
    elif version == MRTR:
        done = channel.call("twice", inputResponses={"q": {"action": "accept"}})
    else:
        done = channel.call("twice", {"mcpAnswers": {"q": {"action": "accept"}}})
    assert text(done) == "True True"


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

    channel = Channel(version, registry)
    channel.log_level = "debug"
    if channel.adapter.has_handshake:
        channel.request("logging/setLevel", {"level": "debug"})
    assert text(channel.call("talk")) == "said"
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

"""What a handler may know and do: the answers that it has, what it reports, and how a question can be put."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

import support
from mcp_sansio import (
    AdapterSet,
    Answer,
    AnswerAction,
    ClientInfo,
    Exchange,
    NeedInput,
    Registry,
    ServerError,
    elicit,
    elicit_accept,
    elicit_decline,
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
        ({"roots": []}, (True, True, AnswerAction.ACCEPT)),
        ({"role": "assistant", "model": "m", "content": []}, (True, True, AnswerAction.ACCEPT)),
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


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "reply", [{}, {"content": {}}, {"row": 2}, {"action": "acept"}, {"action": "ACCEPT"}, {"action": ["accept"]}]
)
def test_what_has_no_action_of_the_three_is_no_answer(version: str, reply: Any) -> None:
    registry, seen = Registry("s", "1"), []

    @registry.tool
    async def ask(ex: Exchange) -> str:
        """Ask."""
        seen.append((await ex.ask("q", elicit("Sure?"))).action)
        return "x"

    @registry.tool
    async def look(ex: Exchange) -> str:
        """Ask, and only look at how that ended."""
        if not ex.answered("q"):
            raise NeedInput({"q": elicit("Sure?")})
        seen.append(ex.accepted("q"))
        return "x"

    text = "the answer to 'q' is malformed: action must be one of accept, decline, cancel"
    channel = Channel(version, registry)
    for tool in ("ask", "look"):
        if channel.adapter.can_ask:
            [refused] = channel.call(tool, inputResponses={"q": reply})
        elif channel.adapter.can_push_ask:
            [refused] = channel.answer(channel.call(tool)[0], reply)
        else:
            [refused] = channel.call(tool, {"mcpAnswers": {"q": reply}})
            told = [{"type": "text", "text": f"Invalid arguments: {text}"}]
            assert refused["result"] == {"content": told, "isError": True}
            continue
        assert refused["error"] == {"code": -32602, "message": text}
    assert seen == []


@pytest.mark.revision(MRTR)
@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ({"action": "decline", "content": 5}, "content must be an object"),
        ({"roots": 5}, "roots must be a list"),
        ({"role": "assistant"}, "model must be a string"),
        ({"model": "m"}, "action must be one of accept, decline, cancel"),
    ],
)
def test_what_answers_no_question_is_no_yes(reply: Any, fault: str) -> None:
    registry, seen = Registry("s", "1"), []

    @registry.tool
    async def look(ex: Exchange) -> str:
        """Look."""
        seen.append(ex.accepted("q"))
        return "x"

    [refused] = Channel(MRTR, registry).call("look", inputResponses={"q": reply})
    assert refused["error"] == {"code": -32602, "message": f"the answer to 'q' is malformed: {fault}"}
    assert seen == []


def test_an_answer_reads_like_its_content() -> None:
    answer = Answer(AnswerAction.ACCEPT, {"name": "Ada"})
    assert (answer["name"], dict(answer), len(answer), answer.accepted) == ("Ada", {"name": "Ada"}, 1, True)
    with pytest.raises(KeyError):
        answer["other"]


NEITHER = "TypeError: an answer is neither true nor false: say answer.accepted, or answer.action for which it is"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("reply", [elicit_accept({"n": 1}), elicit_decline()])
def test_an_answer_is_neither_true_nor_false(version: str, reply: Any, caplog: pytest.LogCaptureFixture) -> None:
    registry, deleted = Registry("s", "1"), []

    @registry.tool
    async def delete(ex: Exchange) -> str:
        """Delete."""
        if await ex.ask("sure", elicit("Delete?")):
            deleted.append("all")
        return "x"

    with connect(registry, version, on_ask=lambda request: reply) as client:
        result: Any = client.call_tool("delete")
    assert (result.is_error, deleted) == (True, [])
    assert NEITHER in caplog.text


@pytest.mark.parametrize(
    ("request_", "reply", "expected"),
    [
        (elicit("?"), {"action": "accept", "content": {"a": 1}}, Answer(AnswerAction.ACCEPT, {"a": 1})),
        (elicit("?"), {"action": "accept"}, Answer(AnswerAction.ACCEPT)),
        (elicit("?"), {"action": "accept", "content": None}, Answer(AnswerAction.ACCEPT)),
        # What was filled in and then not sent is nobody's business.
        (elicit("?"), {"action": "decline", "content": {"a": 1}}, Answer(AnswerAction.DECLINE)),
        (list_roots(), {"roots": [], "action": "x"}, Answer(AnswerAction.ACCEPT, {"roots": [], "action": "x"})),
    ],
)
def test_answer_of(request_: Any, reply: dict[str, Any], expected: Answer) -> None:
    assert answer_of(request_, reply) == expected


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
def test_a_key_names_one_question(version: str, caplog: pytest.LogCaptureFixture) -> None:
    registry, deleted = Registry("s", "1"), []

    @registry.tool
    async def delete(ex: Exchange) -> str:
        """Delete two files."""
        for file in ("a", "b"):
            if (await ex.ask("sure", elicit(f"Delete {file}?"))).accepted:
                deleted.append(file)
        return "x"

    asked: list[Any] = []

    def accept(request: Any) -> Any:
        asked.append(request["params"]["message"])
        return elicit_accept()

    with connect(registry, version, on_ask=accept) as client:
        result: Any = client.call_tool("delete")
    assert (result.is_error, asked, deleted) == (True, ["Delete a?"], ["a"])
    text = "the key 'sure' names another question already: give each question a key of its own"
    assert f'ValueError: {text}, as f"sure-{{name}}" is one for each name' in caplog.text


@pytest.mark.parametrize("version", VERSIONS)
def test_a_key_may_name_another_question_in_another_run(version: str) -> None:
    registry, runs = Registry("s", "1"), []

    @registry.tool
    async def changing(ex: Exchange) -> str:
        """Ask in other words in each run."""
        runs.append(len(runs))
        one = await ex.ask("q", elicit(f"Sure, {runs[-1]}?"))
        if ex.state is None:
            raise NeedInput({"more": elicit("More?")}, state=1)
        return f"{one.action} {ex.action('more')}"

    with connect(registry, version, on_ask=lambda request: elicit_accept()) as client:
        result: Any = client.call_tool("changing")
    assert result.content[0].text == "accept accept"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_question_is_put_anew_by_need_input(version: str) -> None:
    registry = Registry("s", "1")
    form = {"type": "object", "properties": {"years": {"type": "integer"}}, "required": ["years"]}

    @registry.tool
    async def insist(ex: Exchange) -> str:
        """Ask until the answer makes sense."""
        question = elicit(ex.state or "Age?", form)
        age = await ex.ask("age", question)
        if age["years"] < 0:
            again = "Again: age?"
            raise NeedInput({"age": elicit(again, form)}, state=again)
        return f"{age['years']}"

    asked: list[Any] = []

    def answer(request: Any) -> Any:
        asked.append(request["params"]["message"])
        return elicit_accept({"years": len(asked) - 3})

    with connect(registry, version, on_ask=answer) as client:
        result: Any = client.call_tool("insist")
    assert (result.content[0].text, asked) == ("0", ["Age?", "Again: age?", "Again: age?"])


@pytest.mark.parametrize("version", VERSIONS)
def test_who_takes_no_exchange_may_ask_by_need_input(version: str) -> None:
    registry, runs = Registry("s", "1"), []

    @registry.tool
    async def purge(what: list[str]) -> str:
        """Ask twice, and spoil the arguments."""
        runs.append(what.pop())
        if len(runs) < 3:
            raise NeedInput({f"q{len(runs)}": elicit("Sure?")})
        return runs[-1]

    adapter = AdapterSet.default().by_version[version]
    with connect(registry, version, on_ask=lambda request: elicit_accept()) as client:
        if adapter.can_ask or adapter.can_push_ask:
            result: Any = client.call_tool("purge", {"what": ["all"]})
            assert (result.content[0].text, runs) == ("all", ["all"] * 3)
        else:
            with pytest.raises(ServerError, match="has no way to ask"):
                client.call_tool("purge", {"what": ["all"]})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("tool", ["plain", "with_exchange"])
def test_a_question_leaves_nothing_for_the_collector(version: str, tool: str) -> None:
    registry, runs = Registry("s", "1"), []

    @registry.tool
    async def plain() -> str:
        """Ask twice."""
        runs.append(None)
        if len(runs) % 3:
            raise NeedInput({f"q{len(runs) % 3}": elicit("Sure?")})
        return "x"

    @registry.tool
    async def with_exchange(ex: Exchange) -> str:
        """Ask twice, and might in another way."""
        return await plain()

    channel = Channel(version, registry)

    def call() -> None:
        given = channel.call(tool)
        while "method" in given[-1]:
            given = channel.answer(given[-1], elicit_accept())

    call()
    gc.collect()
    gc.disable()
    try:
        call()
        assert gc.collect() == 0
    finally:
        gc.enable()


DEFAULTS: list[tuple[Any, Any, str]] = [
    (elicit("Sure?"), {}, "action must be one of accept, decline, cancel"),
    (elicit("Sure?"), {"action": "acept"}, "action must be one of accept, decline, cancel"),
    (elicit("Sure?"), None, "must be an object"),
    (list_roots(), {"roots": 5}, "roots must be a list"),
    (list_roots(), {"action": "acept"}, "action must be one of accept, decline, cancel"),
    (list_roots(), None, "must be an object"),
]


@pytest.mark.parametrize(("question", "default", "fault"), DEFAULTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_default_that_is_no_answer(
    version: str, question: Any, default: Any, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def careful(ex: Exchange) -> str:
        """Careful."""
        return (await ex.ask("q", question, default=default)).action

    [answered] = Channel(version, registry).call("careful")
    assert answered["result"]["isError"] is True
    assert f"ValueError: the default is no answer to this question: {fault}" in caplog.text


@pytest.mark.parametrize("version", VERSIONS)
def test_a_default_declines_any_question(version: str) -> None:
    registry = Registry("s", "1")

    @registry.prompt
    async def careful(ex: Exchange) -> str:
        """Careful."""
        roots = [await ex.ask("q", list_roots(), default=elicit_decline()) for _ in range(2)]
        return " ".join(answer.action for answer in roots)

    channel = Channel(version, registry, capabilities={})
    [answered] = channel.request("prompts/get", {"name": "careful"})
    assert answered["result"]["messages"][0]["content"]["text"] == "decline decline"
    if channel.adapter.can_push_ask:  # where the client could be asked, and does not answer
        channel = Channel(version, registry)
        [question] = channel.request("prompts/get", {"name": "careful"})
        refusal = {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}}
        [answered] = channel.send(refusal)
        assert answered["result"]["messages"][0]["content"]["text"] == "decline decline"


NOT_AWAITED = "nobody was asked yet: write `await ex.ask(…)`, in a handler that is an `async def`"
#: What is taken for an answer that nobody has given.
HASTY: list[Callable[[Any], Any]] = [bool, lambda asking: asking.accepted, lambda asking: asking["name"], list]


@pytest.mark.filterwarnings("ignore:coroutine 'Asker.ask' was never awaited:RuntimeWarning")
@pytest.mark.parametrize("use", HASTY)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_to_be_awaited(version: str, use: Callable[[Any], Any], caplog: pytest.LogCaptureFixture) -> None:
    registry, deleted = Registry("s", "1"), []

    @registry.tool
    def plain(ex: Exchange) -> str:
        """Delete."""
        if use(ex.ask("sure", elicit("Delete?"))):
            deleted.append("all")
        return "x"

    @registry.tool
    async def hasty(ex: Exchange) -> str:
        """Delete."""
        if use(ex.ask("sure", elicit("Delete?"))):
            deleted.append("all")
        return "x"

    for tool in ("plain", "hasty"):
        caplog.clear()
        [answered] = Channel(version, registry).call(tool)
        assert answered["result"]["isError"] is True
        assert NOT_AWAITED in caplog.text
    assert deleted == []


async def asked_in_tasks(tool: Callable[[Exchange], Any], wait: Callable[[], Any]) -> str:
    """What `tool` says, whose question "B?" gets no answer."""
    registry = Registry("s", "1")
    registry.tool(tool)

    async def answer(request: Any) -> Any:
        if request["params"]["message"] == "B?":
            await wait()
        return elicit_accept()

    async with connect(registry, "2025-11-25", on_ask=answer) as client:
        result: Any = await client.call_tool(tool.__name__)
    return str(result.content[0].text)


@pytest.mark.revision("2025-11-25")
async def test_a_question_is_a_coroutine_to_asyncio() -> None:
    async def tasks(ex: Exchange) -> str:
        """Ask in tasks, and give one of them up."""
        ex.ask("never", elicit("Never?")).close()
        given_up = asyncio.create_task(ex.ask("b", elicit("B?")))
        answer = await asyncio.create_task(ex.ask("a", elicit("A?")))
        given_up.cancel()
        await asyncio.wait([given_up])
        return f"{answer.action} {given_up.cancelled()}"

    assert await asked_in_tasks(tasks, asyncio.Event().wait) == "accept True"


@pytest.mark.revision("2025-11-25")
def test_a_question_is_a_coroutine_to_trio() -> None:
    trio = support.need("trio")

    async def nursery(ex: Exchange) -> str:
        """Ask in tasks, and give one of them up."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ex.ask, "b", elicit("B?"))
            answer = await ex.ask("a", elicit("A?"))
            nursery.cancel_scope.cancel()
        return f"{answer.action} {nursery.cancel_scope.cancelled_caught}"

    assert trio.run(asked_in_tasks, nursery, trio.sleep_forever) == "accept True"


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

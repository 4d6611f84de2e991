"""Asking the client: every kind of question, on every revision, by whichever of the three ways the revision has."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import (
    Answer,
    AnswerAction,
    Exchange,
    NeedInput,
    Registry,
    elicit,
    elicit_accept,
    elicit_cancel,
    elicit_decline,
    list_roots,
    sample,
)
from mcp_sansio.testing import connect
from speak import EVERYTHING, HANDSHAKE, META, STREAM_HEAD, VERSIONS, Channel, Http, assert_json

MRTR = "2026-07-28"
PUSHED = ("2025-11-25", "2025-06-18")
IN_ARGUMENTS = ("2025-03-26", "2024-11-05")
ASKED = tuple(version for version in VERSIONS if version == MRTR or version in PUSHED)

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
TOOLS = [{"name": "t", "inputSchema": {"type": "object"}}]

#: Each kind: the question, its request on the wire, an answer, and what the handler makes of it.
KINDS: dict[str, tuple[Any, dict[str, Any], dict[str, Any], Any]] = {
    "form": (
        elicit("Name?", FORM),
        {"method": "elicitation/create", "params": {"message": "Name?", "requestedSchema": FORM}},
        elicit_accept({"name": "Ada"}),
        Answer(AnswerAction.ACCEPT, {"name": "Ada"}),
    ),
    "agree": (
        elicit("Sure?"),
        {
            "method": "elicitation/create",
            "params": {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
        },
        elicit_decline(),
        Answer(AnswerAction.DECLINE),
    ),
    "url": (
        elicit("Sign in", url="https://e.example/login"),
        {
            "method": "elicitation/create",
            "params": {"mode": "url", "message": "Sign in", "url": "https://e.example/login"},
        },
        elicit_cancel(),
        Answer(AnswerAction.CANCEL),
    ),
    "sample": (
        sample("Hi", max_tokens=5, system_prompt="Be kind."),
        {
            "method": "sampling/createMessage",
            "params": {
                "messages": [{"role": "user", "content": {"text": "Hi", "type": "text"}}],
                "maxTokens": 5,
                "systemPrompt": "Be kind.",
            },
        },
        {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hello"}},
        Answer(AnswerAction.ACCEPT, {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Hello"}}),
    ),
    "tools": (
        sample("Hi", max_tokens=5, tools=TOOLS),
        {
            "method": "sampling/createMessage",
            "params": {
                "messages": [{"role": "user", "content": {"text": "Hi", "type": "text"}}],
                "maxTokens": 5,
                "tools": TOOLS,
            },
        },
        {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hello"}]},
        Answer(
            AnswerAction.ACCEPT, {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "Hello"}]}
        ),
    ),
    "roots": (
        list_roots(),
        {"method": "roots/list", "params": {}},
        {"roots": [{"uri": "file:///a"}]},
        Answer(AnswerAction.ACCEPT, {"roots": [{"uri": "file:///a"}]}),
    ),
}
#: What a client has to declare for each kind.
NEEDS: dict[str, dict[str, Any]] = {
    "form": {"elicitation": {"form": {}}},
    "agree": {"elicitation": {"form": {}}},
    "url": {"elicitation": {"url": {}}},
    "sample": {"sampling": {}},
    "tools": {"sampling": {"tools": {}}},
    "roots": {"roots": {}},
}


def can_carry(version: str, kind: str) -> bool:
    return version != "2025-06-18" or kind not in ("url", "tools")


def asking(request: Any, **options: Any) -> tuple[Registry, list[Any]]:
    registry, got = Registry("s", "1"), []

    @registry.tool(**options)
    async def gate(name: str, ex: Exchange) -> str:
        """Ask."""
        answer = await ex.ask("q", request)
        got.append(answer)
        return f"{name}: {answer.action}"

    return registry, got


def ended(version: str, text: str, id: Any = 1) -> dict[str, Any]:
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if version not in HANDSHAKE:
        result |= {"resultType": "complete", "_meta": {META + "serverInfo": {"name": "s", "version": "1"}}}
    return {"jsonrpc": "2.0", "id": id, "result": result}


def asked_by_result(requests: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The message of 2026-07-28 that asks."""
    info = {META + "serverInfo": {"name": "s", "version": "1"}}
    result = {"resultType": "input_required", "inputRequests": requests, **more, "_meta": info}
    return {"jsonrpc": "2.0", "id": 1, "result": result}


# MRTR -----------------------------------------------------------------------------------------------------------------


@pytest.mark.revision(MRTR)
@pytest.mark.parametrize("kind", KINDS)
def test_the_question_is_the_result(kind: str) -> None:
    request, wire, answer, expected = KINDS[kind]
    registry, got = asking(request)
    speaker, channel = Http(MRTR, registry), Channel(MRTR, registry)
    asked = asked_by_result({"q": wire})
    assert_json(speaker.call("gate", {"name": "x"}), 200, asked)
    assert channel.call("gate", {"name": "x"}) == [asked]
    done = ended(MRTR, f"x: {expected.action}")
    assert_json(speaker.call("gate", {"name": "x"}, inputResponses={"q": answer}), 200, done)
    assert channel.call("gate", {"name": "x"}, inputResponses={"q": answer}) == [done]
    assert got == [expected, expected]
    assert len(speaker.simulation.server.store) == 0  # type: ignore[arg-type]


@pytest.mark.revision(MRTR)
@pytest.mark.parametrize("operation", ["resources/read", "prompts/get"])
def test_resources_and_prompts_ask_too(operation: str) -> None:
    registry = Registry("s", "1")

    @registry.resource("a:b")
    async def read(ex: Exchange) -> str:
        return (await ex.ask("q", elicit("Sure?"))).action

    @registry.prompt
    async def say(ex: Exchange) -> str:
        return (await ex.ask("q", elicit("Sure?"))).action

    params = {"uri": "a:b"} if operation == "resources/read" else {"name": "say"}
    channel = Channel(MRTR, registry)
    assert channel.request(operation, params) == [asked_by_result({"q": KINDS["agree"][1]})]
    [done] = channel.request(operation, {**params, "inputResponses": {"q": elicit_accept()}})
    assert done["result"]["resultType"] == "complete"
    assert "accept" in str(done["result"])


@pytest.mark.revision(MRTR)
@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([], "params.inputResponses must be an object"),
        ({"q": 5}, "params.inputResponses['q'] must be an object"),
        ({"q" * 101: 5}, f"params.inputResponses['{'q' * 100}'] must be an object"),
        ({"q": {"content": {}}}, "the answer to 'q' is malformed: action must be one of accept, decline, cancel"),
        (
            {"q": {"action": "accept", "content": []}},
            "the answer to 'q' is malformed: content must be an object",
        ),
        ({"q": {"action": "accept"}}, "the answer to 'q' is malformed: content.name is required"),
    ],
)
def test_malformed_answers_never_reach_the_handler(answers: Any, text: str) -> None:
    registry, got = asking(KINDS["form"][0])
    refused = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": text}}
    assert_json(Http(MRTR, registry).call("gate", {"name": "x"}, inputResponses=answers), 400, refused)
    assert Channel(MRTR, registry).call("gate", {"name": "x"}, inputResponses=answers) == [refused]
    assert got == []


@pytest.mark.revision(MRTR)
@pytest.mark.parametrize(
    "answer",
    [{"role": "assistant", "model": "m", "content": {"type": "text"}}, {"role": "x"}, {"role": "user", "model": 5}],
)
def test_malformed_samples_never_reach_the_handler(answer: Any) -> None:
    registry, got = asking(KINDS["sample"][0])
    [refused] = Channel(MRTR, registry).call("gate", {"name": "x"}, inputResponses={"q": answer})
    assert refused["error"]["code"] == -32602
    assert got == []


@pytest.mark.revision(MRTR)
def test_unknown_answers_are_ignored_and_missing_ones_asked_again() -> None:
    registry, got = asking(KINDS["agree"][0])
    [again] = Channel(MRTR, registry).call("gate", {"name": "x"}, inputResponses={"other": {"action": "accept"}})
    assert again["result"]["inputRequests"] == {"q": KINDS["agree"][1]}
    assert got == []


@pytest.mark.revision(MRTR)
def test_both_ways_of_absence_are_no_answers() -> None:
    registry, _ = asking(KINDS["agree"][0])
    channel = Channel(MRTR, registry)
    first = channel.call("gate", {"name": "x"})
    assert channel.call("gate", {"name": "x"}, inputResponses=None, requestState=None) == first


# Pushed ---------------------------------------------------------------------------------------------------------------


def pushed(version: str, wire: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """The request that `question`, a message that came, should be."""
    params = dict(wire["params"])
    if params.get("mode") == "url":
        params["elicitationId"] = question["id"]
    return {"jsonrpc": "2.0", "id": question["id"], "method": wire["method"], "params": params}


@pytest.mark.parametrize("version", [version for version in PUSHED if version in VERSIONS])
@pytest.mark.parametrize("kind", KINDS)
def test_the_question_is_pushed(version: str, kind: str) -> None:
    request, wire, answer, expected = KINDS[kind]
    registry, got = asking(request)
    speaker, channel = Http(version, registry), Channel(version, registry)
    running = speaker.call("gate", {"name": "x"})
    if not can_carry(version, kind):
        text = "this needs an answer from the client, which its protocol revision has no way to ask for"
        refused = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": text}}
        assert_json(running, 200, refused)
        assert channel.call("gate", {"name": "x"}) == [refused]
        return
    [question] = running.messages
    assert running.head == STREAM_HEAD
    assert question == pushed(version, wire, question)
    accepted = speaker.answer(question, answer)
    assert (accepted.status, accepted.body) == (202, b"")
    assert (running.messages, running.ended) == ([question, ended(version, f"x: {expected.action}")], True)

    [question] = channel.call("gate", {"name": "x"})
    assert question == pushed(version, wire, question)
    assert channel.answer(question, answer) == [ended(version, f"x: {expected.action}")]
    assert got == [expected, expected]
    assert len(speaker.simulation.server.questions) == 0


def asked_of(version: str, request: Any) -> dict[str, Any]:
    """The question that a client of `version` gets for `request`: its method and its params."""
    [asked] = Channel(version, asking(request)[0]).call("gate", {"name": "x"})
    return asked["result"]["inputRequests"]["q"] if version == MRTR else {name: asked[name] for name in WIRE}  # type: ignore[no-any-return]


WIRE = ("method", "params")


@pytest.mark.parametrize("version", [version for version in ASKED if can_carry(version, "url")])
def test_an_interaction_is_named_where_the_revision_has_names(version: str) -> None:
    wire = KINDS["url"][1]
    named = wire if version == MRTR else {**wire, "params": {**wire["params"], "elicitationId": "7"}}
    assert asked_of(version, elicit("Sign in", url="https://e.example/login", elicitation_id="7")) == named
    # Only of elicitation: what another question has by that name is its own affair.
    other = sample("Hi", max_tokens=5, url="https://e.example/", elicitationId="7")
    assert asked_of(version, other) == other
    plain = sample("Hi", max_tokens=5, url="https://e.example/")
    assert asked_of(version, plain) == plain


@pytest.mark.parametrize("version", ASKED)
def test_a_question_that_was_written_by_hand(version: str) -> None:
    bare = {"method": "roots/list"}
    assert asked_of(version, bare) == (bare if version == MRTR else {**bare, "params": {}})
    form: dict[str, Any] = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = asked_of(version, {"method": "elicitation/create", "params": {"mode": "form", **form}})
    mode = {} if version == "2025-06-18" else {"mode": "form"}  # the first revision of elicitation has none
    assert asked == {"method": "elicitation/create", "params": {**mode, **form}}
    if version == "2025-06-18":
        form["requestedSchema"] = {"type": "object"}
        shown = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
        assert asked_of(version, {"method": "elicitation/create", "params": form})["params"] == shown


@pytest.mark.parametrize("version", ASKED)
def test_a_form_without_properties_is_sent_with_none(version: str) -> None:
    """The specification's schema requires them."""
    assert asked_of(version, elicit("Sure?", {"type": "object"})) == KINDS["agree"][1]


@pytest.mark.parametrize("version", [version for version in PUSHED if version in VERSIONS])
def test_what_each_pushing_revision_knows_of_forms(version: str) -> None:
    one = {"type": "string", "title": "X", "oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}
    several = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
    registry, _ = asking(elicit("Pick", {"type": "object", "properties": {"x": one}}))
    [question] = Channel(version, registry).call("gate", {"name": "x"})
    field = question["params"]["requestedSchema"]["properties"]["x"]
    plain = {"type": "string", "title": "X", "enum": ["a", "b"], "enumNames": ["A", "b"]}
    assert field == (plain if version == "2025-06-18" else one)
    registry, _ = asking(elicit("Pick", {"type": "object", "properties": {"x": several}}))
    [question] = Channel(version, registry).call("gate", {"name": "x"})
    if version == "2025-06-18":
        assert question["error"]["code"] == -32600
    else:
        assert question["params"]["requestedSchema"]["properties"]["x"] == several


@pytest.mark.parametrize("version", [version for version in PUSHED if version in VERSIONS])
def test_a_refused_question_fails_the_call(version: str) -> None:
    registry, got = asking(KINDS["agree"][0])
    speaker, channel = Http(version, registry), Channel(version, registry)
    reply = {"jsonrpc": "2.0", "error": {"code": -1, "message": "secret of the client"}}
    failed = {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32603, "message": "the client refused the question 'q'"},
    }
    running = speaker.call("gate", {"name": "x"})
    speaker.post({**reply, "id": running.messages[0]["id"]})
    assert running.messages[1:] == [failed]
    [question] = channel.call("gate", {"name": "x"})
    assert channel.send({**reply, "id": question["id"]}) == [failed]
    assert got == []


@pytest.mark.parametrize("version", [version for version in PUSHED if version in VERSIONS])
def test_an_unanswered_question_is_withdrawn(version: str) -> None:
    registry, got = asking(KINDS["agree"][0])
    speaker = Http(version, registry)
    running = speaker.call("gate", {"name": "x"})
    channel = Channel(version, speaker.simulation)
    [question] = channel.call("gate", {"name": "x"})
    before = len(channel.end.sent)
    speaker.simulation.advance(600)
    error = {"code": -32603, "message": "the client did not answer the question 'q' in time"}

    def told(question: Any) -> list[Any]:
        params = {"requestId": question["id"], "reason": "nobody answered in time"}
        withdrawn = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        return [withdrawn, {"jsonrpc": "2.0", "id": 1, "error": error}]

    assert running.messages[1:] == told(running.messages[0])
    assert channel.since(before) == told(question)
    assert (got, len(speaker.simulation.server.questions)) == ([], 0)


@pytest.mark.parametrize("version", [version for version in PUSHED if version in VERSIONS])
@pytest.mark.parametrize("reply", [{}, {"action": 5}, [], None, "yes"])
def test_a_malformed_answer_fails_the_call(version: str, reply: Any) -> None:
    registry, got = asking(KINDS["agree"][0])
    channel = Channel(version, registry)
    [question] = channel.call("gate", {"name": "x"})
    [failed] = channel.answer(question, reply)
    assert failed["error"]["code"] == -32602
    assert failed["error"]["message"].startswith("the answer to 'q' is malformed: ")
    assert got == []


@pytest.mark.parametrize("version", [version for version in PUSHED if version in VERSIONS])
def test_who_cannot_be_reached_is_not_asked(version: str) -> None:
    registry, got = asking(KINDS["agree"][0])
    speaker = Http(version, registry)
    text = "the client cannot be asked here: it has no session, or accepts no event stream"
    refused = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": text}}
    assert_json(speaker.call("gate", {"name": "x"}, headers={"Accept": "application/json"}), 200, refused)
    # Without a session nothing is known of the client: what it can do was said in a handshake that nobody remembers.
    speaker.session = None
    unknown = speaker.call("gate", {"name": "x"})
    assert unknown.messages[0]["error"]["code"] == -32600
    assert got == []


# In the arguments -----------------------------------------------------------------------------------------------------

LEAD = "This needs an answer before it can go on."
COPY = "Call the tool again with these arguments, the answers filled in:"


def in_arguments(text: str, requests: dict[str, Any], version: str, **more: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"mcp-sansio/input-required": {"inputRequests": requests, **more}}
    result = {"content": [{"type": "text", "text": text}], "_meta": meta}
    if version not in HANDSHAKE:
        result["resultType"] = "complete"
        meta[META + "serverInfo"] = {"name": "s", "version": "1"}
    return {"jsonrpc": "2.0", "id": 1, "result": result}


SAMPLED = '{"name":"x","mcpAnswers":{"q":{"role":"assistant","model":"…","content":{"type":"text","text":"…"}}}}'
#: What each kind says, and the arguments that finish the call.
ASK_TEXTS = {
    "form": (
        '- q: Name? (content: {"type":"object","properties":{"name":{"type":"string"}},"required":["name"]})',
        '{"name":"x","mcpAnswers":{"q":{"action":"accept","content":{"name":"…"}}}}',
    ),
    "agree": ("- q: Sure?", '{"name":"x","mcpAnswers":{"q":{"action":"accept","content":{}}}}'),
    "url": (
        "- q: Sign in (open https://e.example/login)",
        '{"name":"x","mcpAnswers":{"q":{"action":"accept","content":{}}}}',
    ),
    "sample": (
        '- q: sampling/createMessage {"messages":[{"role":"user","content":{"text":"Hi","type":"text"}}],'
        '"maxTokens":5,"systemPrompt":"Be kind."}',
        SAMPLED,
    ),
    "tools": (
        '- q: sampling/createMessage {"messages":[{"role":"user","content":{"text":"Hi","type":"text"}}],'
        '"maxTokens":5,"tools":[{"name":"t","inputSchema":{"type":"object"}}]}',
        SAMPLED,
    ),
    "roots": ("- q: roots/list {}", '{"name":"x","mcpAnswers":{"q":{"roots":[{"uri":"file:///…"}]}}}'),
}


@pytest.mark.parametrize("version", [version for version in IN_ARGUMENTS if version in VERSIONS])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("capabilities", [{}, EVERYTHING])
def test_the_question_rides_in_the_tool_call(version: str, kind: str, capabilities: Any) -> None:
    request, wire, answer, expected = KINDS[kind]
    registry, got = asking(request)
    speaker, channel = Http(version, registry, capabilities=capabilities), Channel(version, registry)
    wording, finish = ASK_TEXTS[kind]
    asked = in_arguments("\n".join([LEAD, wording, COPY, finish]), {"q": wire}, version)
    assert_json(speaker.call("gate", {"name": "x"}), 200, asked)
    assert channel.call("gate", {"name": "x"}) == [asked]
    done = ended(version, f"x: {expected.action}")
    assert_json(speaker.call("gate", {"name": "x", "mcpAnswers": {"q": answer}}), 200, done)
    assert channel.call("gate", {"name": "x", "mcpAnswers": {"q": answer}}) == [done]
    assert got == [expected, expected]


def wrong_arguments(text: str) -> Any:
    """The result of a tool that was called with wrong arguments: it was called, and is told what was wrong."""
    return {"content": [{"type": "text", "text": f"Invalid arguments: {text}"}], "isError": True}


@pytest.mark.parametrize("version", [version for version in IN_ARGUMENTS if version in VERSIONS])
@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([], "$.mcpAnswers: must be an object"),
        ("yes", "$.mcpAnswers: must be an object"),
        ({"q": 5}, "the answer to 'q' is malformed: must be an object"),
        # The content alone says nothing of whether the user agreed to send it.
        ({"q": {"name": "Ada"}}, "the answer to 'q' is malformed: action must be one of accept, decline, cancel"),
        ({"q": elicit_accept({"name": 5})}, "the answer to 'q' is malformed: content.name must be of type string"),
        ({"q": {"action": "accept"}}, "the answer to 'q' is malformed: content.name is required"),
    ],
)
def test_malformed_answers_in_arguments(version: str, answers: Any, text: str) -> None:
    registry, got = asking(KINDS["form"][0])
    [refused] = Channel(version, registry).call("gate", {"name": "x", "mcpAnswers": answers})
    assert refused["result"] == wrong_arguments(text)
    assert got == []


@pytest.mark.parametrize("version", [version for version in IN_ARGUMENTS if version in VERSIONS])
@pytest.mark.parametrize(
    ("kind", "text"),
    [("sample", "role must be user or assistant"), ("roots", "roots must be a list")],
)
def test_what_only_a_client_can_answer_keeps_its_form(version: str, kind: str, text: str) -> None:
    registry, got = asking(KINDS[kind][0])
    [refused] = Channel(version, registry).call("gate", {"name": "x", "mcpAnswers": {"q": {}}})
    assert refused["result"] == wrong_arguments(f"the answer to 'q' is malformed: {text}")
    assert got == []


@pytest.mark.parametrize("version", [version for version in IN_ARGUMENTS if version in VERSIONS])
def test_only_a_tool_call_can_carry_a_question(version: str) -> None:
    registry = Registry("s", "1")

    @registry.prompt
    async def say(ex: Exchange) -> str:
        return (await ex.ask("q", elicit("Sure?"))).action

    @registry.prompt
    async def careful(ex: Exchange) -> str:
        return (await ex.ask("q", elicit("Sure?"), default=elicit_decline())).action

    channel = Channel(version, registry)
    text = "this needs an answer from the client, which its protocol revision has no way to ask for"
    [refused] = channel.request("prompts/get", {"name": "say"})
    assert refused == {"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": text}}
    [got] = channel.request("prompts/get", {"name": "careful"})
    assert got["result"]["messages"][0]["content"]["text"] == "decline"


# Opting in, on every revision -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("where", ["tool", "registry"])
def test_opting_in_serves_who_cannot_be_asked(version: str, where: str) -> None:
    registry = Registry("s", "1", ask_in_arguments=where == "registry")

    @registry.tool(ask_in_arguments=True if where == "tool" else None)
    async def gate(name: str, ex: Exchange) -> str:
        """Ask."""
        return f"{name}: {(await ex.ask('q', elicit('Sure?'))).action}"

    channel = Channel(version, registry, capabilities={})
    [listed] = channel.request("tools/list")
    assert list(listed["result"]["tools"][0]["inputSchema"]["properties"]) == ["name", "mcpAnswers", "mcpState"]
    text = "\n".join([LEAD, *("- q: Sure?", COPY, ASK_TEXTS["agree"][1])])
    assert channel.call("gate", {"name": "x"}) == [in_arguments(text, {"q": KINDS["agree"][1]}, version)]
    answered = channel.call("gate", {"name": "x", "mcpAnswers": {"q": elicit_decline()}})
    assert answered == [ended(version, "x: decline")]
    speaker = Http(version, registry, capabilities={})
    assert speaker.call("gate", {"name": "x"}).messages == channel.call("gate", {"name": "x"})


@pytest.mark.parametrize("version", ASKED)
def test_opting_in_leaves_who_can_be_asked_alone(version: str) -> None:
    registry, _ = asking(elicit("Sure?"), ask_in_arguments=True)
    [asked] = Channel(version, registry).call("gate", {"name": "x"})
    assert ("method" in asked) is (version in PUSHED)
    assert version in PUSHED or asked["result"]["resultType"] == "input_required"


@pytest.mark.parametrize("version", ASKED)
def test_a_tool_opts_out_of_what_its_registry_says(version: str) -> None:
    registry = Registry("s", "1", ask_in_arguments=True)

    @registry.tool(ask_in_arguments=False)
    async def gate(ex: Exchange) -> str:
        """Ask."""
        return (await ex.ask("q", elicit("Sure?"))).action

    channel = Channel(version, registry, capabilities={})
    [listed] = channel.request("tools/list")
    assert "mcpAnswers" not in listed["result"]["tools"][0]["inputSchema"]["properties"]
    [refused] = channel.call("gate")
    assert "error" in refused


# Missing capabilities -------------------------------------------------------------------------------------------------

LACKING: list[tuple[str, dict[str, Any]]] = [
    *((kind, {}) for kind in KINDS),
    ("url", {"elicitation": {}}),
    ("url", {"elicitation": {"form": {}}}),
    ("form", {"elicitation": {"url": {}}}),
    ("tools", {"sampling": {}}),
    ("roots", {"roots": True}),
    ("sample", {"sampling": None, "elicitation": {}}),
]


@pytest.mark.parametrize("version", ASKED)
@pytest.mark.parametrize(("kind", "capabilities"), LACKING)
def test_a_missing_capability(version: str, kind: str, capabilities: dict[str, Any]) -> None:
    registry, got = asking(KINDS[kind][0])
    if version == MRTR:
        capabilities = {name: value for name, value in capabilities.items() if value is not None}
    speaker = Http(version, registry, capabilities=capabilities)
    channel = Channel(version, registry, capabilities=capabilities)
    needed = NEEDS[kind]
    if kind in ("form", "agree") and not isinstance(capabilities.get("elicitation"), dict):
        needed = {"elicitation": {}}
    text = f"this needs the client capability {next(iter(needed))!r}, which the client did not declare"
    error: dict[str, Any] = {"code": -32600, "message": text, "data": {"requiredCapabilities": needed}}
    if not can_carry(version, kind):
        text = "this needs an answer from the client, which its protocol revision has no way to ask for"
        error = {"code": -32600, "message": text}
    if version == MRTR:
        error["code"] = -32021
    refused = {"jsonrpc": "2.0", "id": 1, "error": error}
    assert_json(speaker.call("gate", {"name": "x"}), 400 if version == MRTR else 200, refused)
    assert channel.call("gate", {"name": "x"}) == [refused]
    assert got == []


@pytest.mark.parametrize("version", ASKED)
def test_open_capabilities(version: str) -> None:
    registry, _ = asking(KINDS["form"][0])
    for held in ({}, {"form": {}}, {"form": {}, "zzz": {}}, {"url": {}, "form": {}}):
        capabilities = {"elicitation": held, "vendorThing": {"a": 1}, "roots": {"listChanged": True}}
        [asked] = Channel(version, registry, capabilities=capabilities).call("gate", {"name": "x"})
        assert "error" not in asked


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("default", [elicit_decline(), elicit_cancel(), elicit_accept({"name": "D"})])
def test_the_default_where_nobody_can_be_asked(version: str, default: Any) -> None:
    registry = Registry("s", "1")

    @registry.prompt
    async def say(ex: Exchange) -> str:
        answer = await ex.ask("q", KINDS["form"][0], default=default)
        return f"{answer.action} {dict(answer)}"

    [answered] = Channel(version, registry, capabilities={}).request("prompts/get", {"name": "say"})
    expected = f"{default['action']} {default.get('content', {})}"
    assert answered["result"]["messages"][0]["content"]["text"] == expected


@pytest.mark.parametrize("version", [version for version in PUSHED if version in VERSIONS])
def test_the_default_where_nobody_answered(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def gate(ex: Exchange) -> str:
        """Ask."""
        return (await ex.ask("q", elicit("Sure?"), default=elicit_decline())).action

    channel = Channel(version, registry)
    channel.call("gate")
    channel.simulation.advance(600)
    assert channel.end.messages[-1] == ended(version, "decline")


# Several questions and NeedInput --------------------------------------------------------------------------------------


def purging() -> tuple[Registry, list[str]]:
    registry, computed = Registry("s", "1"), []

    @registry.tool
    async def purge(name: str, ex: Exchange) -> str:
        """Purge."""
        if ex.answered("sure") and ex.answered("why"):
            reason = (await ex.ask("why", elicit("Why?")))["why"]
            return f"{ex.state['resolved']} {ex.accepted('sure')} {ex.action('why')} {reason} {ex.action('none')}"
        computed.append(name)
        form = {"type": "object", "properties": {"why": {"type": "string"}}}
        raise NeedInput({"sure": elicit("Sure?"), "why": elicit("Why?", form)}, state={"resolved": name.upper()})

    return registry, computed


ANSWERS = {"sure": elicit_accept(), "why": elicit_accept({"why": "old"})}


@pytest.mark.parametrize("version", VERSIONS)
def test_several_questions_and_state(version: str) -> None:
    registry, computed = purging()
    channel = Channel(version, registry)
    replies = channel.call("purge", {"name": "cache"})
    if version in PUSHED:
        assert [reply["params"]["message"] for reply in replies] == ["Sure?"]
        second = channel.answer(replies[0], ANSWERS["sure"])
        assert [reply["params"]["message"] for reply in second] == ["Why?"]
        done = channel.answer(second[0], ANSWERS["why"])
    elif version == MRTR:
        result = replies[0]["result"]
        assert list(result["inputRequests"]) == ["sure", "why"]
        more = {"inputResponses": ANSWERS, "requestState": result["requestState"]}
        done = channel.call("purge", {"name": "cache"}, **more)
    else:
        [block] = replies[0]["result"]["content"]
        meta = replies[0]["result"]["_meta"]["mcp-sansio/input-required"]
        last = block["text"].splitlines()[-1]
        state = meta["requestState"]
        assert last == (
            '{"name":"cache","mcpAnswers":{"sure":{"action":"accept","content":{}},'
            f'"why":{{"action":"accept","content":{{"why":"…"}}}}}},"mcpState":"{state}"}}'
        )
        done = channel.call("purge", {"name": "cache", "mcpAnswers": ANSWERS, "mcpState": state})
    assert done == [ended(version, "CACHE True accept old None")]
    assert computed == ["cache"]
    assert len(channel.simulation.server.store) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("version", VERSIONS)
def test_questions_one_after_the_other(version: str) -> None:
    registry = Registry("s", "1")
    form = {"type": "object", "properties": {"v": {"type": "string"}}}

    @registry.tool
    async def interview(ex: Exchange) -> str:
        """Interview."""
        first = await ex.ask("first", elicit("Your name?", form))
        second = await ex.ask("second", elicit("Your quest?", form))
        return f"{first['v']} seeks {second['v']}"

    channel = Channel(version, registry)
    name, quest = elicit_accept({"v": "Ada"}), elicit_accept({"v": "truth"})
    [asked] = channel.call("interview")
    if version in PUSHED:
        [second] = channel.answer(asked, name)
        done = channel.answer(second, quest)
    elif version == MRTR:
        assert list(asked["result"]["inputRequests"]) == ["first"]
        [second] = channel.call("interview", inputResponses={"first": name})
        assert list(second["result"]["inputRequests"]) == ["second"]
        state = second["result"]["requestState"]
        # A client answers what it was asked last; its earlier answers come back with the state.
        done = channel.call("interview", inputResponses={"second": quest}, requestState=state)
    else:
        [second] = channel.call("interview", {"mcpAnswers": {"first": name}})
        done = channel.call("interview", {"mcpAnswers": {"first": name, "second": quest}})
    assert done == [ended(version, "Ada seeks truth")]


@pytest.mark.parametrize("version", VERSIONS)
def test_except_exception_does_not_eat_a_question(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def greedy(ex: Exchange) -> str:
        """Greedy."""
        try:
            return (await ex.ask("q", elicit("Sure?"))).action
        except Exception:
            return "eaten"

    with connect(registry, version, on_ask=lambda request: elicit_decline()) as client:
        result: Any = client.call_tool("greedy")
    assert result.content[0].text == "decline"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handler_that_never_stops_asking(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def endless(ex: Exchange) -> str:
        """Endless."""
        raise NeedInput({"q": elicit("Again?")}, state=1)

    channel = Channel(version, registry)
    replies = channel.call("endless")
    if version not in PUSHED:
        assert "result" in replies[0]
        return
    for _ in range(31):
        replies = channel.answer(replies[0], elicit_accept())
        assert replies[0]["params"]["message"] == "Again?"
    failed = channel.answer(replies[0], elicit_accept())
    message = "the handler asked for input more than 32 times"
    assert failed == [{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": message}}]


@pytest.mark.parametrize("version", VERSIONS)
def test_asking_nothing_is_the_handlers_fault(version: str, caplog: Any) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def bad(ex: Exchange) -> str:
        """Bad."""
        raise NeedInput({})

    message = "The request failed because of an internal error."
    failed = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": message}}
    assert Channel(version, registry).call("bad") == [failed]
    assert "NeedInput asks nothing and leaves no state" in caplog.text


@pytest.mark.revision(MRTR)
def test_state_alone_asks_for_another_attempt() -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def later(ex: Exchange) -> str:
        """Later."""
        if ex.state is None:
            raise NeedInput({}, state=1)
        return f"had {ex.state}"

    channel = Channel(MRTR, registry)
    [asked] = channel.call("later")
    state = asked["result"]["requestState"]
    assert asked == asked_by_result({}, requestState=state)
    assert channel.call("later", requestState=state) == [ended(MRTR, "had 1")]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("state", [object(), float("nan")])
def test_state_that_is_not_json_is_the_handlers_fault(version: str, state: Any, caplog: Any) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def bad(ex: Exchange) -> str:
        """Bad."""
        raise NeedInput({"q": elicit("Again?")}, state=state)

    message = "The request failed because of an internal error."
    failed = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": message}}
    assert Channel(version, registry).call("bad") == [failed]
    assert "'bad' failed" in caplog.text

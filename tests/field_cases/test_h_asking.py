"""Cases 77 to 84: questions to the client, what they leave behind, subscriptions, and tasks that are not there."""

from __future__ import annotations

from typing import Any

import pytest

import speak
from mcp_sansio import Change, ChangeKind, Config, Exchange, NeedInput, Registry, elicit, list_roots, sample
from mcp_sansio.testing import Simulation

from .common import ENDS, ENVELOPE, EVERYWHERE, HANDSHAKE, Shop, error, result, say, text

JSON = Any
PUSHING = [version for version in HANDSHAKE if version >= "2025-06-18"]
WITH_URLS = [version for version in (*ENVELOPE, *PUSHING) if version >= "2025-11-25"]
ASKING = [*ENVELOPE, *PUSHING]
LACKS = "this needs the client capability 'elicitation', which the client did not declare"


def asking(**questions: Any) -> Registry:
    """A registry with one tool for each question, which says what the answer was."""
    registry = Registry("shop", "1.0")
    for name, question in questions.items():

        async def ask(ex: Exchange, question: Any = question) -> Any:
            answer = await ex.ask("q", question)
            return f"{answer.action}: {dict(answer)}"

        def bind(ask: Any) -> Any:
            async def tool(ex: Exchange) -> str:
                said: str = await ask(ex)
                return said

            return tool

        registry.tool(name=name)(bind(ask))
    return registry


FORM = elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
URL = elicit("Sign in", url="https://shop.example/in")
DECLARED: list[tuple[JSON, bool, bool]] = [
    # The capability; whether it takes a form, and whether an address.
    ({}, True, False),
    ({"form": {}}, True, False),
    ({"url": {}}, False, True),
    ({"form": {}, "url": {}}, True, True),
    ({"video": {}}, True, False),
    (None, False, False),
    (True, False, False),
    ([], False, False),
]


@pytest.mark.parametrize(("declared", "form", "url"), DECLARED)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("version", ASKING)
def test_case_77_and_81_no_mode_is_used_that_was_not_declared(
    version: str, end: str, declared: JSON, form: bool, url: bool
) -> None:
    for name, possible in (("form", form), ("url", url)):
        client = ENDS[end](version, asking(form=FORM, url=URL), capabilities={"elicitation": declared})
        call = client.call(name, id=1)
        (said,) = call.messages if end == "http" else call
        if name == "url" and version not in WITH_URLS:
            words = "this needs an answer from the client, which its protocol revision has no way to ask for"
            assert said == error(1, -32600, words)
        elif possible:
            asked = said["params"] if version in HANDSHAKE else said["result"]["inputRequests"]["q"]["params"]
            assert asked.get("mode", "form") == name
        else:
            needed = {} if name == "form" and not isinstance(declared, dict) else {name: {}}
            code = -32600 if version in HANDSHAKE else -32021
            assert said == error(1, code, LACKS, data={"requiredCapabilities": {"elicitation": needed}})
            if end == "http":
                assert call.status == (200 if version in HANDSHAKE else 400)


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize(
    "question", [sample("x", max_tokens=1), list_roots(), FORM, sample("x", max_tokens=1, tools=[])]
)
def test_case_81_nothing_is_asked_of_who_declared_nothing(version: str, question: Any) -> None:
    client = speak.Http(version, asking(a=question), capabilities={})
    reply = client.call("a")
    name = question["method"].partition("/")[0]
    needed = {"tools": {}} if "tools" in question["params"] else {}
    words = f"this needs the client capability {name!r}, which the client did not declare"
    speak.assert_json(reply, 400, error(1, -32021, words, data={"requiredCapabilities": {name: needed}}))


LEGAL: list[JSON] = [
    {"type": "string"},
    {"type": "string", "title": "A", "description": "a", "minLength": 1, "maxLength": 3, "default": "a"},
    {"type": "string", "format": "email"},
    {"type": "string", "format": "date-time"},
    {"type": "number", "minimum": 0, "maximum": 1, "default": 0.5},
    {"type": "integer", "title": "A"},
    {"type": "boolean", "default": False},
    {"type": "string", "enum": ["a", "b"], "default": "a"},
    {"type": "string", "enum": ["a"], "enumNames": ["A"]},
    {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
    {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a"]},
    {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "minItems": 1, "maxItems": 1},
]
ILLEGAL: list[JSON] = [
    {"type": "object"},
    {"type": "object", "properties": {}},
    {"type": "object", "enum": [{"a": 1}]},
    {"type": "object", "enum": ["a"]},
    {"type": "array"},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "items": {"type": "object", "properties": {}}},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"type": ["string", "null"]},
    {"type": "null"},
    {"enum": ["a"]},
    {"type": "string", "enum": []},
    {"type": "string", "enum": [1]},
    {"type": "string", "oneOf": [{"title": "A"}]},
    {"type": "string", "format": "ipv4"},
    {"$ref": "#/$defs/A"},
    True,
    "string",
]


@pytest.mark.parametrize("field", LEGAL, ids=str)
@pytest.mark.parametrize("version", ASKING)
def test_case_78_what_a_form_may_hold_arrives_in_the_words_of_the_revision(version: str, field: JSON) -> None:
    schema = {"type": "object", "properties": {"f": field}}
    channel = speak.Channel(version, asking(a=elicit("x", schema)))
    (said,) = channel.call("a")
    if field["type"] == "array" and version == "2025-06-18":
        words = "this needs an answer from the client, which its protocol revision has no way to ask for"
        assert said == error(1, -32600, words)
        return
    asked = said["params"] if version in HANDSHAKE else said["result"]["inputRequests"]["q"]["params"]
    expected = field
    if version == "2025-06-18" and "oneOf" in field:
        expected = {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}
    assert asked["requestedSchema"] == {"type": "object", "properties": {"f": expected}}


@pytest.mark.parametrize("field", ILLEGAL, ids=str)
def test_case_78_what_a_form_may_not_hold_is_refused_where_it_is_made(field: JSON) -> None:
    with pytest.raises(ValueError, match="the field 'f'"):
        elicit("x", {"type": "object", "properties": {"f": field}})


#: What comes back for a form with these fields, and what is wrong with it.
FIELDS = {
    "name": {"type": "string", "minLength": 2, "maxLength": 3},
    "age": {"type": "integer", "minimum": 0},
    "sure": {"type": "boolean"},
    "size": {"type": "string", "enum": ["s", "m"], "default": "m"},
    "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
}
FILLED: list[tuple[JSON, str | None]] = [
    ({"name": "abc"}, None),
    ({"name": "abc", "age": 5, "sure": False, "size": "s", "tags": ["a"]}, None),
    ({"name": "abc", "age": 5.0, "size": None, "more": {"a": [1]}}, None),
    ({}, "content.name is required"),
    (None, "content.name is required"),
    ({"name": None}, "content.name is required"),
    ({"name": "a"}, "content.name must be within minLength and maxLength"),
    ({"name": 5}, "content.name must be of type string"),
    ({"name": "abc", "age": 1.5}, "content.age must be of type integer"),
    ({"name": "abc", "age": True}, "content.age must be of type integer"),
    ({"name": "abc", "age": "5"}, "content.age must be of type integer"),
    ({"name": "abc", "age": -1}, "content.age must be within minimum and maximum"),
    ({"name": "abc", "sure": "yes"}, "content.sure must be of type boolean"),
    ({"name": "abc", "size": "xl"}, "content.size must be one of the choices"),
    ({"name": "abc", "tags": "a"}, "content.tags must be a list of the choices"),
    ({"name": "abc", "tags": ["c"]}, "content.tags must be a list of the choices"),
    ({"name": "abc", "tags": ["a", "b"]}, "content.tags must be within minItems and maxItems"),
    ([], "content must be an object"),
]


def answered(version: str, registry: Registry, reply: JSON) -> JSON:
    """What a call of the tool ``a`` comes to when its question is answered so."""
    channel = speak.Channel(version, registry)
    (asked,) = channel.call("a", id=1)
    if version in HANDSHAKE:
        (said,) = channel.answer(asked, reply)
    else:
        (said,) = channel.call("a", id=1, inputResponses={"q": reply})
    return said


@pytest.mark.parametrize(("content", "fault"), FILLED)
@pytest.mark.parametrize("version", [version for version in ASKING if version >= "2025-11-25"])
def test_case_78_and_82_a_form_comes_back_filled_or_not_at_all(version: str, content: JSON, fault: str | None) -> None:
    registry = asking(a=elicit("x", {"type": "object", "properties": FIELDS, "required": ["name"]}))
    said = answered(version, registry, {"action": "accept", "content": content})
    if fault is None:
        assert said == text(version, 1, f"accept: {content}")
    else:
        assert said == error(1, -32602, f"the answer to 'q' is malformed: {fault}")


def sampled(**more: JSON) -> JSON:
    """An answer to sampling, with other members."""
    return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "x"}, **more}


SAMPLED: list[tuple[JSON, str | None]] = [
    (sampled(), None),
    (sampled(stopReason="endTurn", _meta={"a": 1}, unknown=5), None),
    (sampled(content=[{"type": "text", "text": "x"}, {"type": "image", "data": "eA==", "mimeType": "a/b"}]), None),
    (sampled(content={"type": "audio", "data": "eA==", "mimeType": "a/b", "annotations": {"priority": 1}}), None),
    (sampled(content={"type": "tool_use", "id": "1", "name": "t", "input": {}}), None),
    (sampled(content={"type": "from tomorrow", "x": 1}), None),
    (sampled(content={"type": "text"}), "content.text must be a string"),
    (sampled(content={"type": "text", "text": None}), "content.text must be a string"),
    (sampled(content=[{"type": "text", "text": "x"}, {"type": "text"}]), "content.text must be a string"),
    (sampled(content={"type": "text", "text": "x", "annotations": 5}), "content.annotations must be an object"),
    (sampled(content={"type": "text", "text": "x", "annotations": []}), "content.annotations must be an object"),
    (
        sampled(content={"type": "text", "text": "x", "annotations": {"audience": "user"}}),
        "content.annotations.audience must be a list",
    ),
    (
        sampled(content={"type": "text", "text": "x", "annotations": {"priority": True}}),
        "content.annotations.priority must be a number",
    ),
    (sampled(content={"type": "text", "text": "x", "_meta": []}), "content._meta must be an object"),
    (sampled(content={"type": "image", "data": "eA=="}), "content.mimeType must be a string"),
    (sampled(content={"type": "audio", "mimeType": "a/b"}), "content.data must be a string"),
    (sampled(content={"type": "tool_use", "id": "1", "name": "t", "input": []}), "content.input must be an object"),
    (sampled(content={"type": "tool_result", "toolUseId": "1"}), "content.content must be a list"),
    (sampled(content="x"), "content must be a content block"),
    (sampled(content=None), "content must be a content block"),
    (sampled(content={"type": 5}), "content must be a content block"),
    (sampled(stopReason=5), "stopReason must be a string"),
    (sampled(_meta="x"), "_meta must be an object"),
    (sampled(role="system"), "role must be user or assistant"),
    (sampled(model=None), "model must be a string"),
    ({}, "role must be user or assistant"),
]
ROOTS: list[tuple[JSON, str | None]] = [
    ({"roots": []}, None),
    ({"roots": [{"uri": "file:///a", "name": "a", "more": 1}]}, None),
    ({"roots": [{"uri": 5}]}, "roots must hold objects with a uri"),
    ({"roots": ["file:///a"]}, "roots must hold objects with a uri"),
    ({"roots": [{"uri": "file:///a", "name": 5}]}, "roots.name must be a string"),
    ({"roots": {"uri": "file:///a"}}, "roots must be a list"),
    ({}, "roots must be a list"),
]


@pytest.mark.parametrize(("reply", "fault"), SAMPLED)
@pytest.mark.parametrize("version", ASKING)
def test_case_82_a_malformed_sample_never_reaches_the_tool(version: str, reply: JSON, fault: str | None) -> None:
    said = answered(version, asking(a=sample("x", max_tokens=1)), reply)
    if fault is None:
        assert said == text(version, 1, f"accept: {reply}")
    else:
        assert said == error(1, -32602, f"the answer to 'q' is malformed: {fault}")


@pytest.mark.parametrize(("reply", "fault"), ROOTS)
@pytest.mark.parametrize("version", ASKING)
def test_case_82_nor_do_malformed_roots(version: str, reply: JSON, fault: str | None) -> None:
    said = answered(version, asking(a=list_roots()), reply)
    if fault is None:
        assert said == text(version, 1, f"accept: {reply}")
    else:
        assert said == error(1, -32602, f"the answer to 'q' is malformed: {fault}")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_82_answers_are_an_object_of_objects(version: str, end: str) -> None:
    client = ENDS[end](version, asking(a=FORM))

    def said(answers: JSON) -> JSON:
        (reply,) = say(client, client.message("tools/call", {"name": "a", "inputResponses": answers}))
        return reply

    for answers in ([], "x", 5, False):
        assert said(answers) == error(1, -32602, "params.inputResponses must be an object")
    for wrong in ([], "x", 5, None, True):
        assert said({"q": wrong}) == error(1, -32602, "params.inputResponses['q'] must be an object")
    good = {"action": "accept", "content": {"name": "n"}}
    expected = text(version, 1, "accept: {'name': 'n'}")
    assert said({"q": good}) == said({"q": good, "unknown": {"x": 1}}) == expected
    for too_little in (None, {}, {"unknown": good}):
        asked = said(too_little)["result"]
        assert (asked["resultType"], list(asked["inputRequests"])) == ("input_required", ["q"])
        assert "requestState" not in asked or too_little
    # Answers are for the three requests that may be asked back; elsewhere they mean nothing.
    (listed,) = say(client, client.message("tools/list", {"inputResponses": {}}, id=2))
    assert listed["result"]["resultType"] == "complete"


# State that the client carries


def stateful() -> Registry:
    """A registry of tools that leave something with their question."""
    registry = Registry("shop", "1.0")

    async def step(n: int, ex: Exchange) -> str:
        if not ex.answered("q"):
            raise NeedInput({"q": FORM}, state={"secret": n})
        return f"kept {ex.state}"

    registry.tool(name="one")(step)
    registry.tool(name="two")(step)
    registry.prompt(name="one")(step)
    return registry


REFUSED = error(1, -32602, "requestState is not valid for this call; start the call again without it")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_80_state_is_good_for_its_own_call_alone(version: str, end: str) -> None:
    simulation = Simulation(stateful())
    client = ENDS[end](version, simulation, principal="alice")
    given = {"q": {"action": "accept", "content": {"name": "n"}}}

    def said(state: JSON, name: str = "one", n: int = 1, method: str = "tools/call", client: Any = client) -> JSON:
        arguments = {"n": n} if method == "tools/call" else {"n": str(n)}
        held = {} if state is ... else {"requestState": state}
        params = {"name": name, "arguments": arguments, "inputResponses": given, **held}
        (reply,) = say(client, client.message(method, params))
        return reply

    def begun() -> str:
        (asked,) = say(client, client.message("tools/call", {"name": "one", "arguments": {"n": 1}}))
        state: str = asked["result"]["requestState"]
        assert "secret" not in state
        return state

    token = begun()
    flipped = [token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :] for at in range(len(token))]
    cut = [token[:at] for at in (0, 1, len(token) // 2, len(token) - 1)]
    others = [token + "=", token + "==", " " + token, token + "\n", token.upper(), token.lower() + "x", "x" * 2**20]
    wrong_types: list[JSON] = [5, 0, True, False, [], {}, [token], {"token": token}, 1.5]
    for state in (*flipped, *cut, *others, *wrong_types):
        if state != token:
            assert said(state) == REFUSED, state
    assert said(token, name="two") == REFUSED
    assert said(token, n=2) == REFUSED
    assert said(token, name="one", method="prompts/get") == REFUSED
    for principal in ("mallory", None, ""):
        stranger = ENDS[end](version, simulation, principal=principal)
        assert said(token, client=stranger) == REFUSED
    # None of that has spent it; the right call does.
    kept = text(version, 1, "kept {'secret': 1}")
    assert said(token) == kept
    assert said(token) == REFUSED
    # Null and nothing are both no state, and the answer alone finishes what never left any.
    assert said(None) == said(...) == text(version, 1, "kept None")

    late = begun()
    simulation.clock.advance(Config().state_ttl - 1)
    in_time = begun()
    simulation.clock.advance(1)
    assert said(late) == REFUSED
    simulation.clock.advance(Config().state_ttl - 2)
    assert said(in_time) == kept


# Subscriptions

KEY = "io.modelcontextprotocol/subscriptionId"
FILTERS: list[tuple[JSON, JSON]] = [
    ({}, {}),
    ({"toolsListChanged": False}, {}),
    ({"toolsListChanged": True}, {"toolsListChanged": True}),
    ({"toolsListChanged": True, "unknownChanged": True, "x": {}}, {"toolsListChanged": True}),
    ({"resourceSubscriptions": []}, {}),
    ({"resourceSubscriptions": ["a:b", "a:b", "c:d"]}, {"resourceSubscriptions": ["a:b", "c:d"]}),
    ({"promptsListChanged": True, "resourcesListChanged": False}, {"promptsListChanged": True}),
]
BEGUN = "notifications/subscriptions/acknowledged"


@pytest.mark.parametrize(("wanted", "honoured"), FILTERS)
@pytest.mark.parametrize("id", [0, "0", "", 7])
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("version", ENVELOPE)
def test_case_83_acknowledged_first_tagged_always_and_nothing_else(
    version: str, end: str, id: JSON, wanted: JSON, honoured: JSON
) -> None:
    shop = Shop()
    server = shop.simulation.server
    client = shop.client(end, version)
    # A change in the very instant of the request, before and after it, on whatever is listened for.
    changes = [Change(kind) for kind in ChangeKind if kind is not ChangeKind.RESOURCE_UPDATED]
    changes += [Change(ChangeKind.RESOURCE_UPDATED, uri) for uri in ("a:b", "x:y")]
    for change in changes:
        server.publish(change)
    call = client.request("subscriptions/listen", {"notifications": wanted}, id=id)
    for change in changes:
        server.publish(change)
    shop.simulation.settle()
    said = call.messages if end == "http" else client.end.messages
    acknowledged, *announced = said
    params = {"_meta": {KEY: id}, "notifications": honoured}
    assert acknowledged == {"jsonrpc": "2.0", "method": BEGUN, "params": params}
    methods = {
        "toolsListChanged": "notifications/tools/list_changed",
        "promptsListChanged": "notifications/prompts/list_changed",
    }
    expected = [
        {"jsonrpc": "2.0", "method": method, "params": {"_meta": {KEY: id}}}
        for flag, method in methods.items()
        if honoured.get(flag)
    ]
    if "resourceSubscriptions" in honoured:
        updated = {"_meta": {KEY: id}, "uri": "a:b"}
        expected.append({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": updated})
    assert announced == expected
    assert all(type(message["params"]["_meta"][KEY]) is type(id) for message in said)
    server.shutdown()
    shop.simulation.settle()
    said = call.messages if end == "http" else client.end.messages
    assert said[-1] == result(version, id, {"_meta": {KEY: id}})
    assert (len(server.topics), len(server._streams)) == (0, 0)


@pytest.mark.parametrize(
    "wanted", [..., None, [], "x", {"resourceSubscriptions": "a:b"}, {"resourceSubscriptions": [5]}]
)
@pytest.mark.parametrize(("end", "version"), [pair for pair in EVERYWHERE if pair[1] in ENVELOPE])
def test_case_83_what_is_no_filter_is_refused_and_registers_nothing(end: str, version: str, wanted: JSON) -> None:
    shop = Shop()
    client = shop.client(end, version)
    params = {} if wanted is ... else {"notifications": wanted}
    words = "params.notifications must be a filter object, with resourceSubscriptions a list of strings"
    assert say(client, client.message("subscriptions/listen", params)) == [error(1, -32602, words)]
    assert len(shop.simulation.server.topics) == 0


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_83_two_on_one_channel_and_any_end_takes_the_registration_along(version: str) -> None:
    shop = Shop()
    server = shop.simulation.server
    channel = shop.client("channel", version)
    params = {"notifications": {"toolsListChanged": True}}
    for id in (0, "0"):
        channel.request("subscriptions/listen", params, id=id)
    before = len(channel.end.sent)
    server.publish(Change(ChangeKind.TOOLS))
    shop.simulation.settle()
    tags = [message["params"]["_meta"][KEY] for message in channel.since(before)]
    assert [(tag, type(tag)) for tag in tags] == [(0, int), ("0", str)]
    channel.send(speak.notification("notifications/cancelled", {"requestId": "0"}))
    assert len(server.topics) == 1
    http = shop.client("http", version).request("subscriptions/listen", params)
    assert len(server.topics) == 2
    http.disconnect()
    assert len(server.topics) == 1
    channel.end.close()
    assert (len(server.topics), len(server._streams)) == (0, 0)
    # A client that begins anew listens anew, and reads the lists anew: nothing is replayed.
    again = shop.client("channel", version)
    (acknowledged,) = again.request("subscriptions/listen", params, id=0)
    assert acknowledged["method"] == BEGUN


# Tasks


@pytest.mark.parametrize(
    "method", ["tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/status", "tasks/update"]
)
@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_84_no_task_is_ever_said_to_be_alive(end: str, version: str, method: str) -> None:
    client = Shop().client(end, version)
    expected = [error(1, -32601, f"unknown method: {method!r}")]
    for params in ({}, {"taskId": "786512e2"}):
        assert say(client, client.message(method, params)) == expected
    described = client.message("server/discover") if version in ENVELOPE else client.initialize()
    (said,) = say(client, described)
    assert "tasks" not in said["result"]["capabilities"]


@pytest.mark.parametrize(("end", "version"), EVERYWHERE)
def test_case_84_a_call_that_asks_for_a_task_is_an_ordinary_call(end: str, version: str) -> None:
    client = Shop().client(end, version)
    params = {"name": "echo", "arguments": {"text": "a"}, "task": {"ttl": 60000}}
    assert say(client, client.message("tools/call", params)) == [text(version, 1, "a")]

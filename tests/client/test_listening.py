"""Listening for changes on every revision, by whatever means it has."""

from __future__ import annotations

from typing import Any

import pytest

from calling import Line, description, failure_of, faults, outcome_of, settled
from mcp_sansio import (
    CallEnded,
    Change,
    ChangeKind,
    ChangeReceived,
    ClientConfig,
    ListenStarted,
    Operation,
)
from speak import ENVELOPE, HANDSHAKE, VERSIONS

JSON = Any
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
TOOLS, PROMPTS, RESOURCES = (f"notifications/{name}/list_changed" for name in ("tools", "prompts", "resources"))
UPDATED = "notifications/resources/updated"


EVERYTHING = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
    "resourceSubscriptions": ["x://a"],
}


def acknowledge(line: Line, id: JSON, honoured: JSON = EVERYTHING) -> Any:
    return line.notify("notifications/subscriptions/acknowledged", _meta={SUBSCRIPTION: id}, notifications=honoured)


def changed(line: Line, method: str, id: JSON = None, **params: JSON) -> list[tuple[Change, Any]]:
    """What is told after an announcement: each change, and the listening that it is for."""
    meta = {} if id is None else {"_meta": {SUBSCRIPTION: id}}
    events = line.notify(method, **params, **meta)
    return [(event.change, event.call) for event in events if isinstance(event, ChangeReceived)]


def listening(version: str, **wanted: Any) -> tuple[Line, Any]:
    """A client that listens."""
    line = settled(version)
    call = line.engine.listen(**wanted)
    line.take()
    if version in ENVELOPE:
        acknowledge(line, line.last_id)
    else:
        for number in range(len(set(wanted.get("uris", ())))):
            line.reply({}, 2 + number)
    assert line.engine.listens(call)
    return line, call


# What the server does not announce ------------------------------------------------------------------------------------

#: What is wanted, what is offered of it, and what is said to be missing.
MISSING = [
    ({"tools": True}, (), "tools.listChanged"),
    ({"tools": True, "prompts": True}, (), "prompts.listChanged, tools.listChanged"),
    ({"resources": True}, ("tools", "prompts"), "resources.listChanged"),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("wanted", "offered", "missing"), MISSING)
def test_what_is_never_announced_is_not_waited_for(version: str, wanted: JSON, offered: JSON, missing: str) -> None:
    """Of several things one may be missing, but where nothing would ever be heard, the listening ends, and says why."""
    line, call, told = begun(version, wanted, offered)
    assert failure_of(call) == ("McpError", f"the server announces no such changes: it does not offer {missing}")
    assert not line.engine.listens(call)
    assert told == []
    if version in ENVELOPE:
        [given_up] = line.take()
        assert (given_up["method"], given_up["params"]["requestId"]) == ("notifications/cancelled", 2)
    assert line.take() == []


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_missing_of_several_is_told(version: str) -> None:
    line, call, told = begun(version, {"tools": True, "prompts": True}, ("tools",))
    assert line.engine.listens(call)
    assert told == ["the server announces no such changes: it does not offer prompts.listChanged"]


@pytest.mark.parametrize("version", ENVELOPE)
def test_resources_that_are_not_watched(version: str) -> None:
    """Elsewhere the server refuses the subscription, in its own words."""
    _, call, _ = begun(version, {"uris": ("x://a",)}, ())
    text = "the server announces no such changes: it does not offer resources.subscribe"
    assert failure_of(call) == ("McpError", text)


def begun(version: str, wanted: JSON, offered: JSON) -> tuple[Line, Any, list[str]]:
    """A client that wants to listen to a server that announces only the changes of some lists, and its faults."""
    line = Line(version)
    line.engine.call(Operation.DESCRIBE)
    capabilities = {"tools": {}, "prompts": {"listChanged": False}, "resources": None}
    line.reply(description(version, capabilities=capabilities | {name: {"listChanged": True} for name in offered}))
    line.take()
    call = line.engine.listen(**wanted)
    events = line.engine.events()
    if version in ENVELOPE:
        line.take()
        events += acknowledge(line, 2, {f"{name}ListChanged": True for name in offered})
    return line, call, faults(events)


# By a request ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize(
    ("wanted", "filter"),
    [
        ({"tools": True}, {"toolsListChanged": True}),
        ({"prompts": True, "resources": True}, {"promptsListChanged": True, "resourcesListChanged": True}),
        ({"uris": ("x://a", "x://b", "x://a")}, {"resourceSubscriptions": ["x://a", "x://b"]}),
        ({}, {}),
    ],
)
def test_the_filter_says_what_is_wanted(version: str, wanted: JSON, filter: JSON) -> None:
    line = settled(version)
    call = line.engine.listen(**wanted)
    [asked] = line.take()
    assert (asked["method"], asked["params"]["notifications"]) == ("subscriptions/listen", filter)
    assert not line.engine.listens(call)
    [started] = acknowledge(line, asked["id"])
    assert isinstance(started, ListenStarted)
    assert (started.call, line.engine.next_deadline()) == (call, None)


@pytest.mark.parametrize("version", ENVELOPE)
def test_several_subscriptions_are_told_apart(version: str) -> None:
    line = settled(version)
    first, second = line.engine.listen(tools=True), line.engine.listen(tools=True, uris=("x://a",))
    line.take()
    acknowledge(line, 3)
    acknowledge(line, 2)
    assert changed(line, TOOLS, 2) == [(Change(ChangeKind.TOOLS), first)]
    assert changed(line, TOOLS, 3) == [(Change(ChangeKind.TOOLS), second)]
    update = Change(ChangeKind.RESOURCE_UPDATED, "x://a")
    assert changed(line, UPDATED, 3, uri="x://a") == [(update, second)]


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("id", [None, 99, "2", 1, 2.5, [2]])
def test_a_change_of_no_subscription_is_passed_over(version: str, id: JSON) -> None:
    line = settled(version)
    line.engine.listen(tools=True)
    line.take()
    acknowledge(line, 2)
    assert changed(line, TOOLS, id) == []
    assert faults(line.notify(TOOLS, _meta={SUBSCRIPTION: id})) == ["a change for no subscription that is open"]


@pytest.mark.parametrize("version", ENVELOPE)
def test_an_acknowledgement_of_nothing(version: str) -> None:
    line = settled(version)
    line.engine.listen(tools=True)
    line.engine.call(Operation.LIST_TOOLS)
    line.take()
    for id in (99, "2", None, 3):
        assert faults(acknowledge(line, id)) == ["an acknowledgement of no subscription"]
    acknowledge(line, 2)
    assert faults(acknowledge(line, 2)) == ["an acknowledgement of no subscription"]


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_subscription_that_is_never_acknowledged(version: str) -> None:
    line = settled(version)
    call = line.engine.listen(tools=True)
    line.wait(60)
    assert failure_of(call) == ("CallTimeout", "no answer to listen within 60 seconds")


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("way", ["result", "cancelled"])
def test_the_server_ends_a_subscription(version: str, way: str) -> None:
    line, call = listening(version, tools=True)
    if way == "result":
        events = line.reply({"resultType": "complete", "_meta": {SUBSCRIPTION: 2}}, 2)
    else:
        events = line.notify("notifications/cancelled", requestId=2)
    assert [event.call for event in events if isinstance(event, CallEnded)] == [call]
    call.result()
    assert (changed(line, TOOLS, 2), line.take()) == ([], [])
    late = line.refuse(-32022, "unsupported", {"supported": list(VERSIONS), "requested": version}, id=2)
    assert (faults(late), line.take()) == (["an answer that comes too late, or again"], [])


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_subscription_that_is_refused(version: str) -> None:
    line = settled(version)
    call = line.engine.listen(tools=True)
    line.take()
    line.refuse(-32601, "no such thing")
    assert failure_of(call) == ("ServerError", "no such thing (code -32601)")


# Unasked --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_lists_are_a_filter_over_what_is_announced_anyway(version: str) -> None:
    line = settled(version)
    tools, both = line.engine.listen(tools=True), line.engine.listen(tools=True, prompts=True)
    assert [event.call for event in line.engine.events() if isinstance(event, ListenStarted)] == [tools, both]
    assert line.take() == []
    assert changed(line, TOOLS) == [(Change(ChangeKind.TOOLS), tools), (Change(ChangeKind.TOOLS), both)]
    assert changed(line, PROMPTS) == [(Change(ChangeKind.PROMPTS), both)]
    assert changed(line, RESOURCES) == []
    line.engine.cancel(tools)
    assert changed(line, TOOLS) == [(Change(ChangeKind.TOOLS), both)]
    assert line.take() == []


@pytest.mark.parametrize("version", HANDSHAKE)
def test_resources_are_subscribed_to_and_let_go_of(version: str) -> None:
    line = settled(version)
    call = line.engine.listen(uris=("x://a", "x://b"))
    assert [(message["method"], message["params"]) for message in line.take()] == [
        ("resources/subscribe", {"uri": "x://a"}),
        ("resources/subscribe", {"uri": "x://b"}),
    ]
    line.reply({}, 2)
    assert not line.engine.listens(call)
    assert [type(event) for event in line.reply({}, 3)] == [ListenStarted]
    update = Change(ChangeKind.RESOURCE_UPDATED, "x://b")
    assert changed(line, UPDATED, uri="x://b") == [(update, call)]
    assert changed(line, UPDATED, uri="x://c") == []
    line.engine.cancel(call)
    assert [(message["method"], message["params"]) for message in line.take()] == [
        ("resources/unsubscribe", {"uri": "x://a"}),
        ("resources/unsubscribe", {"uri": "x://b"}),
    ]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_two_listen_to_is_subscribed_to_until_the_last_has_gone(version: str) -> None:
    line, first = listening(version, uris=("x://a",))
    second = line.engine.listen(uris=("x://a",))
    line.take()
    line.reply({})
    update = Change(ChangeKind.RESOURCE_UPDATED, "x://a")
    assert changed(line, UPDATED, uri="x://a") == [(update, first), (update, second)]
    line.engine.cancel(first)
    assert line.methods() == []
    line.engine.cancel(second)
    assert line.methods() == ["resources/unsubscribe"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("uri", ["x://a/b", "x://a/b/c?d"])
def test_what_lies_below_a_resource_belongs_to_it(version: str, uri: str) -> None:
    line, call = listening(version, uris=("x://a/",))
    id = 2 if version in ENVELOPE else None
    assert changed(line, UPDATED, id, uri=uri) == [(Change(ChangeKind.RESOURCE_UPDATED, uri), call)]


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("uri", ["x://ab", "x://a.b/c", "x://"])
def test_what_only_begins_like_a_resource_does_not_belong_to_it(version: str, uri: str) -> None:
    line, _ = listening(version, uris=("x://a",))
    assert changed(line, UPDATED, uri=uri) == []


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_subscription_to_a_resource_that_is_refused(version: str) -> None:
    """The listening ends, and what was subscribed to for it is let go of; what was refused needs no letting go."""
    line = settled(version)
    call = line.engine.listen(uris=("x://a", "x://b"))
    line.take()
    line.reply({}, 2)
    line.refuse(-32002, "not found", id=3)
    assert failure_of(call) == ("ServerError", "not found (code -32002)")
    assert [message["params"] for message in line.take()] == [{"uri": "x://a"}]
    assert not line.engine.listens(call)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("params", [{}, {"uri": 5}, {"uri": None}])
def test_an_update_of_nothing(version: str, params: JSON) -> None:
    line = settled(version)
    assert faults(line.notify(UPDATED, **params)) == [f"{UPDATED!r} is malformed: params.uri must be a string"]


# For everybody --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_who_wants_to_hear_of_every_list_is_told_once(version: str) -> None:
    line = Line(version, wants_changes=True)
    line.settle(version)
    line.engine.listen(tools=True)
    sent = line.take()
    id = None
    if version in ENVELOPE:
        filters = [message["params"]["notifications"] for message in sent]
        everything = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
        assert filters == [everything, {"toolsListChanged": True}]
        id = sent[0]["id"]
        assert acknowledge(line, id) == []
    assert [change for change, call in changed(line, TOOLS, id) if call is None] == [Change(ChangeKind.TOOLS)]
    assert changed(line, RESOURCES, id) == [(Change(ChangeKind.RESOURCES), None)]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_who_does_not_want_to_hear_is_not_told(version: str) -> None:
    assert changed(settled(version), TOOLS) == []


@pytest.mark.parametrize("version", ENVELOPE)
def test_the_announcements_are_listened_to_again_when_they_end(version: str) -> None:
    """At growing distances, and not for ever; what was kept is stale by then, since changes may have been missed."""
    config = ClientConfig(reconnect_delay=1, max_reconnect_delay=3, max_reconnects=3)
    line = Line(version, wants_changes=True, config=config)
    line.settle(version)
    line.engine.call(Operation.LIST_TOOLS)
    line.reply({"tools": [], "ttlMs": 10**9})
    ids, times = [2], []
    while True:
        acknowledge(line, ids[-1])
        assert faults(line.reply({}, ids[-1])) == ["announcements have ended: by the server"]
        if line.engine.next_deadline() is None:
            break
        times.append(line.engine.next_deadline() - line.clock())
        line.wait(times[-1])
        [asked] = line.take()
        ids.append(asked["id"])
    assert (ids, times) == ([2, 4, 5, 6], [1, 2, 3])
    line.engine.call(Operation.LIST_TOOLS)
    assert line.methods() == ["tools/list"]


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("honoured", [{"toolsListChanged": True}, {}])
def test_what_concerns_everybody_is_listened_to_whatever_the_server_announces(version: str, honoured: JSON) -> None:
    """Nobody asked for anything in particular, and so nobody is told that there is nothing of it."""
    line = Line(version, wants_changes=True)
    line.settle(version)
    line.take()
    assert faults(acknowledge(line, line.last_id, honoured)) == []
    assert line.methods() == []
    change = (Change(ChangeKind.TOOLS), None)
    assert changed(line, TOOLS, line.last_id) == [change]


@pytest.mark.parametrize("version", ENVELOPE)
def test_who_wants_that_may_listen_again_for_as_long_as_it_takes(version: str) -> None:
    line = Line(version, wants_changes=True, config=ClientConfig(max_reconnects=2000))
    line.settle(version)
    for _ in range(1100):
        [*_, asked] = line.take()
        line.reply({}, asked["id"])
        line.wait(60)
    assert line.methods() == ["subscriptions/listen"]


@pytest.mark.parametrize("version", ENVELOPE)
def test_announcements_that_lasted_begin_anew_at_once(version: str) -> None:
    line = Line(version, wants_changes=True)
    line.settle(version)
    line.take()
    acknowledge(line, 2)
    line.wait(1000)
    line.reply({}, 2)
    line.wait(1)
    assert line.methods() == ["subscriptions/listen"]


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_server_without_announcements_is_not_asked_again(version: str) -> None:
    line = Line(version, wants_changes=True)
    line.settle(version)
    line.take()
    assert faults(line.refuse(-32601, "none")) == ["announcements have ended: none (code -32601)"]
    assert line.engine.next_deadline() is None


# The end --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_the_end_of_the_connection_ends_every_listening(version: str) -> None:
    line, call = listening(version, tools=True, uris=("x://a",))
    line.engine.receive_eof("gone")
    assert failure_of(call) == ("ConnectionLost", "gone")
    assert (line.take(), line.engine.next_deadline(), line.engine.listens(call)) == ([], None, False)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_listening_that_is_given_up_while_it_begins(version: str) -> None:
    line = settled(version)
    call = line.engine.listen(uris=("x://a",))
    line.take()
    line.engine.cancel(call)
    if version in ENVELOPE:
        assert line.methods() == ["notifications/cancelled"]
    else:
        assert line.methods() == ["resources/unsubscribe"]
        line.reply({}, 2)
    assert not line.engine.listens(call)
    assert outcome_of(call) is not None

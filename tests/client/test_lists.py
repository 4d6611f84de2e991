"""Lists: read to their last page, kept while the server says so, and without the entries that cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from calling import Line, failure_of, faults, outcome_of, settled
from mcp_sansio import ClientConfig, ClientConnection, Operation, ServerFaulted
from mcp_sansio.client.calls import OutgoingRequest
from speak import ENVELOPE, VERSIONS

JSON = Any
LISTS = {
    Operation.LIST_TOOLS: ("tools/list", "tools", lambda name: {"name": name, "inputSchema": {"type": "object"}}),
    Operation.LIST_PROMPTS: ("prompts/list", "prompts", lambda name: {"name": name}),
    Operation.LIST_RESOURCES: ("resources/list", "resources", lambda name: {"name": name, "uri": f"x://{name}"}),
    Operation.LIST_RESOURCE_TEMPLATES: (
        "resources/templates/list",
        "resourceTemplates",
        lambda name: {"name": name, "uriTemplate": "x://{a}"},
    ),
}
CHANGED = {
    Operation.LIST_TOOLS: "notifications/tools/list_changed",
    Operation.LIST_PROMPTS: "notifications/prompts/list_changed",
    Operation.LIST_RESOURCES: "notifications/resources/list_changed",
    Operation.LIST_RESOURCE_TEMPLATES: "notifications/resources/list_changed",
}


def page(operation: Operation, *names: str, **more: JSON) -> JSON:
    _, member, entry = LISTS[operation]
    return {member: [entry(name) for name in names], **more}


def cursors(line: Line) -> list[JSON]:
    """The cursor of each request that came out; ``...`` where it has none."""
    return [message.get("params", {}).get("cursor", ...) for message in line.take()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("operation", LISTS)
def test_a_list_is_read_to_its_last_page(version: str, operation: Operation) -> None:
    """An empty cursor is one like any other (server/utilities/pagination, "Implementation Guidelines")."""
    line = settled(version)
    call = line.engine.call(operation)
    assert [message["method"] for message in line.take()] == [LISTS[operation][0]]
    line.reply(page(operation, "a", "b", nextCursor=""))
    assert cursors(line) == [""]
    line.reply(page(operation, nextCursor="ż"))
    assert (cursors(line), call.ended) == (["ż"], False)
    line.reply(page(operation, "c", nextCursor=None, more=1))
    assert outcome_of(call) == page(operation, "a", "b", "c", more=1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("given", [["", ""], ["a", "a"], ["a", "b", "a"], ["a", "b", "c", "d", "e", "f"]])
def test_case_93_a_list_that_does_not_end(version: str, given: list[str]) -> None:
    line = settled(version, config=ClientConfig(max_pages=5))
    call = line.engine.call(Operation.LIST_TOOLS)
    for cursor in given:
        if not call.ended:
            line.reply(page(Operation.LIST_TOOLS, nextCursor=cursor))
    pages = min(len(given), 5)
    text = f"the list does not end: after {pages} pages a cursor came again or one too many"
    assert failure_of(call) == ("UnusableReply", text)
    assert len([data for data in line.sent if b"tools/list" in data]) == pages
    again = line.engine.call(Operation.LIST_TOOLS)
    assert cursors(line) == [...], "it begins anew"
    line.reply(page(Operation.LIST_TOOLS, "a"))
    assert outcome_of(again) == page(Operation.LIST_TOOLS, "a")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("result", "fault"),
    [
        ({}, "result.tools must be a list"),
        ({"tools": {}}, "result.tools must be a list"),
        ({"tools": None}, "result.tools must be a list"),
        ({"tools": [], "nextCursor": 5}, "result.nextCursor must be a string"),
        ({"tools": [], "nextCursor": ["a"]}, "result.nextCursor must be a string"),
    ],
)
def test_a_page_of_no_use(version: str, result: JSON, fault: str) -> None:
    line = settled(version)
    call = line.engine.call(Operation.LIST_TOOLS)
    line.take()
    line.reply(result)
    assert failure_of(call) == ("UnusableReply", fault)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("config", [ClientConfig(max_items=3), ClientConfig(max_list=300)])
def test_a_list_is_bounded(version: str, config: ClientConfig) -> None:
    line = settled(version, config=config)
    call = line.engine.call(Operation.LIST_TOOLS)
    for number in range(10):
        if not call.ended:
            line.reply(page(Operation.LIST_TOOLS, f"{number}a", f"{number}b", nextCursor=str(number)))
    text = f"the list is longer than {config.max_items} entries or {config.max_list} bytes"
    assert failure_of(call) == ("UnusableReply", text)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_page_has_the_time_of_a_call(version: str) -> None:
    line = settled(version)
    call = line.engine.call(Operation.LIST_TOOLS, timeout=10, max_timeout=25)
    for number in range(3):
        line.take()
        line.wait(8)
        line.reply(page(Operation.LIST_TOOLS, nextCursor=str(number)))
    line.wait(1)
    assert failure_of(call) == ("CallTimeout", "no answer to list_tools within 25 seconds")


# Entries --------------------------------------------------------------------------------------------------------------

BAD_TOOLS: list[JSON] = [
    None,
    5,
    "x",
    [],
    {},
    {"name": "x"},
    {"name": "x", "inputSchema": None},
    {"name": "x", "inputSchema": {}},
    {"name": "x", "inputSchema": {"type": "string"}},
    {"name": "x", "inputSchema": {"type": "int"}},
    {"name": "x", "inputSchema": []},
    {"name": 5, "inputSchema": {"type": "object"}},
    {"name": "x", "inputSchema": {"type": "object"}, "title": 5},
    {"name": "x", "inputSchema": {"type": "object"}, "annotations": []},
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("bad", BAD_TOOLS, ids=str)
def test_case_87_one_bad_tool_hides_no_other(version: str, bad: JSON) -> None:
    line = settled(version)
    call = line.engine.call(Operation.LIST_TOOLS)
    line.take()
    good = page(Operation.LIST_TOOLS, "a", "b")["tools"]
    events = line.reply({"tools": [good[0], bad, good[1]]})
    assert outcome_of(call) == {"tools": good}
    [fault] = [event for event in events if isinstance(event, ServerFaulted)]
    name = bad.get("name") if isinstance(bad, dict) else None
    assert (fault.fault.startswith(f"an entry of tools is left out, '{name}': it"), fault.matters) == (True, True)


@pytest.mark.parametrize("version", VERSIONS)
def test_entries_that_are_left_out_are_bounded_as_well(version: str) -> None:
    line = settled(version, config=ClientConfig(max_items=500))
    call = line.engine.call(Operation.LIST_TOOLS)
    line.take()
    events = line.reply({"tools": [1] * 300, "nextCursor": "a"})
    line.take()
    events += line.reply({"tools": [*page(Operation.LIST_TOOLS, "a")["tools"], *[1] * 150]})
    assert outcome_of(call) == page(Operation.LIST_TOOLS, "a")
    *named, last = faults(events)
    assert ({*named}, len(named)) == ({"an entry of tools is left out, 'None': it must be an object"}, 100)
    assert last == "350 more entries of tools are left out"
    over = line.engine.call(Operation.LIST_TOOLS)
    line.take()
    events = line.reply({"tools": [1] * 501})
    assert failure_of(over)[1].startswith("the list is longer than 500 entries")
    assert faults(events) == []


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("operation", [Operation.LIST_PROMPTS, Operation.LIST_RESOURCES])
@pytest.mark.parametrize("bad", [None, {}, {"name": 5}, {"name": "x", "uri": 5, "arguments": 5}])
def test_nor_does_any_other_bad_entry(version: str, operation: Operation, bad: JSON) -> None:
    line = settled(version)
    call = line.engine.call(operation)
    line.take()
    good = page(operation, "a")
    member = LISTS[operation][1]
    events = line.reply({member: [bad, *good[member]]})
    assert (outcome_of(call), len(faults(events))) == (good, 1)


class WithHeaders(ClientConnection):
    """A channel that has headers, so that what is mirrored can be tried without HTTP."""

    has_headers = True
    mirrored: list[JSON]

    def transmit(self, request: OutgoingRequest) -> None:
        plan = self.lists.mirrored(request.call)
        headers = request.adapter.client_headers(request.method, request.params, plan)
        self.mirrored = [*getattr(self, "mirrored", []), headers]
        super().transmit(request)


def tool(name: str, **properties: JSON) -> JSON:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


BAD_HEADERS: list[JSON] = [
    {"a": {"type": "string", "x-mcp-header": ""}},
    {"a": {"type": "string", "x-mcp-header": "A B"}},
    {"a": {"type": "string", "x-mcp-header": "Ok\r\nX: y"}},
    {"a": {"type": "string", "x-mcp-header": "Region"}, "b": {"type": "string", "x-mcp-header": "region"}},
    {"a": {"type": "number", "x-mcp-header": "A"}},
    {"a": {"type": "array", "x-mcp-header": "A"}},
    {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
    {"a": {"anyOf": [{"type": "string", "x-mcp-header": "A"}]}},
    {"a": {"type": "string", "x-mcp-header": 5}},
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("properties", BAD_HEADERS, ids=str)
def test_case_25_a_bad_annotation_drops_its_tool_where_there_are_headers(version: str, properties: JSON) -> None:
    for make in (ClientConnection, WithHeaders):
        line = settled(version, make=make)
        call = line.engine.call(Operation.LIST_TOOLS)
        line.take()
        tools = [tool("good"), tool("bad", **properties)]
        events = line.reply({"tools": tools})
        matters = make is WithHeaders and version in ENVELOPE
        assert outcome_of(call) == {"tools": tools[:1] if matters else tools}
        assert [fault.startswith("an entry of tools is left out, 'bad': ") for fault in faults(events)] == (
            [True] if matters else []
        )


REGION = tool("t", region={"type": "string", "x-mcp-header": "Region"}, deep={"type": "integer"})


def with_tools(version: str, *tools: JSON) -> Line:
    line = settled(version, make=WithHeaders)
    line.engine.call(Operation.LIST_TOOLS)
    line.reply({"tools": list(tools)})
    return line


def headers_of(line: Line, arguments: JSON, name: str = "t") -> dict[str, str]:
    line.engine.call(Operation.CALL_TOOL, {"name": name, "arguments": arguments})
    line.take()
    return {name: value for name, value in line.engine.mirrored[-1].items() if name.startswith("Mcp-Param")}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("region", "value"),
    [
        ("us-west1", "us-west1"),
        ("", ""),
        (" a ", "=?base64?IGEg?="),
        ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        (True, "true"),
        (7, "7"),
        (None, None),
        ([], None),
        ({}, None),
        (1.5, None),
    ],
)
def test_case_25_arguments_are_mirrored_as_the_list_says(version: str, region: JSON, value: str | None) -> None:
    headers = headers_of(with_tools(version, REGION, tool("u")), {"region": region, "deep": 1})
    assert headers == ({} if value is None or version not in ENVELOPE else {"Mcp-Param-Region": value})


@pytest.mark.parametrize("version", ENVELOPE)
def test_what_is_not_listed_is_not_mirrored(version: str) -> None:
    line = with_tools(version, REGION, tool("u"))
    assert headers_of(line, {"region": "x"}, "u") == {}
    assert headers_of(line, {"region": "x"}, "v") == {}
    assert headers_of(line, {"deep": 1}) == {}


@pytest.mark.parametrize("version", ENVELOPE)
def test_what_is_listed_no_more_is_mirrored_no_more(version: str) -> None:
    """However often a server renames its tools, no more is remembered than its last list."""
    line = with_tools(version, REGION)
    line.engine.call(Operation.LIST_TOOLS)
    line.reply({"tools": [tool("u")], "nextCursor": "2"})
    assert headers_of(line, {"region": "x"}) == {"Mcp-Param-Region": "x"}, "the new list is not complete yet"
    line.reply({"tools": []}, 4)
    assert headers_of(line, {"region": "x"}) == {}


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_25_refused_headers_have_the_list_read_anew_and_the_call_made_once_more(version: str) -> None:
    line = settled(version, make=WithHeaders)
    call = line.engine.call(Operation.CALL_TOOL, {"name": "t", "arguments": {"region": "x"}})
    line.take()
    line.refuse(-32020, "Mcp-Param-Region is missing")
    assert line.methods() == ["tools/list"]
    line.reply({"tools": [REGION]})
    assert line.methods() == ["tools/call"]
    assert line.engine.mirrored[-1]["Mcp-Param-Region"] == "x"
    line.refuse(-32020, "still")
    assert failure_of(call) == ("ServerError", "still (code -32020)")
    assert line.methods() == []


@pytest.mark.parametrize("version", ENVELOPE)
def test_case_25_the_list_is_read_anew_once_however_many_calls_were_refused(version: str) -> None:
    line = settled(version, make=WithHeaders)
    arguments = {"name": "t", "arguments": {"region": "x"}}
    calls = [line.engine.call(Operation.CALL_TOOL, arguments) for _ in range(3)]
    line.take()
    line.refuse(-32020, id=2)
    line.refuse(-32020, id=3)
    assert line.methods() == ["tools/list"]
    line.reply({"tools": [REGION]}, 5)
    assert line.methods() == ["tools/call"] * 2
    line.refuse(-32020, id=4)
    assert line.methods() == ["tools/call"], "it was sent before the list was read"
    for number in (6, 7, 8):
        line.reply({"content": []}, number)
    assert [outcome_of(call) for call in calls] == [{"content": []}] * 3
    line.engine.call(Operation.CALL_TOOL, arguments)
    line.take()
    line.refuse(-32020, id=9)
    assert line.methods() == ["tools/list"], "its headers are those of the list that was read"


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_list_that_was_fresh_is_read_anew_all_the_same(version: str) -> None:
    line = with_tools(version, tool("t"))
    line.engine.call(Operation.LIST_TOOLS)
    line.reply({"tools": [tool("t")], "ttlMs": 10_000_000, "cacheScope": "public"})
    line.engine.call(Operation.CALL_TOOL, {"name": "t", "arguments": {"region": "x"}})
    line.take()
    line.refuse(-32020)
    assert line.methods() == ["tools/list"]


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_list_that_cannot_be_read_anew(version: str) -> None:
    line = settled(version, make=WithHeaders)
    call = line.engine.call(Operation.CALL_TOOL, {"name": "t", "arguments": {}})
    line.take()
    line.refuse(-32020, "mismatch")
    line.take()
    line.refuse(-32603, "broken")
    assert failure_of(call) == ("ServerError", "mismatch (code -32020)")
    gone = line.engine.call(Operation.CALL_TOOL, {"name": "t", "arguments": {}})
    line.take()
    line.refuse(-32020, "mismatch")
    line.engine.cancel(gone)
    line.take()
    line.reply({"tools": []}, 5)
    assert (line.methods(), failure_of(gone)[0]) == ([], "CallAbandoned")


@pytest.mark.parametrize("version", VERSIONS)
def test_where_there_are_no_headers_a_refusal_of_them_is_an_error_like_any_other(version: str) -> None:
    line = settled(version)
    call = line.engine.call(Operation.CALL_TOOL, {"name": "t", "arguments": {}})
    line.take()
    line.refuse(-32020, "mismatch")
    assert failure_of(call) == ("ServerError", "mismatch (code -32020)")


# Kept -----------------------------------------------------------------------------------------------------------------


def read(line: Line, operation: Operation = Operation.LIST_TOOLS, **options: Any) -> tuple[Any, bool]:
    """List, and whether it took a request."""
    call = line.engine.call(operation, **options)
    return call, bool(line.take())


FRESH = {"ttlMs": 5000, "cacheScope": "public"}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("operation", LISTS)
def test_a_list_is_kept_as_long_as_the_server_says(version: str, operation: Operation) -> None:
    line = settled(version)
    read(line, operation)
    whole = page(operation, "a", **FRESH)
    line.reply(whole)
    line.wait(4.9)
    call, asked = read(line, operation)
    assert (outcome_of(call), asked) == (whole, False)
    line.wait(0.1)
    assert read(line, operation)[1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("ttl", [None, 0, -1, "5000", 1.5, True, [], ...])
def test_a_list_without_a_time_is_not_kept(version: str, ttl: JSON) -> None:
    line = settled(version)
    read(line)
    line.reply(page(Operation.LIST_TOOLS, "a", **({} if ttl is ... else {"ttlMs": ttl})))
    assert read(line)[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_list_is_kept_for_a_year_at_most(version: str) -> None:
    line = settled(version)
    read(line)
    line.reply(page(Operation.LIST_TOOLS, "a", ttlMs=10**400))
    line.wait(365 * 24 * 3600 - 1)
    assert not read(line)[1]
    line.wait(1)
    assert read(line)[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_said_of_a_fault_is_bounded(version: str) -> None:
    properties = {"x" * 5000: {"type": "string", "x-mcp-header": "a b"}}
    line = settled(version, make=WithHeaders)
    read(line)
    events = line.reply({"tools": [tool("t", **properties)]})
    assert [len(fault) for fault in faults(events)] == ([1000] if version in ENVELOPE else [])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_list_is_as_fresh_as_its_oldest_page(version: str) -> None:
    line = settled(version)
    read(line)
    line.reply(page(Operation.LIST_TOOLS, "a", nextCursor="2", ttlMs=3000))
    line.wait(2)
    line.reply(page(Operation.LIST_TOOLS, "b", ttlMs=9000))
    line.wait(0.9)
    assert not read(line)[1]
    line.wait(0.1)
    assert read(line)[1]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("operation", LISTS)
def test_a_change_makes_stale_what_it_is_about(version: str, operation: Operation) -> None:
    line = settled(version)
    for each in LISTS:
        read(line, each)
        line.reply(page(each, "a", ttlMs=10**9))
    line.notify(CHANGED[operation])
    stale = {each for each in LISTS if read(line, each)[1]}
    assert stale == {each for each in LISTS if CHANGED[each] == CHANGED[operation]}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_change_while_the_list_is_read(version: str) -> None:
    """What comes then may be from before the change: it is good for who asked, and not kept."""
    line = settled(version)
    call, _ = read(line)
    line.notify(CHANGED[Operation.LIST_TOOLS])
    line.reply(page(Operation.LIST_TOOLS, "a", ttlMs=10**9))
    assert call.ended
    assert read(line)[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_private_list_serves_no_call_with_headers_of_its_own(version: str) -> None:
    line = settled(version)
    read(line, headers={"Authorization": "other"})
    line.reply(page(Operation.LIST_TOOLS, "a", ttlMs=5000, cacheScope="private"))
    assert read(line)[1], "nor does theirs serve anybody else"
    line.reply(page(Operation.LIST_TOOLS, "a", ttlMs=5000, cacheScope="private"))
    assert not read(line)[1]
    assert read(line, headers={"Authorization": "other"})[1]
    line.reply(page(Operation.LIST_TOOLS, "a", **FRESH))
    assert not read(line, headers={"Authorization": "third"})[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_list_from_somewhere_in_the_middle_is_not_the_list(version: str) -> None:
    line = settled(version)
    read(line, params={"cursor": "5"})
    line.reply(page(Operation.LIST_TOOLS, "f", **FRESH))
    assert read(line)[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_list_that_is_given_up_is_read_no_further(version: str) -> None:
    line = settled(version)
    call, _ = read(line)
    line.reply(page(Operation.LIST_TOOLS, "a", nextCursor="2"))
    line.take()
    line.engine.cancel(call)
    assert [message["params"]["requestId"] for message in line.take()] == [3]
    line.reply(page(Operation.LIST_TOOLS, "b", nextCursor="3"), 3)
    assert line.take() == []

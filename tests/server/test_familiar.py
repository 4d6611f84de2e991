"""A server that has heard a request like the next one before answers it as one that has not."""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from types import FunctionType, ModuleType
from typing import Annotated, Any

import msgspec
import pytest

from alike import alterations, calls, registry, requests
from at_once import seen
from listed import declare
from mcp_sansio import Config, Exchange, Head, Registry, Server
from mcp_sansio.call import Call
from mcp_sansio.testing import Simulation
from mcp_sansio.wire.headers import Headers
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, EVERYTHING, HANDSHAKE, VERSIONS, Channel, Http, Speaker

JSON = Any


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("which", [0, *(pytest.param(which, marks=pytest.mark.thorough) for which in (1, 2, 3))])
class TestWhatIsLikeACallBefore:
    def test_is_answered_over_http_as_if_it_were_the_first(self, version: str, which: int) -> None:
        knows = Http(version, registry())
        base = calls(knows)[which]
        answer = seen(knows.post(base))
        for what, body, headers in requests(base):
            fresh = Http(version, registry())
            given = fresh.headers(base) | headers
            sent = {name: value for name, value in given.items() if value is not None}
            expected = seen(fresh.simulation.http(body, headers=sent))
            assert seen(knows.post(base)) == answer
            for _ in range(2):
                assert seen(knows.simulation.http(body, headers=sent)) == expected, what

    def test_is_answered_on_a_channel_as_if_it_were_the_first(self, version: str, which: int) -> None:
        knows = Channel(version, registry())
        base = calls(knows)[which]
        for what, body in alterations(base):
            fresh = Channel(version, registry())
            before = len(fresh.end.sent)
            fresh.end.send(body)
            expected = fresh.end.sent[before:]
            knows.send(base)
            for _ in range(2):
                before = len(knows.end.sent)
                knows.end.send(body)
                assert knows.end.sent[before:] == expected, what


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("of", [Http, Channel], ids=["http", "channel"])
def test_two_clients_that_call_alike_are_told_apart(version: str, of: Callable[..., Any]) -> None:
    simulation = Simulation(registry())
    first, second = of(version, simulation), of(version, simulation, capabilities={"roots": {}})

    def said(client: Any) -> str:
        given = client.call("who", {"text": "a"})
        messages = given if isinstance(given, list) else given.messages
        return str(messages[-1]["result"]["content"][0]["text"])

    for _ in range(2):
        assert said(first) == f"client {sorted(EVERYTHING)} a"
        assert said(second) == "client ['roots'] a"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("of", [Http, Channel], ids=["http", "channel"])
def test_what_a_handler_makes_of_its_client_is_its_own(version: str, of: Callable[..., Any]) -> None:
    made = registry()
    seen: list[dict[str, Any]] = []

    @made.tool
    async def change(ex: Exchange) -> str:
        """Change what the client declared."""
        capabilities: Any = ex.client_info.capabilities
        seen.append(copy.deepcopy(capabilities))
        capabilities["elicitation"].clear()
        capabilities["roots"] = None
        return str(ex.client_info.capabilities["roots"])

    client = of(version, made)
    for _ in range(3):
        given = client.call("change", {})
        messages = given if isinstance(given, list) else given.messages
        assert messages[-1]["result"]["content"][0]["text"] == "None"
    assert seen == [EVERYTHING] * 3


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("of", [Http, Channel], ids=["http", "channel"])
def test_a_log_level_holds_for_calls_like_those_before(version: str, of: Callable[..., Any]) -> None:
    client = of(version, registry())

    def methods() -> list[str | None]:
        given = client.call("who", {"text": "a"})
        return [message.get("method") for message in (given if isinstance(given, list) else given.messages)]

    default = methods()
    assert methods() == default
    for level, heard in (("emergency", [None]), ("debug", ["notifications/message", None])):
        client.request("logging/setLevel", {"level": level})
        assert methods() == methods() == heard


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_tool_whose_arguments_come_to_be_mirrored_wants_their_header_from_then_on(version: str) -> None:
    made = registry()
    client = Http(version, made)
    arguments = {"region": "eu"}
    assert [client.call("echo", arguments).status for _ in range(2)] == [200, 200]

    made.remove_tool("echo")

    @made.tool(name="echo")
    async def mirrored(
        region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})],
    ) -> str:
        """Has a header now."""
        return region

    assert client.call("echo", arguments).status == 400
    assert client.call("echo", arguments, headers={"Mcp-Param-Region": "eu"}).status == 200
    assert client.call("echo", {"region": "us"}, headers={"Mcp-Param-Region": "eu"}).status == 400


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_that_is_gone_is_not_called(version: str) -> None:
    made = registry()
    client = Http(version, made)
    assert [client.call("echo", {"text": "a"}).messages[0].get("result") is None for _ in range(2)] == [False, False]
    made.remove_tool("echo")
    assert client.call("echo", {"text": "a"}).messages[0]["error"]["code"] == -32602


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_session_that_is_over_or_anothers_is_not_found_by_a_call_like_those_before(version: str) -> None:
    simulation = Simulation(registry(), config=Config(deletable_sessions=True))
    client = Http(version, simulation, principal="alice")
    base = client.message("tools/call", {"name": "echo", "arguments": {"text": "a"}}, id="the call")
    assert [client.post(base).status for _ in range(2)] == [200, 200]
    client.options["principal"] = "bob"
    refused = client.post(base)
    assert (refused.status, refused.messages[0]["id"]) == (404, "the call")
    client.options["principal"] = "alice"
    assert client.delete().status == 204
    assert client.post(base).status == 404


def test_a_session_that_is_required_is_required_of_calls_like_those_before() -> None:
    client = Http(HANDSHAKE[0], Simulation(registry(), config=Config(require_session=True)))
    base = client.message("tools/call", {"name": "echo", "arguments": {"text": "a"}})
    assert [client.post(base).status for _ in range(2)] == [200, 200]
    assert client.post(base, headers={"Mcp-Session-Id": None}).status == 400


@pytest.mark.parametrize("version", ENVELOPE)
def test_more_calls_than_are_remembered_are_all_answered(version: str) -> None:
    client = Http(version, registry())
    for round in range(2):
        for n in range(600):
            client.capabilities = {"experimental": {"n": {"n": n}}}
            exchange = client.call("who", {"text": str(round)})
            [answer] = exchange.messages
            assert answer["result"]["content"][0]["text"] == f"client ['experimental'] {round}"
            client.simulation.remove(exchange)  # or each is asked again and again whether it has something


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("most", range(6, 13))
def test_arguments_nest_no_deeper_than_they_may_after_some_that_did_not_either(version: str, most: int) -> None:
    made = registry()

    @made.tool
    async def deep(x: JSON = None) -> str:
        """Say what came."""
        return str(x)

    client = Channel(version, Simulation(made, config=Config(max_depth=most)))
    for levels in (*range(most), *range(most)):
        arguments: dict[str, JSON] = {}
        for _ in range(levels):
            arguments = {"x": arguments} if levels % 2 else {"x": [arguments]}
        depth = 3 + levels * (1 if levels % 2 else 2)
        [answer] = client.call("deep", arguments)
        if depth > most:
            assert answer["error"]["message"] == f"the body is not JSON: nested deeper than {most} levels"
        else:
            assert answer["result"]["content"] == [{"type": "text", "text": str(arguments.get("x"))}]


# What is kept ---------------------------------------------------------------------------------------------------------


def kept(*roots: object) -> list[object]:
    """Everything that `roots` keep alive, but for code."""
    found: dict[int, object] = {}
    left = [*roots]
    while left:
        one = left.pop()
        if id(one) not in found and not isinstance(one, type | ModuleType | FunctionType | Server | Registry):
            found[id(one)] = one
            left += gc.get_referents(one)
    return [*found.values()]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("of", [Http, Channel], ids=["http", "channel"])
def test_nothing_of_its_own_is_kept_of_a_call(version: str, of: Callable[..., Any]) -> None:
    """Arguments are secrets now and then, and a client may have said as much of itself in a handshake as it likes."""
    client = of(version, registry(), capabilities={"experimental": {"kept": {"by": "of the client"}}})
    for _ in range(2):
        client.call("who", {"text": "of the call"})
    familiar = client.simulation.server.familiar
    words = {word for word in kept(familiar, *vars(familiar).values()) if isinstance(word, str)}
    assert "who" in words
    assert "of the call" not in words
    assert ("of the client" in words) is not client.adapter.has_handshake


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_kept_of_a_call_that_is_read_anew_each_time(version: str) -> None:
    """One of many brackets, say, which cost thirty times what they have in bytes."""
    client = Http(version, registry())
    for _ in range(2):
        assert client.call("echo", _meta={"x": [[]] * 200}).status == 200
        assert client.call("echo", _meta={"x": "y" * 3000}).status == 200
        assert client.call("echo", _meta={"progressToken": 1}).status == 200
        assert client.call("echo", {"text": "é" * 2000}).status == 200
    assert not [one for one in kept(*vars(client.simulation.server.familiar).values()) if isinstance(one, Call)]


def test_clients_of_the_first_transport_share_what_is_kept() -> None:
    simulation = Simulation(registry())
    for _ in range(3):
        stream = simulation.pair()
        target = stream.body.decode().split("data: ")[1].strip()
        client = Speaker(HANDSHAKE[-1], simulation)
        for message in (client.initialize(), client.message("tools/call", {"name": "echo"})):
            simulation.pair(message, method="POST", target=target)
        assert b"nothing" in stream.body
    assert len([one for one in kept(*vars(simulation.server.familiar).values()) if isinstance(one, Call)]) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_pages_from_any_place_on_are_not_kept(version: str) -> None:
    made = Registry("many", "1", page_size=500)
    for number in range(1000):
        declare(made, "tools/list", number)
    client = Http(version, made)
    for number in range(300):
        message = client.message("tools/list", {"cursor": str(number)})
        # Not held against the schema, as `client.request` does: that is 150 000 tools.
        exchange = client.simulation.http(message, headers=client.headers(message))
        assert exchange.status == 200
        client.simulation.remove(exchange)
    held = kept(*vars(client.simulation.server.familiar).values())
    assert sum(map(sys.getsizeof, held)) < 2**20


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_client_can_have_kept_has_a_bound(version: str) -> None:
    client = Http(version, registry())
    server = client.simulation.server
    base = client.message("tools/list")
    for number in range(600):
        name = f"{number:060000}"
        given = {"content-type": "application/json", "accept": "*/*", **client.headers(base)}
        client.simulation.remove(client.simulation.http(encode(base), headers={**given, "Mcp-Name": name}))
        small = Headers.of_bytes([(name.encode(), value.encode()) for name, value in given.items()])
        transaction = server.http_transaction()
        transaction.receive_request("POST", f"/mcp?{name}", small)
        transaction.receive_end(encode(base))
        assert [part.status for part in transaction.data_to_send() if isinstance(part, Head)] == [200]
    roots = (server.familiar, server.heads)
    held = kept(*roots, *(value for root in roots for value in vars(root).values()))
    assert sum(map(sys.getsizeof, held)) < 2**21


class Text(str):
    """A string of which can be told whether it is still there."""


@pytest.mark.parametrize("name", ["content-type", "content-length", "accept", "host", "origin", "mcp-session-id", "x"])
def test_nothing_is_kept_of_a_head_that_is_too_large(name: str) -> None:
    server = Simulation(registry(), config=Config(max_headers=1000)).server
    value = Text(f"{name:>2000}")
    is_there = weakref.ref(value)
    transaction = server.http_transaction()
    transaction.receive_request("POST", "/mcp", {name: value})
    [head, *_] = transaction.data_to_send()
    assert isinstance(head, Head)
    assert head.status == 431
    del transaction, value
    gc.collect()
    assert is_there() is None


# Another thread -------------------------------------------------------------------------------------------------------


def post_while(client: Http, message: JSON, at: int, change: Callable[[], object]) -> bool:
    """POST `message`, and have `change` happen where the server comes to its line number `at`. False where it ends
    before that."""
    lines = iter(range(at + 1))

    def trace(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and next(lines, None) == at:
            sys.settrace(None)
            change()
        return trace if "mcp_sansio" in frame.f_code.co_filename else None

    transaction = client.simulation.server.http_transaction()
    headers = {"content-type": "application/json", "accept": "*/*", **client.headers(message)}
    transaction.receive_request("POST", "/mcp", headers)
    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        transaction.receive_end(encode(message))
    finally:
        sys.settrace(tracing)
    return next(lines, None) is None


def changed_at_each_line(
    version: str, asked: tuple[Any, ...], times: int, change: Callable[[Registry], object]
) -> Iterator[tuple[int, Http, JSON]]:
    """A client whose server came to `change` at a line of what it was `asked`, having answered it so many `times`.

    There is one for each line, with its number and the message.
    """
    for at in count():
        made = Registry("familiar", "1")
        made.tool(name="echo")(plain)
        client = Http(version, made)
        message = client.message(*asked)
        for _ in range(times):
            client.post(message)
        if not post_while(client, message, at, partial(change, made)):
            break
        yield at, client, message
    assert at > 20


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("times", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_tool_that_is_changed_in_a_thread_is_called_as_it_is_from_then_on(version: str, times: int) -> None:
    """Wherever the server is with an earlier call: the first of its kind, or one that is familiar."""

    def change(made: Registry) -> None:
        made.remove_tool("echo")
        made.tool(name="echo")(mirrored)

    asked = ("tools/call", {"name": "echo", "arguments": {"region": "eu"}})
    for at, client, message in changed_at_each_line(version, asked, times, change):
        assert [client.post(message).status for _ in range(2)] == [400, 400], at


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("times", [0, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_list_that_is_changed_in_a_thread_is_told_as_it_is_from_then_on(version: str, times: int) -> None:
    def change(made: Registry) -> None:
        made.tool(name="more")(mirrored)

    for at, client, message in changed_at_each_line(version, ("tools/list",), times, change):
        [answer] = client.post(message).messages
        assert [tool["name"] for tool in answer["result"]["tools"]] == ["echo", "more"], at


async def plain(region: str) -> str:
    """Before."""
    return region


async def mirrored(region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
    """After."""
    return region

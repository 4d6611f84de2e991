"""From a call to its outcome: what handlers return and raise, what runs where, and what becomes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from foreign import timed
from mcp_sansio import (
    BlobResourceContents,
    CallToolResult,
    Completion,
    CompletionRequest,
    EmbeddedResource,
    Exchange,
    ImageContent,
    NeedInput,
    Operation,
    PromptMessage,
    Registry,
    ResourceNotFound,
    Runtime,
    Server,
    TextContent,
    TextResourceContents,
    ToolError,
    dispatcher,
    elicit,
    immediate,
)
from mcp_sansio.events import CallReceived
from mcp_sansio.testing import FakeClock
from mcp_sansio.wire.json import decode, encode
from speak import HANDSHAKE, VERSIONS, Channel, Http

FAULT = "The tool failed because of an internal error."
HANDLER_FAULT = "The request failed because of an internal error."
NEWEST = VERSIONS[0]


@attrs.define
class Place:
    city: str
    code: int = 0


def tool(returned: Any, **options: Any) -> dict[str, Any]:
    """The result of a tool that returns that, without what a revision adds."""
    registry = Registry("s", "1")

    @registry.tool(**options)
    async def give() -> Any:
        """Give."""
        return returned

    [answered] = Channel(NEWEST, registry).call("give")
    return {name: value for name, value in answered["result"].items() if name not in ("_meta", "resultType")}


def said(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


BLOB = {"type": "image", "data": "AAE=", "mimeType": "image/png"}
RETURNED: list[tuple[Any, dict[str, Any]]] = [
    (None, {"content": []}),
    ("a", {"content": said("a")}),
    ("", {"content": said("")}),
    (TextContent("a"), {"content": said("a")}),
    (ImageContent(b"\0\1", "image/png"), {"content": [BLOB]}),
    (["a", TextContent("b")], {"content": said("a", "b")}),
    (("a", "b"), {"content": said("a", "b")}),
    ([], {"content": []}),
    (
        EmbeddedResource(TextResourceContents("a:b", "x")),
        {"content": [{"type": "resource", "resource": {"uri": "a:b", "text": "x"}}]},
    ),
    (5, {"content": said("5"), "structuredContent": 5}),
    (True, {"content": said("true"), "structuredContent": True}),
    ({"a": [1]}, {"content": said('{"a":[1]}'), "structuredContent": {"a": [1]}}),
    ([1, "a"], {"content": said('[1,"a"]'), "structuredContent": [1, "a"]}),
    (Place("x"), {"content": said('{"city":"x","code":0}'), "structuredContent": {"city": "x", "code": 0}}),
    (CallToolResult([TextContent("a")], is_error=True), {"content": said("a"), "isError": True}),
    (CallToolResult(structured_content=None), {"content": said("null"), "structuredContent": None}),
    ("\ud800", {"content": said("\ufffd")}),
]


@pytest.mark.parametrize(("returned", "expected"), RETURNED)
def test_what_a_tool_may_return(returned: Any, expected: dict[str, Any]) -> None:
    assert tool(returned) == expected


UNFIT: list[Any] = [
    b"bytes",
    object(),
    float("nan"),
    {"a": float("inf")},
    CallToolResult(structured_content={"a": object()}),
    CallToolResult(meta={"a": object()}),
]


@pytest.mark.parametrize("returned", UNFIT)
def test_what_a_tool_may_not_return(returned: Any, caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def give() -> Any:
        """Give."""
        return returned

    for version in VERSIONS:
        caplog.clear()
        [answered] = Channel(version, registry).call("give")
        shown = answered.get("error", {}).get("message") or answered["result"]["content"][0]["text"]
        assert shown in (FAULT, HANDLER_FAULT)
        assert "give" in caplog.text


def test_an_output_schema_is_kept_to(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("jsonschema")
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert tool({"a": 1}, output_schema=schema)["structuredContent"] == {"a": 1}
    for wrong in ({}, {"a": "x"}, None, "text", [TextContent("x")]):
        assert tool(wrong, output_schema=schema) == {"content": said(FAULT), "isError": True}
    # An error says what went wrong in its own words, and owes nobody a structure.
    failed = CallToolResult([TextContent("no")], is_error=True)
    assert tool(failed, output_schema=schema) == {"content": said("no"), "isError": True}
    assert tool(CallToolResult([TextContent("no")]), output_schema=schema) == {"content": said(FAULT), "isError": True}


RAISED: list[tuple[BaseException, str, str]] = [
    # What a tool's result says, and what the error of a resource or a prompt says.
    (ToolError("the disk is full"), "the disk is full", "the disk is full"),
    (RuntimeError("secret"), FAULT, HANDLER_FAULT),
    (KeyError("secret"), FAULT, HANDLER_FAULT),
    (AssertionError("secret"), FAULT, HANDLER_FAULT),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("error", "of_tool", "of_others"), RAISED)
def test_what_a_handler_raises(
    version: str, error: BaseException, of_tool: str, of_others: str, caplog: pytest.LogCaptureFixture
) -> None:
    registry = Registry("s", "1")

    async def fail() -> str:
        raise error

    registry.tool(name="t")(fail)
    registry.prompt(name="p")(fail)
    registry.resource("a:b")(fail)

    async def complete(request: CompletionRequest) -> list[str]:
        raise error

    registry.completion(complete)
    channel, speaker = Channel(version, registry), Http(version, registry)
    [answered] = channel.call("t")
    assert answered["result"]["content"] == said(of_tool)
    assert answered["result"]["isError"] is True
    refused = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": of_others}}
    for method, params in (("prompts/get", {"name": "p"}), ("resources/read", {"uri": "a:b"})):
        assert channel.request(method, params) == [refused]
        over_http = speaker.request(method, params)
        assert (over_http.status, over_http.messages) == (200, [refused])
    ref = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}
    assert channel.request("completion/complete", ref)[0]["error"]["message"] == HANDLER_FAULT
    assert ("secret" in caplog.text) is ("secret" in str(error))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_may_find_no_resource(version: str) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def fail() -> str:
        """Fail."""
        raise ResourceNotFound("x")

    [answered] = Channel(version, registry).call("fail")
    assert answered["result"]["content"] == said(FAULT)


CONTENTS: list[tuple[Any, list[dict[str, Any]] | None]] = [
    ("x", [{"uri": "a:b", "text": "x", "mimeType": "text/x"}]),
    (b"\0\1", [{"uri": "a:b", "blob": "AAE=", "mimeType": "text/x"}]),
    (bytearray(b"\0\1"), [{"uri": "a:b", "blob": "AAE=", "mimeType": "text/x"}]),
    ({"a": 1}, [{"uri": "a:b", "text": '{"a":1}', "mimeType": "text/x"}]),
    (TextResourceContents("c:d", "y"), [{"uri": "c:d", "text": "y"}]),
    (
        [TextResourceContents("c:d", "y"), BlobResourceContents("c:e", "AAE=")],
        [{"uri": "c:d", "text": "y"}, {"uri": "c:e", "blob": "AAE="}],
    ),
    (None, None),
    (object(), None),
    (float("nan"), None),
]


@pytest.mark.parametrize(("returned", "expected"), CONTENTS)
def test_what_a_resource_may_return(returned: Any, expected: list[dict[str, Any]] | None) -> None:
    registry = Registry("s", "1")

    @registry.resource("a:b", mime_type="text/x")
    async def read() -> Any:
        return returned

    [answered] = Channel(NEWEST, registry).request("resources/read", {"uri": "a:b"})
    if expected is None:
        assert answered["error"] == {"code": -32603, "message": HANDLER_FAULT}
    else:
        assert answered["result"]["contents"] == expected


MESSAGES: list[tuple[Any, list[tuple[str, str]] | None]] = [
    ("x", [("user", "x")]),
    (TextContent("x"), [("user", "x")]),
    (("assistant", "x"), [("assistant", "x")]),
    (PromptMessage("assistant", TextContent("x")), [("assistant", "x")]),
    (["x", ("assistant", "y")], [("user", "x"), ("assistant", "y")]),
    ([], []),
    (("robot", "x"), None),
    (5, None),
    (None, None),
    ([["x"]], None),
]


@pytest.mark.parametrize(("returned", "expected"), MESSAGES)
def test_what_a_prompt_may_return(returned: Any, expected: list[tuple[str, str]] | None) -> None:
    registry = Registry("s", "1")

    @registry.prompt
    async def say() -> Any:
        return returned

    [answered] = Channel(NEWEST, registry).request("prompts/get", {"name": "say"})
    if expected is None:
        assert answered["error"] == {"code": -32603, "message": HANDLER_FAULT}
    else:
        messages = answered["result"]["messages"]
        assert [(message["role"], message["content"]["text"]) for message in messages] == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_prompt_arguments(version: str) -> None:
    registry = Registry("s", "1")

    @registry.prompt
    async def say(name: str, times: int = 1) -> str:
        return name * times

    channel = Channel(version, registry)
    [answered] = channel.request("prompts/get", {"name": "say", "arguments": {"name": "a", "times": "3"}})
    assert answered["result"]["messages"][0]["content"]["text"] == "aaa"
    [refused] = channel.request("prompts/get", {"name": "say", "arguments": {}})
    assert refused["error"] == {"code": -32602, "message": "Invalid arguments: $.name: is required"}


COMPLETIONS: list[tuple[Any, dict[str, Any]]] = [
    (["a", "b"], {"values": ["a", "b"]}),
    ([], {"values": []}),
    (None, {"values": []}),
    (Completion(["a"], total=9, has_more=True), {"values": ["a"], "total": 9, "hasMore": True}),
    ([str(n) for n in range(150)], {"values": [str(n) for n in range(100)], "total": 150, "hasMore": True}),
    (Completion(["x"] * 101, total=500), {"values": ["x"] * 100, "total": 500, "hasMore": True}),
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("returned", "expected"), COMPLETIONS)
def test_what_a_completion_may_return(version: str, returned: Any, expected: dict[str, Any]) -> None:
    registry, seen = Registry("s", "1"), []

    @registry.resource("a:{x}/{y}")
    async def read(x: str, y: str) -> str:
        return x

    @registry.completion(resource="a:{x}/{y}", argument="y")
    async def complete(request: CompletionRequest, ex: Exchange) -> Any:
        seen.append(request)
        return returned

    ref = {"type": "ref/resource", "uri": "a:{x}/{y}"}
    params = {"ref": ref, "argument": {"name": "y", "value": "v"}, "context": {"arguments": {"x": "1"}}}
    channel = Channel(version, registry)
    assert channel.request("completion/complete", params)[0]["result"]["completion"] == expected
    assert seen == [CompletionRequest("y", "v", None, "a:{x}/{y}", {"x": "1"})]
    other = {**params, "argument": {"name": "x", "value": "v"}}
    assert channel.request("completion/complete", other)[0]["result"]["completion"] == {"values": []}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_completion_may_not_ask(version: str, caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry("s", "1")
    registry.prompt(name="p")(lambda: "x")

    @registry.completion
    async def complete(request: CompletionRequest) -> list[str]:
        raise NeedInput({"q": elicit("Sure?")}, state=1)

    params: dict[str, Any] = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "y", "value": "v"}}
    channel = Channel(version, registry)
    assert channel.request("completion/complete", params)[0]["error"] == {"code": -32603, "message": HANDLER_FAULT}
    assert "only tools, resources and prompts may" in caplog.text

    @registry.completion(argument="z")
    async def ask(request: CompletionRequest, ex: Exchange) -> list[str]:
        return [(await ex.ask("q", elicit("Sure?"))).action]

    params["argument"]["name"] = "z"
    assert channel.request("completion/complete", params)[0]["error"] == {"code": -32603, "message": HANDLER_FAULT}


# Where handlers run ---------------------------------------------------------------------------------------------------


def run_on(run_sync: Callable[..., Any], registry: Registry, name: str) -> str:
    """Call a tool with a runtime that lends this."""
    numbers = iter(range(1, 100))
    runtime = Runtime(
        now=FakeClock(),
        token_bytes=lambda size: next(numbers).to_bytes(size, "big"),
        event=asyncio.Event,
        run_sync=run_sync,
    )
    connection = Server(registry, runtime=runtime).connection()
    params = {"protocolVersion": HANDSHAKE[0], "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    connection.receive_message(encode({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    params = {"name": name, "arguments": {}}
    connection.receive_message(encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}))
    [received] = connection.events()
    assert isinstance(received, CallReceived)

    async def run() -> None:
        await received.run()

    asyncio.run(run())
    answered = decode(connection.data_to_send()[-1])
    return answered["result"]["content"][0]["text"]  # type: ignore[no-any-return]


def test_a_plain_function_runs_where_the_binding_says() -> None:
    registry, used = Registry("s", "1"), []

    async def run_sync(function: Callable[[], Any], /) -> Any:
        used.append("lent")
        return function()

    @registry.tool
    def blocking() -> str:
        """Blocking."""
        return "blocking"

    @registry.tool(blocking=False)
    def quick() -> str:
        """Quick."""
        return "quick"

    @registry.tool
    async def asynchronous() -> str:
        """Asynchronous."""
        return "asynchronous"

    @registry.tool(blocking=False)
    def handed_on() -> Any:
        """Hand on what has to be awaited."""
        return asynchronous()

    for name, times in (("blocking", 1), ("quick", 1), ("asynchronous", 1), ("handed_on", 1)):
        expected = "asynchronous" if name == "handed_on" else name
        assert run_on(run_sync, registry, name) == expected
        assert len(used) == times


def test_what_a_decorators_plain_function_gives_is_awaited_on_the_loop() -> None:
    """Most decorators are a plain ``def``, and what they decorate may be an ``async def``."""
    registry, ran = Registry("s", "1"), []

    @registry.tool
    @timed
    async def bake() -> str:
        """Bake."""
        await asyncio.sleep(0)
        ran.append(threading.get_ident())
        return "baked"

    assert run_on(asyncio.to_thread, registry, "bake") == "baked"
    assert ran == [threading.get_ident()]


def test_what_interrupts_a_call_goes_on_and_the_call_is_answered() -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def stop() -> str:
        """Stop."""
        raise KeyboardInterrupt

    channel = Channel(NEWEST, registry)
    with pytest.raises(KeyboardInterrupt):
        channel.call("stop")
    channel.simulation.settle()
    error = {"code": -32603, "message": "the call was interrupted"}
    assert channel.end.messages[-1] == {"jsonrpc": "2.0", "id": 1, "error": error}


def test_every_operation_has_one_route() -> None:
    assert set(immediate.ROUTES) | set(dispatcher.RUN) == set(Operation)
    assert set(immediate.ROUTES) & set(dispatcher.RUN) == set()


def test_a_plain_function_that_raises_stop_iteration_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    """A future refuses a StopIteration, so a thread's result of that kind would never come in."""
    registry = Registry("s", "1")

    @registry.tool
    def stops() -> str:
        """Stop."""
        return next(iter(()))

    async def run_sync(function: Callable[[], Any], /) -> Any:
        return await asyncio.wait_for(asyncio.to_thread(function), 10)

    assert run_on(run_sync, registry, "stops") == FAULT
    assert "the handler raised StopIteration" in caplog.text


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handler_that_exits_ends_its_call_and_nothing_else(version: str, caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry("s", "1")

    @registry.tool
    async def leaves() -> str:
        """Leave."""
        raise SystemExit(3)

    @registry.tool
    def leaves_too() -> str:
        """Leave."""
        raise SystemExit(3)

    for name in ("leaves", "leaves_too"):
        [answered] = Channel(version, registry).call(name)
        assert answered["result"]["content"] == [{"type": "text", "text": FAULT}]
        assert f"tool '{name}' failed" in caplog.text

"""The methods that every asynchronous client has, on asyncio and on trio, joined to a server in memory."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from joined import LOOPS, Joined
from mcp_sansio import (
    AdapterSet,
    AnswerFailed,
    CallTimeout,
    CallToolResult,
    Change,
    ChangeKind,
    ClientConfig,
    ClientConnection,
    Completion,
    CompletionRequest,
    ConnectionLost,
    Exchange,
    Known,
    LocalProtocolError,
    Prompt,
    PromptArgument,
    Registry,
    Resource,
    ResourceTemplate,
    ServerError,
    TextContent,
    TextResourceContents,
    Tool,
    ToolError,
    UnusableReply,
    elicit,
    elicit_accept,
    elicit_decline,
)
from speak import ENVELOPE, HANDSHAKE, VERSIONS

JSON = Any
ADAPTERS = AdapterSet.default().by_version
Test = Callable[[Any], Awaitable[None]]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Test], None]:
    """Runs a test on one of the loops."""
    return LOOPS[request.param]().run  # type: ignore[no-any-return]


def shop() -> Registry:
    registry = Registry("shop", "1.0", instructions="Be kind.")

    @registry.tool
    async def echo(text: str) -> str:
        """Give the text back."""
        return text

    @registry.tool
    async def steps(ex: Exchange) -> str:
        """Report twice, and say something."""
        await ex.progress(1, 2, "half")
        await ex.log("warning", {"a": 1}, logger="db")
        await ex.progress(2, 2)
        return "done"

    @registry.tool
    async def nap(ex: Exchange) -> str:
        """Wait until it is cancelled."""
        await ex.wait_cancelled()
        return "woken"

    @registry.tool
    async def interview(ex: Exchange) -> str:
        """Two questions, in order."""
        first = await ex.ask("first", elicit("Name?", {"type": "object", "properties": {"v": {"type": "string"}}}))
        second = await ex.ask("second", elicit("Sure?"))
        return f"{first['v']} {second.action}"

    @registry.resource("x://a")
    def a() -> str:
        return "text of a"

    @registry.resource("y://{name}")
    def y(name: str) -> str:
        return f"text of {name}"

    @registry.prompt
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    @registry.completion
    def names(request: CompletionRequest) -> list[str]:
        return [name for name in ("anna", "bert") if name.startswith(request.value)]

    return registry


@pytest.mark.parametrize("version", [None, *VERSIONS])
def test_everything_that_a_server_has(run: Callable[[Test], None], version: str | None) -> None:
    async def test(loop: Any) -> None:
        async with Joined(loop, shop(), version) as client:
            assert (client.adapter, client.server, client.known) == (None, None, None)
            server = await client.initialize()
            assert (server.name, server.version, server.instructions) == ("shop", "1.0", "Be kind.")
            assert server is client.server
            assert server.revision == (version or VERSIONS[0])
            assert server.adapter is client.adapter is ADAPTERS[server.revision]
            assert client.known == Known(server.revision)
            tools = await client.list_tools()
            assert [tool.name for tool in tools] == ["echo", "steps", "nap", "interview"]
            assert isinstance(tools[0], Tool)
            assert tools[0].description == "Give the text back."
            assert tools[0].input_schema["properties"] == {"text": {"type": "string"}}
            assert await client.list_resources() == [Resource(uri="x://a", name="a", mime_type=None)]
            [template] = await client.list_resource_templates()
            assert template == ResourceTemplate(uri_template="y://{name}", name="y")
            argument = PromptArgument(name="name", required=True)
            assert await client.list_prompts() == [
                Prompt(name="greet", description="Greet somebody.", arguments=[argument])
            ]
            result = await client.call_tool("echo", {"text": "ż"})
            assert isinstance(result, CallToolResult)
            assert (result.content[0].text, result.is_error) == ("ż", False)  # type: ignore[union-attr]
            read = await client.read_resource("y://b")
            assert read.contents == [TextResourceContents("y://b", "text of b")]  # type: ignore[union-attr]
            prompt = await client.get_prompt("greet", {"name": "anna"})
            assert prompt.messages[0].content == TextContent("Hello anna")  # type: ignore[union-attr]
            ref = {"type": "ref/prompt", "name": "greet"}
            assert await client.complete(ref, "name", "b") == Completion(["bert"])
            assert await client.complete(ref, "name", context={"other": "x"}) == Completion(["anna", "bert"])
            await client.ping()

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_come_out_plain_and_touch_no_other_call(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        async with Joined(loop, shop(), version) as client:
            with pytest.raises(ServerError) as caught:
                await client.call_tool("nope")
            assert (caught.value.code, caught.value.status) == (-32602, None)
            with pytest.raises(ServerError):
                await client.read_resource("z://z")
            wrong = await client.call_tool("echo", {})
            assert wrong.is_error  # type: ignore[union-attr]
            right = await client.call_tool("echo", {"text": "a"})
            assert not right.is_error  # type: ignore[union-attr]

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_progress_and_logs(run: Callable[[Test], None], version: str, kind: str) -> None:
    """All progress of a call is told before its result is."""

    async def test(loop: Any) -> None:
        told: list[Any] = []

        async def slowly(*given: Any) -> None:
            await loop.settle()
            told.append(given)

        def at_once(*given: Any) -> None:
            told.append(given)

        callback = slowly if kind == "async" else at_once
        async with Joined(loop, shop(), version, callbacks={"on_log": callback}, log_level="debug") as client:
            await client.call_tool("steps", on_progress=callback)
            message = None if version == "2024-11-05" else "half"
            assert [given for given in told if len(given) == 3 and given[0] != "warning"] == [
                (1, 2, message),
                (2, 2, None),
            ]
            await loop.settle()
            assert ("warning", {"a": 1}, "db") in told
            told.clear()
            await client.set_log_level("error")
            await client.call_tool("steps")
            await loop.settle()
            assert told == []

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_callback_that_raises_touches_nothing(
    run: Callable[[Test], None], version: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def test(loop: Any) -> None:
        async def later(*given: Any) -> None:
            raise RuntimeError("later")

        def now(*given: Any) -> None:
            raise RuntimeError("now")

        callbacks = {"on_log": later, "on_progress": now}
        async with Joined(loop, shop(), version, callbacks=callbacks, log_level="debug") as client:
            result = await client.call_tool("steps")
            await loop.settle()
            assert result.content[0].text == "done"  # type: ignore[union-attr]

    run(test)
    assert [record.message for record in caplog.records] == ["a callback of the caller's failed"] * 3


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_one_caller_answers_on_every_revision(run: Callable[[Test], None], version: str, kind: str) -> None:
    async def test(loop: Any) -> None:
        asked = []

        def answer(request: Any) -> Any:
            asked.append(request["params"]["message"])
            return elicit_accept({"v": "x"}) if len(asked) == 1 else elicit_decline()

        async def answer_slowly(request: Any) -> Any:
            await loop.settle()
            return answer(request)

        on_ask = answer_slowly if kind == "async" else answer
        async with Joined(loop, shop(), version, callbacks={"on_ask": on_ask}) as client:
            result = await client.call_tool("interview")
            assert result.content[0].text == "x decline"  # type: ignore[union-attr]
            assert asked == ["Name?", "Sure?"]

    run(test)


@pytest.mark.parametrize("version", [version for version in VERSIONS if not ADAPTERS[version].can_push_ask])
def test_without_one_the_question_comes_back(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        async with Joined(loop, shop(), version) as client:
            answers: dict[str, JSON] = {}
            state = None
            for key, answer in (("first", elicit_accept({"v": "x"})), ("second", elicit_decline())):
                asked = await client.call_tool("interview", input_responses=answers, request_state=state)
                assert isinstance(asked, dict)
                assert client.adapter is not None
                requests, state = client.adapter.client_input_requests(asked)
                assert list(requests) == [key]
                answers[key] = answer
            done = await client.call_tool("interview", input_responses=answers, request_state=state)
            assert done.content[0].text == "x decline"  # type: ignore[union-attr]

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("wrong", [RuntimeError("secret"), ToolError("the user is away"), None, 5])
def test_who_cannot_answer(
    run: Callable[[Test], None], version: str, wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What is raised is told to the server only where it was written for it, and is the cause of the call's error."""

    async def test(loop: Any) -> None:
        def answer(request: Any) -> Any:
            if isinstance(wrong, Exception):
                raise wrong
            return wrong

        async with Joined(loop, shop(), version, callbacks={"on_ask": answer}) as client:
            text = "the user is away" if isinstance(wrong, ToolError) else "the client could not answer"
            if ADAPTERS[version].can_push_ask:
                with pytest.raises(ServerError, match="the client refused the question 'first'"):
                    await client.call_tool("interview")
            else:
                with pytest.raises(AnswerFailed, match=f"^{text}$") as caught:
                    await client.call_tool("interview")
                assert isinstance(caught.value.__cause__, type(wrong) if isinstance(wrong, Exception) else ValueError)
            result = await client.call_tool("echo", {"text": "a"})
            assert result.content[0].text == "a"  # type: ignore[union-attr]

    run(test)
    logged = [record.message for record in caplog.records if record.name == "mcp_sansio.client"]
    assert logged == ([] if isinstance(wrong, ToolError) else ["on_ask failed"])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_task_that_is_cancelled_gives_its_call_up(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        async with Joined(loop, shop(), version) as client:
            await client.initialize()
            ended = []

            async def call() -> None:
                try:
                    await client.call_tool("nap")
                finally:
                    ended.append(True)

            cancel = loop.spawn(call)
            await loop.settle()
            before = len(client.channel.sent)
            cancel()
            await loop.settle()
            assert ended == [True]
            assert client._engine.next_deadline() is None
            assert len(client.channel.sent) == before, "the server has stopped, and says nothing"
            result = await client.call_tool("echo", {"text": "a"})
            assert result.content[0].text == "a"  # type: ignore[union-attr]

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_that_takes_too_long(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        async with Joined(loop, shop(), version, config=ClientConfig(timeout=3)) as client:
            await client.initialize()
            raised = []

            async def call() -> None:
                try:
                    await client.call_tool("nap")
                except CallTimeout as error:
                    raised.append(str(error))

            loop.spawn(call)
            await loop.settle()
            client.advance(3)
            await loop.settle()
            assert raised == ["no answer to call_tool within 3 seconds"]

    run(test)


@pytest.mark.parametrize("version", [version for version in VERSIONS if not ADAPTERS[version].can_push_ask])
def test_a_question_that_is_withdrawn_is_no_longer_worked_on(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        ended = []

        async def answer(request: Any) -> Any:
            try:
                await loop.Event().wait()
            finally:
                ended.append(True)

        async with Joined(loop, shop(), version, callbacks={"on_ask": answer}) as client:
            await client.initialize()
            cancel = loop.spawn(lambda: client.call_tool("interview"))
            await loop.settle()
            assert ended == []
            cancel()
            await loop.settle()
            assert ended == [True]

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_listening(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        registry = shop()
        everybody: list[Change] = []
        async with Joined(loop, registry, version, callbacks={"on_change": everybody.append}) as client:
            async with client.listen(tools=True, uris=["x://a"]) as changes:
                registry.tool(name="new")(lambda: "x")
                registry.resource_updated("x://a")
                registry.resource_updated("x://a")
                client._flush()
                assert [await anext(changes), await anext(changes)] == [
                    Change(ChangeKind.TOOLS),
                    Change(ChangeKind.RESOURCE_UPDATED, "x://a"),
                ]
                heard: list[Change] = []

                async def hear() -> None:
                    heard.append(await anext(changes))

                loop.spawn(hear)
                await loop.settle()
                assert heard == []
                registry.resource_updated("x://a")
                client._flush()
                await loop.settle()
                assert heard == [Change(ChangeKind.RESOURCE_UPDATED, "x://a")]
            registry.resource_updated("x://a")
            client._flush()
            assert everybody == [Change(ChangeKind.TOOLS)]
            assert [tool.name for tool in await client.list_tools()][-1] == "new"

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_who_is_behind_with_a_listening_loses_the_oldest_changes(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        registry, config = shop(), ClientConfig(max_callbacks=2)
        uris = ["x://a", "x://b", "x://c"]
        for uri in uris[1:]:
            registry.resource(uri)(lambda: "x")
        async with Joined(loop, registry, version, config=config) as client, client.listen(uris=uris) as changes:
            for uri in uris:
                registry.resource_updated(uri)
                client._flush()
            heard: list[str | None] = []

            async def hear() -> None:
                heard.append((await anext(changes)).uri)

            for _ in range(2):
                loop.spawn(hear)
                await loop.settle()
            assert heard == uris[1:]

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_several_tasks_may_hear_the_same_listening(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        registry = shop()
        async with Joined(loop, registry, version) as client, client.listen(tools=True, uris=["x://a"]) as changes:
            heard: list[ChangeKind] = []

            async def hear() -> None:
                heard.append((await anext(changes)).kind)

            for _ in range(2):
                loop.spawn(hear)
            await loop.settle()
            registry.resource_updated("x://a")
            client._flush()
            await loop.settle()
            assert heard == [ChangeKind.RESOURCE_UPDATED]
            registry.tool(name="new")(lambda: "x")
            client._flush()
            await loop.settle()
            assert heard == [ChangeKind.RESOURCE_UPDATED, ChangeKind.TOOLS]

    run(test)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_listening_to_what_is_not_there(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        async with Joined(loop, shop(), version) as client:
            with pytest.raises(ServerError):
                async with client.listen(uris=["x://none"]):
                    raise AssertionError("it has begun")

    run(test)


@pytest.mark.parametrize("version", ENVELOPE)
def test_a_listening_that_the_server_ends(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        async with Joined(loop, shop(), version) as client, client.listen(tools=True) as changes:
            client.simulation.server.shutdown()
            client._flush()
            assert [change async for change in changes] == []

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_listening_whose_connection_is_lost(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        client = Joined(loop, shop(), version)
        async with client.listen(tools=True) as changes:
            client._engine.receive_eof("gone")
            client._pump()
            with pytest.raises(ConnectionLost, match=r"^gone$"):
                await anext(changes)

    run(test)


def test_listening_begins_with_async_with(run: Callable[[Test], None]) -> None:
    async def test(loop: Any) -> None:
        async with Joined(loop, shop()) as client:
            with pytest.raises(LocalProtocolError, match="async with"):
                await anext(client.listen(tools=True))

    run(test)


@pytest.mark.parametrize("version", VERSIONS)
def test_closing_ends_what_is_pending_from_any_task(run: Callable[[Test], None], version: str) -> None:
    async def test(loop: Any) -> None:
        client = Joined(loop, shop(), version)
        await client.initialize()
        raised = []

        async def call() -> None:
            try:
                await client.call_tool("nap")
            except ConnectionLost as error:
                raised.append(str(error))

        loop.spawn(call)
        await loop.settle()
        loop.spawn(client.close)
        await loop.settle()
        assert raised == ["the client was closed"]
        with pytest.raises(ConnectionLost, match="closed"):
            await client.list_tools()

    run(test)


class Foreign(Joined):
    """A client whose server says what the test says."""

    def __init__(self, loop: Any, result: JSON) -> None:
        super().__init__(loop, shop(), VERSIONS[0], known=Known(VERSIONS[0]))
        self.result = result

    def exchange(self) -> bool:
        from mcp_sansio.wire.json import decode, encode

        sent = [decode(message) for message in self._engine.data_to_send()]
        for message in sent:
            self._engine.receive_message(encode({"jsonrpc": "2.0", "id": message["id"], "result": self.result}))
        return bool(sent)


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        ({}, "result.content is missing"),
        ({"content": "x"}, "result.content must be a list"),
        ({"content": [5]}, r"result.content\[0\] must be an object with a type"),
        ({"content": [{"type": "text"}]}, r"result.content\[0\].text is missing"),
        ({"content": [{"type": "text", "text": 5}]}, r"result.content\[0\].text must be a string"),
        ({"content": [], "isError": "no"}, "result.isError must be a boolean"),
    ],
)
def test_case_90_a_result_of_the_wrong_shape(run: Callable[[Test], None], result: JSON, fault: str) -> None:
    async def test(loop: Any) -> None:
        client = Foreign(loop, result)
        with pytest.raises(UnusableReply, match=f"^{fault}$"):
            await client.call_tool("t")
        client.result = {"content": []}
        await client.call_tool("t")

    run(test)


def test_case_90_a_result_in_a_neighbouring_shape(run: Callable[[Test], None]) -> None:
    async def test(loop: Any) -> None:
        result = await Foreign(loop, {"structuredContent": {"a": None}}).call_tool("t")
        assert (result.content, result.structured_content) == ((), {"a": None})  # type: ignore[union-attr]
        odd = await Foreign(loop, {"content": [{"type": "error", "x": 1}], "isError": True}).call_tool("t")
        assert (odd.content, odd.is_error) == ([{"type": "error", "x": 1}], True)  # type: ignore[union-attr]

    run(test)


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda client: client.read_resource("x"), "result.contents is missing"),
        (lambda client: client.get_prompt("x"), "result.messages is missing"),
        (lambda client: client.complete({"type": "ref/prompt", "name": "x"}, "y"), "result.completion must be an obj"),
        (lambda client: client.list_tools(), "result.tools must be a list"),
    ],
)
def test_other_results_of_the_wrong_shape(run: Callable[[Test], None], call: Any, fault: str) -> None:
    async def test(loop: Any) -> None:
        with pytest.raises(UnusableReply, match=f"^{fault}"):
            await call(Foreign(loop, {}))

    run(test)


def test_what_the_server_does_wrong_is_logged(run: Callable[[Test], None], caplog: pytest.LogCaptureFixture) -> None:
    """What the caller misses something by is a warning, all else for those who look for it."""
    caplog.set_level(logging.DEBUG, "mcp_sansio.client")

    async def test(loop: Any) -> None:
        client = Foreign(loop, {"tools": [{"name": "bad"}]})
        await client.list_tools()
        client._engine.receive_message(b"noise")
        client._engine.receive_eof("gone")
        client._pump()

    run(test)
    records = [(record.levelname, record.message.partition(":")[0]) for record in caplog.records]
    assert records == [
        ("WARNING", "the server sent something wrong"),
        ("DEBUG", "the server sent something wrong"),
        ("DEBUG", "the connection has ended"),
    ]


def test_callbacks_that_are_behind_lose_the_oldest(run: Callable[[Test], None]) -> None:
    async def test(loop: Any) -> None:
        told: list[int] = []
        gate = loop.Event()

        async def hear(level: str, data: int, logger: Any) -> None:
            await gate.wait()
            told.append(data)

        client = Joined(loop, shop(), VERSIONS[0], callbacks={"on_log": hear}, config=ClientConfig(max_callbacks=3))
        await client.initialize()
        for number in range(10):
            client._engine.receive_message(
                b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}' % number
            )
            client._pump()
        await loop.settle()
        gate.set()
        await loop.settle()
        assert told == [0, 7, 8, 9]

    run(test)


def test_every_method_is_documented_and_asynchronous() -> None:
    from mcp_sansio import ClientApi

    public = [name for name in vars(ClientApi) if not name.startswith("_")]
    methods = [getattr(ClientApi, name) for name in public if callable(getattr(ClientApi, name))]
    assert all(inspect.iscoroutinefunction(method) for method in methods if method is not ClientApi.listen)
    assert all(method.__doc__ for method in methods)
    assert isinstance(ClientConnection.__doc__, str)

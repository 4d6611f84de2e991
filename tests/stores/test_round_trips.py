"""What a call costs at the engine, counted there: where its connections come in, or by SQLite itself."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import support
from deployments import Servers, namespace
from mcp_sansio import Exchange, NeedInput, Registry, elicit

Endpoint = support.need("mcp_sansio_aiohttp").Endpoint
TestClient, TestServer = (getattr(support.need("aiohttp.test_utils"), name) for name in ("TestClient", "TestServer"))

JSON = dict[str, Any]
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SESSIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
#: Whose questions ride in results, with what is to come back as arguments.
IN_ARGUMENTS = "2025-03-26"
STATELESS = "2026-07-28"
META = "io.modelcontextprotocol/"
ANSWER = {"name": {"action": "accept", "content": {"name": "Ada"}}}
#: A call is made so often, and what it costs is the least of it: what else goes on can only add to that. A store begins
#: with a sweep and a hub with listening, and psycopg prepares a statement that comes for the sixth time.
CALLS = 12
#: What is done now and then is not done while a test runs.
SELDOM = 3600.0
PATIENCE = 20.0


class Counted:
    """A unix socket in front of an engine's, which counts how often the engine is asked and waited for.

    Whatever goes out together, and before the engine has said something, is one round trip.
    """

    def __init__(self, engine: Path) -> None:
        self._engine = engine
        self._tasks: set[asyncio.Task[None]] = set()
        self.trips = 0

    @asynccontextmanager
    async def at(self, path: Path) -> AsyncIterator[None]:
        """Take connections at `path` while the block runs."""
        server = await asyncio.start_unix_server(self._take, path)
        try:
            yield
        finally:
            server.close()
            # The store has closed its connections by now. One that it was about to open, and gave up, may be held still
            # by the exception that said so.
            for task in self._tasks:
                task.cancel()
            await asyncio.wait_for(asyncio.gather(*self._tasks, return_exceptions=True), PATIENCE)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        engine, to_engine = await asyncio.open_unix_connection(str(self._engine))
        waits = False

        def asked() -> None:
            nonlocal waits
            self.trips += not waits
            waits = True

        def answered() -> None:
            nonlocal waits
            waits = False

        try:
            await asyncio.gather(_carry(reader, to_engine, asked), _carry(engine, writer, answered))
        finally:
            to_engine.close()
            writer.close()
            self._tasks.discard(task)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: Callable[[], None]) -> None:
    try:
        while data := await reader.read(2**16):
            seen()
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        pass  # the other side has gone


class Sqlite:
    """Counts the statements that SQLite runs, on whatever connection: a transaction is more than one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.trips = 0
        connect = sqlite3.connect

        def traced(*given: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(*given, **options)
            connection.set_trace_callback(self._count)
            return connection

        monkeypatch.setattr(sqlite3, "connect", traced)

    def _count(self, statement: str) -> None:
        self.trips += 1


class Site:
    """A worker over HTTP, and how often its engine is asked."""

    def __init__(self, client: Any, count: Callable[[], int]) -> None:
        self._client = client
        self._count = count
        self._headers: dict[str, str] = {}

    async def open_session(self, version: str) -> None:
        """Everything that follows is in a session of that revision."""
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        async with await self._post({"id": 0, "method": "initialize", "params": params}) as response:
            self._headers = {
                "Mcp-Session-Id": response.headers["Mcp-Session-Id"],
                "MCP-Protocol-Version": version,
            }
        async with await self._post({"method": "notifications/initialized"}):
            pass

    async def call(self, name: str, *, arguments: JSON | None = None, **params: Any) -> JSON:
        """The result of a call in the session, or outside of any where there is none; the reply of one that fails."""
        headers = {}
        if not self._headers:
            headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": name}
            about = {"clientInfo": {"name": "c", "version": "1"}, "clientCapabilities": {"elicitation": {"form": {}}}}
            params["_meta"] = {META + key: value for key, value in {**about, "protocolVersion": STATELESS}.items()}
        message = {"id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments or {}, **params}}
        async with await self._post(message, headers) as response:
            message = await response.json()
        result: JSON = message.get("result", message)
        return result

    async def costs(self, work: Callable[[], Awaitable[JSON]]) -> tuple[int, JSON]:
        """How often the engine is asked for `work`, and what that gives in the end."""
        costs = []
        for _ in range(CALLS):
            before = self._count()
            result = await work()
            costs.append(self._count() - before)
        return min(costs), result

    async def _post(self, message: JSON, headers: dict[str, str] | None = None) -> Any:
        accept = {"Accept": "application/json, text/event-stream"}
        return await self._client.post(
            "/mcp", json={"jsonrpc": "2.0", **message}, headers={**accept, **self._headers, **(headers or {})}
        )


def registry() -> Registry:
    made = Registry("s", "1")

    @made.tool
    async def hello() -> str:
        return "hello"

    @made.tool
    async def ask(ex: Exchange) -> str:
        question = elicit("Who?", FORM)
        if ex.state is None:
            raise NeedInput({"name": question}, state={"kept": 1})
        return f"{(await ex.ask('name', question))['name']} {ex.state['kept']}"

    @made.tool
    async def insist(ex: Exchange) -> str:
        """Ask again whatever the answer."""
        raise NeedInput({"name": elicit("Who?", FORM)}, state={"kept": 1})

    return made


@asynccontextmanager
async def sqlite(
    folder: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Any, Callable[[], int]]]:
    SqliteStore = support.need("mcp_sansio_sqlite").SqliteStore
    counted = Sqlite(monkeypatch)
    async with SqliteStore(folder / "mcp.sqlite", check_every=SELDOM, sweep_every=SELDOM) as store:
        yield store, lambda: counted.trips


@asynccontextmanager
async def redis(
    folder: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Any, Callable[[], int]]]:
    RedisStore = support.need("mcp_sansio_redis").RedisStore
    counted = Counted(servers["redis"].socket)
    store = RedisStore(f"unix://{folder / 's'}", namespace=namespace(), timeout=SELDOM)
    async with counted.at(folder / "s"), store:
        yield store, lambda: counted.trips


@asynccontextmanager
async def postgres(
    folder: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Any, Callable[[], int]]]:
    PostgresStore = support.need("mcp_sansio_postgres").PostgresStore
    counted = Counted(servers["postgres"].socket)
    url = f"host={folder} user=mcp dbname=postgres"
    store = PostgresStore(url, namespace=namespace(), connections=1, sweep_every=SELDOM)
    async with counted.at(folder / servers["postgres"].socket.name), store:
        yield store, lambda: counted.trips


Open = Callable[[], AbstractAsyncContextManager[Site]]


@pytest.fixture(params=[sqlite, redis, postgres], ids=lambda engine: engine.__name__)
def opened(request: pytest.FixtureRequest, servers: Servers, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens a worker on each engine."""

    @asynccontextmanager
    async def open_site() -> AsyncIterator[Site]:
        async with AsyncExitStack() as stack:
            # Not pytest's folder: the path of a socket is short.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcp-")))
            store, count = await stack.enter_async_context(request.param(folder, servers, monkeypatch))
            app = Endpoint(registry(), store=store, hub=store.hub).app("/mcp")
            client = await stack.enter_async_context(TestClient(TestServer(app)))
            yield Site(client, count)

    return open_site


@pytest.mark.parametrize("version", SESSIONS)
async def test_a_call_in_a_session_asks_the_engine_once(opened: Open, version: str) -> None:
    async with opened() as site:
        await site.open_session(version)
        trips, result = await site.costs(lambda: site.call("hello"))
        # The session is looked up and renewed on the same way.
        assert (trips, result["content"][0]["text"]) == (1, "hello")


async def test_a_call_without_a_session_asks_no_engine(opened: Open) -> None:
    async with opened() as site:
        trips, result = await site.costs(lambda: site.call("hello"))
        assert (trips, result["content"][0]["text"]) == (0, "hello")


async def test_each_round_of_a_call_with_state_asks_the_engine_once(opened: Open) -> None:
    async with opened() as site:
        trips, first = await site.costs(lambda: site.call("ask"))
        assert (trips, list(first["inputRequests"])) == (1, ["name"])
        states = [(await site.call("ask"))["requestState"] for _ in range(CALLS)]
        trips, second = await site.costs(lambda: site.call("ask", inputResponses=ANSWER, requestState=states.pop()))
        # What was left is had for the handler and spent on the same way.
        assert (trips, second["content"][0]["text"]) == (1, "Ada 1")


async def test_a_round_that_asks_again_asks_the_engine_twice(opened: Open) -> None:
    """What was left is needed before the handler runs, and what is left anew is known after it: that cannot be one."""
    async with opened() as site:
        states = [(await site.call("insist"))["requestState"] for _ in range(CALLS)]
        trips, again = await site.costs(lambda: site.call("insist", inputResponses=ANSWER, requestState=states.pop()))
        assert (trips, list(again["inputRequests"])) == (2, ["name"])


async def test_in_a_session_state_adds_one_round_trip_to_each_round(opened: Open) -> None:
    async with opened() as site:
        await site.open_session(IN_ARGUMENTS)

        async def ask(**arguments: Any) -> JSON:
            return await site.call("ask", arguments=arguments)

        def left(result: JSON) -> str:
            return result["_meta"]["mcp-sansio/input-required"]["requestState"]  # type: ignore[no-any-return]

        trips, first = await site.costs(ask)
        assert (trips, bool(left(first))) == (2, True)
        states = [left(await ask()) for _ in range(CALLS)]
        trips, second = await site.costs(lambda: ask(mcpAnswers=ANSWER, mcpState=states.pop()))
        assert (trips, second["content"][0]["text"]) == (2, "Ada 1")


async def test_a_round_that_fails_asks_the_engine_once_more(opened: Open) -> None:
    """What was left is put back, so that the client may try again with the same."""
    async with opened() as site:
        state = (await site.call("ask"))["requestState"]
        malformed = {"name": {"action": "accept", "content": {"name": 1}}}
        trips, failed = await site.costs(lambda: site.call("ask", inputResponses=malformed, requestState=state))
        text = "the answer to 'name' is malformed: content.name must be of type string"
        assert (trips, failed["error"]["message"]) == (2, text)
        done = await site.call("ask", inputResponses=ANSWER, requestState=state)
        assert done["content"][0]["text"] == "Ada 1"

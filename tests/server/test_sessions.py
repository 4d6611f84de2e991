"""HTTP sessions: whose they are, how long they live, and that nothing stays behind."""

from __future__ import annotations

import gc
from hashlib import sha256
from typing import Any

import pytest

from mcp_sansio import (
    Config,
    Exchange,
    MemorySessionStore,
    Registry,
    SessionExpired,
    StoreUnavailable,
    elicit,
    elicit_accept,
    elicit_decline,
)
from mcp_sansio.testing import SimulatedHttp, Simulation
from mcp_sansio.wire.json import decode, encode
from speak import HANDSHAKE, VERSIONS, Channel, Http, notification

PUSHED = tuple(version for version in HANDSHAKE if version in ("2025-11-25", "2025-06-18"))
NO_SESSION = {"code": -32600, "message": "there is no such session; initialize again"}


def registry() -> Registry:
    made = Registry("s", "1")

    @made.tool
    async def echo(text: str) -> str:
        """Echo."""
        return text

    @made.tool
    async def wait(ex: Exchange) -> str:
        """Wait."""
        await ex.wait_cancelled()
        return "late"

    @made.tool
    async def gate(ex: Exchange) -> str:
        """Ask."""
        return (await ex.ask("q", elicit("Sure?"))).action

    @made.tool
    async def talk(ex: Exchange) -> str:
        """Say something first."""
        await ex.progress(1)
        return "said"

    @made.tool
    async def count(ex: Exchange) -> str:
        """Count in the session."""
        assert ex.session is not None
        await ex.session.set("n", ex.session.get("n", 0) + 1)
        return f"{ex.session.get('n')} {'n' in ex.session}"

    @made.resource("a:b")
    async def read() -> str:
        return "x"

    return made


def leftovers(simulation: Simulation) -> dict[str, int]:
    """What a server keeps, by kind."""
    server = simulation.server
    return {
        "live": len(server._live),
        "topics": len(server.topics),
        "questions": len(server.questions),
        "streams": len(server._streams),
        "pairs": len(server.pairs),
        "tasks": len(simulation.scheduler),
        "store": len(server.store),  # type: ignore[arg-type]
    }


NOTHING = {"live": 0, "topics": 0, "questions": 0, "streams": 0, "pairs": 0, "tasks": 0, "store": 0}


def refused(exchange: SimulatedHttp, status: int) -> Any:
    assert exchange.status == status, exchange.body
    assert exchange.ended
    return exchange.messages[0]["error"]


# Whose they are -------------------------------------------------------------------------------------------------------

PRINCIPALS = [("ada", "bob"), ("ada", None), (None, "bob"), ("", None)]


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize(("owner", "thief"), PRINCIPALS)
def test_somebody_elses_session_does_not_exist(version: str, owner: str | None, thief: str | None) -> None:
    simulation = Simulation(registry(), config=Config(deletable_sessions=True))
    mine, other = (Http(version, simulation, principal=principal) for principal in (owner, thief))
    stream = mine.get()
    told = mine.call("talk", token="t")
    stolen, other.session = other.session, mine.session
    last = told.events()[0].id or ""  # type: ignore[union-attr]
    attempts = [
        other.call("echo", {"text": "x"}),
        other.post(notification("notifications/cancelled", {"requestId": 1})),
        other.get(),
        other.get(headers={"Last-Event-ID": last}),
        other.delete(),
    ]
    for attempt in attempts:
        assert refused(attempt, 404) == NO_SESSION
    other.session = "0" * 32
    unknown = other.call("echo", {"text": "x"})
    assert (unknown.head, unknown.body) == (attempts[0].head, attempts[0].body)
    assert not stream.ended
    assert mine.call("echo", {"text": "x"}).status == 200
    other.session = stolen
    assert other.call("echo", {"text": "x"}).status == 200


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize(("owner", "thief"), [("ada", "bob"), ("ada", None), (None, "bob"), ("", None), (None, "")])
def test_nobody_else_keeps_a_session_alive(version: str, owner: str | None, thief: str | None) -> None:
    simulation = Simulation(registry(), config=Config(deletable_sessions=True))
    mine, other = (Http(version, simulation, principal=principal) for principal in (owner, thief))
    session = mine.session
    simulation.advance(1799)
    # Nor does a name that contains what a record is kept under.
    prefixes = ("", ":", "session:", f"{sha256(encode(owner)).hexdigest()}:")
    for other.session in [f"{prefix}{session}" for prefix in prefixes]:
        for attempt in (other.call("echo", {"text": "x"}), other.get(), other.delete()):
            assert refused(attempt, 404) == NO_SESSION
    assert len(simulation.server.store) == 2  # type: ignore[arg-type]
    simulation.advance(1)
    assert refused(mine.request("tools/list"), 404) == NO_SESSION
    assert len(simulation.server.store) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("version", PUSHED)
def test_an_answer_counts_only_from_its_own_session(version: str) -> None:
    simulation = Simulation(registry())
    asked, other = Http(version, simulation), Http(version, simulation)
    channel = Channel(version, simulation)
    running = asked.call("gate")
    [question] = running.messages
    assert other.answer(question, elicit_decline()).status == 202
    assert channel.answer(question, elicit_decline()) == []
    session, asked.session = asked.session, None
    assert asked.answer(question, elicit_decline()).status == 202
    asked.session = session
    assert (running.ended, len(simulation.server.questions)) == (False, 1)
    asked.answer(question, elicit_accept())
    assert running.messages[1]["result"]["content"][0]["text"] == "accept"
    # Late, twice, and to nothing: accepted and let be.
    for answer in (question, question, {"id": "ask-none"}, {"id": 5}):
        assert asked.answer(answer, elicit_decline()).status == 202
    assert len(running.messages) == 2


@pytest.mark.parametrize("version", HANDSHAKE)
def test_cancelling_reaches_only_its_own_session(version: str) -> None:
    simulation = Simulation(registry())
    one, two = Http(version, simulation), Http(version, simulation)
    running = one.call("wait", id=7)
    assert two.post(notification("notifications/cancelled", {"requestId": 7})).status == 202
    assert not running.ended
    one.post(notification("notifications/cancelled", {"requestId": 7}))
    assert running.ended


# How long they live ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_an_idle_session_expires(version: str) -> None:
    speaker = Http(version, registry())
    speaker.simulation.advance(1799)
    assert speaker.request("tools/list").status == 200
    speaker.simulation.advance(1799)
    assert speaker.request("tools/list").status == 200
    speaker.simulation.advance(1800)
    assert refused(speaker.request("tools/list"), 404) == NO_SESSION
    assert refused(speaker.get(), 404) == NO_SESSION
    assert leftovers(speaker.simulation) == NOTHING


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("gone", [False, True])
def test_a_call_in_flight_keeps_its_session(version: str, gone: bool) -> None:
    speaker = Http(version, registry())
    running = speaker.call("wait", id=7, headers={"Accept": "application/json"} if gone else {})
    if gone:
        running.disconnect()
    # The call itself may run for an hour.
    speaker.simulation.advance(3599)
    assert speaker.request("tools/list").status == 200
    speaker.simulation.advance(1)
    assert len(speaker.simulation.scheduler) == 0
    speaker.simulation.advance(1800)
    assert refused(speaker.request("tools/list"), 404) == NO_SESSION


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_stream_in_flight_keeps_its_session(version: str) -> None:
    made = registry()
    speaker = Http(version, made)
    stream = speaker.get()
    speaker.simulation.advance(5000)
    # Others come and go meanwhile, which is when what nobody uses is swept away.
    Http(version, speaker.simulation)
    assert not stream.ended
    made.remove_tool("wait")
    speaker.simulation.settle()
    assert [message["method"] for message in stream.messages] == ["notifications/tools/list_changed"]
    assert speaker.request("tools/list").status == 200
    stream.disconnect()
    speaker.simulation.advance(1800)
    assert refused(speaker.request("tools/list"), 404) == NO_SESSION


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_waits_for_a_client_that_never_comes_back_is_swept(version: str) -> None:
    simulation = Simulation(registry())
    speakers = [Http(version, simulation) for _ in range(5)]
    for speaker in speakers:
        speaker.get().disconnect()
        speaker.call("talk", token="t").disconnect()
    busy = Http(version, simulation)
    running = busy.call("wait")
    assert leftovers(simulation)["live"] == 6
    simulation.advance(1800)
    late = Http(version, simulation)
    late.request("tools/list")
    assert leftovers(simulation) == {**NOTHING, "live": 1, "store": 2, "tasks": 1}
    assert not running.ended


# Ended by DELETE ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_delete_ends_everything(version: str) -> None:
    speaker = Http(version, registry(), config=Config(deletable_sessions=True))
    speaker.request("resources/subscribe", {"uri": "a:b"})
    stream, running = speaker.get(), speaker.call("wait")
    talked = speaker.call("talk", id=2, token="t")
    ended = speaker.delete()
    assert (ended.status, ended.body) == (204, b"")
    assert (stream.ended, running.ended, talked.ended) == (True, True, True)
    assert running.messages == []
    for again in (speaker.request("tools/list"), speaker.get(), speaker.delete()):
        assert refused(again, 404) == NO_SESSION
    assert leftovers(speaker.simulation) == NOTHING


@pytest.mark.parametrize("version", PUSHED)
def test_delete_ends_a_question(version: str) -> None:
    speaker = Http(version, registry(), config=Config(deletable_sessions=True))
    running = speaker.call("gate")
    assert speaker.delete().status == 204
    assert running.ended
    question, withdrawal = running.messages
    assert withdrawal["params"]["requestId"] == question["id"]
    assert leftovers(speaker.simulation) == NOTHING


@pytest.mark.parametrize("version", HANDSHAKE)
def test_delete_without_a_session(version: str) -> None:
    speaker = Http(version, registry(), config=Config(deletable_sessions=True))
    speaker.session = None
    error = {"code": -32600, "message": "the header Mcp-Session-Id is missing"}
    assert refused(speaker.delete(), 400) == error


# Without a session ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("required", [False, True])
def test_a_request_without_a_session(version: str, required: bool) -> None:
    speaker = Http(version, registry(), config=Config(require_session=required))
    speaker.session = None
    answered = speaker.call("echo", {"text": "a"})
    if required:
        text = "the header Mcp-Session-Id is missing; initialize first"
        assert refused(answered, 400) == {"code": -32600, "message": text}
    else:
        assert answered.messages[0]["result"]["content"] == [{"type": "text", "text": "a"}]
        subscribed = speaker.request("resources/subscribe", {"uri": "a:b"})
        text = "subscribing needs a session; send initialize first"
        assert refused(subscribed, 400) == {"code": -32600, "message": text}
        assert speaker.request("resources/unsubscribe", {"uri": "a:b"}).messages[0]["result"] == {}
        assert speaker.request("logging/setLevel", {"level": "debug"}).messages[0]["result"] == {}
    assert speaker.get().status == (400 if required else 405)


# What handlers keep ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE)
def test_values_of_a_session(version: str) -> None:
    simulation = Simulation(registry())
    one, two = Http(version, simulation), Http(version, simulation)
    for speaker, expected in ((one, "1 True"), (one, "2 True"), (two, "1 True")):
        assert speaker.call("count").messages[0]["result"]["content"][0]["text"] == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_sessions_by_handle(version: str) -> None:
    made = Registry("s", "1")

    @made.tool
    async def open_one(ex: Exchange) -> str:
        """Open."""
        session = await ex.sessions.open()
        await session.set("n", 1)
        await session.set("m", 2)
        await session.delete("m")
        return session.handle

    @made.tool
    async def use(handle: str, ex: Exchange) -> str:
        """Use."""
        session = await ex.sessions.use(handle)
        return "none" if session is None else repr(dict(session.values))

    @made.tool
    async def drop(handle: str, ex: Exchange) -> str:
        """Drop."""
        await ex.sessions.drop(handle)
        return "dropped"

    simulation = Simulation(made)
    ada, bob = Channel(version, simulation, principal="ada"), Http(version, simulation, principal="bob")

    def text(messages: list[Any]) -> str:
        return messages[0]["result"]["content"][0]["text"]  # type: ignore[no-any-return]

    handle = text(ada.call("open_one"))
    assert text(ada.call("use", {"handle": handle})) == "{'n': 1}"
    assert text(bob.call("use", {"handle": handle}).messages) == "none"
    bob.call("drop", {"handle": handle})
    assert text(ada.call("use", {"handle": handle})) == "{'n': 1}"
    assert text(ada.call("use", {"handle": "session:" + handle})) == "none"
    ada.call("drop", {"handle": handle})
    assert text(ada.call("use", {"handle": handle})) == "none"
    handle = text(ada.call("open_one"))
    simulation.advance(1800)
    assert text(ada.call("use", {"handle": handle})) == "none"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_session_that_ends_while_its_call_writes(version: str) -> None:
    made, seen = Registry("s", "1"), []

    @made.tool
    async def write(ex: Exchange) -> str:
        """Write."""
        assert ex.session is not None
        await ex.sessions._store.delete(f"session::{ex.session.handle}")
        try:
            await ex.session.set("n", 1)
        except SessionExpired as error:
            seen.append(str(error))
            raise
        return "written"

    answered = Http(version, made).call("write").messages[0]["result"]
    assert seen == ["the session expired during a write"]
    assert answered["isError"] is True
    assert answered["content"][0]["text"] == "The tool failed because of an internal error."


# The store ------------------------------------------------------------------------------------------------------------


UNREACHABLE = {"code": -32603, "message": "the session store cannot be reached"}


class Broken(MemorySessionStore):
    """A store that fails in one way or another, while it has one."""

    broken: Exception | None = None

    async def get(self, key: str, *, ttl: float | None = None) -> Any:
        if self.broken:
            raise self.broken
        return await super().get(key, ttl=ttl)

    async def create(self, key: str, data: Any, *, ttl: float) -> bool:
        if self.broken:
            raise self.broken
        return await super().create(key, data, ttl=ttl)

    async def save(self, key: str, data: Any, *, expected: int, ttl: float) -> bool:
        saved = await super().save(key, data, expected=expected, ttl=ttl)
        if self.broken:  # it was lost on the way back
            raise self.broken
        return saved


class Counted(MemorySessionStore):
    """A store that keeps account of how often it is asked."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[str] = []

    async def create(self, key: str, data: Any, *, ttl: float) -> bool:
        self.asked.append("create")
        return await super().create(key, data, ttl=ttl)

    async def get(self, key: str, *, ttl: float | None = None) -> Any:
        self.asked.append("get")
        return await super().get(key, ttl=ttl)

    async def save(self, key: str, data: Any, *, expected: int, ttl: float) -> bool:
        self.asked.append("save")
        return await super().save(key, data, expected=expected, ttl=ttl)

    async def touch(self, key: str, *, ttl: float) -> bool:
        self.asked.append("touch")
        return await super().touch(key, ttl=ttl)


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_request_asks_its_store_once(version: str) -> None:
    simulation = Simulation(registry())
    store = simulation.server.store = Counted(clock=simulation.clock)
    speaker = Http(version, simulation)
    assert store.asked == ["create", "get"], "the handshake, and the notification that ends it"
    store.asked.clear()
    for ask in (lambda: speaker.request("tools/list"), lambda: speaker.call("echo", {"text": "a"}), speaker.get):
        ask()
        assert store.asked == ["get"]
        store.asked.clear()
    speaker.call("count")
    assert store.asked == ["get", "save"]


@pytest.mark.parametrize("failure", [OSError, StoreUnavailable])
@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_store_that_fails(version: str, failure: type[Exception], caplog: pytest.LogCaptureFixture) -> None:
    simulation = Simulation(registry())
    store = simulation.server.store = Broken(clock=simulation.clock)
    speaker = Http(version, simulation)
    store.broken = failure("no route to host 10.0.0.7")
    for attempt in (speaker.request("tools/list"), speaker.get(), speaker.post(speaker.initialize(id=1))):
        assert refused(attempt, 503) == UNREACHABLE
    assert caplog.text.count("no route to host 10.0.0.7") == 3
    assert ("Traceback" in caplog.text) is (failure is OSError), "what is known to happen needs none"
    store.broken = None
    assert speaker.request("tools/list").status == 200


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_store_that_fails_in_the_middle_of_a_call(version: str, caplog: pytest.LogCaptureFixture) -> None:
    made = registry()
    simulation = Simulation(made)
    store = simulation.server.store = Broken(clock=simulation.clock)

    @made.tool
    async def write(ex: Exchange) -> str:
        """Write while the store is there, and while it is not."""
        assert ex.session is not None
        await ex.session.set("n", 1)
        store.broken = StoreUnavailable("no route to host 10.0.0.7")
        await ex.session.set("n", 2)
        return "written"

    speaker = Http(version, simulation)
    assert refused(speaker.call("write"), 503) == UNREACHABLE
    assert "call_tool 'write' met a store that fails: no route to host 10.0.0.7" in caplog.text
    store.broken = None
    assert speaker.call("count").messages[0]["result"]["content"][0]["text"] == "3 True", "the write was made"


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_store_that_is_full(version: str) -> None:
    simulation = Simulation(registry())
    simulation.server.store = MemorySessionStore(clock=simulation.clock, max_records=1)
    speaker = Http(version, simulation)
    full = speaker.post(speaker.initialize(id=1))
    assert refused(full, 503) == {"code": -32603, "message": "the session store holds 1 records"}
    assert full.header("mcp-session-id") is None
    simulation.advance(1800)
    assert Http(version, simulation).request("tools/list").status == 200


@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_stays_of_many(version: str) -> None:
    simulation = Simulation(registry(), config=Config(deletable_sessions=True))
    for _ in range(30):
        speaker = Http(version, simulation)
        speaker.call("echo", {"text": "a"})
        speaker.call("talk", token="t")
        speaker.get()
        speaker.call("wait").disconnect()
        if version in HANDSHAKE:
            speaker.delete()
        Channel(version, simulation).end.close()
    assert leftovers(simulation) == NOTHING


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_can_be_forgotten(version: str) -> None:
    made = registry()
    speaker = Http(version, made)
    speaker.call("echo", {"text": "a"})
    import weakref

    server = weakref.ref(speaker.simulation.server)
    del speaker
    gc.collect()
    assert server() is None
    made.remove_tool("echo")


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("logging/setLevel", {"level": "debug"}),
        ("resources/subscribe", {"uri": "a:b"}),
        ("resources/unsubscribe", {"uri": "a:b"}),
    ],
)
def test_a_session_that_ends_under_a_call(
    version: str, method: str, params: Any, caplog: pytest.LogCaptureFixture
) -> None:
    simulation = Simulation(registry())
    speaker = Http(version, simulation)
    message = speaker.message(method, params)
    transaction = simulation.server.http_transaction()
    transaction.receive_request("POST", "/mcp", {"Content-Type": "application/json", **speaker.headers(message)})
    transaction.receive_body(encode(message))
    transaction.receive_end()

    # The store has found the session; it goes before the call is run.
    simulation.scheduler.spawn(simulation.server.store.delete(f"session::{speaker.session}"))
    simulation.scheduler.run()
    for event in transaction.events():
        simulation.scheduler.spawn(event.run())  # type: ignore[union-attr, arg-type]
    simulation.scheduler.run()
    _, body, _ = transaction.data_to_send()
    assert decode(body.data)["error"] == NO_SESSION  # type: ignore[union-attr]
    assert caplog.records == []


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_server_that_opens_no_sessions_serves_without(version: str) -> None:
    """For workers that share nothing: whichever gets a request, none has to know the client."""
    config = Config(opens_sessions=False)
    first, second = (Simulation(registry(), config=config) for _ in range(2))
    speaker = Http(version, first)
    assert speaker.session is None
    speaker.simulation = second
    assert speaker.call("echo", {"text": "x"}).messages[0]["result"]["content"][0]["text"] == "x"
    assert speaker.request("logging/setLevel", {"level": "debug"}).status == 200
    assert speaker.get().status == 405
    speaker.session = "0" * 32
    assert refused(speaker.call("echo", {"text": "x"}), 404) == NO_SESSION
    assert len(first.server.store) == len(second.server.store) == 0
    with pytest.raises(ValueError, match=r"^Config\.require_session needs Config\.opens_sessions"):
        Config(opens_sessions=False, require_session=True)


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize(("size", "status"), [(1_000, 200), (1_001, 413)])
def test_a_client_may_say_as_much_of_itself_as_the_limit_is(version: str, size: int, status: int) -> None:
    client = Http(version, Simulation(registry(), config=Config(max_state=1_000)), capabilities={})
    said = client.initialize()["params"]["clientInfo"] | {"capabilities": {"experimental": {"x": {"y": ""}}}}
    client.capabilities = {"experimental": {"x": {"y": "z" * (size - len(encode(said)))}}}
    opened = client.post(client.initialize(), headers={"MCP-Protocol-Version": None, "Mcp-Session-Id": None})
    assert opened.status == status


@pytest.mark.parametrize("version", HANDSHAKE)
def test_what_a_client_says_of_itself_has_a_limit(version: str) -> None:
    simulation = Simulation(registry(), config=Config(max_state=1_000))
    Http(version, simulation, capabilities={"experimental": {"x": {"y": "z" * 800}}})
    held = len(simulation.server.store)
    client = Http(version, simulation, capabilities={})
    client.capabilities = {"experimental": {"x": {"y": "z" * 1_000}}}
    refused = client.post(client.initialize(), headers={"MCP-Protocol-Version": None, "Mcp-Session-Id": None})
    assert refused.status == 413
    assert refused.messages[0]["id"] == 0
    assert refused.messages[0]["error"]["message"] == "what the client says of itself is larger than 1000 bytes"
    assert len(simulation.server.store) == held + 1
    assert client.call("echo", {"text": "still here"}).status == 200

"""`Server.respond` gives byte for byte what a transaction does, whatever a call turns out to want in its first step."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from threading import Thread
from typing import Annotated, Any, cast

import attrs
import msgspec
import pytest

from alike import calls, registry, requests
from at_once import STARTS, Forgetful, Pairs, Responding, headers_of, nameless, seen
from kitchen import QUESTIONS, Kitchen, fault_of, tool_calls, uris
from lent import lent_loop
from listed import LISTS, declare, remove
from mcp_sansio import (
    Config,
    End,
    HttpTransaction,
    LocalProtocolError,
    MemorySessionStore,
    Part,
    Pending,
    Server,
    ToolError,
    Whole,
)
from mcp_sansio.call import Call
from mcp_sansio.driving import Orphans
from mcp_sansio.response_driver import ResponseDriver, data_of
from mcp_sansio.storage import StoreUnavailable
from mcp_sansio.testing import SimulatedHttp, Simulation
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, HANDSHAKE, VERSIONS, DistantStore, Http, notification

JSON = Any
Make = Callable[..., Simulation]
TOOL_CALLS = tool_calls()


class Table:
    """A client of a kitchen, and all that was seen of both."""

    def __init__(self, make: Make, version: str, **options: Any) -> None:
        self.kitchen = Kitchen(*options.pop("kinds", ()))
        client_options = {name: options.pop(name) for name in ("principal", "request", "loopback") if name in options}
        has_threads = options.pop("has_threads", False)
        self.simulation = make(self.kitchen.registry, **options)
        if has_threads:
            runtime = attrs.evolve(self.simulation.runtime, run_sync=self.run_later)
            self.simulation.server = Server(self.kitchen.registry, runtime=runtime, **options)
        self.kitchen.server, self.kitchen.event = self.simulation.server, self.simulation.runtime.event
        self.client = Http(version, self.simulation, **client_options)
        self.exchanges: list[SimulatedHttp] = []
        self.notes: list[Any] = []

    async def run_later(self, function: Callable[[], Any], /) -> Any:
        """See `RunSync`: it takes its time, as a thread does."""
        await self.kitchen.wait()
        return function()

    def hear_everything(self) -> None:
        """Log messages of every severity are wanted from now on."""
        hear_everything(self.client)

    def post(self, message: JSON, **more: Any) -> SimulatedHttp:
        """POST a message."""
        given = self.client.headers(message) | more.pop("headers", {})
        headers = {name: value for name, value in given.items() if value is not None}
        exchange = self.simulation.http(message, headers=headers, **{**self.client.options, **more})
        self.exchanges.append(exchange)
        self.note()
        return exchange

    def call(self, name: str, arguments: Mapping[str, JSON], **more: Any) -> SimulatedHttp:
        """Call a tool."""
        message = self.client.message("tools/call", {"name": name, "arguments": arguments}, **more)
        return self.post(message)

    def clear(self) -> None:
        """Think no more of what is over."""
        self.exchanges.clear()
        peers = self.simulation.peers
        peers[:] = [peer for peer in peers if peer.engine.next_deadline() is not None]

    def open(self) -> None:
        """Let everything go on that waits."""
        self.kitchen.open()
        self.simulation.settle()
        self.note()

    def note(self) -> None:
        """Write down what there is to see."""
        self.notes.append([seen(exchange) for exchange in self.exchanges])
        self.notes.append((self.simulation.next_deadline(), len(self.simulation.scheduler), [*self.kitchen.closed]))


def hear_everything(client: Http) -> None:
    """Have it want log messages of every severity."""
    if client.adapter.has_handshake:
        client.request("logging/setLevel", {"level": "debug"})
    else:
        client.log_level = "debug"


Fate = Callable[[Table, SimulatedHttp], None]


def is_let_go_on(table: Table, exchange: SimulatedHttp) -> None:
    """It gets what it waits for, and an answer to each question."""
    for _ in range(3):
        table.open()
        for message in exchange.messages:
            if "method" in message and "id" in message:
                table.client.answer(message, {"action": "accept", "content": {"name": "n"}, "roots": []})
        table.note()


def is_waited_for(table: Table, exchange: SimulatedHttp) -> None:
    """So long that proxies would cut the connection."""
    for seconds in (14.0, 2.0, 20.0):
        table.simulation.advance(seconds)
        table.note()
    is_let_go_on(table, exchange)


def takes_too_long(table: Table, exchange: SimulatedHttp) -> None:
    table.simulation.advance(100.0)
    table.note()
    is_let_go_on(table, exchange)


def is_cancelled(table: Table, exchange: SimulatedHttp) -> None:
    message = table.exchanges[-1]
    given = table.client.post(notification("notifications/cancelled", {"requestId": "the call"}))
    assert message is exchange
    table.notes.append(seen(given))
    table.note()
    is_let_go_on(table, exchange)


def loses_its_client(table: Table, exchange: SimulatedHttp) -> None:
    exchange.disconnect()
    table.note()
    table.simulation.advance(16.0)
    is_let_go_on(table, exchange)


def outlives_its_server(table: Table, exchange: SimulatedHttp) -> None:
    table.kitchen.server.shutdown()
    table.simulation.settle()
    table.note()
    is_let_go_on(table, exchange)


FATES = (is_let_go_on, is_waited_for, takes_too_long, is_cancelled, loses_its_client, outlives_its_server)
QUICK = Config(call_timeout=60.0, ask_timeout=40.0, deletable_sessions=True)


def played(make: Make, version: str, play: Callable[[Table], object], **options: Any) -> tuple[list[Any], Table]:
    """What is to be seen of a `play` in front of a simulation."""
    table = Table(make, version, **{"config": QUICK, **options})
    play(table)
    table.note()
    return table.notes, table


#: A loop either takes a call's first step at once, or lets it have its turn.
USUAL = STARTS[:2]


def compare(
    version: str, play: Callable[[Table], object], starts: Sequence[str] = USUAL, **options: Any
) -> dict[str, Responding]:
    """See that a `play` looks the same in front of every simulation. Those that respond are given."""
    expected, _ = played(Forgetful, version, play, **options)
    found = {}
    for far in starts:
        notes, table = played(partial(Responding, far=far), version, play, **options)
        assert notes == expected, far
        assert isinstance(table.simulation, Responding)
        found[far] = table.simulation
    return found


def gone_through(table: Table, calls: list[tuple[str, Mapping[str, JSON]]], fate: Fate) -> None:
    """Make each of `calls` three times, and let that become of it."""
    for name, arguments in calls:
        for _ in range(3):
            fate(table, table.call(name, arguments, id="the call"))
        table.clear()


#: Some of the tools whose calls end with their first step and say nothing before, and some of those that do more.
ENDING = {
    "ends",
    "passes",
    "plain",
    "who",
    "counts",
    "opens",
    "gives",
    "gives_in_passing",
    "fails",
    "fails_in_passing",
    "burns",
    "bakes",
    "breaks",
    "publishes",
    "waits_in_vain",
}
#: Those of them that can be seen to wait for nothing, and raise nothing: they need not be started.
NEVER_WAITING = {"ends", "publishes"}
GOING_ON = {"waits", "logs", "logs_and_fails", "streams", "polled", "counts_late", "gives_up", "cools", "heeds"}
thorough = pytest.mark.thorough
#: Of the revisions that are of one family, all but the newest take long and find out little.
NEWEST_OF_EACH = [
    version if version in (*ENVELOPE[:1], *HANDSHAKE[:1]) else pytest.param(version, marks=thorough)
    for version in VERSIONS
]


@pytest.mark.parametrize("version", NEWEST_OF_EACH)
@pytest.mark.parametrize("fate", [FATES[0], *(pytest.param(fate, marks=thorough) for fate in FATES[1:-1])])
def test_every_call_of_a_tool(version: str, fate: Fate) -> None:
    def play(table: Table) -> None:
        table.hear_everything()
        gone_through(table, [call for call in TOOL_CALLS if not call[0].startswith("shuts_down")], fate)

    compare(version, play, STARTS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fate", FATES[1:])
def test_what_may_become_of_a_call_that_goes_on(version: str, fate: Fate) -> None:
    def play(table: Table) -> None:
        table.hear_everything()
        gone_through(table, [("waits", {}), ("logs_and_waits", {}), ("heeds", {}), ("asks", {"what": "a form"})], fate)

    compare(version, play, kinds=["waits", "reports", "asks", "acts"])


@pytest.mark.parametrize("version", VERSIONS)
def test_what_ends_with_its_first_step_needs_no_engine_from_the_second_time_on(version: str) -> None:
    for far in STARTS:
        _, table = played(partial(Responding, far=far), version, Table.hear_everything)
        assert isinstance(table.simulation, Responding)
        said: dict[str, list[bool]] = {}
        for name, arguments in TOOL_CALLS:
            if name in ENDING | GOING_ON:
                table.simulation.at_once.clear()
                gone_through(table, [(name, arguments)], lambda table, exchange: table.open())
                said.setdefault(name, []).extend(table.simulation.at_once)
                assert len(table.simulation.at_once) == 3
        steps = far != "not at all"
        # Those of its values that cannot be sent are for who runs the call to tell.
        assert set(said.pop("gives")[1:]) == ({True} if steps else {True, False})
        for name in ENDING - {"gives"}:
            at_once = steps or name in NEVER_WAITING
            assert said[name] == [False] + [at_once] * (len(said[name]) - 1), name
        assert not any(any(said[name]) for name in GOING_ON)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fate", [is_let_go_on, pytest.param(outlives_its_server, marks=thorough)])
@pytest.mark.parametrize(
    "name",
    ["shuts_down", *(pytest.param(name, marks=thorough) for name in ("shuts_down_and_waits", "waits", "streams_late"))],
)
def test_a_server_that_is_shut_down(version: str, fate: Fate, name: str) -> None:
    def play(table: Table) -> None:
        table.hear_everything()
        table.call("ends", {})
        gone_through(table, [(name, {})], fate)
        table.call("ends", {})

    compare(version, play)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream", "text/html", "*/*"])
def test_clients_that_accept_less(version: str, accept: str) -> None:
    def play(table: Table) -> None:
        table.hear_everything()
        for name in (
            "ends",
            "waits",
            "logs_and_waits",
            "reports_late",
            "asks_late",
            "streams_late",
            "polled",
            "gives_up",
        ):
            message = table.client.message("tools/call", {"name": name, "arguments": {}})
            for _ in range(3):
                exchange = table.post(message, headers={"Accept": accept})
                is_let_go_on(table, exchange)
            table.clear()
        for what in QUESTIONS:
            message = table.client.message("tools/call", {"name": "asks", "arguments": {"what": what}})
            is_let_go_on(table, table.post(message, headers={"Accept": accept}))

    found = compare(version, play)
    at_once = sum(found["its first step"].at_once)
    assert at_once >= 2 if accept in ("application/json", "*/*") else at_once == 0


@pytest.mark.parametrize("version", NEWEST_OF_EACH)
def test_resources_and_lists(version: str) -> None:
    def play(table: Table) -> None:
        table.hear_everything()
        for uri in uris():
            for _ in range(3):
                is_let_go_on(table, table.post(table.client.message("resources/read", {"uri": uri})))
            table.clear()
        for of in ("tools", "resources", "resources/templates", "prompts"):
            for params in (None, {}, {"cursor": "7"}, {"cursor": "none"}, {"cursor": ""}):
                for _ in range(3):
                    table.post(table.client.message(f"{of}/list", params))
        table.call("declares", {})
        for _ in range(3):
            table.post(table.client.message("tools/list"))

    found = compare(version, play)
    assert sum(found["not at all"].at_once) >= 4 * 5 * 2  # lists wait for no handler
    assert sum(found["its first step"].at_once) > 60


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("changed", [method for method, _ in LISTS])
def test_a_list_is_given_at_once_until_something_is_declared_or_removed(version: str, changed: str) -> None:
    def play(table: Table) -> None:
        registry = table.kitchen.registry
        for change in (lambda: None, partial(declare, registry, changed, 1), partial(remove, registry, changed, 1)):
            change()
            for _ in range(3):
                for method, _ in LISTS:
                    table.post(table.client.message(method))

    for found in compare(version, play, kinds=["ends"]).values():
        assert found.at_once[-36:] == 3 * ([False] * 4 + [True] * 8)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("which", [*(pytest.param(which, marks=thorough) for which in range(4))])
def test_what_is_like_a_call_before_but_for_one_thing(version: str, which: int) -> None:
    for far in STARTS[:2]:
        responding = Http(version, Responding(registry(), far=far))
        base = calls(responding)[which]
        forgetful = Http(version, Forgetful(registry()))
        assert responding.session == forgetful.session
        for what, body, headers in requests(base):
            given = responding.headers(base) | headers
            sent = {name: value for name, value in given.items() if value is not None}
            for data, more in ((encode(base), responding.headers(base)), (body, sent), (body, sent)):
                expected = seen(forgetful.simulation.http(data, headers=more))
                assert seen(responding.simulation.http(data, headers=more)) == expected, what


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("config", "headers"),
    [
        (Config(max_message=700), {}),
        (Config(max_depth=5), {}),
        (Config(max_headers=400), {"x": "y" * 300}),
        (Config(), {"Content-Length": "99999999999"}),
        (Config(), {"Content-Type": "text/plain"}),
        (Config(allowed_origins=["https://a.example"]), {"Host": "b.example", "Origin": "https://a.example"}),
        (Config(), {"Origin": "https://evil.example"}),
        (Config(require_session=True), {"Mcp-Session-Id": None}),
        (Config(opens_sessions=False), {}),
        (Config(asks_store_at_once=False), {}),
        (Config(announces_changes=False), {}),
    ],
)
def test_heads_and_bodies_that_are_refused_or_served_otherwise(
    version: str, config: Config, headers: Mapping[str, str | None]
) -> None:
    def play(table: Table) -> None:
        for arguments in ({}, {"text": "x" * 650}, {"text": [[[[[[[[]]]]]]]]}):
            message = table.client.message("tools/call", {"name": "ends", "arguments": arguments})
            for _ in range(2):
                table.post(message)
                table.post(message, headers=headers)

    compare(version, play, config=config, kinds=["ends"])


@pytest.mark.parametrize("version", VERSIONS)
def test_what_comes_with_a_request_reaches_its_handler(version: str) -> None:
    def play(table: Table) -> None:
        for request in ("one", "another", None):
            exchange = table.post(table.client.message("tools/call", {"name": "who", "arguments": {}}), request=request)
            assert str(request).encode() in exchange.body
        for loopback in (True, False):
            for host in ("localhost", "evil.example"):
                table.post(table.client.message("tools/list"), loopback=loopback, headers={"Host": host})

    found = compare(version, play)
    assert sum(found["its first step"].at_once) >= 4


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_call_keeps_for_its_user_is_that_users(version: str) -> None:
    def play(table: Table) -> None:
        for principal in ("alice", "bob", "alice"):
            table.client.options["principal"] = principal
            if table.client.adapter.has_handshake:
                table.client.open()
            kept = table.call("opens_late", {})
            table.open()
            handle = kept.messages[0]["result"]["content"][0]["text"]
            for user, is_found in ((principal, b"true"), ("mallory", b"false")):
                found = table.post(
                    table.client.message("tools/call", {"name": "finds", "arguments": {"handle": handle}}),
                    principal=user,
                    headers={"Mcp-Session-Id": None},
                )
                assert is_found in found.body

    compare(version, play, kinds=["waits"])


# Sessions and their store ---------------------------------------------------------------------------------------------


class FickleStore(MemorySessionStore):
    """A store that is asked at once, and then does something else."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)
        self.does: Callable[[], Any] | None = None

    async def get(self, key: str, *, ttl: float | None = None) -> Any:
        if self.does is not None:
            await self.does()
        return await super().get(key, ttl=ttl)


class _Later:
    def __await__(self) -> Iterator[None]:
        yield


async def fails() -> None:
    raise OSError("no disk")


async def is_unavailable() -> None:
    raise StoreUnavailable("no network")


async def waits() -> None:
    await _Later()


@pytest.mark.parametrize("version", HANDSHAKE)
@pytest.mark.parametrize("does", [fails, is_unavailable, waits])
def test_a_store_that_does_not_answer(version: str, does: Callable[[], Any], caplog: pytest.LogCaptureFixture) -> None:
    logged = []

    def play(table: Table) -> None:
        table.call("counts", {})
        table.call("counts", {})
        store = table.kitchen.server.store
        assert isinstance(store, FickleStore)
        caplog.clear()
        store.does = does
        assert table.call("counts", {}).status == 503
        store.does = None
        table.call("counts", {})
        logged.append(caplog.messages)

    expected, _ = played(Forgetful, version, play, store=FickleStore(), kinds=["ends"])
    for far in USUAL:
        assert played(partial(Responding, far=far), version, play, store=FickleStore(), kinds=["ends"])[0] == expected
    assert logged == [logged[0]] * len(logged)
    assert len(logged[0]) == 1


@pytest.mark.parametrize("on", ["the store", "its class"])
def test_a_store_whose_look_ups_somebody_watches(on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemorySessionStore(clock=lambda: 0.0)
    looked_up, get = [], MemorySessionStore.get

    async def watched(*args: Any, **options: Any) -> Any:
        looked_up.append(args[-1])
        return await get(store, args[-1], **options)

    monkeypatch.setattr(*((store, "get") if on == "the store" else (MemorySessionStore, "get")), watched)

    def play(table: Table) -> None:
        for _ in range(3):
            assert table.call("ends", {}).status == 200

    played(partial(Responding, far=USUAL[0]), HANDSHAKE[-1], play, store=store, kinds=["ends"])
    assert len(looked_up) >= 3


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_store_that_has_to_be_waited_for(version: str) -> None:
    def play(table: Table) -> None:
        for name in ("counts", "counts_late", "ends"):
            for _ in range(3):
                is_let_go_on(table, table.call(name, {}))

    expected, _ = played(Forgetful, version, play, store=DistantStore(), kinds=["ends", "waits"])
    for far in USUAL:
        notes, table = played(
            partial(Responding, far=far), version, play, store=DistantStore(), kinds=["ends", "waits"]
        )
        assert notes == expected
        assert isinstance(table.simulation, Responding)
        assert not any(table.simulation.at_once)


@pytest.mark.parametrize("owner", ["alice", None])
@pytest.mark.parametrize("version", HANDSHAKE)
def test_sessions_that_are_there_and_those_that_are_not(version: str, owner: str | None) -> None:
    def play(table: Table) -> None:
        table.call("counts", {})
        for session in (None, "nobody's", "", table.client.session):
            message = table.client.message("tools/call", {"name": "counts", "arguments": {}})
            for principal in ("alice", None, "bob", "alice"):
                for _ in range(2):
                    table.post(message, headers={"Mcp-Session-Id": session}, principal=principal)
        table.client.delete()
        for _ in range(2):
            table.call("counts", {})
        table.client.open()
        table.call("counts", {})
        table.simulation.advance(2000.0)
        for _ in range(2):
            table.call("counts", {})

    found = compare(version, play, principal=owner, kinds=["ends"])
    assert sum(found["its first step"].at_once) >= 4


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_session_has_room_for_so_many_calls(version: str) -> None:
    def play(table: Table) -> None:
        table.call("ends", {})
        for name in ("waits", "ends", "counts_late", "ends", "waits", "ends", "waits"):
            table.call(name, {})
        table.open()
        for name in ("ends", "waits", "waits", "waits", "ends"):
            table.call(name, {})
        table.open()
        table.call("ends", {})

    found = compare(version, play, config=Config(max_calls=2), kinds=["ends", "waits"])
    assert sum(found["its first step"].at_once) == 3


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_session_that_is_used_does_not_expire(version: str) -> None:
    def play(table: Table) -> None:
        for _ in range(10):
            table.simulation.advance(50.0)
            table.call("ends", {})
        for _ in range(2):
            waiting = table.call("waits", {})
            table.simulation.advance(300.0)
            is_let_go_on(table, waiting)
        table.call("ends", {})

    compare(version, play, config=Config(session_ttl=100.0), kinds=["ends", "waits"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "name", ["publishes", "shuts_down", *(pytest.param(name, marks=thorough) for name in ("declares", "removed"))]
)
def test_what_a_handler_changes_is_told_to_who_listens(version: str, name: str) -> None:
    def play(table: Table) -> None:
        client = table.client
        if client.adapter.has_handshake:
            client.request("resources/subscribe", {"uri": "text:one"})
            table.exchanges.append(client.get())
        else:
            asked = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["text:one"]}}
            table.exchanges.append(client.request("subscriptions/listen", asked, id="listening"))
        table.note()
        for _ in range(3):
            table.call("ends", {})
            table.call(name, {})

    compare(version, play)


# What a driver does ---------------------------------------------------------------------------------------------------


class Hand:
    """A driver that a test is: it begins calls as it likes."""

    def __init__(self, kitchen: Kitchen, version: str, **options: Any) -> None:
        self.simulation = Simulation(kitchen.registry, **options)
        kitchen.server, kitchen.event = self.simulation.server, self.simulation.runtime.event
        self.server = self.simulation.server
        self.client = Http(version, self.simulation)
        self.begun: list[Coroutine[Any, Any, None]] = []

    def step(self, call: Call, work: Awaitable[None]) -> None:
        """Take the first step of a call."""
        coroutine = cast("Coroutine[Any, Any, None]", work)
        try:
            coroutine.send(None)
        except StopIteration:
            return
        self.begun.append(coroutine)

    def hold(self, call: Call, work: Awaitable[None]) -> None:
        """Let a call have its turn later."""
        self.begun.append(cast("Coroutine[Any, Any, None]", work))

    def respond(self, message: JSON, start: Any = None, **options: Any) -> Whole | HttpTransaction:
        return self.respond_to(headers_of(self.client.headers(message)), encode(message), start, **options)

    def respond_to(
        self, headers: Pairs, body: bytes, start: Any = None, wake: Any = lambda: None, **options: Any
    ) -> Whole | HttpTransaction:
        head = self.server.admit("/mcp", headers)
        assert head is not None
        given = self.server.respond(head, body, **options)
        return given.begin(start or self.step, wake) if isinstance(given, Pending) else given

    def call(self, name: str, start: Any = None, **options: Any) -> Whole | HttpTransaction:
        """Call a tool."""
        return self.respond(self.client.message("tools/call", {"name": name, "arguments": {}}), start, **options)

    def know(self, name: str) -> None:
        """Have the server hear of such a call."""
        self.client.call(name)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_begins_once(version: str) -> None:
    hand = Hand(Kitchen("waits"), version)
    for _ in range(2):  # as the first of its kind, and as one like it
        message = hand.client.message("tools/call", {"name": "waits", "arguments": {}})
        head = hand.server.admit("/mcp", headers_of(hand.client.headers(message)))
        assert head is not None
        pending = hand.server.respond(head, encode(message))
        assert isinstance(pending, Pending)
        assert isinstance(pending.begin(hand.step, lambda: None), HttpTransaction)
        with pytest.raises(LocalProtocolError, match="has begun already"):
            pending.begin(hand.step, lambda: None)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_driver_that_fails_to_start_a_call_is_told_so_and_others_are_served(version: str) -> None:
    hand = Hand(Kitchen("ends", "waits"), version)
    hand.know("passes")
    begun = []

    def refuse(call: Call, work: Any) -> None:
        begun.append(work)
        raise MemoryError("no room for a task")

    def fall_over(call: Call, work: Any) -> None:
        hand.step(call, work)
        raise KeyboardInterrupt

    for start, error in ((refuse, MemoryError), (fall_over, KeyboardInterrupt)):
        for name in ("passes", "waits"):
            hand.know(name) if name == "passes" else hand.respond(hand.client.message("tools/list"))
            message = hand.client.message("tools/call", {"name": "passes", "arguments": {}})
            with pytest.raises(error):
                hand.respond(message, start)
            assert isinstance(hand.respond(message), Whole)
    for work in begun:
        work.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_handler_that_interrupts_its_server_does(version: str) -> None:
    kitchen = Kitchen("ends")

    @kitchen.registry.tool
    async def interrupts(text: str = "") -> str:
        if text:
            raise KeyboardInterrupt
        return "not yet"

    hand = Hand(kitchen, version)
    hand.know("interrupts")
    with pytest.raises(KeyboardInterrupt):
        hand.respond(hand.client.message("tools/call", {"name": "interrupts", "arguments": {"text": "now"}}))
    assert isinstance(hand.call("interrupts"), Whole)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("fault", ["none", "ToolError", "ValueError", "SystemExit", "StoreFull", "needs nothing"])
def test_a_handler_that_waits_for_nothing_is_run_once_in_a_context_of_its_own(version: str, fault: str) -> None:
    kitchen = Kitchen("ends")
    seat: ContextVar[str] = ContextVar("seat", default="free")
    found: list[str] = []

    @kitchen.registry.tool
    async def sits(name: str = "") -> str:
        found.append(seat.get())
        seat.set(name)
        if name == fault:
            raise fault_of(fault)
        return "seated"

    hand = Hand(kitchen, version)
    hand.know("sits")
    seat.set("mine")
    for name in ("a", "b", fault, "c"):
        message = hand.client.message("tools/call", {"name": "sits", "arguments": {"name": name}})
        assert isinstance(hand.respond(message), Whole)
    assert found[1:] == ["mine"] * 4
    assert seat.get() == "mine"


class Thing:
    """Something of which can be told whether it is still there."""

    def wake(self) -> None:
        """See `Pending.begin`."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "name", ["ends", "passes", "who", "counts", "breaks", "bakes", "waits", "logs", "gives_up", "later"]
)
def test_nothing_is_kept_of_a_request_once_it_is_answered_and_no_collector_is_needed(version: str, name: str) -> None:
    kitchen = Kitchen("ends", "waits", "reports", "depends", "acts")
    hand = Hand(kitchen, version)
    hear_everything(hand.client)
    tool, start = ("passes", hand.hold) if name == "later" else (name, hand.step)
    message = hand.client.message("tools/call", {"name": tool, "arguments": {}})
    hand.client.post(message)
    kitchen.open()
    hand.simulation.settle()
    thing = Thing()
    is_there = weakref.ref(thing)
    gc.collect()
    gc.disable()
    try:
        given = hand.respond(message, start, request=thing, wake=thing.wake)
        del thing
        if not isinstance(given, Whole):
            kitchen.open()
            for coroutine in hand.begun:
                with pytest.raises(StopIteration):
                    coroutine.send(None)
            hand.begun.clear()
            given.events()
            assert isinstance(given.data_to_send()[-1], End)
        assert isinstance(given, Whole) == (name in ENDING)
        del given
        assert is_there() is None
    finally:
        gc.enable()
    assert hand.server.live_session("x").calls == {}


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_handler_raises_is_gone_with_its_call_and_no_collector_is_needed(version: str) -> None:
    kitchen, held = Kitchen("ends"), list[weakref.ref[Thing]]()

    @kitchen.registry.tool
    async def refuses() -> str:
        thing = Thing()
        held.append(weakref.ref(thing))
        raise ToolError("not today")

    hand = Hand(kitchen, version)
    hand.know("refuses")
    gc.collect()
    gc.disable()
    try:
        given = hand.call("refuses")
        assert isinstance(given, Whole)
        assert (b"not today" in given.body, [is_there() for is_there in held]) == (True, [None, None])
    finally:
        gc.enable()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["ends", "passes", "waits"])
def test_a_page_of_this_machine_is_let_in_however_its_call_is_answered(version: str, name: str) -> None:
    """It came in on a loopback address, so that a page of any port there may have sent it."""
    kitchen = Kitchen("ends", "waits")
    hand = Hand(kitchen, version)
    message = hand.client.message("tools/call", {"name": name, "arguments": {}})
    origin = {"Host": "127.0.0.1:8000", "Origin": "http://localhost:3000"}
    for _ in range(3):
        head = hand.server.admit("/mcp", headers_of({**hand.client.headers(message), **origin}), loopback=True)
        assert head is not None
        given = hand.server.respond(head, encode(message))
        if isinstance(given, Pending):
            given = given.begin(hand.step, lambda: None)
        if isinstance(given, Whole):
            assert (given.status, dict(given.headers)["Access-Control-Allow-Origin"]) == (200, origin["Origin"])
        else:
            assert given.data_to_send() == []  # no refusal


@pytest.mark.parametrize("version", VERSIONS)
def test_plain_functions_in_a_thread_are_waited_for(version: str) -> None:
    def play(table: Table) -> None:
        calls = [("plain", {}), ("quick", {}), ("plain_fails", {"fault": "SystemExit"}), ("bakes_plainly", {})]
        for name, arguments in calls:
            for _ in range(3):
                exchange = table.call(name, arguments)
                assert exchange.ended == (name == "quick")
                is_let_go_on(table, exchange)

    compare(version, play, has_threads=True, kinds=["ends", "fails", "depends"])


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_wire_log_is_told(version: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "mcp_sansio.wire")
    logged = []

    def play(table: Table) -> None:
        for name in ("ends", "waits"):
            for _ in range(3):
                caplog.clear()
                is_let_go_on(table, table.call(name, {}))
                logged.append(caplog.messages)

    compare(version, play, kinds=["ends", "waits"])
    assert logged[:6] == logged[6:12] == logged[12:]
    assert [len(messages) for messages in logged[:6]] == [4] * 6


# Another thread -------------------------------------------------------------------------------------------------------


def respond_while(hand: Hand, message: JSON, at: int, change: Callable[[], object]) -> bool:
    """Ask for the response to `message`, and have `change` happen where the server comes to its line number `at`.

    False where it ends before that.
    """
    lines = iter(range(at + 1))

    def trace(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and next(lines, None) == at:
            sys.settrace(None)
            thread = Thread(target=change)
            thread.start()
            thread.join()
        return trace if "mcp_sansio" in frame.f_code.co_filename else None

    headers, body = headers_of(hand.client.headers(message)), encode(message)
    tracing = sys.gettrace()
    sys.settrace(trace)
    try:
        hand.respond_to(headers, body)
    finally:
        sys.settrace(tracing)
    return next(lines, None) is None


async def plain(region: str) -> str:
    """Before."""
    return region


async def mirrored(region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
    """After."""
    return region


def replace(kitchen: Kitchen) -> None:
    kitchen.registry.remove_tool("echo")
    kitchen.registry.tool(name="echo")(mirrored)


def add(kitchen: Kitchen) -> None:
    kitchen.registry.tool(name="more")(mirrored)


@pytest.mark.parametrize("version", ENVELOPE)
@pytest.mark.parametrize("times", [2, pytest.param(1, marks=thorough)])
@pytest.mark.parametrize("change", [replace, add])
def test_what_is_changed_in_a_thread_meanwhile_holds_from_then_on(
    version: str, times: int, change: Callable[[Kitchen], object]
) -> None:
    """Wherever the server is with an earlier request."""
    for at in count():
        kitchen = Kitchen("reads")
        kitchen.registry.tool(name="echo")(plain)
        hand = Hand(kitchen, version)
        message = hand.client.message("tools/call", {"name": "echo", "arguments": {"region": "eu"}})
        listing = hand.client.message("tools/list")
        asked = message if change is replace else listing
        for _ in range(times):
            hand.respond(asked)
        if not respond_while(hand, asked, at, partial(change, kitchen)):
            break
        for _ in range(2):
            given = hand.respond(asked)
            body = given.body if isinstance(given, Whole) else data_of(given.data_to_send())
            assert (b"Mcp-Param-Region" in body) if change is replace else (b'"more"' in body), at
    assert at > 20


@pytest.mark.parametrize("version", VERSIONS[:1])
async def test_a_driver_that_is_woken_from_a_thread_wherever_it_is_writes_the_whole_response(version: str) -> None:
    kitchen = Kitchen("waits", "reports")
    loop, server = lent_loop(kitchen.registry)
    kitchen.server, kitchen.event = server, asyncio.Event
    client = Http(version, Simulation(kitchen.registry, store=server.store))
    hear_everything(client)
    message = client.message("tools/call", {"name": "logs_and_waits", "arguments": {}})
    bodies = set()
    for at in count():
        driver = Driver(loop, Orphans())
        with woken_at(driver, at) as was_woken:
            head = server.admit("/mcp", headers_of(client.headers(message)))
            assert head is not None
            pending = server.respond(head, encode(message))
            assert isinstance(pending, Pending)
            given = pending.begin(driver.start_call, driver.wake)
            assert isinstance(given, HttpTransaction)
            driver.engine = given
            loop.call_soon(kitchen.open)
            parts: list[Part] = []
            async with asyncio.timeout(10):
                while not (parts and isinstance(parts[-1], End)):
                    parts += await driver.take()
                    loop.call_soon(kitchen.open)
            driver.leave()
        bodies.add(nameless(data_of(parts)))
        if not was_woken:
            break
    assert at > 100
    assert len(bodies) == 1
    assert bodies.pop().count(b"data: ") == 3


class Driver(ResponseDriver):
    """For a transport that a test is."""

    engine: HttpTransaction


@contextmanager
def woken_at(driver: Driver, at: int) -> Iterator[list[int]]:
    """Have `driver` woken by a thread where the library comes to its line number `at`; that is given once it was."""
    lines, found, tracing = count(), list[int](), sys.gettrace()

    def trace(frame: Any, event: str, _: Any) -> Any:
        if event == "line" and not found and next(lines) == at:
            found.append(at)
            thread = Thread(target=driver.wake)
            thread.start()
            thread.join()
        return trace if "mcp_sansio" in frame.f_code.co_filename else None

    sys.settrace(trace)
    try:
        yield found
    finally:
        sys.settrace(tracing)

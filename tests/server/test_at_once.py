"""`Server.respond` gives byte for byte what a transaction does, whatever a call turns out to want in its first step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pytest

from alike import calls, registry, requests
from at_once import STARTS, Forgetful, Responding, seen
from kitchen import Kitchen, tool_calls, uris
from mcp_sansio import Config, MemorySessionStore
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
        self.simulation = make(self.kitchen.registry, **options)
        self.kitchen.server, self.kitchen.event = self.simulation.server, self.simulation.runtime.event
        self.client = Http(version, self.simulation, **client_options)
        self.exchanges: list[SimulatedHttp] = []
        self.notes: list[Any] = []

    def hear_everything(self) -> None:
        """Log messages of every severity are wanted from now on."""
        if self.client.adapter.has_handshake:
            self.client.request("logging/setLevel", {"level": "debug"})
        else:
            self.client.log_level = "debug"

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


End = Callable[[Table, SimulatedHttp], None]


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


ENDS = (is_let_go_on, is_waited_for, takes_too_long, is_cancelled, loses_its_client, outlives_its_server)
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


def gone_through(table: Table, calls: list[tuple[str, Mapping[str, JSON]]], end: End) -> None:
    """Make each of `calls` three times, and have it end so."""
    for name, arguments in calls:
        for _ in range(3):
            end(table, table.call(name, arguments, id="the call"))
        table.clear()


#: Some of the tools whose calls end with their first step and say nothing before, and some of those that do more.
ENDING = {"ends", "plain", "who", "counts", "opens", "gives", "fails", "burns", "bakes", "publishes", "waits_in_vain"}
GOING_ON = {"waits", "logs", "logs_and_fails", "streams", "polled", "counts_late", "gives_up", "cools", "heeds"}
thorough = pytest.mark.thorough
#: Of the revisions that are of one family, all but the newest take long and find out little.
NEWEST_OF_EACH = [
    version if version in (ENVELOPE[0], HANDSHAKE[0]) else pytest.param(version, marks=thorough) for version in VERSIONS
]


@pytest.mark.parametrize("version", NEWEST_OF_EACH)
@pytest.mark.parametrize("end", [ENDS[0], *(pytest.param(end, marks=thorough) for end in ENDS[1:-1])])
def test_every_call_of_a_tool(version: str, end: End) -> None:
    def play(table: Table) -> None:
        table.hear_everything()
        gone_through(table, [call for call in TOOL_CALLS if not call[0].startswith("shuts_down")], end)

    compare(version, play, STARTS)


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
        for name in ENDING:
            assert said[name] == [False] + [far != "not at all"] * (len(said[name]) - 1), name
        assert not any(any(said[name]) for name in GOING_ON)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", [is_let_go_on, pytest.param(outlives_its_server, marks=thorough)])
@pytest.mark.parametrize(
    "name",
    ["shuts_down", *(pytest.param(name, marks=thorough) for name in ("shuts_down_and_waits", "waits", "streams_late"))],
)
def test_a_server_that_is_shut_down(version: str, end: End, name: str) -> None:
    def play(table: Table) -> None:
        table.hear_everything()
        table.call("ends", {})
        gone_through(table, [(name, {})], end)
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
        (Config(max_message=300), {}),
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
        for arguments in ({}, {"text": "x" * 200}, {"text": [[[[[[[[]]]]]]]]}):
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


@pytest.mark.parametrize("version", HANDSHAKE)
def test_sessions_that_are_there_and_those_that_are_not(version: str) -> None:
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

    found = compare(version, play, principal="alice", kinds=["ends"])
    assert sum(found["its first step"].at_once) >= 4


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_session_has_room_for_so_many_calls(version: str) -> None:
    def play(table: Table) -> None:
        table.call("ends", {})
        for name in ("waits", "ends", "counts_late", "ends", "waits", "ends", "waits"):
            table.call(name, {})
        table.open()
        for _ in range(2):
            table.call("ends", {})

    found = compare(version, play, config=Config(max_calls=2), kinds=["ends", "waits"])
    assert sum(found["its first step"].at_once) == 3  # two before it is full, one of them a list


@pytest.mark.parametrize("version", HANDSHAKE)
def test_a_session_that_is_used_does_not_expire(version: str) -> None:
    def play(table: Table) -> None:
        for _ in range(10):
            table.simulation.advance(50.0)
            table.call("ends", {})
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

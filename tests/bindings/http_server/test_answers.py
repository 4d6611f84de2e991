"""What is served and where: whole responses, paths, methods, many requests."""

from __future__ import annotations

import logging
import threading

import attrs
import pytest

import speak
from flags import PATIENCE, Flag, turn
from foreign import Panic
from heard import text_of
from hosting import serving
from mcp_sansio import AdapterSet, Config, Exchange, MemorySessionStore, Registry, Server
from plugs import HttpServer
from talk import Client

NEWEST = speak.VERSIONS[0]


def bakery() -> Registry:
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def price(loaves: int) -> str:
        """What that many loaves cost."""
        return f"{loaves * 3} euros"

    return registry


# Whole responses


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_call_is_answered_with_one_json_response(http_server: HttpServer, version: str) -> None:
    with serving(http_server, bakery()) as place:
        client = Client(version, place).open()
        answer = client.post(client.calling("price", loaves=2))
    assert text_of(answer.message) == "6 euros"
    assert (answer.status, dict(answer.headers)) == (
        200,
        {"Content-Type": "application/json", "Content-Length": str(len(answer.body))},
    )


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_hundred_calls_at_once(http_server: HttpServer, version: str) -> None:
    registry = bakery()
    all_here = Flag()
    waiting: list[int] = []

    @registry.tool
    async def meet(number: int) -> str:
        """Answer once all hundred are here."""
        waiting.append(number)
        if len(waiting) == 100:
            all_here.set()
        await all_here.wait()
        return str(number)

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        calls = [client.calling("meet", id=number, number=number) for number in range(100)]
        connections = [client.begin(call) for call in calls]
        answers = [client.finish(*pair) for pair in zip(connections, calls, strict=True)]
    assert [(answer.message["id"], text_of(answer.message)) for answer in answers] == [(n, str(n)) for n in range(100)]


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_handler_that_panics_ends_its_call_alone(http_server: HttpServer, version: str) -> None:
    registry = bakery()

    @registry.tool
    async def panic() -> str:
        await turn()
        raise Panic("on purpose")

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        for _ in range(2):
            refused = client.post(client.calling("panic")).message
            assert refused["error"]["message"] == "the call was interrupted"
            assert text_of(client.post(client.calling("price", loaves=2)).message) == "6 euros"


def test_requests_of_one_connection_follow_each_other(http_server: HttpServer) -> None:
    """Keep-alive works after a call that never waited, one that did, and a stream."""
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def visit(turns: int, ex: Exchange) -> str:
        """Wait for some turns of the loop, and report."""
        for number in range(turns):
            await turn()
            await ex.progress(number)
        return "done"

    with serving(http_server, registry) as place:
        client = Client(NEWEST, place)
        connections = set()
        for turns, token in ((0, None), (5, None), (0, "t"), (5, "t")) * 2:
            connection = client.begin(client.calling("visit", turns=turns, token=token))
            connections.add(connection)
            assert text_of(client.finish(connection).messages[-1]) == "done"
    assert len(connections) == 1


def test_what_has_no_body_says_nothing_of_one(http_server: HttpServer) -> None:
    with serving(http_server, bakery()) as place:
        client = Client(NEWEST, place)
        accepted = client.post(speak.notification("notifications/initialized"))
        preflight = client.send("OPTIONS", headers={"Content-Type": None})
    assert (accepted.status, accepted.body) == (202, b"")
    assert accepted.headers.items() <= {("Content-Length", "0")}  # or it is framed otherwise
    assert (preflight.status, preflight.body) == (204, b"")
    assert set(preflight.headers) == {
        "Access-Control-Allow-Methods",
        "Access-Control-Allow-Headers",
        "Access-Control-Max-Age",
    }


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD"])
def test_every_method_is_the_cores_to_answer(http_server: HttpServer, method: str) -> None:
    with serving(http_server, bakery()) as place:
        answer = Client(NEWEST, place).send(method, headers={"Content-Type": None})
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, POST, OPTIONS")
    assert (answer.body == b"") == (method == "HEAD")


def test_a_plain_function_runs_in_another_thread(http_server: HttpServer) -> None:
    """So that it holds nobody up."""
    registry = Registry("bakery", "1.0")
    both_here = threading.Barrier(2)

    @registry.tool
    def meet() -> str:
        """Answer once two are here."""
        both_here.wait(PATIENCE)
        return "met"

    with serving(http_server, registry) as place:
        client = Client(NEWEST, place)
        call = client.calling("meet")
        connections = [client.begin(call), client.begin(call)]
        assert [text_of(client.finish(connection, call).message) for connection in connections] == ["met", "met"]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/", "/deep/within/mcp"])
def test_both_spellings_of_a_path_are_served_without_a_redirect(http_server: HttpServer, path: str) -> None:
    with serving(http_server, bakery(), path=path) as place:
        for where in {path, path.rstrip("/") or "/", path.rstrip("/") + "/"}:
            client = Client(NEWEST, place, where)
            assert text_of(client.call("price", loaves=1)) == "3 euros"
            assert client.send("OPTIONS").status == 204
        assert Client(NEWEST, place, "/elsewhere").send("GET").status == 404


def test_the_query_reaches_the_core(http_server: HttpServer) -> None:
    """A pin in the URL outranks what the request says of its revision."""
    oldest = speak.VERSIONS[-1]
    with serving(http_server, bakery()) as place:
        client = Client(oldest, place, f"/mcp?mcp={oldest}")
        answer = client.post(client.initialize())
    assert answer.message["result"]["protocolVersion"] == oldest


def test_what_a_server_is_given_reaches_the_core(http_server: HttpServer) -> None:
    store = MemorySessionStore(clock=lambda: 0.0)
    adapters = AdapterSet.default().only(NEWEST)
    config = Config(max_message=17, allowed_hosts=["a.example"])
    with serving(
        http_server,
        bakery(),
        adapters=adapters,
        config=config,
        store=store,
        allowed_origins=["https://b.example"],
    ) as place:
        server = place.server
        assert isinstance(server, Server)
        assert (server.adapters, server.store) == (adapters, store)
        assert server.config == attrs.evolve(config, allowed_origins=["https://b.example"])


@pytest.mark.parametrize("name", ["allowed_origins", "allowed_hosts"])
def test_one_string_in_place_of_a_list_is_told(http_server: HttpServer, name: str) -> None:
    options = {name: "https://app.example"}
    with pytest.raises(ValueError, match=f"Config.{name} must be a collection of strings, as in {name}="):
        serving(http_server, bakery(), **options).__enter__()


# Hosts and origins


def test_on_a_loopback_socket_the_host_is_a_loopback_name_or_allowed(http_server: HttpServer) -> None:
    with serving(http_server, bakery(), allowed_hosts=["mcp.example"]) as place:
        client = Client(NEWEST, place)
        statuses = [
            client.post(client.calling("price", loaves=1), headers={"Host": host}).status
            for host in ("localhost:1", "127.0.0.1", "[::1]", "mcp.example", "evil.example")
        ]
    assert statuses == [200, 200, 200, 200, 421]


def test_a_refused_host_is_logged_with_the_setting_that_allows_it(
    http_server: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(http_server, bakery()) as place, caplog.at_level(logging.WARNING, "mcp_sansio"):
        client = Client(NEWEST, place)
        for _ in range(2):
            client.post(client.calling("price", loaves=1), headers={"Host": "evil.example"})
    (record,) = [record for record in caplog.records if record.name == "mcp_sansio"]
    assert "'evil.example'; add it to allowed_hosts" in record.getMessage()


def test_an_allowed_origin_may_read_the_response(http_server: HttpServer) -> None:
    origin = "https://app.example"
    with serving(http_server, bakery(), allowed_origins=[origin]) as place:
        client = Client(NEWEST, place)
        message = client.calling("price", loaves=1)
        plain = client.post(message)
        allowed = client.post(message, headers={"Origin": origin})
        refused = client.post(message, headers={"Origin": "https://evil.example"})
        asked = {"Origin": origin, "Access-Control-Request-Headers": "x-one, x-two", "Content-Type": None}
        preflight = client.send("OPTIONS", headers=asked)
    name = "Access-Control-Allow-Origin"
    assert [(answer.status, answer.headers.get(name)) for answer in (plain, allowed, refused, preflight)] == [
        (200, None),
        (200, origin),
        (403, None),
        (204, origin),
    ]
    assert preflight.headers["Access-Control-Allow-Headers"] == "x-one, x-two"

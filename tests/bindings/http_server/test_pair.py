"""The first HTTP transport: a stream, and an address for messages, beside the one endpoint of the same server."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import speak
from flags import Flag, turn
from heard import text_of
from hosting import serving, until
from mcp_sansio import Config, Exchange
from pairs import bakery, converse
from plugs import HttpServer
from talk import Client, PairClient, Response, request

pytestmark = pytest.mark.skipif(not speak.HANDSHAKE, reason="no revision has that transport")


@pytest.mark.parametrize("path", ["/sse", "/sse/"])
def test_a_conversation_on_a_pair_of_endpoints(http_server: HttpServer, path: str) -> None:
    with serving(http_server, bakery(), pair=True) as place:
        client = PairClient(place, path)
        converse(client)
        assert client.where.partition("?")[0] == "/messages"
        where = client.where.replace("?", "/?")
        assert client.post(where, b"{}").status not in (301, 302, 307, 308)


@pytest.mark.parametrize("version", speak.HANDSHAKE)
def test_the_handshake_on_a_pair_selects_any_revision_that_has_one(http_server: HttpServer, version: str) -> None:
    with serving(http_server, bakery(), pair=True) as place:
        converse(PairClient(place, version=version))


def test_a_pair_shares_the_server_of_the_endpoint(http_server: HttpServer) -> None:
    """Its limits count for both."""
    with (
        serving(http_server, bakery(), pair=True, config=Config(max_streams=1)) as place,
        PairClient(place).open() as client,
    ):
        assert text_of(client.call("price", loaves=1)) == "3 euros"
        assert text_of(Client(speak.VERSIONS[0], place).call("price", loaves=1)) == "3 euros"
        with client.place.connect() as second:
            second.send(request("GET", "/sse", {"Accept": "text/event-stream"}, None))
            assert Response(second).status == 503


def test_what_is_posted_without_a_stream_is_refused(http_server: HttpServer) -> None:
    with serving(http_server, bakery(), pair=True) as place, PairClient(place).open() as client:
        wheres = (client.where, "/messages?session_id=made-up", "/messages")
        assert [client.post(where, b"{}").status for where in wheres] == [202, 404, 404]


def test_a_stream_belongs_to_the_principal_that_opened_it(http_server: HttpServer) -> None:
    with serving(http_server, bakery(), pair=True, user_header="X-User") as place, PairClient(place).open() as client:
        statuses = [client.post(client.where, b"{}", headers).status for headers in ({}, {"X-User": "li"})]
    assert statuses == [202, 404]


@pytest.mark.wants("cancel")
def test_calls_end_with_the_stream_of_their_pair(http_server: HttpServer) -> None:
    """It is the channel: with it everything in flight is gone, and nothing is left."""
    registry = bakery()
    started, cancelled = Flag(), Flag()
    traces: list[weakref.ref[Any]] = []

    @registry.tool
    async def wait(ex: Exchange) -> None:
        """Never finish."""
        traces.append(weakref.ref(ex))
        started.set()
        try:
            await Flag().wait()
        finally:
            cancelled.set()

    with serving(http_server, registry, pair=True, config=Config(keep_alive=http_server.keep_alive)) as place:
        with PairClient(place).open() as client:
            client.send(client.message("tools/call", {"name": "wait", "arguments": {}}))
            started.seen()
            client.stream.leave()
        cancelled.seen()
        until(lambda: place.server.pairs == {}, "the pair is held")
        # Collected each time: the thread that serves may not be done with the call when its handler has ended.
        until(lambda: (gc.collect(), [trace() for trace in traces])[1] == [None], "the call is held")


@pytest.mark.wants("cancel")
def test_a_call_on_a_pair_is_given_up_by_a_notification(http_server: HttpServer) -> None:
    registry = bakery()
    started, cancelled = Flag(), Flag()

    @registry.tool
    async def wait() -> None:
        """Never finish."""
        started.set()
        try:
            await Flag().wait()
        finally:
            cancelled.set()

    with serving(http_server, registry, pair=True) as place, PairClient(place).open() as client:
        client.send(client.message("tools/call", {"name": "wait", "arguments": {}}, id=5))
        started.seen()
        client.send(speak.notification("notifications/cancelled", {"requestId": 5}))
        cancelled.seen()
        assert text_of(client.call("price", loaves=1)) == "3 euros"


def test_many_calls_on_one_stream_leave_nothing_behind(http_server: HttpServer) -> None:
    registry = bakery()
    traces: list[weakref.ref[Any]] = []

    @registry.tool
    async def visit(ex: Exchange) -> str:
        """Wait for a turn of the loop."""
        traces.append(weakref.ref(ex))
        await turn()
        return "done"

    with serving(http_server, registry, pair=True) as place, PairClient(place).open() as client:
        for number in range(20):
            assert text_of(client.call("visit", id=number)) == "done"
        client.call("price", loaves=1)
        gc.collect()
        until(lambda: [trace() for trace in traces] == [None] * 20, "a call is held")


def test_the_stream_of_a_pair_ends_with_the_server(http_server: HttpServer) -> None:
    with serving(http_server, bakery(), pair=True) as place, PairClient(place).open() as client:
        place.stop()
        assert client.stream.message() is None

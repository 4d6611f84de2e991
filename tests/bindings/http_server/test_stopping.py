"""How serving ends: streams at once and as their revision wants it, calls within the operator's patience."""

from __future__ import annotations

import threading

import pytest

import speak
from flags import Flag
from heard import text_of
from hosting import is_listening, serving, until
from mcp_sansio import AdapterSet, Registry
from plugs import HttpServer
from talk import Client

RESUMING = tuple(version for version in speak.VERSIONS if AdapterSet.default().by_version[version].resumes_streams)


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_listen_request_gets_its_result_when_the_server_stops(http_server: HttpServer, version: str) -> None:
    with serving(http_server, Registry("bakery", "1.0")) as place:
        client = Client(version, place)
        listen = client.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id=7)
        with client.streaming(listen) as stream:
            stream.message()
            place.stop()
            result = stream.message()
            assert stream.message() is None
    assert (result["id"], result["result"]["resultType"]) == (7, "complete")


@pytest.mark.parametrize("version", RESUMING)
def test_the_stream_of_a_session_ends_when_the_server_stops(http_server: HttpServer, version: str) -> None:
    with serving(http_server, Registry("bakery", "1.0")) as place:
        client = Client(version, place).open()
        with client.listening() as stream:
            assert stream.response.status == 200
            place.stop()
            assert stream.message() is None


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_call_in_flight_is_left_to_finish(http_server: HttpServer, version: str) -> None:
    registry = Registry("bakery", "1.0")
    started, go_on = Flag(), Flag()

    @registry.tool
    async def bake() -> str:
        """Finish while the server stops."""
        started.set()
        await go_on.wait()
        return "baked"

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        call = client.calling("bake")
        connection = client.begin(call)
        started.seen()
        stopping = threading.Thread(target=place.stop)
        stopping.start()
        until(lambda: not is_listening(place), "the server goes on to let clients in")
        go_on.set()
        answer = client.finish(connection, call)
        stopping.join()
    assert text_of(answer.message) == "baked"


def heard_of_a_call_without_end(http_server: HttpServer, version: str) -> bytes:
    """What its client hears when the server stops, which cancels it."""
    registry = Registry("bakery", "1.0")
    started, cancelled = Flag(), Flag()

    @registry.tool
    async def bake() -> str:
        """Never finish."""
        started.set()
        try:
            await Flag().wait()
        finally:
            cancelled.set()
        return "never"

    with serving(http_server, registry, patience=0.05) as place:
        client = Client(version, place).open()
        connection = client.begin(client.calling("bake"))
        started.seen()
        place.stop()
        assert cancelled.is_set
        return connection.rest()


@pytest.mark.wants("cancel")
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_call_that_does_not_finish_is_cancelled_when_the_server_stops(http_server: HttpServer, version: str) -> None:
    assert b'"result"' not in heard_of_a_call_without_end(http_server, version)


@pytest.mark.wants("connections")
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_the_connection_of_a_call_that_is_cancelled_with_the_server_is_cut(
    http_server: HttpServer, version: str
) -> None:
    assert b" 200 " not in heard_of_a_call_without_end(http_server, version)


def test_a_change_may_be_announced_when_nobody_serves_any_more(http_server: HttpServer) -> None:
    """By a thread that outlives the server: it is told of nothing."""
    registry = Registry("bakery", "1.0")
    with serving(http_server, registry) as place:
        client = Client(speak.VERSIONS[0], place)
        client.post(client.message("tools/list"))
    registry.resource_updated("bread://rye")

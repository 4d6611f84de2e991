"""Clients that go away, calls that are given up, and what is left of both: nothing."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest

import speak
from flags import PATIENCE, Flag
from heard import text_of
from hosting import connections, serving, until
from mcp_sansio import AdapterSet, Config, Exchange, Registry
from plugs import HttpServer
from talk import Client

ADAPTERS = AdapterSet.default().by_version
NEWEST = speak.VERSIONS[0]
GIVING_UP = tuple(version for version in speak.VERSIONS if ADAPTERS[version].disconnect_cancels)
GOING_ON = tuple(version for version in speak.VERSIONS if version not in GIVING_UP)
BATCHING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].allows_batch)
RESUMING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].resumes_streams)


class Oven:
    """A registry with a tool that waits, and what becomes of its call."""

    def __init__(self) -> None:
        self.registry = Registry("bakery", "1.0")
        self.started, self.go_on = Flag(), Flag()
        self.cancelled, self.finished = Flag(), Flag()
        self.traces: list[weakref.ref[Any]] = []
        self.registry.tool(self.bake)

    async def bake(self, ex: Exchange, report: bool = False) -> str:
        """Wait to be told to go on."""
        self.traces.append(weakref.ref(ex))
        if report:
            await ex.progress(1)
        self.started.set()
        try:
            await self.go_on.wait()
        except BaseException:
            self.cancelled.set()
            raise
        if report:
            await ex.progress(2)
        self.finished.set()
        return "baked"

    def leaves_nothing(self) -> None:
        """Fails where something that the calls held is not freed."""
        gc.collect()
        until(lambda: [trace() for trace in self.traces] == [None] * len(self.traces), "a call is held")


reporting = pytest.mark.parametrize("report", [False, True], ids=["before the response", "within a stream"])


@reporting
@pytest.mark.parametrize("version", GIVING_UP)
def test_a_call_is_given_up_with_its_connection(http_server: HttpServer, version: str, report: bool) -> None:
    oven = Oven()
    with serving(http_server, oven.registry, config=Config(keep_alive=http_server.keep_alive)) as place:
        client = Client(version, place)
        leave_once_started(client, oven, report)
        oven.cancelled.seen()
        assert text_of(finish_another(client, oven)) == "baked"
    oven.leaves_nothing()


@reporting
@pytest.mark.parametrize("version", GOING_ON)
def test_a_call_goes_on_without_its_connection(http_server: HttpServer, version: str, report: bool) -> None:
    oven = Oven()
    with serving(http_server, oven.registry) as place:
        client = Client(version, place).open()
        leave_once_started(client, oven, report)
        oven.go_on.set()
        oven.finished.seen()
        assert not oven.cancelled.is_set
    oven.leaves_nothing()


def leave_once_started(client: Client, oven: Oven, report: bool) -> None:
    """Call the tool, and cut the connection while it runs. Return when the server has seen that."""
    message = client.calling("bake", report=report, token="t")
    if report:
        with client.streaming(message) as stream:
            stream.message()
            stream.leave()
    else:
        connection = client.begin(message)
        oven.started.seen()
        connection.leave()


def finish_another(client: Client, oven: Oven) -> Any:
    oven.go_on.set()
    return client.call("bake")


@pytest.mark.parametrize("version", GOING_ON)
def test_the_deadline_of_a_call_holds_when_its_client_has_left(http_server: HttpServer, version: str) -> None:
    oven = Oven()
    with serving(http_server, oven.registry, config=Config(call_timeout=0.1)) as place:
        client = Client(version, place).open()
        leave_once_started(client, oven, report=False)
        oven.cancelled.seen()
    oven.leaves_nothing()


@pytest.mark.parametrize("version", GOING_ON)
def test_a_call_whose_client_left_ends_with_the_server(http_server: HttpServer, version: str) -> None:
    oven = Oven()
    with serving(http_server, oven.registry, patience=0.2) as place:
        client = Client(version, place).open()
        leave_once_started(client, oven, report=True)
        place.stop()
        assert oven.cancelled.is_set
    oven.leaves_nothing()


@pytest.mark.parametrize("version", BATCHING)
def test_the_calls_of_a_batch_go_on_without_their_connection(http_server: HttpServer, version: str) -> None:
    oven = Oven()
    with serving(http_server, oven.registry) as place:
        client = Client(version, place).open()
        batch = [client.calling("bake", id=1), client.calling("bake", id=2)]
        connection = client.begin(batch)
        oven.started.seen()
        connection.leave()
        oven.go_on.set()
        oven.finished.seen()
        again = client.post(batch)
    assert [text_of(answer) for answer in again.message] == ["baked", "baked"]
    oven.leaves_nothing()


@pytest.mark.parametrize("version", GOING_ON)
def test_a_call_is_given_up_by_a_notification(http_server: HttpServer, version: str) -> None:
    """Its HTTP exchange ends without an answer, and its connection serves on."""
    oven = Oven()
    with serving(http_server, oven.registry) as place:
        client = Client(version, place).open()
        connection = client.begin(client.calling("bake", id=5))
        oven.started.seen()
        assert client.post(speak.notification("notifications/cancelled", {"requestId": 5})).status == 202
        answer = client.finish(connection)
        oven.cancelled.seen()
        assert text_of(finish_another(client, oven)) == "baked"
    assert (answer.status, answer.headers["Content-Type"], answer.messages) == (200, "text/event-stream", [])
    oven.leaves_nothing()


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_call_that_is_over_leaves_nothing(http_server: HttpServer, version: str) -> None:
    """Not even work for the garbage collector."""
    oven = Oven()
    oven.go_on.set()
    with serving(http_server, oven.registry) as place:
        client = Client(version, place).open()
        client.call("bake")
        client.call("bake", report=True, token="t")
        client.post(client.message("ping"))
        gc.collect()
        gc.disable()
        try:
            client.call("bake")
            oven.go_on.clear()
            oven.started.clear()
            connection = client.begin(client.calling("bake"))
            oven.started.seen()
            oven.go_on.set()
            client.finish(connection)
            client.post(client.message("ping"))
            until(lambda: [trace() for trace in oven.traces] == [None] * 4, "a call is held")
        finally:
            gc.enable()


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_listener_that_leaves_is_told_nothing_more(http_server: HttpServer, version: str) -> None:
    with serving(http_server, Oven().registry, config=Config(keep_alive=http_server.keep_alive)) as place:
        client = Client(version, place)
        listen = client.message("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        with client.streaming(listen) as stream:
            stream.message()
            assert len(place.server.topics) == 1
            stream.leave()
        until(lambda: len(place.server.topics) == 0, "the server goes on to follow what nobody hears")


@pytest.mark.parametrize("version", RESUMING)
def test_the_stream_of_a_session_whose_client_leaves_is_let_go_of(http_server: HttpServer, version: str) -> None:
    with serving(http_server, Oven().registry, config=Config(keep_alive=http_server.keep_alive)) as place:
        client = Client(version, place).open()
        with client.listening() as stream:
            stream.leave()
        until(lambda: connections(place) <= 1, "another is kept than the one that the client keeps alive")
        with client.listening() as again:
            assert again.response.status == 200
            again.leave()


# Calls that are ended from within


@pytest.mark.wants("threads")
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_plain_function_that_is_given_up_in_its_thread(http_server: HttpServer, version: str) -> None:
    """Its thread runs on to its end, which changes nothing any more."""
    registry = Registry("bakery", "1.0")
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    @registry.tool
    def bake() -> str:
        """Block."""
        started.set()
        go_on.wait()
        ended.set()
        return "baked"

    with serving(http_server, registry, config=Config(call_timeout=0.05)) as place:
        client = Client(version, place).open()
        answer = client.post(client.calling("bake"))
        assert started.is_set()
        assert not ended.is_set()
        go_on.set()
        assert ended.wait(PATIENCE)
        assert (client.post(client.message("tools/list"))).status == 200
    assert "longer than 0.05 seconds" in answer.message["error"]["message"]


@pytest.mark.wants("threads")
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_handlers_thread_gives_its_call_up(http_server: HttpServer, version: str) -> None:
    registry = Registry("bakery", "1.0")
    go_on = threading.Event()

    @registry.tool
    def bake(ex: Exchange) -> str:
        """Give up."""
        ex.cancel()
        go_on.wait()
        return "never"

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        answer = client.post(client.calling("bake"))
        go_on.set()
    assert (answer.status, answer.messages) == (200, [])


@pytest.mark.wants("cancel")
@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_handler_that_only_reports_is_given_up_and_holds_nobody_up(http_server: HttpServer, version: str) -> None:
    """Where there is nobody to report to, it still lets others have their turn."""
    registry = Registry("bakery", "1.0")
    begun, ended = Flag(), Flag()

    @registry.tool
    async def watch(ex: Exchange) -> str:
        """Report without end."""
        try:
            while True:
                reported.append(None)
                await ex.progress(len(reported))
                begun.set()
        finally:
            ended.set()

    reported: list[None] = []
    with serving(http_server, registry, config=Config(call_timeout=0.5)) as place:
        client = Client(version, place).open()
        connection = client.begin(client.calling("watch", token="t"))
        begun.seen()
        connection.close()
        another = Client(version, place).open()
        assert another.post(another.message("tools/list")).status == 200
        ended.seen()

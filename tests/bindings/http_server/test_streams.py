"""Responses that are streams: what precedes a result, questions, changes, coming back, deadlines."""

from __future__ import annotations

from typing import Any

import pytest

import speak
from flags import Flag, turn
from heard import text_of
from hosting import serving, stands_still
from mcp_sansio import AdapterSet, Config, Exchange, Registry, elicit
from plugs import HttpServer
from talk import Client

ADAPTERS = AdapterSet.default().by_version
NEWEST = speak.VERSIONS[0]
PUSHING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].can_push_ask)
RESUMING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].resumes_streams)
PRIMING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].primes_streams)


def methods_of(messages: list[Any]) -> list[str]:
    return [message.get("method", "result") for message in messages]


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_progress_comes_before_the_result_while_the_call_runs(http_server: HttpServer, version: str) -> None:
    registry = Registry("bakery", "1.0")
    go_on = Flag()

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Report, wait, report."""
        await ex.progress(1, 2)
        await go_on.wait()
        await ex.progress(2, 2)
        return "baked"

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        with client.streaming(client.calling("bake", token="t")) as stream:
            first = stream.message()
            go_on.set()
            rest = stream.rest()
        assert stream.response.headers["Content-Type"] == "text/event-stream"
    assert [first["params"]["progress"], rest[0]["params"]["progress"], text_of(rest[1])] == [1, 2, "baked"]


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_handler_is_held_back_by_a_client_that_does_not_read(http_server: HttpServer, version: str) -> None:
    """It goes on when the client has read, and everything arrives."""
    registry = Registry("bakery", "1.0")
    said: list[int] = []

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Say much more than any buffer between the two holds."""
        for number in range(80):
            await ex.log("info", [number, "x" * 2**18])
            said.append(number)
        return "baked"

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        client.log_level = "info"
        if client.adapter.has_handshake:
            client.post(client.message("logging/setLevel", {"level": "info"}))
        with client.streaming(client.calling("bake")) as stream:
            stream.message()
            held_back = len(said)
            messages = stream.rest()
    assert held_back < 80
    assert [message["params"]["data"][0] for message in messages[:-1]] == list(range(1, 80))
    assert text_of(messages[-1]) == "baked"


@pytest.mark.parametrize("version", PUSHING)
def test_a_call_is_given_up_while_its_client_does_not_read(http_server: HttpServer, version: str) -> None:
    """Only the writing waits for the client."""
    registry = Registry("bakery", "1.0")
    cancelled = Flag()
    said: list[int] = []

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Talk without end."""
        try:
            while True:
                await ex.log("info", "x" * 2**18)
                said.append(len(said))
                await turn()
        finally:
            cancelled.set()

    with serving(http_server, registry, config=Config(keep_alive=3600.0)) as place:
        client = Client(version, place).open()
        client.post(client.message("logging/setLevel", {"level": "info"}))
        mute = client.begin(client.calling("bake", id=5))
        stands_still(lambda: len(said))
        assert not cancelled.is_set
        client.post(speak.notification("notifications/cancelled", {"requestId": 5}))
        cancelled.seen()
        mute.close()


# Questions


def asking() -> Registry:
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def order(loaves: int, ex: Exchange) -> str:
        """Ask first."""
        answer = await ex.ask("sure", elicit(f"Order {loaves}?"))
        return f"{loaves} ordered" if answer.accepted else "nothing ordered"

    return registry


@pytest.mark.parametrize("version", PUSHING)
def test_a_pushed_question_is_answered_by_another_request(http_server: HttpServer, version: str) -> None:
    with serving(http_server, asking()) as place:
        client = Client(version, place).open()
        with client.streaming(client.calling("order", loaves=2)) as stream:
            question = stream.message()
            reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}
            assert (client.post(reply)).status == 202
            answer = stream.message()
            assert stream.message() is None
    assert (question["method"], text_of(answer)) == ("elicitation/create", "2 ordered")


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_a_question_is_the_result_where_the_revision_has_it_so(http_server: HttpServer, version: str) -> None:
    with serving(http_server, asking()) as place:
        client = Client(version, place)
        asked = client.post(client.calling("order", loaves=2))
        again = client.calling("order", loaves=2)
        again["params"]["inputResponses"] = {"sure": {"action": "accept", "content": {}}}
        answered = client.post(again)
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.message["result"]["inputRequests"]["sure"]["method"] == "elicitation/create"
    assert text_of(answered.message) == "2 ordered"


def test_nobody_answers_in_time(http_server: HttpServer) -> None:
    """The deadline comes from the core, and the clock from the loop."""
    with serving(http_server, asking(), config=Config(ask_timeout=0.05)) as place:
        client = Client(PUSHING[0], place).open()
        messages = (client.post(client.calling("order", loaves=2))).messages
    assert methods_of(messages) == ["elicitation/create", "notifications/cancelled", "result"]
    assert "did not answer the question 'sure' in time" in messages[-1]["error"]["message"]


# Deadlines


def test_a_reply_that_takes_long_becomes_a_stream_with_comments(http_server: HttpServer) -> None:
    registry = Registry("bakery", "1.0")
    go_on = Flag()

    @registry.tool
    async def bake() -> str:
        """Wait."""
        await go_on.wait()
        return "baked"

    with serving(http_server, registry, config=Config(keep_alive=0.02)) as place:
        client = Client(NEWEST, place)
        with client.streaming(client.calling("bake")) as stream:
            assert [stream.response.piece() for _ in range(3)] == [b":\n\n"] * 3
            go_on.set()
            assert text_of(stream.message()) == "baked"


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_call_out_of_time_is_answered_and_its_handler_cancelled(http_server: HttpServer, version: str) -> None:
    registry = Registry("bakery", "1.0")
    ended = Flag()

    @registry.tool
    async def bake() -> str:
        """Never finish."""
        try:
            await Flag().wait()
        finally:
            ended.set()
        return "never"

    with serving(http_server, registry, config=Config(call_timeout=0.05)) as place:
        client = Client(version, place).open()
        answer = client.post(client.calling("bake"))
        ended.seen()
        assert (client.post(client.message("tools/list"))).status == 200
    assert "longer than 0.05 seconds" in answer.message["error"]["message"]


def test_the_answer_does_not_wait_for_a_handler_that_takes_its_time_to_end(http_server: HttpServer) -> None:
    registry = Registry("bakery", "1.0")
    may_end, ended = Flag(), Flag()

    @registry.tool
    async def bake() -> str:
        """Clean up for as long as the test wants."""
        try:
            await Flag().wait()
        finally:
            await may_end.wait_in_cleanup()
            ended.set()
        return "never"

    with serving(http_server, registry, config=Config(call_timeout=0.05)) as place:
        client = Client(NEWEST, place)
        answer = client.post(client.calling("bake"))
        assert not ended.is_set
        may_end.set()
        ended.seen()
    assert "longer than 0.05 seconds" in answer.message["error"]["message"]


# Changes


def changing() -> Registry:
    """Tools that change what the registry holds, from the loop and from threads."""
    registry = Registry("bakery", "1.0")

    @registry.resource("bread://rye")
    def rye() -> str:
        return "rye"

    @registry.tool
    async def rename() -> None:
        """Add a tool, on the loop."""
        registry.tool(name=f"tool-{len(registry.tools)}")(lambda: "new")

    @registry.tool
    def rename_in_thread() -> None:
        """Add a tool, in a thread."""
        registry.tool(name=f"tool-{len(registry.tools)}")(lambda: "new")

    @registry.tool
    def bake_in_thread() -> None:
        """Update a resource, in a thread."""
        registry.resource_updated("bread://rye")

    return registry


CHANGES = [
    ("rename", "notifications/tools/list_changed"),
    ("rename_in_thread", "notifications/tools/list_changed"),
    ("bake_in_thread", "notifications/resources/updated"),
]


@pytest.mark.parametrize("version", RESUMING)
def test_changes_arrive_on_the_sessions_stream(http_server: HttpServer, version: str) -> None:
    with serving(http_server, changing()) as place:
        client = Client(version, place).open()
        client.post(client.message("resources/subscribe", {"uri": "bread://rye"}))
        with client.listening() as stream:
            for tool, method in CHANGES:
                client.call(tool)
                assert (stream.message())["method"] == method
            stream.leave()


@pytest.mark.parametrize("version", speak.ENVELOPE)
def test_changes_arrive_on_a_listen_request(http_server: HttpServer, version: str) -> None:
    wanted = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["bread://rye"]}}
    with serving(http_server, changing()) as place:
        client = Client(version, place)
        with client.streaming(client.message("subscriptions/listen", wanted, id=7)) as stream:
            assert (stream.message())["method"] == "notifications/subscriptions/acknowledged"
            for tool, method in CHANGES:
                client.call(tool)
                assert (stream.message())["method"] == method
            stream.leave()


# Coming back


@pytest.mark.parametrize("version", RESUMING)
def test_a_client_that_lost_its_stream_gets_the_rest(http_server: HttpServer, version: str) -> None:
    registry = Registry("bakery", "1.0")
    lost, ended = Flag(), Flag()

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Report, and go on when the client has gone."""
        await ex.progress(1)
        await lost.wait()
        await ex.progress(2)
        ended.set()
        return "baked"

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        with client.streaming(client.calling("bake", token="t")) as stream:
            assert (stream.message())["params"]["progress"] == 1
            last = stream.last_id
            stream.leave()
        lost.set()
        ended.seen()
        assert last is not None
        with client.streaming(method="GET", headers={"Last-Event-ID": last}) as again:
            messages = again.rest()
    assert messages[0]["params"]["progress"] == 2
    assert text_of(messages[1]) == "baked"


@pytest.mark.parametrize("version", PRIMING)
def test_a_response_may_end_before_its_call(http_server: HttpServer, version: str) -> None:
    """The connection serves the next request, which is the client that comes back for the rest."""
    registry = Registry("bakery", "1.0")
    came_back = Flag()

    @registry.tool(poll_after=0.01)
    async def bake(ex: Exchange) -> str:
        """Go on without a client."""
        await came_back.wait()
        return "baked"

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        with client.streaming(client.calling("bake")) as stream:
            assert stream.message() is None
        assert stream.response.keeps_alive
        with client.streaming(method="GET", headers={"Last-Event-ID": stream.last_id}) as again:
            assert again.response.status == 200
            came_back.set()
            assert text_of(again.message()) == "baked"
        assert again.response.connection is stream.response.connection


@pytest.mark.parametrize("version", PRIMING)
def test_a_stream_that_is_read_elsewhere_ends_here(http_server: HttpServer, version: str) -> None:
    """The connection that it was on is ended too, since it could not serve another request before the call is over."""
    registry = Registry("bakery", "1.0")
    came_back = Flag()

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Report, and wait."""
        await ex.progress(1)
        await came_back.wait()
        return "baked"

    with serving(http_server, registry) as place:
        client = Client(version, place).open()
        with client.streaming(client.calling("bake", token="t")) as stream:
            assert (stream.message())["params"]["progress"] == 1
            with client.streaming(method="GET", headers={"Last-Event-ID": stream.last_id}) as again:
                assert stream.message() is None
                assert (client.post(client.message("tools/list"))).status == 200
                came_back.set()
                assert text_of(again.message()) == "baked"

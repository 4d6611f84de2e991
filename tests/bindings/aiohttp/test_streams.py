"""Responses that are streams: what precedes a result, questions, changes, coming back, deadlines."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

import speak
from mcp_sansio import AdapterSet, Config, Exchange, Registry, elicit
from mcp_sansio.wire.json import encode
from sockets import Client, Endpoint, serving, text_of, web

ADAPTERS = AdapterSet.default().by_version
NEWEST = speak.VERSIONS[0]
PUSHING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].can_push_ask)
RESUMING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].resumes_streams)
PRIMING = tuple(version for version in speak.VERSIONS if ADAPTERS[version].primes_streams)


def methods_of(messages: list[Any]) -> list[str]:
    return [message.get("method", "result") for message in messages]


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_progress_comes_before_the_result_while_the_call_runs(version: str) -> None:
    registry = Registry("bakery", "1.0")
    go_on = asyncio.Event()

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Report, wait, report."""
        await ex.progress(1, 2)
        await go_on.wait()
        await ex.progress(2, 2)
        return "baked"

    async with serving(Endpoint(registry).app()) as site:
        client = await Client(version, site).open()
        async with client.streaming(client.calling("bake", token="t")) as stream:
            first = await stream.message()
            go_on.set()
            rest = await stream.rest()
        assert stream.response.headers["Content-Type"] == "text/event-stream"
    assert [first["params"]["progress"], rest[0]["params"]["progress"], text_of(rest[1])] == [1, 2, "baked"]


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_handler_is_held_back_by_a_client_that_does_not_read(version: str) -> None:
    """It goes on when the client has read, and everything arrives."""
    registry = Registry("bakery", "1.0")
    said: list[int] = []

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Say much more than any buffer between the two holds."""
        for number in range(200):
            await ex.log("info", [number, "x" * 2**18])
            said.append(number)
        return "baked"

    async with serving(Endpoint(registry).app()) as site:
        client = await Client(version, site).open()
        client.log_level = "info"
        if client.adapter.has_handshake:
            await client.post(client.message("logging/setLevel", {"level": "info"}))
        async with client.streaming(client.calling("bake")) as stream:
            await stream.message()
            held_back = len(said)
            messages = await stream.rest()
    assert held_back < 200
    assert [message["params"]["data"][0] for message in messages[:-1]] == list(range(1, 200))
    assert text_of(messages[-1]) == "baked"


@pytest.mark.parametrize("version", PUSHING)
async def test_a_call_is_given_up_while_its_client_does_not_read(version: str) -> None:
    """Only the writing waits for the client."""
    registry = Registry("bakery", "1.0")
    cancelled = asyncio.Event()
    said: list[int] = []

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Talk without end."""
        try:
            while True:
                await ex.log("info", "x" * 2**18)
                said.append(len(said))
                await asyncio.sleep(0)
        finally:
            cancelled.set()

    async def held_back() -> None:
        """Return once nothing more was said for many turns of the loop."""
        before = 0
        while before < len(said) or not said:
            before = len(said)
            for _ in range(200):
                await asyncio.sleep(0)

    async with serving(Endpoint(registry, config=Config(keep_alive=3600.0)).app()) as site:
        client = await Client(version, site).open()
        await client.post(client.message("logging/setLevel", {"level": "info"}))
        with socket.create_connection(site.runner.addresses[0][:2]) as mute:
            body = encode(client.calling("bake", id=5))
            headers = {**client.headers(), "Host": "localhost", "Content-Length": str(len(body))}
            lines = ["POST /mcp HTTP/1.1", *map(": ".join, headers.items()), "", ""]
            mute.sendall("\r\n".join(lines).encode() + body)
            await held_back()
            assert not cancelled.is_set()
            await client.post(speak.notification("notifications/cancelled", {"requestId": 5}))
            await cancelled.wait()


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
async def test_a_pushed_question_is_answered_by_another_request(version: str) -> None:
    async with serving(Endpoint(asking()).app()) as site:
        client = await Client(version, site).open()
        async with client.streaming(client.calling("order", loaves=2)) as stream:
            question = await stream.message()
            reply = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {}}}
            assert (await client.post(reply)).status == 202
            answer = await stream.message()
            assert await stream.message() is None
    assert (question["method"], text_of(answer)) == ("elicitation/create", "2 ordered")


@pytest.mark.parametrize("version", speak.ENVELOPE)
async def test_a_question_is_the_result_where_the_revision_has_it_so(version: str) -> None:
    async with serving(Endpoint(asking()).app()) as site:
        client = Client(version, site)
        asked = await client.post(client.calling("order", loaves=2))
        again = client.calling("order", loaves=2)
        again["params"]["inputResponses"] = {"sure": {"action": "accept", "content": {}}}
        answered = await client.post(again)
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.message["result"]["inputRequests"]["sure"]["method"] == "elicitation/create"
    assert text_of(answered.message) == "2 ordered"


async def test_nobody_answers_in_time() -> None:
    """The deadline comes from the core, and the clock from the loop."""
    async with serving(Endpoint(asking(), config=Config(ask_timeout=0.05)).app()) as site:
        client = await Client(PUSHING[0], site).open()
        messages = (await client.post(client.calling("order", loaves=2))).messages
    assert methods_of(messages) == ["elicitation/create", "notifications/cancelled", "result"]
    assert "did not answer the question 'sure' in time" in messages[-1]["error"]["message"]


# Deadlines


async def test_a_reply_that_takes_long_becomes_a_stream_with_comments() -> None:
    registry = Registry("bakery", "1.0")
    go_on = asyncio.Event()

    @registry.tool
    async def bake() -> str:
        """Wait."""
        await go_on.wait()
        return "baked"

    async with serving(Endpoint(registry, config=Config(keep_alive=0.02)).app()) as site:
        client = Client(NEWEST, site)
        async with client.streaming(client.calling("bake")) as stream:
            content = stream.response.content
            assert [await content.readuntil(b"\n\n") for _ in range(3)] == [b":\n\n"] * 3
            go_on.set()
            assert text_of(await stream.message()) == "baked"


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_a_call_out_of_time_is_answered_and_its_handler_cancelled(version: str) -> None:
    registry = Registry("bakery", "1.0")
    ended = asyncio.Event()

    @registry.tool
    async def bake() -> str:
        """Never finish."""
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with serving(Endpoint(registry, config=Config(call_timeout=0.05)).app()) as site:
        client = await Client(version, site).open()
        answer = await client.post(client.calling("bake"))
        await ended.wait()
        assert (await client.post(client.message("tools/list"))).status == 200
    assert "longer than 0.05 seconds" in answer.message["error"]["message"]


async def test_the_answer_does_not_wait_for_a_handler_that_takes_its_time_to_end() -> None:
    registry = Registry("bakery", "1.0")
    may_end, ended = asyncio.Event(), asyncio.Event()

    @registry.tool
    async def bake() -> str:
        """Clean up for as long as the test wants."""
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
            ended.set()
        return "never"

    async with serving(Endpoint(registry, config=Config(call_timeout=0.05)).app()) as site:
        client = Client(NEWEST, site)
        answer = await client.post(client.calling("bake"))
        assert not ended.is_set()
        may_end.set()
        await ended.wait()
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
async def test_changes_arrive_on_the_sessions_stream(version: str) -> None:
    async with serving(Endpoint(changing()).app()) as site:
        client = await Client(version, site).open()
        await client.post(client.message("resources/subscribe", {"uri": "bread://rye"}))
        async with client.listening() as stream:
            for tool, method in CHANGES:
                await client.call(tool)
                assert (await stream.message())["method"] == method
            stream.leave()


@pytest.mark.parametrize("version", speak.ENVELOPE)
async def test_changes_arrive_on_a_listen_request(version: str) -> None:
    wanted = {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["bread://rye"]}}
    async with serving(Endpoint(changing()).app()) as site:
        client = Client(version, site)
        async with client.streaming(client.message("subscriptions/listen", wanted, id=7)) as stream:
            assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
            for tool, method in CHANGES:
                await client.call(tool)
                assert (await stream.message())["method"] == method
            stream.leave()


# Coming back


@pytest.mark.parametrize("version", RESUMING)
async def test_a_client_that_lost_its_stream_gets_the_rest(version: str) -> None:
    registry = Registry("bakery", "1.0")
    lost, ended = asyncio.Event(), asyncio.Event()

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Report, and go on when the client has gone."""
        await ex.progress(1)
        await lost.wait()
        await ex.progress(2)
        ended.set()
        return "baked"

    async with serving(Endpoint(registry).app()) as site:
        client = await Client(version, site).open()
        async with client.streaming(client.calling("bake", token="t")) as stream:
            assert (await stream.message())["params"]["progress"] == 1
            last = stream.last_id
            stream.leave()
        lost.set()
        await ended.wait()
        assert last is not None
        async with client.streaming(method="GET", headers={"Last-Event-ID": last}) as again:
            messages = await again.rest()
    assert messages[0]["params"]["progress"] == 2
    assert text_of(messages[1]) == "baked"


@pytest.mark.parametrize("version", PRIMING)
async def test_a_response_may_end_before_its_call(version: str) -> None:
    """The connection serves the next request, which is the client that comes back for the rest."""
    registry = Registry("bakery", "1.0")
    came_back = asyncio.Event()
    peers = []

    @registry.tool(poll_after=0.01)
    async def bake(ex: Exchange) -> str:
        """Go on without a client."""
        peers.append(ex.request.transport.get_extra_info("peername"))
        await came_back.wait()
        return "baked"

    @web.middleware
    async def note(request: web.Request, handler: Any) -> web.StreamResponse:
        if request.method == "GET":
            assert request.transport is not None
            peers.append(request.transport.get_extra_info("peername"))
        response: web.StreamResponse = await handler(request)
        return response

    app = web.Application(middlewares=[note])
    Endpoint(registry).setup(app)
    async with serving(app) as site:
        client = await Client(version, site).open()
        async with client.streaming(client.calling("bake")) as stream:
            assert await stream.message() is None
        headers = {"Last-Event-ID": stream.last_id}
        async with client.streaming(method="GET", headers=headers) as again:
            assert again.response.status == 200
            came_back.set()
            assert text_of(await again.message()) == "baked"
    assert (len(peers), len(set(peers))) == (2, 1)


@pytest.mark.parametrize("version", PRIMING)
async def test_a_stream_that_is_read_elsewhere_ends_here(version: str) -> None:
    """The connection that it was on is ended too, since it could not serve another request before the call is over."""
    registry = Registry("bakery", "1.0")
    came_back = asyncio.Event()

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Report, and wait."""
        await ex.progress(1)
        await came_back.wait()
        return "baked"

    async with serving(Endpoint(registry).app()) as site:
        client = await Client(version, site).open()
        async with client.streaming(client.calling("bake", token="t")) as stream:
            assert (await stream.message())["params"]["progress"] == 1
            async with client.streaming(method="GET", headers={"Last-Event-ID": stream.last_id}) as again:
                assert await stream.message() is None
                assert (await client.post(client.message("tools/list"))).status == 200
                came_back.set()
                assert text_of(await again.message()) == "baked"

"""What is served and where: whole responses, paths, methods, many requests."""

from __future__ import annotations

import pytest

import speak
from flags import Flag, turn
from hosting import serving
from mcp_sansio import Exchange, Registry
from plugs import HttpServer
from talk import Client, text_of

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
@pytest.mark.wants("waiting")
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

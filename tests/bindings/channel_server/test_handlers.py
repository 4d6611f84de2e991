"""How handlers run: at once, in threads, until they are cancelled or out of time."""

from __future__ import annotations

import threading

from flags import Flag
from lines import served, text_of
from mcp_sansio import Config, Registry
from plugs import ChannelServer


def test_many_calls_are_in_flight_at_once(channel_server: ChannelServer) -> None:
    registry = Registry("handlers", "1")
    all_here = Flag()
    waiting: list[None] = []

    @registry.tool
    async def meet() -> str:
        waiting.append(None)
        if len(waiting) == 200:
            all_here.set()
        await all_here.wait()
        return "met"

    with served(channel_server, registry) as client:
        call = client.speaker.message("tools/call", {"name": "meet", "arguments": {}})
        client.send(*({**call, "id": number} for number in range(200)))
        replies = [client.receive() for _ in range(200)]
    assert {text_of(reply) for reply in replies} == {"met"}
    assert sorted(reply["id"] for reply in replies) == [*range(200)]


def test_a_call_out_of_time_is_answered_and_its_handler_cancelled(channel_server: ChannelServer) -> None:
    registry = Registry("handlers", "1")
    cancelled = Flag()

    @registry.tool
    async def wait() -> str:
        try:
            await Flag().wait()
        finally:
            cancelled.set()
        return "never"

    with served(channel_server, registry, config=Config(call_timeout=0.05)) as client:
        for number in (1, 2):
            error = client.call("wait", id=number)["error"]
            assert error == {"code": -32603, "message": "the call took longer than 0.05 seconds"}
            cancelled.seen()
            cancelled.clear()


def test_plain_functions_run_side_by_side(channel_server: ChannelServer) -> None:
    registry = Registry("handlers", "1")
    barrier = threading.Barrier(20)

    @registry.tool
    def meet() -> str:
        barrier.wait(60)
        return "met"

    with served(channel_server, registry) as client:
        call = client.speaker.message("tools/call", {"name": "meet", "arguments": {}})
        client.send(*({**call, "id": number} for number in range(20)))
        assert {text_of(client.receive()) for _ in range(20)} == {"met"}

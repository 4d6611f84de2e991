"""`serve_stdio` on asyncio: a server that is shared, files, what is left. The rest is in the suite of all bindings."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import speak
import support
from mcp_sansio import Registry, Runtime, Server

serve_stdio = support.need("mcp_sansio_stdio").serve_stdio

NEWEST_HANDSHAKE = speak.HANDSHAKE[0]
Serve = Callable[..., Any]


@pytest.fixture
def registry() -> Registry:
    """With a tool that answers."""
    made = Registry("streams", "1")

    @made.tool
    async def echo(text: str) -> str:
        return text

    return made


def text_of(message: Any) -> Any:
    """The text that a tool gave."""
    return message["result"]["content"][0]["text"]


class TestTheEnd:
    async def test_leaves_no_thread_and_no_task(self, served: Serve, registry: Registry) -> None:
        @registry.tool
        def in_a_thread() -> int:
            return threading.get_ident()

        before = {*threading.enumerate()}
        tasks = asyncio.all_tasks()
        async with served(registry, kind="terminal") as client:
            assert text_of(await client.call("in_a_thread")) != str(threading.get_ident())
            started = {*threading.enumerate()} - before
            assert started
        for thread in started:
            thread.join(60)
        assert ({*threading.enumerate()} - before, asyncio.all_tasks() - tasks) == (set(), set())


class TestWhatIsServed:
    async def test_two_clients_of_one_server(self, served: Serve, registry: Registry) -> None:
        loop = asyncio.get_running_loop()
        runtime = Runtime(now=loop.time, token_bytes=os.urandom, event=asyncio.Event, run_sync=asyncio.to_thread)
        server = Server(registry, runtime=runtime)
        async with served(server, version=NEWEST_HANDSHAKE) as a, served(server, version=NEWEST_HANDSHAKE) as b:
            for client in (a, b):
                await client.send(client.speaker.message("ping"))
                assert (await client.receive())["result"] == {}
            registry.remove_tool("echo")
            changed = speak.notification("notifications/tools/list_changed")
            assert [await a.receive(), await b.receive()] == [changed, changed]

    async def test_files_are_served_by_their_descriptors(self, registry: Registry) -> None:
        source, output = os.pipe()
        input, sink = os.pipe()
        with open(source, "rb", 0) as reading, open(sink, "wb", 0) as writing:
            os.write(output, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            os.close(output)
            await asyncio.wait_for(serve_stdio(registry, reading, writing), 60)
            assert (reading.closed, writing.closed) == (False, False)
        with open(input, "rb") as replies:
            assert json.loads(replies.read())["id"] == 1

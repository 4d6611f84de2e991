"""`serve_stdio` on asyncio: a server that is shared, files, what is left. The rest is in the suite of all bindings."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import speak
import support
from lines import ENDS, End, text_of
from mcp_sansio import Registry, Runtime, Server

serve_stdio = support.need("mcp_sansio_stdio").serve_stdio

Ask = Callable[[Callable[[End], Any]], Awaitable[Any]]


@asynccontextmanager
async def serving(served: Registry | Server, kind: str = "pipe") -> AsyncIterator[Ask]:
    """Serve on this very loop; what is given runs what the client is to do, which blocks, in a thread of its own."""
    client = End(speak.HANDSHAKE[0])
    source, client.output, client.input, sink = ends = ENDS[kind]()
    task = asyncio.ensure_future(serve_stdio(served, source, sink))
    with ThreadPoolExecutor(1) as pool:

        async def ask(work: Callable[[End], Any]) -> Any:
            return await asyncio.get_running_loop().run_in_executor(pool, work, client)

        try:
            await ask(End.shake_hands)
            yield ask
        finally:
            task.cancel()
            await asyncio.wait([task])
    for end in ends:
        os.close(end)


class TestTheEnd:
    async def test_leaves_no_thread_and_no_task(self, registry: Registry) -> None:
        @registry.tool
        def in_a_thread() -> int:
            return threading.get_ident()

        before = {*threading.enumerate()}
        tasks = asyncio.all_tasks()
        async with serving(registry, kind="terminal") as ask:
            assert text_of(await ask(lambda client: client.call("in_a_thread"))) != str(threading.get_ident())
        for thread in {*threading.enumerate()} - before:
            thread.join(60)
        assert ({*threading.enumerate()} - before, asyncio.all_tasks() - tasks) == (set(), set())


class TestWhatIsServed:
    async def test_two_clients_of_one_server(self, registry: Registry) -> None:
        loop = asyncio.get_running_loop()
        runtime = Runtime(now=loop.time, token_bytes=os.urandom, event=asyncio.Event, run_sync=asyncio.to_thread)
        server = Server(registry, runtime=runtime)
        async with serving(server) as a, serving(server) as b:
            for ask in (a, b):
                assert (await ask(lambda client: client.request("ping")))["result"] == {}
            registry.remove_tool("echo")
            changed = speak.notification("notifications/tools/list_changed")
            assert [await a(End.receive), await b(End.receive)] == [changed, changed]

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

"""`serve_stdio` on descriptors within this process: every kind of stream, clients that are slow, and its end."""

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
from mcp_sansio import Config, Exchange, Registry, Runtime, Server

serve_stdio = support.need("mcp_sansio_stdio").serve_stdio

#: A pipe cannot be opened a second time everywhere, and not by everybody.
ONCE = "pipe that opens once"
KINDS = ["pipe", ONCE, "socket", "terminal"]
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


async def settled(value: Callable[[], int]) -> int:
    """`value` once it is above zero and does not change any more, however often the loop turns."""
    before = -1
    while before != value() or not value():
        before = value()
        for _ in range(300):
            await asyncio.sleep(0)
    return before


def refuse(path: Any, *more: Any) -> int:
    """What ``os.open`` says then."""
    raise PermissionError(13, "Permission denied", path)


@pytest.mark.parametrize("kind", KINDS)
class TestEachKindOfStream:
    @pytest.fixture(autouse=True)
    def system(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where a pipe cannot be opened again, if that is the kind."""
        if kind == ONCE:
            monkeypatch.setattr(os, "open", refuse)

    async def test_long_lines_and_short_writes(self, served: Serve, registry: Registry, kind: str) -> None:
        text = "né🌍漢" * 20_000
        async with served(registry, kind=kind) as client:
            assert text_of(await client.call("echo", {"text": text})) == text
            message = client.speaker.message("tools/call", {"name": "echo", "arguments": {"text": text[:4]}})
            for byte in json.dumps(message, ensure_ascii=False).encode() + b"\n":
                await client.write(bytes([byte]))
            assert text_of(await client.receive()) == text[:4]

    async def test_the_descriptors_are_left_as_they_were(self, served: Serve, registry: Registry, kind: str) -> None:
        """O_NONBLOCK would reach whoever shares the terminal or the socket."""
        async with served(registry, kind=kind) as client:
            assert len(text_of(await client.call("echo", {"text": "a" * 10**6}))) == 10**6
            assert [os.get_blocking(client.source), os.get_blocking(client.sink)] == [True, True]
            client.task.cancel()
            await asyncio.wait([client.task])
            assert [os.get_blocking(client.source), os.get_blocking(client.sink)] == [True, True]
            assert os.write(client.sink, b"still open\n") == 11
            assert await client.read_line() == b"still open"

    async def test_a_client_that_reads_nothing_costs_little(self, served: Serve, registry: Registry, kind: str) -> None:
        """What a handler has to say waits until the client reads, and the loop turns meanwhile."""
        sent = 0

        @registry.tool
        async def flood(ex: Exchange) -> str:
            nonlocal sent
            for _ in range(5000):
                await ex.log("error", "x" * 1000)
                sent += 1
            return "done"

        options: dict[str, Any] = {"config": Config(max_unsent=50_000), "version": NEWEST_HANDSHAKE}
        async with served(registry, kind=kind, **options) as client:
            await client.send(client.speaker.message("logging/setLevel", {"level": "debug"}))
            assert (await client.receive())["result"] == {}
            await client.start("flood", id="f")
            assert await settled(lambda: sent) < 2000
            messages = [await client.receive() for _ in range(5001)]
            assert [message["method"] for message in messages[:-1]] == ["notifications/message"] * 5000
            assert (messages[-1]["id"], text_of(messages[-1])) == ("f", "done")

    async def test_a_client_that_writes_without_reading_has_to_wait(
        self, served: Serve, registry: Registry, kind: str
    ) -> None:
        """Neither requests nor replies pile up; as soon as it reads, all are answered."""
        async with served(registry, kind=kind, config=Config(max_message=50_000)) as client:
            line = json.dumps(client.speaker.message("tools/list", {"_meta": {"padding": "x" * 2000}})).encode() + b"\n"
            writing = asyncio.ensure_future(client.write(line * 4000))
            assert await settled(lambda: client.written) < 4_000_000 < len(line * 4000)
            assert not writing.done()
            for _ in range(4000):
                assert b'"tools":[' in await client.read_line()
            await writing

    async def test_a_client_may_write_much_before_it_reads(self, served: Serve, registry: Registry, kind: str) -> None:
        """Far more than the streams hold: otherwise each side would wait for the other to read."""
        async with served(registry, kind=kind) as client:
            message = client.speaker.message("tools/call", {"name": "echo", "arguments": {"text": "x" * 1000}})
            await client.write((json.dumps(message) + "\n").encode() * 2000)
            for _ in range(2000):
                assert b'"isError"' not in await client.read_line()


class TestTheEnd:
    @pytest.mark.parametrize("kind", ["pipe", "socket"])
    async def test_with_the_input(self, served: Serve, registry: Registry, kind: str) -> None:
        async with served(registry, kind=kind) as client:
            await client.start("echo", {"text": "a"})
            client.hang_up()
            await asyncio.wait_for(client.task, 60)
            assert text_of(await client.receive()) == "a"

    async def test_a_reply_that_is_made_is_written_to_a_slow_client(self, served: Serve, registry: Registry) -> None:
        """However little it reads at a time, as long as it reads."""
        text = "x" * 10**6
        async with served(registry) as client:
            await client.start("echo", {"text": text})
            client.hang_up()
            assert text_of(await client.receive()) == text
            assert await asyncio.wait_for(client.task, 60) is None

    async def test_by_cancellation(self, served: Serve, registry: Registry) -> None:
        ends: list[str] = []

        @registry.tool
        async def wait() -> str:
            ends.append("begun")
            try:
                await asyncio.Event().wait()
            finally:
                ends.append("cancelled")
            return "never"

        async with served(registry) as client:
            await client.start("wait")
            await settled(lambda: len(ends))
            client.task.cancel()
            await asyncio.wait([client.task])
            assert (client.task.cancelled(), ends) == (True, ["begun", "cancelled"])

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

    async def test_a_server_takes_no_options(self, registry: Registry) -> None:
        runtime = Runtime(now=lambda: 0.0, token_bytes=os.urandom, event=asyncio.Event)
        with pytest.raises(TypeError) as raised:
            await serve_stdio(Server(registry, runtime=runtime), 0, 1, config=Config())
        assert str(raised.value) == "a Server has its options already; config cannot be given beside one"

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

    async def test_a_client_at_fault_is_logged_for_those_who_debug(
        self, served: Serve, registry: Registry, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG", "mcp_sansio_stdio")
        async with served(registry) as client:
            await client.send(b"[]\n")
            message = (await client.receive())["error"]["message"]
        assert caplog.messages == [f"the client is at fault: {message}"]

    async def test_what_is_no_open_descriptor(self, registry: Registry) -> None:
        source, sink = os.pipe()
        os.close(sink)
        with pytest.raises(OSError, match="Bad file descriptor"):
            await serve_stdio(registry, source, sink)
        os.close(source)

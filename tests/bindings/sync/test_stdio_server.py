"""The server on standard input and output without an event loop: what wakes its one thread, what it loads, its end."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

import promise
import speak
import support
from child_servers import PACKAGES
from flags import PATIENCE, Flag
from lines import Served, served, text_of
from mcp_sansio import AdapterSet, DeclarationError, Registry, Runtime, Server
from mcp_sansio.stepping import Event, run_outside
from mcp_sansio.testing import every_revision
from plugs.sync import SyncStdioServer

sync = support.need("mcp_sansio_sync")
StdioClient = support.need("mcp_sansio_stdio").StdioClient

PLUG = SyncStdioServer()
PIPES: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@contextmanager
def on_one_socket(registry: Registry, **options: Any) -> Iterator[tuple[Served, Callable[[], None]]]:
    """A server whose source and sink are one descriptor, its client, and what ends it."""
    ours, theirs = socket.socketpair()
    stops: list[Callable[[], None]] = []
    begun = Flag()

    def ready(stop: Callable[[], None]) -> None:
        stops.append(stop)
        begun.set()

    thread = threading.Thread(
        target=sync.serve_stdio, args=(registry, theirs, theirs), kwargs={"ready": ready, **options}
    )
    thread.start()
    client = Served(speak.HANDSHAKE[0])
    client.input = client.output = ours.fileno()
    begun.seen()
    with ours, theirs:
        yield client, stops[0]
        stops[0]()
        thread.join(PATIENCE)
        assert not thread.is_alive()


class TestTheThread:
    def test_it_is_woken_by_what_another_thread_announces(self, registry: Registry) -> None:
        @registry.resource("note://{name}")
        async def note(name: str) -> str:
            """Read it."""
            return name

        with served(PLUG, registry, version=speak.HANDSHAKE[0]) as client:
            assert client.request("resources/subscribe", {"uri": "note://a"})["result"] == {}
            registry.resource_updated("note://a")  # this thread is another one than the server's
            assert client.receive()["params"]["uri"] == "note://a"

    def test_it_answers_while_a_plain_function_blocks(self, registry: Registry) -> None:
        begun, go_on = Flag(), Flag()

        @registry.tool
        def block() -> int:
            """Wait in a thread."""
            begun.set()
            go_on.seen()
            return threading.get_ident()

        with served(PLUG, registry, version=speak.HANDSHAKE[0]) as client:
            client.begin("block", id="b")
            begun.seen()
            assert client.request("ping", id="p") == {"jsonrpc": "2.0", "id": "p", "result": {}}
            go_on.set()
            assert client.receive()["id"] == "b"

    def test_an_async_handler_runs_in_it_and_one_that_is_not_to_have_a_thread(self, registry: Registry) -> None:
        @registry.tool
        async def here() -> int:
            """Say where it runs."""
            return threading.get_ident()

        @registry.tool(blocking=False)
        def there() -> int:
            """Say where it runs."""
            return threading.get_ident()

        with served(PLUG, registry) as client:
            first, second = (text_of(client.call(tool)) for tool in ("here", "there"))
        assert first == second != str(threading.get_ident())

    def test_a_descriptor_may_be_both_source_and_sink_of_a_client_that_is_slow(self, registry: Registry) -> None:
        text = "x" * 2_000_000  # more than a socket holds
        with on_one_socket(registry) as (client, _):
            client.shake_hands()
            for number in range(3):
                client.begin("echo", {"text": text}, id=number)
            assert [text_of(client.receive()) == text for _ in range(3)] == [True] * 3

    @pytest.mark.parametrize("kind", ["pipe", "socket"])
    def test_where_nothing_can_be_polled_threads_read(
        self, registry: Registry, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As on Windows."""
        monkeypatch.delattr(select, "poll")

        @registry.tool
        def plain() -> str:
            """Run in a thread, too."""
            return "said"

        with served(PLUG, registry, kind=kind) as client:
            for text in "ab":
                assert text_of(client.call("echo", {"text": text})) == text
            assert text_of(client.call("plain")) == "said"
            client.hang_up()
            assert client.ends(PATIENCE)


class TestHandlersThatWait:
    @staticmethod
    async def sleepy() -> str:
        """Wait for what nobody brings about."""
        await asyncio.sleep(0)
        return "never"

    def test_one_that_can_be_seen_to_is_refused_before_anything_is_served(self, registry: Registry) -> None:
        registry.tool(self.sleepy)
        with pytest.raises(DeclarationError, match=r"'sleepy' awaits asyncio\.sleep\(0\)"):
            sync.run_stdio(registry)
        with pytest.raises(DeclarationError, match="there is no event loop here"):
            sync.serve_stdio(registry, 0, 1)

    def test_one_that_hides_it_fails_alone(self, registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
        @registry.tool
        async def hidden() -> str:
            """Wait for what nobody brings about."""
            await self.sleepy()
            return "never"

        with served(PLUG, registry) as client:
            assert client.call("hidden")["result"]["isError"] is True
            assert text_of(client.call("echo", {"text": "next"})) == "next"
        assert "this waits for what an event loop brings about" in caplog.text


class TestTheEnd:
    @pytest.mark.skipif(not speak.ENVELOPE, reason="the revision is deleted")
    def test_who_listens_is_told_by_a_server_that_is_ended_from_another_thread(self, registry: Registry) -> None:
        with on_one_socket(registry) as (client, stop):
            client.speaker = speak.Speaker(speak.ENVELOPE[0], Registry("a client", "1"))
            heard = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
            assert heard["method"] == "notifications/subscriptions/acknowledged"
            stop()
            assert client.receive()["id"] == "s"

    def test_a_server_that_others_share_goes_on(self, registry: Registry) -> None:
        lent: Any = {"event": Event, "run_sync": run_outside}
        server = Server(registry, runtime=Runtime(now=lambda: 0.0, token_bytes=os.urandom, **lent))
        for _ in range(2):
            with served(PLUG, server) as client:
                assert text_of(client.call("echo", {"text": "a"})) == "a"
        assert not server.closing

    def test_it_may_be_ended_when_it_has_ended(self, registry: Registry) -> None:
        with on_one_socket(registry) as (client, stop):
            client.shake_hands()
            stop()
        stop()

    def test_an_interrupt_comes_out_of_it_and_cancels_what_runs(self) -> None:
        code = (
            "import os, mcp_sansio_sync\nfrom mcp_sansio import Exchange, Registry\nregistry = Registry('x', '1')\n"
            "@registry.tool\nasync def wait(ex: Exchange) -> str:\n    try:\n"
            "        os.write(2, b'begun\\n')\n        await ex.wait_cancelled()\n"
            "    finally: os.write(2, b'cancelled\\n')\n"
            "try: mcp_sansio_sync.serve_stdio(registry, 0, 1)\n"
            "except KeyboardInterrupt: os.write(2, b'interrupted\\n')\n"
        )
        call = speak.Speaker(speak.VERSIONS[0], Registry("a client", "1")).message("tools/call", {"name": "wait"}, id=1)
        # A shell starts what it runs in the background with SIGINT ignored, and that may be these tests.
        code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
        with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **PACKAGES}, **PIPES) as process:
            process.stdin.write(speak.wire(call) + b"\n")
            process.stdin.flush()
            assert process.stderr.readline() == b"begun\n"
            process.send_signal(signal.SIGINT)
            assert (process.wait(PATIENCE), process.stderr.read()) == (0, b"cancelled\ninterrupted\n")


SERVER = """
import sys
from mcp_sansio import Registry
from mcp_sansio_sync import run_stdio

registry = Registry("server", "1.0")

@registry.tool
async def add(a: int, b: int = 2) -> str:
    return str(a + b)

@registry.tool
def plain() -> str:
    return "said"

run_stdio(registry)
print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""


def test_it_loads_no_event_loop_and_nothing_of_http() -> None:
    speaker = speak.Speaker(speak.VERSIONS[0], Registry("a client", "1"))
    calls = [
        speaker.message("tools/call", {"name": name, "arguments": given}, id=name)
        for name, given in (("add", {"a": 1}), ("plain", {}))
    ]
    given = b"".join(speak.wire(call) + b"\n" for call in calls)
    done = subprocess.run(
        [sys.executable, "-c", SERVER], input=given, capture_output=True, check=True, env={**os.environ, **PACKAGES}
    )
    assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == {"add", "plain"}
    loaded = set(done.stderr.decode().split())
    assert {"mcp_sansio_sync", "mcp_sansio_stdio"} <= loaded
    assert loaded & {"asyncio", "ssl", "urllib3", "concurrent", "http", "subprocess", "trio"} == set()


@pytest.mark.parametrize("revision", every_revision)
async def test_the_promise_is_kept(revision: str) -> None:
    """See tests/_support/promise.py."""
    adapter = AdapterSet.default().by_version[revision]
    program = [promise.__file__, "mcp_sansio_sync"]
    await promise.keep(partial(StdioClient, sys.executable, program, env=PACKAGES, adapter=adapter), revision)

"""Standard input and output on trio: scopes, cancellation, plain errors, and that nothing of a process is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

import speak
import support
from child_servers import PACKAGES, PRELUDE, has_ended, text_of
from flags import Flag
from mcp_sansio import AdapterSet, CallTimeout, ClientConfig, ConnectionLost, LocalProtocolError, Registry
from on_trio import on_trio
from trio_wire import kitchen

trio = support.need("trio")
binding = support.need("mcp_sansio_trio")
NEWEST = speak.VERSIONS[0]
#: It says what numbers it and its child have, and does not end by itself, nor by a signal that asks for it.
STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import signal, time; signal.pause()"])
text(request(), f"{os.getpid()} {child.pid}")
while True:
    sys.stdin.readline() or signal.pause()
"""


def script(code: str, **options: Any) -> Any:
    """A client of a process that runs `code` after the prelude."""
    return binding.StdioClient(sys.executable, ["-S", "-c", PRELUDE + code], **options)


class TestTheClient:
    @on_trio
    async def test_a_block_that_is_cancelled_leaves_nothing_of_a_stubborn_server(self) -> None:
        with trio.CancelScope() as scope:
            async with script(STUBBORN, grace=0.2) as client:
                result = await client.call_tool("any")
                scope.cancel()
                await client.call_tool("another")
        assert scope.cancelled_caught
        assert all(has_ended(int(number)) for number in text_of(result).split())

    @on_trio
    async def test_a_call_that_is_cancelled_touches_no_other(self) -> None:
        code = "first, second = request(), request(); heard = hear(); text(second, heard['method'])"
        async with script(code, known=None, adapter=AdapterSet.default().by_version["2025-11-25"]) as client:
            async with trio.open_nursery() as nursery:
                results: list[Any] = []

                async def call() -> None:
                    results.append(await client.call_tool("second"))

                await client.initialize()  # which waits for the process to start
                with trio.move_on_after(0.2) as scope:
                    nursery.start_soon(call)
                    await client.call_tool("first")
                assert scope.cancelled_caught
            assert results[0].content[0].text == "notifications/cancelled"

    @pytest.mark.parametrize("error", [ValueError("mine"), ExceptionGroup("mine", [ValueError("one")])])
    @on_trio
    async def test_what_the_block_raises_comes_out_as_it_is(self, error: Exception) -> None:
        async def fail() -> None:
            async with script("text(request(), 'ok'); hear()") as client:
                await client.call_tool("any")
                raise error

        with pytest.raises(type(error)) as raised:
            await fail()
        assert raised.value is error

    @on_trio
    async def test_what_cannot_be_started_comes_out_as_it_is(self) -> None:
        with pytest.raises(ConnectionLost, match="no such command"):
            async with binding.StdioClient("no-such-command"):
                pass

    @on_trio
    async def test_what_dies_says_so(self) -> None:
        with pytest.raises(ConnectionLost, match=r"(?s)exited with status 3; its error output ends with:.the end"):
            async with script("request(); sys.stderr.write('the end'); sys.exit(3)") as client:
                await client.call_tool("any")

    @on_trio
    async def test_it_is_used_within_its_block(self) -> None:
        client = script("hear()")
        with pytest.raises(LocalProtocolError, match="async with"):
            await client.open()
        with pytest.raises(LocalProtocolError, match="async with"):
            await client.initialize()
        async with client:
            await client.close()
            with pytest.raises(ConnectionLost, match="closed"):
                await client.initialize()
        with pytest.raises(LocalProtocolError, match="opened once"):
            async with client:
                pass

    @on_trio
    async def test_a_server_that_is_silent_is_waited_for_no_longer_than_told(self) -> None:
        config = ClientConfig(timeout=0.2, probe_timeout=0.1)
        async with script("time.sleep(60)", config=config, grace=0.1) as client:
            with pytest.raises(CallTimeout):
                await client.call_tool("any")


class TestTheServer:
    @staticmethod
    def registry(begun: Flag, given_up: Flag) -> Registry:
        registry = Registry("patience", "1")

        @registry.tool
        async def wait() -> str:
            """Wait to be given up."""
            begun.set()
            try:
                await trio.sleep_forever()
            finally:
                given_up.set()

        return registry

    @on_trio
    async def test_serving_that_is_cancelled_cancels_its_calls_and_no_descriptor(self) -> None:
        begun, given_up = Flag(), Flag()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(binding.serve_stdio, self.registry(begun, given_up), theirs, theirs)
                ours.sendall(_call())
                await begun.wait()
                nursery.cancel_scope.cancel()
            assert given_up.is_set
            assert theirs.fileno() >= 0

    @on_trio
    async def test_a_handler_that_fails_while_it_is_cancelled_ends_nothing_else(self) -> None:
        """In a group with its cancellation, which the core leaves to the nursery it came from."""
        made = kitchen()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(binding.serve_stdio, made.registry, theirs, theirs)
                stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
                await stream.send_all(_call(b"burn"))
                await made.begun.wait()
                cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}\n'
                await stream.send_all(cancelled + b'{"jsonrpc":"2.0","id":2,"method":"ping"}\n')
                assert b'"id":2' in await stream.receive_some()
                await trio.testing.wait_all_tasks_blocked()
                await stream.send_all(b'{"jsonrpc":"2.0","id":3,"method":"ping"}\n')
                assert b'"id":3' in await stream.receive_some()
                nursery.cancel_scope.cancel()

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_ends_it_without_a_word(self, number: int) -> None:
        code = (
            "from mcp_sansio import Registry\nfrom mcp_sansio_trio import run_stdio\n"
            "run_stdio(Registry('x', '1'))\nprint('after')\n"
        )
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **PACKAGES}, **pipes) as process:
            process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
            process.stdin.flush()
            assert process.stdout.readline() == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
            process.send_signal(number)
            assert (process.wait(30), process.stdout.read(), process.stderr.read()) == (0, b"after\n", b"")


def _call(name: bytes = b"wait") -> bytes:
    """A call at the newest revision."""
    meta = b'{"io.modelcontextprotocol/protocolVersion":"%b","io.modelcontextprotocol/clientCapabilities":{}}'
    return b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%b","_meta":%b}}\n' % (
        name,
        meta % NEWEST.encode(),
    )

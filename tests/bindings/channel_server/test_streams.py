"""A server on descriptors within this process: every kind of stream, clients that are slow, and its end."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest

import speak
from flags import Flag
from hosting import stands_still
from lines import ENDS, PATIENCE, served, text_of
from mcp_sansio import Config, Exchange, Registry, Runtime, Server
from plugs import ChannelServer

#: A pipe cannot be opened a second time everywhere, and not by everybody.
ONCE = "pipe that opens once"
KINDS = ["pipe", ONCE, "socket", "terminal"]
NEWEST_HANDSHAKE = speak.HANDSHAKE[0]


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

    def test_long_lines_and_short_writes(self, channel_server: ChannelServer, registry: Registry, kind: str) -> None:
        text = "né🌍漢" * 20_000
        with served(channel_server, registry, kind=kind) as client:
            assert text_of(client.call("echo", {"text": text})) == text
            message = client.speaker.message("tools/call", {"name": "echo", "arguments": {"text": text[:4]}})
            for byte in json.dumps(message, ensure_ascii=False).encode() + b"\n":
                client.write(bytes([byte]))
            assert text_of(client.receive()) == text[:4]

    def test_the_descriptors_are_left_as_they_were(
        self, channel_server: ChannelServer, registry: Registry, kind: str
    ) -> None:
        """O_NONBLOCK would reach whoever shares the terminal or the socket."""
        with served(channel_server, registry, kind=kind) as client:
            assert len(text_of(client.call("echo", {"text": "a" * 10**6}))) == 10**6
            assert [os.get_blocking(client.source), os.get_blocking(client.sink)] == [True, True]
        source, output, input, sink = ENDS[kind]()
        with channel_server.serve(registry, source, sink, {}):
            os.write(output, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            assert b'"id":1' in os.read(input, 1000)
        assert [os.get_blocking(source), os.get_blocking(sink)] == [True, True]
        assert os.write(sink, b"still open\n") == 11
        assert os.read(input, 1000) == b"still open\n"
        for end in (source, output, input, sink):
            os.close(end)

    def test_a_client_that_reads_nothing_costs_little(
        self, channel_server: ChannelServer, registry: Registry, kind: str
    ) -> None:
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
        with served(channel_server, registry, kind=kind, **options) as client:
            client.send(client.speaker.message("logging/setLevel", {"level": "debug"}))
            assert (client.receive())["result"] == {}
            client.begin("flood", id="f")
            assert stands_still(lambda: sent) < 2000
            messages = [client.receive() for _ in range(5001)]
            assert [message["method"] for message in messages[:-1]] == ["notifications/message"] * 5000
            assert (messages[-1]["id"], text_of(messages[-1])) == ("f", "done")

    def test_a_client_that_writes_without_reading_has_to_wait(
        self, channel_server: ChannelServer, registry: Registry, kind: str
    ) -> None:
        """Neither requests nor replies pile up; as soon as it reads, all are answered."""
        with served(channel_server, registry, kind=kind, config=Config(max_message=50_000)) as client:
            line = json.dumps(client.speaker.message("tools/list", {"_meta": {"padding": "x" * 2000}})).encode() + b"\n"
            writing = threading.Thread(target=client.write, args=(line * 4000,))
            writing.start()
            assert stands_still(lambda: client.written) < 4_000_000 < len(line * 4000)
            assert writing.is_alive()
            for _ in range(4000):
                assert b'"tools":[' in client.read_line()
            writing.join()

    def test_a_client_may_write_much_before_it_reads(
        self, channel_server: ChannelServer, registry: Registry, kind: str
    ) -> None:
        """Far more than the streams hold: otherwise each side would wait for the other to read."""
        with served(channel_server, registry, kind=kind) as client:
            message = client.speaker.message("tools/call", {"name": "echo", "arguments": {"text": "x" * 1000}})
            client.write((json.dumps(message) + "\n").encode() * 2000)
            for _ in range(2000):
                assert b'"isError"' not in client.read_line()


class TestTheEnd:
    @pytest.mark.parametrize("kind", ["pipe", "socket"])
    def test_with_the_input(self, channel_server: ChannelServer, registry: Registry, kind: str) -> None:
        with served(channel_server, registry, kind=kind) as client:
            client.begin("echo", {"text": "a"})
            client.hang_up()
            assert client.ends(PATIENCE)
            assert text_of(client.receive()) == "a"

    def test_a_reply_that_is_made_is_written_to_a_slow_client(
        self, channel_server: ChannelServer, registry: Registry
    ) -> None:
        """However little it reads at a time, as long as it reads."""
        text = "x" * 10**6
        with served(channel_server, registry) as client:
            client.begin("echo", {"text": text})
            client.hang_up()
            assert text_of(client.receive()) == text
            assert client.ends(PATIENCE)

    def test_by_cancellation(self, channel_server: ChannelServer, registry: Registry) -> None:
        begun, cancelled = Flag(), Flag()

        @registry.tool
        async def wait() -> str:
            begun.set()
            try:
                await Flag().wait()
            finally:
                cancelled.set()
            return "never"

        with served(channel_server, registry) as client:
            client.begin("wait")
            begun.seen()
        assert cancelled.is_set

    def test_leaves_no_thread(self, channel_server: ChannelServer, registry: Registry) -> None:
        @registry.tool
        def in_a_thread() -> int:
            return threading.get_ident()

        before = {*threading.enumerate()}
        with served(channel_server, registry, kind="terminal") as client:
            assert text_of(client.call("in_a_thread")) != str(threading.get_ident())
            started = {*threading.enumerate()} - before
            assert started
        for thread in started:
            thread.join(60)
        assert {*threading.enumerate()} - before == set()


class TestWhatIsServed:
    def test_options_beside_a_server_are_refused(self, channel_server: ChannelServer, registry: Registry) -> None:
        server = Server(registry, runtime=Runtime(now=lambda: 0.0, token_bytes=os.urandom, event=Flag))
        source, _, _, sink = ends = ENDS["pipe"]()
        serving = channel_server.serve(server, source, sink, {"config": Config()})
        with pytest.raises(TypeError) as raised, serving as ended:
            assert ended.wait(PATIENCE)
        for end in ends:
            os.close(end)
        assert str(raised.value) == "a Server has its options already; config cannot be given beside one"

    def test_a_client_at_fault_is_logged_for_those_who_debug(
        self, channel_server: ChannelServer, registry: Registry, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        with served(channel_server, registry) as client:
            client.send(b"[]\n")
            message = json.loads(client.read_line())["error"]["message"]
        assert f"the client is at fault: {message}" in caplog.messages

    def test_what_is_no_open_descriptor_is_told(self, channel_server: ChannelServer, registry: Registry) -> None:
        source, output = os.pipe()
        serving = channel_server.serve(registry, source, 2**20, {})
        with pytest.raises(OSError, match="Bad file descriptor"), serving as ended:
            assert ended.wait(PATIENCE)
        os.close(source)
        os.close(output)

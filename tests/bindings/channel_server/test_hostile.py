"""Clients of a channel that cut, flood, babble, stall and go: the next request works, or it ends well."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import speak
from lines import PATIENCE, Process, Served, served, text_of
from mcp_sansio import AdapterSet, Config, Exchange, Registry, elicit
from mcp_sansio.wire.json import encode
from plugs import ChannelServer

NEWEST = speak.VERSIONS[0]
PUSHING = tuple(version for version in speak.VERSIONS if AdapterSet.default().by_version[version].can_push_ask)
MIB = 2**20


def registry() -> Registry:
    made = Registry("besieged", "1.0")

    @made.tool
    async def echo(text: str) -> str:
        """Give it back."""
        return text

    @made.tool
    async def wait(ex: Exchange) -> str:
        """Wait to be given up."""
        await ex.wait_cancelled()
        return "late"

    @made.tool
    async def flood(ex: Exchange) -> str:
        """Log for ever."""
        while True:
            await ex.log("error", "x" * 1000)

    @made.tool
    async def order(ex: Exchange) -> str:
        """Ask."""
        return (await ex.ask("sure", elicit("Sure?"))).action

    return made


@contextmanager
def besieged(plug: ChannelServer, *, version: str = NEWEST, kind: str = "pipe", **config: Any) -> Iterator[Served]:
    """A server for a test. At its end nothing is left of it: no thread, no descriptor."""
    threads, files = {*threading.enumerate()}, set(os.listdir("/proc/self/fd"))
    with served(plug, registry(), kind=kind, version=version, config=Config(**config)) as client:
        yield client
    for thread in {*threading.enumerate()} - threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread is left"
    assert set(os.listdir("/proc/self/fd")) == files


def works(client: Served) -> None:
    """The next request does."""
    reply = client.call("echo", {"text": "still here"}, id="next")
    assert (reply["id"], text_of(reply)) == ("next", "still here")


def echo(client: Served, text: str, id: Any = 1) -> bytes:
    """The line of a call."""
    return encode(client.speaker.message("tools/call", {"name": "echo", "arguments": {"text": text}}, id=id)) + b"\n"


# Lines


def test_lines_cut_anywhere(channel_server: ChannelServer) -> None:
    """Long and short ones, in pieces that end within characters, escapes and line ends."""
    cut = random.Random(1)
    texts = ["é🌍" * cut.choice([0, 1, 10, 30_000]) + f'\\"{number}' for number in range(60)]
    with besieged(
        channel_server,
    ) as client:
        data = b"".join(echo(client, text, number) for number, text in enumerate(texts)).replace(b"\n", b"\r\n")
        found: list[Any] = []
        reading = threading.Thread(target=lambda: found.extend(client.receive() for _ in texts))
        reading.start()
        while data:
            size = cut.choice([1, 2, 3, 50, 4096, 70_000])
            client.write(data[:size])
            data = data[size:]
        reading.join()
        assert sorted((message["id"], text_of(message)) for message in found) == list(enumerate(texts))
        works(client)


#: Five megabytes that are one line each, and the code of what comes back.
LONG: dict[str, tuple[bytes, int]] = {
    "opened brackets": (b"[" * (5 * MIB), -32700),
    "opened objects": (b'{"a":' * MIB, -32700),
    "digits": (b"9" * (5 * MIB), -32700),
    "a string that never ends": (b'"' + b"x" * (5 * MIB), -32700),
    "escapes": (b'"' + b"\\u0000" * MIB + b'"', -32600),
    "null bytes": (bytes(5 * MIB), -32700),
    "bytes of no encoding": (b"\xff" * (5 * MIB), -32700),
    "a list of numbers": (b"[" + b"1," * (2 * MIB) + b"1]", -32600),
    "members of one name": (b"{" + b'"a":1,' * MIB + b'"a":1}', -32600),
    "members of many names": (b"{" + b",".join(b'"%d":1' % n for n in range(500_000)) + b"}", -32600),
    "carriage returns": (b"\r" * (5 * MIB) + b"x", -32700),
}


@pytest.mark.parametrize("what", LONG)
def test_five_megabytes_of_nonsense(channel_server: ChannelServer, what: str) -> None:
    """Refused without work out of proportion: the loop is never held up for long."""
    line, code = LONG[what]
    with besieged(channel_server, version=speak.HANDSHAKE[0]) as client:
        began = time.monotonic()
        client.write(line + b"\n")
        error = (client.receive())["error"]
        assert time.monotonic() - began < 5
        assert error["code"] == code
        assert len(error["message"]) < 500
        works(client)


def test_five_megabytes_that_are_a_call(channel_server: ChannelServer) -> None:
    with besieged(
        channel_server,
    ) as client:
        text = "x" * (5 * MIB)
        writing = threading.Thread(
            target=client.write, args=(b"".join(echo(client, text, number) for number in range(3)),)
        )
        writing.start()
        for _ in range(3):
            assert text_of(client.receive()) == text
        writing.join()
        works(client)


def test_a_line_without_an_end_is_not_kept(channel_server: ChannelServer) -> None:
    """A hundred times the limit costs no memory."""
    with besieged(channel_server, max_message=MIB, version=speak.HANDSHAKE[0]) as client:
        before = resident()
        for _ in range(100):
            client.write(b"x" * MIB)
        assert resident() - before < 20 * MIB
        client.write(b"\n")
        assert str(100 * MIB) in (client.receive())["error"]["message"]
        works(client)


def resident() -> int:
    """The memory of this process, in bytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


GARBAGE = [
    b"",
    b"   \t  ",
    b"\r",
    b"hello",
    b"Traceback (most recent call last):",
    b"Content-Length: 52\r",
    b"GET / HTTP/1.1\r",
    "BOM".encode("utf-16"),
    b"\xef\xbb\xbf",
    b"\x00\x01\x02\x03",
    b"\xff\xfe\xfd",
    b"\x1b[31mred\x1b[0m",
    b"{",
    b"}",
    b"null",
    b"NaN",
    b"1e999999",
    b'"\\ud800"',
    b"[]",
    b"[[],[[]]]",
    b"{}",
    b'{"jsonrpc":"2.0"}',
    b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":null}',
    b'{"jsonrpc":"2.0","id":99,"result":{}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"no"}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
    b'{"jsonrpc":"2.0","method":"notifications/none"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}',
]


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_garbage_between_requests(channel_server: ChannelServer, version: str) -> None:
    """Each request between is answered, whatever the garbage gets."""
    mixed = random.Random(2)
    with besieged(channel_server, version=version) as client:
        count, lines = 200, []
        for number in range(count):
            lines += [garbage + b"\n" for garbage in mixed.sample(GARBAGE, 5)]
            lines.append(echo(client, "between", f"between {number}"))
        writing = threading.Thread(target=client.write, args=(b"".join(lines),))
        writing.start()
        expected = {f"between {number}" for number in range(count)}
        while expected:
            message = json.loads(client.read_line())
            if isinstance(message, dict) and str(message.get("id", "")).startswith("between"):
                assert text_of(message) == "between"
                expected.remove(message["id"])
        writing.join()
    # `works` is what each of them was.


# Clients that do not do their part


def hear_everything(client: Served) -> None:
    """Have handlers' logs sent: otherwise a flood of them waits for nobody."""
    client.send(client.speaker.message("logging/setLevel", {"level": "debug"}))
    assert (client.receive())["result"] == {}


@pytest.mark.parametrize("version", PUSHING)
def test_a_client_that_answers_nothing(channel_server: ChannelServer, version: str) -> None:
    with besieged(channel_server, version=version, ask_timeout=0.1, max_calls=50) as client:
        for number in range(60):
            client.begin("order", id=number)
        messages = []
        while sum("method" not in message for message in messages) < 60:
            messages.append(client.receive())
        asked = [message for message in messages if "method" in message and "id" in message]
        refused = [message["id"] for message in messages if "error" in message]
        assert (len(asked), sorted(refused)) == (50, [*range(60)])
        for question in asked:  # far too late
            client.send({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}})
        works(client)


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_full_pipe_that_nobody_reads(channel_server: ChannelServer, kind: str) -> None:
    """Requests and a flood of logs behind it cost what the limits say. The client that hangs up ends it all, although
    its end lies behind more than the server reads."""
    with besieged(channel_server, kind=kind, version=speak.HANDSHAKE[0], max_unsent=MIB, max_message=MIB) as client:
        hear_everything(client)
        before = resident()
        client.begin("flood")
        client.write_what_fits(echo(client, "x" * 10_000) * 5_000)
        assert resident() - before < 30 * MIB
        client.hang_up()
        assert client.ends(PATIENCE)


def test_a_client_that_hangs_up_before_it_reads(channel_server: ChannelServer) -> None:
    """That its end was noticed early takes no answer away from it."""
    with besieged(channel_server, max_message=MIB) as client:
        client.write(b"".join(echo(client, "x" * 10_000, number) for number in range(107)))
        client.hang_up()
        assert not client.ends(0.26)
        assert sorted(client.receive()["id"] for _ in range(107)) == [*range(107)]
        assert client.ends(PATIENCE)


@pytest.mark.parametrize("calls", [[], ["echo"], ["wait"], ["flood"], ["wait"] * 20 + ["echo"] * 20 + ["flood"]])
@pytest.mark.parametrize("closed", ["input", "output", "both", "within a line"])
def test_pipes_that_close(channel_server: ChannelServer, closed: str, calls: list[str]) -> None:
    with besieged(channel_server, version=speak.HANDSHAKE[0]) as client:
        hear_everything(client)
        for number, tool in enumerate(calls):
            client.begin(tool, {"text": "x" * 1000} if tool == "echo" else {}, id=number)
        if closed == "within a line":
            client.write(b'{"jsonrpc":"2.0","id":1,"meth')
        if closed in ("output", "both"):
            client.stop_reading()
        if closed == "output":
            # What is written is how the server learns of it.
            client.begin("echo", {"text": "x"}, id="last")
        else:
            client.hang_up()
        assert client.ends(PATIENCE)


# Processes


def test_a_process_outlives_what_its_client_does(start: Callable[..., Process]) -> None:
    """SIGPIPE, garbage, five megabytes and half a line; and it ends in silence."""
    server = start(version=speak.HANDSHAKE[0]).shake_hands()
    server.popen.send_signal(signal.SIGPIPE)
    server.write(b"\xff\x00garbage\n")
    assert json.loads(server.read_line())["error"]["code"] == -32700
    server.write(b"[" * (5 * MIB) + b"\n")
    assert json.loads(server.read_line())["error"]["code"] == -32700
    text = "x" * (5 * MIB)
    assert text_of(server.call("echo", {"text": text})) == text
    server.write(b'{"jsonrpc":"2.0","id":7,"method":"pi')
    server.hang_up()
    assert json.loads(server.rest())["error"]["code"] == -32700
    assert (server.ended(), server.errors()) == (0, "")


@pytest.mark.parametrize("reset", [False, True], ids=["SIGPIPE ignored", "SIGPIPE as it was"])
def test_a_process_whose_output_is_cut_within_a_reply(start: Callable[..., Process], reset: bool) -> None:
    """It ends in silence, also where the client had SIGPIPE set to something before it started the process."""
    server = start(restore_signals=reset).shake_hands()
    server.send(server.speaker.message("tools/call", {"name": "echo", "arguments": {"text": "x" * (2 * MIB)}}))
    assert server.popen.stdout is not None
    assert len(server.popen.stdout.read(1000)) == 1000
    server.stop_reading()
    assert (server.ended(), server.errors()) == (0, "")

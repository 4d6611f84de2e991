"""A server where a process meets its client: its standard streams, its end, and what must not reach the output."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import speak
from lines import PROGRAM, text_of
from mcp_sansio import AdapterSet, Registry

Start = Callable[..., Any]
NEWEST_HANDSHAKE = speak.HANDSHAKE[0]
INITIALIZE = speak.Speaker(NEWEST_HANDSHAKE, Registry("a client", "1")).initialize()


class TestEachRevision:
    @pytest.fixture(params=speak.VERSIONS)
    def server(self, request: pytest.FixtureRequest, start: Start) -> Any:
        """A process, and a client of each revision in turn."""
        return start(version=request.param).shake_hands()

    def test_describes_lists_and_calls(self, server: Any) -> None:
        adapter = server.speaker.adapter
        if not adapter.has_handshake:
            assert server.request("server/discover")["result"]["supportedVersions"] == [*speak.VERSIONS]
        names = [tool["name"] for tool in server.request("tools/list", id="l")["result"]["tools"]]
        assert {"echo", "order", "wait"} <= set(names)
        for tool in ("echo", "echo_in_thread"):
            reply = server.call(tool, {"text": "Größe — ★ 漢"}, id=tool)
            assert (reply["id"], text_of(reply)) == (tool, "Größe — ★ 漢")
        unknown = server.request("nothing/such", id=7)
        assert (unknown["id"], unknown["error"]["code"]) == (7, -32601)

    def test_asks_as_it_can(self, server: Any) -> None:
        adapter = server.speaker.adapter
        first = server.call("order", {"loaves": 3}, id="o")
        if adapter.can_push_ask:
            assert first["method"] == "elicitation/create"
            server.send({"jsonrpc": "2.0", "id": first["id"], "result": {"action": "accept", "content": {}}})
            last = server.receive()
        elif adapter.can_ask:
            assert list(first["result"]["inputRequests"]) == ["confirm"]
            given = {"inputResponses": {"confirm": {"action": "accept", "content": {}}}}
            if "requestState" in first["result"]:
                given["requestState"] = first["result"]["requestState"]
            last = server.call("order", {"loaves": 3}, id="o", **given)
        else:
            assert "Order 3 loaves?" in json.dumps(first)
            last = server.call("order", {"loaves": 3, "mcpAnswers": {"confirm": {"action": "accept"}}}, id="o")
        assert (last["id"], text_of(last)) == ("o", "ordered 3")

    def test_a_cancelled_call_is_not_answered(self, server: Any) -> None:
        server.start("wait", id="w")
        cancel = speak.notification("notifications/cancelled", {"requestId": "w", **cancelled_meta(server)})
        server.send(cancel)
        # The id is free again, and the next message is the reply to what came after.
        assert text_of(server.call("echo", {"text": "next"}, id="w")) == "next"


def cancelled_meta(server: Any) -> Any:
    """What a notification of this revision carries in its params."""
    meta = server.speaker.meta
    return {"_meta": meta} if meta else {}


@pytest.mark.skipif(not (speak.HANDSHAKE and speak.ENVELOPE), reason="one kind of revision is deleted")
def test_both_kinds_of_revision_share_one_connection(start: Start) -> None:
    """A host may probe with one and go on with the other; what the handshake settled holds for its own messages."""
    server = start(version=NEWEST_HANDSHAKE)
    modern = speak.Speaker(speak.ENVELOPE[0], Registry("a client", "1"))
    server.send(modern.message("server/discover", id="a"))
    assert server.receive(modern.version)["result"]["supportedVersions"] == [*speak.VERSIONS]
    server.shake_hands()
    server.send(
        modern.message("tools/call", {"name": "echo", "arguments": {"text": "b"}}, id="b"),
        server.speaker.message("tools/call", {"name": "echo", "arguments": {"text": "c"}}, id="c"),
    )
    replies = [json.loads(server.read_line()) for _ in "bc"]
    assert {(reply["id"], text_of(reply), "resultType" in reply["result"]) for reply in replies} == {
        ("b", "b", True),
        ("c", "c", False),
    }
    server.send(modern.message("tools/list", id="d"), server.speaker.message("tools/list", id="e"))
    assert (server.receive(modern.version)["id"], server.receive()["id"]) == ("d", "e")


class TestTheEnd:
    def test_while_nothing_happens(self, start: Start) -> None:
        server = start().shake_hands()
        assert server.call("echo", {"text": "a"})["id"] == 1
        server.hang_up()
        assert (server.ended(), server.rest(), server.errors()) == (0, b"", "")

    @pytest.mark.parametrize("tool", ["wait", "sleep"])
    def test_while_a_call_is_running(self, start: Start, tool: str) -> None:
        server = start().shake_hands()
        server.start(tool)
        server.hang_up()
        assert (server.ended(), server.rest()) == (0, b"")

    def test_while_a_thread_is_left_running(self, start: Start) -> None:
        server = start().shake_hands()
        assert text_of(server.call("leave_a_thread")) == "left"
        server.hang_up()
        assert (server.ended(), server.rest()) == (0, b"")

    def test_while_a_question_is_open(self, start: Start) -> None:
        server = start(version=NEWEST_HANDSHAKE).shake_hands()
        assert "method" in server.call("order", {"loaves": 1})
        server.hang_up()
        assert (server.ended(), server.rest()) == (0, b"")

    def test_while_the_client_reads_nothing(self, start: Start) -> None:
        server = start(version=NEWEST_HANDSHAKE).shake_hands()
        server.request("logging/setLevel", {"level": "debug"})
        server.start("flood")
        server.hang_up()
        assert server.ended() == 0

    def test_what_was_asked_before_it_is_answered(self, start: Start) -> None:
        """As in ``echo … | server``: the input has ended before the first reply is made."""
        server = start(version=NEWEST_HANDSHAKE)
        calls = [
            server.speaker.message("tools/call", {"name": tool, "arguments": {"text": "a"}}, id=f"{tool} {number}")
            for tool in ("echo", "echo_in_thread")
            for number in range(100)
        ]
        server.send(INITIALIZE, *calls)
        server.hang_up()
        replies = [json.loads(line) for line in server.rest().splitlines()]
        assert server.ended() == 0
        assert sorted(reply["id"] for reply in replies[1:]) == sorted(call["id"] for call in calls)
        assert {text_of(reply) for reply in replies[1:]} == {"a"}

    def test_a_last_line_needs_no_line_end(self, start: Start) -> None:
        server = start()
        server.write(json.dumps(INITIALIZE).encode())
        server.hang_up()
        assert json.loads(server.rest())["id"] == 0
        assert server.ended() == 0

    def test_when_nobody_reads_the_output(self, start: Start) -> None:
        server = start().shake_hands()
        server.stop_reading()
        server.send(server.speaker.message("tools/list"))
        assert (server.ended(), server.errors()) == (0, "")

    @pytest.mark.parametrize("closed", [0, 1], ids=["input", "output"])
    @pytest.mark.parametrize("meanwhile", ["pass", f"os.open({PROGRAM!r}, os.O_RDONLY)"], ids=["free", "taken"])
    def test_with_a_standard_stream_closed_from_the_start(self, start: Start, closed: int, meanwhile: str) -> None:
        """Its number is the next one to be given away, to a library, say, that keeps a file of its own open."""
        code = f"import os, runpy; {meanwhile}; runpy.run_path({PROGRAM!r}, run_name='__main__')"
        begin = f"import os, sys; os.close({closed}); os.execv(sys.executable, [sys.executable, '-c', {code!r}])"
        server = start("-c", begin)
        if closed == 1:
            server.send(INITIALIZE)
        assert (server.ended(), server.rest(), server.errors()) == (0, b"", "")

    def test_when_the_parent_is_killed(self, start: Start) -> None:
        """A parent that is killed closes nothing in words; the error output ends when the last who holds it does."""
        line = json.dumps(INITIALIZE).encode() + b"\n"
        code = (
            "import subprocess, sys, time\n"
            f"child = subprocess.Popen([sys.executable, {PROGRAM!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
            f"child.stdin.write({line!r}); child.stdin.flush()\n"
            "child.stdout.readline(); print('up', flush=True); time.sleep(60)\n"
        )
        parent = start("-c", code)
        assert parent.read_line() == b"up"
        parent.popen.kill()
        assert parent.errors() == ""

    def test_the_program_goes_on_after_it(self, start: Start) -> None:
        """It gets its streams back as they were."""
        server = start(environment={"PROGRAM_SAYS_BYE": "1"}).shake_hands()
        server.hang_up()
        assert server.rest() == b"bye [True, True, True]\n"
        assert server.popen.wait() == 1
        assert server.errors().endswith("EOFError: EOF when reading a line\n")


#: What Python starts with.
DEFAULTS = {signal.SIGINT: "default_int_handler", signal.SIGTERM: "SIG_DFL"}


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    @pytest.mark.parametrize("tool", [None, "wait", "sleep"])
    def test_end_it_quietly(self, start: Start, number: int, tool: str | None) -> None:
        # A shell starts what it runs in the background with SIGINT ignored, and that may be these tests.
        code = f"import signal, runpy; signal.signal({number:d}, signal.{DEFAULTS[number]}); "
        server = start("-c", code + f"runpy.run_path({PROGRAM!r}, run_name='__main__')").shake_hands()
        if tool is None:
            server.request("tools/list")
        else:
            server.start(tool)
        server.popen.send_signal(number)
        assert (server.ended(), server.rest(), server.errors()) == (0, b"", "")

    @pytest.mark.skipif(not speak.ENVELOPE, reason="the revision is deleted")
    def test_end_what_listens_as_its_revision_wants_it(self, start: Start) -> None:
        server = start(version=speak.ENVELOPE[0])
        acknowledged = server.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        server.popen.send_signal(signal.SIGTERM)
        assert (server.receive()["id"], server.rest(), server.ended()) == ("s", b"", 0)

    def test_a_second_one_ends_what_hangs(self, start: Start) -> None:
        server = start().shake_hands()
        server.start("block")
        server.popen.send_signal(signal.SIGTERM)
        while True:  # the first is taken when the interpreter gets to it, which nobody outside can see
            server.popen.send_signal(signal.SIGTERM)
            try:
                assert server.popen.wait(0.05) == -signal.SIGTERM
                return
            except subprocess.TimeoutExpired:
                pass

    def test_the_program_may_have_its_own(self, start: Start) -> None:
        code = (
            "import signal, runpy\n"
            "signal.signal(signal.SIGTERM, lambda *_: print('mine', flush=True))\n"
            f"runpy.run_path({PROGRAM!r}, run_name='__main__')\n"
        )
        server = start("-c", code).shake_hands()
        server.request("tools/list")
        server.popen.send_signal(signal.SIGTERM)
        assert server.popen.stderr.readline() == b"mine\n"
        assert server.request("tools/list")["id"] == 1
        server.hang_up()
        assert server.ended() == 0


class TestTheStandardStreams:
    def test_only_the_protocol_is_on_the_output(self, start: Start) -> None:
        server = start().shake_hands()
        assert text_of(server.call("chatter")) == "said"
        server.hang_up()
        assert (server.rest(), server.ended()) == (b"", 0)
        ways = ["by print", "by sys.stdout", "by a stdout that was kept", "by logging", "by descriptor", "by a child"]
        assert sorted(server.errors().splitlines()) == sorted(ways)

    def test_what_was_printed_before_and_waits_in_a_buffer_is_not_on_it_either(self, start: Start) -> None:
        server = start("-c", f"import runpy; print('Welcome!'); runpy.run_path({PROGRAM!r}, run_name='__main__')")
        server.shake_hands().hang_up()
        assert (server.rest(), server.ended(), server.errors()) == (b"", 0, "Welcome!\n")

    def test_the_input_is_empty_for_everybody_else(self, start: Start) -> None:
        server = start(version=NEWEST_HANDSHAKE).shake_hands()
        server.send(
            server.speaker.message("tools/call", {"name": "listen", "arguments": {}}, id=1),
            server.speaker.message("ping", id=2),
        )
        replies = {reply["id"]: reply for reply in (server.receive(), server.receive())}
        assert json.loads(text_of(replies[1])) == ["", "b''", "<>", "EOFError"]
        assert replies[2]["result"] == {}

    @pytest.mark.parametrize(
        "environment",
        [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "cp932"}],
        ids=["LC_ALL=C", "cp932"],
    )
    def test_the_locale_does_not_matter(self, start: Start, environment: dict[str, str]) -> None:
        server = start(version=NEWEST_HANDSHAKE, environment=environment)
        server.send(INITIALIZE)
        assert server.receive()["result"]["instructions"] == "Größe — ★ 漢"
        for escaped in (True, False):
            message = server.speaker.message("tools/call", {"name": "echo", "arguments": {"text": "Größe — ★ 漢"}})
            server.write(json.dumps(message, ensure_ascii=escaped).encode() + b"\n")
            assert text_of(json.loads(server.read_line().decode("utf-8"))) == "Größe — ★ 漢"

    def test_files(self, start: Start, tmp_path: Path) -> None:
        """What cannot be polled is read and written all the same."""
        speaker = speak.Speaker(NEWEST_HANDSHAKE, Registry("a client", "1"))
        calls = [
            speaker.message("tools/call", {"name": "echo", "arguments": {"text": str(number)}}, id=number)
            if number % 2
            else {"jsonrpc": "2.0", "id": number}
            for number in range(5000)
        ]
        (tmp_path / "in").write_text("".join(json.dumps(message) + "\n" for message in (INITIALIZE, *calls)))
        with open(tmp_path / "in", "rb") as source, open(tmp_path / "out", "wb") as sink:
            server = start(stdin=source, stdout=sink)
            assert (server.popen.wait(60), server.errors()) == (0, "")
        replies = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()[1:]]
        assert sorted(reply["id"] for reply in replies) == [*range(5000)]
        wrong = [reply["id"] for reply in replies if reply["id"] % 2 == 0 and reply["error"]["code"] != -32600]
        wrong += [reply["id"] for reply in replies if reply["id"] % 2 and text_of(reply) != str(reply["id"])]
        assert wrong == []

    def test_sockets(self, start: Start) -> None:
        """Node's child processes have sockets for standard streams."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            server = start(stdin=theirs, stdout=theirs)
            theirs.close()
            ours.sendall(json.dumps(INITIALIZE).encode() + b"\n")
            with ours.makefile("rb") as lines:
                assert json.loads(lines.readline())["id"] == 0
                ours.shutdown(socket.SHUT_WR)
                assert (server.ended(), lines.read()) == (0, b"")


class TestLines:
    def test_crlf(self, start: Start) -> None:
        server = start(version=NEWEST_HANDSHAKE)
        server.write(json.dumps(INITIALIZE).encode() + b"\r\n\r\n" + b'{"jsonrpc":"2.0","id":1,"method":"ping"}\r\n')
        lines = [server.read_line(), server.read_line()]
        assert [json.loads(line)["id"] for line in lines] == [0, 1]
        assert [line.endswith(b"}") for line in lines] == [True, True]

    def test_only_lf_ends_a_line(self, start: Start) -> None:
        text = "a\u2028b\u2029c\u0085d\x7fe"
        server = start().shake_hands()
        message = server.speaker.message("tools/call", {"name": "echo", "arguments": {"text": text}})
        server.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
        assert text_of(server.receive()) == text

    @pytest.mark.parametrize(
        ("line", "code", "id"),
        [
            (b"{bad", -32700, None),
            (b"\xff\xfe\x00\n\x80", -32700, None),
            (b"[" * 100_000, -32700, None),
            (b'"text"', -32600, None),
            (b"[]", -32600, None),
            (b'{"id":5,"method":"ping"}', -32600, 5),
            (b'{"jsonrpc":"2.0","id":"x","method":5}', -32600, "x"),
            (b"{\n}", -32700, None),
        ],
        ids=["syntax", "binary", "deep", "no object", "empty array", "no version", "bad method", "indented"],
    )
    def test_a_bad_one_is_answered_and_survived(self, start: Start, line: bytes, code: int, id: Any) -> None:
        server = start(version=NEWEST_HANDSHAKE).shake_hands()
        server.write(line + b"\n")
        for _ in range(line.count(b"\n") + 1):
            refusal = json.loads(server.read_line())
            assert (refusal["error"]["code"], refusal.get("id")) in [(code, id), (-32700, None)]
        assert server.request("ping", id="still there")["result"] == {}

    def test_a_long_one(self, start: Start) -> None:
        text = "é" * (5 * 2**19)
        server = start().shake_hands()
        assert text_of(server.call("echo", {"text": text})) == text

    def test_one_over_the_limit_is_skipped(self, start: Start) -> None:
        server = start(version=NEWEST_HANDSHAKE, environment={"PROGRAM_MAX_MESSAGE": "100000"}).shake_hands()
        for size in (100_001, 5 * 2**20):
            server.write(b"x" * size + b"\n")
            error = server.receive()["error"]
            assert (error["code"], str(size) in error["message"]) == (-32600, True)
        server.write(b" " * (100_000 - 40) + b'{"jsonrpc":"2.0","id":3,"method":"ping"}' + b"\n")
        assert server.receive() == {"jsonrpc": "2.0", "id": 3, "result": {}}

    def test_replies_wait_for_a_client_that_writes_first(self, start: Start) -> None:
        """Many more bytes than the two pipes hold, and none read before the last is written."""
        server = start(version=NEWEST_HANDSHAKE).shake_hands()
        server.send(*(server.speaker.message("tools/list", id=number) for number in range(5000)))
        assert [json.loads(server.read_line())["id"] for _ in range(5000)] == [*range(5000)]


def test_a_process_serves_a_window_of_revisions(start: Start) -> None:
    adapters = AdapterSet.default().only(speak.HANDSHAKE[-1])
    code = (
        "import importlib, os; from mcp_sansio import AdapterSet, Registry\n"
        "module, _, function = os.environ['PROGRAM_RUN'].partition(':')\n"
        "run_stdio = getattr(importlib.import_module(module), function)\n"
        f"run_stdio(Registry('a', '1'), adapters=AdapterSet.default().only({adapters.versions[0]!r}))\n"
    )
    server = start("-c", code)
    server.send(INITIALIZE)
    assert server.receive(adapters.versions[0])["result"]["protocolVersion"] == adapters.versions[0]

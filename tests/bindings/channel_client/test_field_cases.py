"""Cases 43 to 51 and 75, from the side of a client that starts its server: its lines, its errors, its start and end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from child_servers import PRELUDE, SHORT, has_ended, text_of
from flags import Flag
from mcp_sansio import CallTimeout, ClientConfig, ConnectionLost
from worlds import CANCELLED, World

Make = Callable[..., Any]

#: Answers the first call with its text, and waits for the end.
ECHO = "call = request(); text(call, call['params']['arguments']['text']); hear()"


async def test_case_43_lf_goes_out_and_crlf_may_come_in(script: Make) -> None:
    code = """
read = sys.stdin.buffer.readline()
os.write(2, read[-2:].hex().encode())
refusal = {"jsonrpc": "2.0", "id": json.loads(read)["id"], "error": {"code": 1, "message": ""}}
say(json.dumps(refusal) + "\\r")
text(request(), "ok"); hear()
"""
    async with script(code) as client:
        assert text_of(await client.call_tool("any")) == "ok"
        assert client.last_words == b"}\n".hex()


@pytest.mark.parametrize(
    "environment",
    [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "cp932", "PYTHONUTF8": "0"}],
    ids=str,
)
async def test_case_44_and_32_utf_8_whatever_the_locale(program: Make, environment: dict[str, str]) -> None:
    async with program(env=environment) as client:
        assert (await client.initialize()).instructions == "Größe — ★ 漢"
        for words in ("Größe — ★ 漢", "a\u2028b\u2029c\u0085d\u000be", "né🌍漢"):
            assert text_of(await client.call_tool("echo", {"text": words})) == words


NOISE = [b"Server started", b"{", b"  x: 1", b"}", b"\x1b[32mok\x1b[0m", b"123", b'"str"', b"null", b"[]", b"\xff\xfe"]


async def test_case_45_and_47_other_text_on_the_output_is_passed_over(
    script: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """A JSON object on several lines too: each of them is no message."""
    caplog.set_level("DEBUG", "mcp_sansio.client")
    pretty = json.dumps({"jsonrpc": "2.0", "method": "x"}, indent=2).encode().split(b"\n")
    noise = b"\n".join([*NOISE, *pretty, b"y" * 100_000])
    async with script(f"say({noise!r})\n{ECHO}") as client:
        assert text_of(await client.call_tool("any", {"text": "ok"})) == "ok"
    told = [message for message in caplog.messages if "something wrong" in message]
    assert len(told) == len(NOISE) + len(pretty) + 1
    assert max(map(len, told)) < 1000


@pytest.mark.parametrize("piece", [2**30, 4096], ids=["at once", "in pieces"])
async def test_case_46_five_megabytes_and_no_small_limit(script: Make, piece: int) -> None:
    code = f"""
line = text_line(request(), "x" * (5 * 2**20)) + b"\\n"
for start in range(0, len(line), {piece}):
    sys.stdout.buffer.write(line[start : start + {piece}])
    sys.stdout.buffer.flush()
text(request(), "next"); hear()
"""
    async with script(code) as client:
        assert len(text_of(await client.call_tool("any"))) == 5 * 2**20
        assert text_of(await client.call_tool("any")) == "next"


@pytest.mark.parametrize("over", [0, 1])
async def test_case_46_a_line_over_the_limit_is_skipped_and_the_next_one_read(script: Make, over: int) -> None:
    code = f"""
call = request()
say(text_line(call, "x" * (4096 + {over} - len(text_line(call, "")))))
text(request(), "next"); hear()
"""
    async with script(code, config=ClientConfig(max_message=4096)) as client:
        await client.initialize()
        if over:
            with pytest.raises(CallTimeout):
                await client.call_tool("any", timeout=SHORT)
        else:
            await client.call_tool("any")
        assert text_of(await client.call_tool("any")) == "next"


async def test_case_48_a_server_ends_with_its_client(script: Make) -> None:
    """The end of its input is all that a server needs to be told."""
    async with script("text(request(), str(os.getpid()))\nsys.stdin.read()") as client:
        pid = int(text_of(await client.call_tool("any")))
    assert has_ended(pid)


DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
CHILDREN = {
    "ignores the end of its input": ("", "time.sleep(60)"),
    "ignores SIGTERM": (DEAF, "time.sleep(60)"),
    "has grandchildren that hold the pipe": ("child = subprocess.Popen(['sleep', '60'])", "hear()"),
    "is outlived by them": ("child = subprocess.Popen(['sleep', '60'])", "os._exit(0)"),
    "exits at once": ("", "os._exit(0)"),
    "floods its output": ("", "while True: os.write(1, b'x' * 65536)"),
    "floods its output and ignores SIGTERM": (DEAF, "while True: os.write(1, b'x' * 65536)"),
}


@pytest.mark.parametrize(("before", "after"), CHILDREN.values(), ids=CHILDREN)
async def test_case_49_closing_ends_whatever_a_child_does(script: Make, before: str, after: str) -> None:
    code = f"child = None\n{before}\ntext(request(), json.dumps([os.getpid(), child and child.pid]))\n{after}"
    async with script(code, grace=SHORT) as client:
        pids = json.loads(text_of(await client.call_tool("any")))
    assert [has_ended(pid) for pid in pids if pid] == [True] * len([pid for pid in pids if pid])


@pytest.mark.parametrize("end", ["\\n", "\\r"])
async def test_case_50_errors_are_read_all_the_time_and_are_no_sign_of_one(script: Make, end: str) -> None:
    code = f"call = request()\nos.write(2, ('x' * 1023 + '{end}').encode() * 256)\ntext(call, 'ok'); hear()"
    async with script(code) as client:
        assert text_of(await client.call_tool("any")) == "ok"
        assert len(client.last_words) == 8192


async def test_case_51_a_custom_environment_leaves_the_path_and_adds_no_secret(
    script: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    async with script("text(request(), json.dumps(dict(os.environ))); hear()", env={"A": "1"}) as client:
        environment = json.loads(text_of(await client.call_tool("any")))
    assert (environment["A"], environment["PATH"], "TOKEN" in environment) == ("1", os.environ["PATH"], False)


async def test_case_51_a_command_is_found_and_one_that_is_not_is_named(child: Make, tmp_path: Path) -> None:
    (tmp_path / "npx").write_text(f"#!{sys.executable}\n{PRELUDE}{ECHO}\n", "utf-8")
    (tmp_path / "npx").chmod(0o755)
    path = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    async with child("npx", ["-y", "server"], env=path) as client:
        assert text_of(await client.call_tool("any", {"text": "ok"})) == "ok"
    with pytest.raises(ConnectionLost, match="cannot start 'npx-of-nobody'"):
        async with child("npx-of-nobody"):
            pass


async def test_case_51_a_child_that_dies_fails_all_that_waits_and_says_why(script: Make, world: World) -> None:
    async with script("sys.stderr.write('npx: not found'); sys.exit(127)") as client:
        results: list[Any] = await world.gather(*[partial(client.call_tool, "any") for _ in range(3)])
    words = "the server exited with status 127; its error output ends with:\nnpx: not found"
    assert [(type(result), str(result)) for result in results] == [(ConnectionLost, words)] * 3


async def test_case_75_clients_are_closed_by_any_task_in_any_order(script: Make, world: World) -> None:
    async with script(ECHO) as first, script(ECHO) as second, world.tasks() as tasks:
        assert await tasks.start(first.close).outcome() is None
        assert text_of(await second.call_tool("any", {"text": "ok"})) == "ok"
        assert await tasks.start(second.close).outcome() is None


async def test_case_75_what_fails_within_comes_out_plainly(script: Make, child: Make) -> None:
    with pytest.raises(ConnectionLost, match="cannot start 'nobody'"):
        async with script(ECHO), child("nobody"):
            pass


@pytest.mark.wants("cancel")
async def test_case_75_a_client_is_cancelled_while_its_server_starts(script: Make, world: World) -> None:
    begun = Flag()

    async def connect() -> None:
        code = "os.write(2, b'x'); time.sleep(60)"
        async with script(code, grace=SHORT, on_stderr=lambda text: begun.set()) as client:
            await client.initialize()

    async with world.tasks() as tasks:
        connecting = tasks.start(connect)
        await begun.wait()
        connecting.cancel()
        assert await connecting.outcome() == CANCELLED

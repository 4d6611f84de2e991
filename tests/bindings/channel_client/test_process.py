"""A client and the process that it starts: its command, its environment, its errors, its death and its end."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from child_servers import PRELUDE, SHORT, give, has_ended, nothing_left, text_of
from flags import Flag, turn
from mcp_sansio import ConnectionLost
from worlds import CANCELLED, World

Make = Callable[..., Any]

LAST_WORDS = "its error output ends with:\n"


def is_known(pid: int) -> bool:
    """Whether the system still knows a child of that number, a zombie included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No descriptor, and no thread, whatever the test did."""
    with nothing_left():
        yield


async def given(client: Any) -> Any:
    """What such a script gives."""
    async with client:
        return json.loads(text_of(await client.call_tool("any")))


class TestTheCommand:
    @pytest.mark.parametrize(
        ("command", "reason"),
        [
            ("no-such-command", "there is no such command on the PATH"),
            ("/no/such/command", "No such file or directory"),
            (os.sep, "Permission denied"),
            (__file__, "Permission denied"),
        ],
        ids=repr,
    )
    async def test_that_cannot_be_started_is_named(self, child: Make, command: str, reason: str) -> None:
        with pytest.raises(ConnectionLost) as raised:
            async with child(command):
                pass
        assert str(raised.value).startswith(f"cannot start {command!r}: ")
        assert reason in str(raised.value)

    def test_has_its_arguments_one_by_one(self, child: Make) -> None:
        with pytest.raises(TypeError, match=r"args must be a list of strings, not the string '-c pass'"):
            child(sys.executable, "-c pass")

    async def test_that_the_system_cannot_take_is_named_too(self, child: Make) -> None:
        with pytest.raises(ConnectionLost, match=r"cannot start .*: embedded null byte"):
            async with child(sys.executable, ["a\0b"]):
                pass

    async def test_a_folder_that_is_none_is_named(self, child: Make) -> None:
        with pytest.raises(ConnectionLost, match=r"cannot start .*'/no/such/folder'"):
            async with child(sys.executable, cwd="/no/such/folder"):
                pass

    async def test_is_found_on_the_path_that_the_server_gets(self, child: Make, tmp_path: Path) -> None:
        program = tmp_path / "my-server"
        program.write_text(f"#!{sys.executable}\n{PRELUDE}{give('sys.argv')}\n", "utf-8")
        program.chmod(0o755)
        arguments = ["an argument", "--größe=★", "", "$HOME"]
        client = child("my-server", arguments, env={"PATH": str(tmp_path)})
        assert await given(client) == [str(program), *arguments]

    async def test_with_a_folder_in_it_belongs_to_the_working_directory(self, child: Make, tmp_path: Path) -> None:
        program = tmp_path / "my-server"
        program.write_text(f"#!{sys.executable}\n{PRELUDE}{give('os.getcwd()')}\n", "utf-8")
        program.chmod(0o755)
        assert await given(child("./my-server", cwd=tmp_path)) == str(tmp_path)


class TestTheEnvironment:
    async def test_has_what_programs_need_and_no_secrets(self, script: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("API_TOKEN", "secret")
        monkeypatch.setenv("HOME", "/home/of/mine")
        environment = await given(script(give("dict(os.environ)")))
        assert environment["PATH"] == os.environ["PATH"]
        assert environment["HOME"] == "/home/of/mine"
        assert "API_TOKEN" not in environment

    async def test_what_is_added_takes_nothing_away(self, script: Make) -> None:
        environment = await given(script(give("dict(os.environ)"), env={"A": "1", "LANG": "de"}))
        assert (environment["A"], environment["LANG"], environment["PATH"]) == ("1", "de", os.environ["PATH"])


class TestItsErrors:
    @pytest.mark.parametrize("end", ["\n", "\r", ""], ids=["lines", "progress", "no line"])
    async def test_are_read_all_the_time(self, script: Make, end: str) -> None:
        heard: list[str] = []
        code = f"sys.stderr.write(('x' * 1023 + {end!r}) * 256 + 'né'); sys.stderr.flush()\n"
        async with script(code + give("1"), on_stderr=heard.append, env={"PYTHONIOENCODING": "utf-8"}) as client:
            assert text_of(await client.call_tool("any")) == "1"
        assert "".join(heard) == ("x" * 1023 + end) * 256 + "né"
        assert (client.last_words[-2:], len(client.last_words.encode())) == ("né", 8192)

    async def test_are_no_sign_of_anything(self, script: Make) -> None:
        async with script("sys.stderr.write('Traceback: ERROR'); sys.stderr.flush()\n" + give("1")) as client:
            assert text_of(await client.call_tool("any")) == "1"

    async def test_who_hears_them_may_fail(self, script: Make, caplog: pytest.LogCaptureFixture) -> None:
        def fail(text: str) -> None:
            raise ValueError("boom")

        async with script("sys.stderr.write('a'); sys.stderr.flush()\n" + give("1"), on_stderr=fail) as client:
            assert text_of(await client.call_tool("any")) == "1"
        assert "boom" in caplog.text


class TestItsDeath:
    """It fails what is in flight, and says how it came and what was said last."""

    @pytest.mark.parametrize(
        ("code", "reason"),
        [
            ("sys.exit(0)", "exited with status 0; it wrote no errors"),
            (
                "sys.stderr.write('not found\\n'); sys.exit(127)",
                "exited with status 127; its error output ends with:\nnot found",
            ),
            ("request(); sys.exit('goodbye')", "exited with status 1; its error output ends with:\ngoodbye"),
            ("request(); os.kill(os.getpid(), signal.SIGKILL)", "was ended by SIGKILL; it wrote no errors"),
            ("request(); 1 / 0", "ZeroDivisionError: division by zero"),
        ],
    )
    async def test_fails_what_is_in_flight(self, script: Make, world: World, code: str, reason: str) -> None:
        async with script(code) as client:
            results = await world.gather(*[partial(client.call_tool, "any") for _ in range(3)])
            assert [type(result) for result in results] == [ConnectionLost] * 3
            assert all(reason in str(result) for result in results)
            with pytest.raises(ConnectionLost) as later:
                await client.ping()
            assert reason in str(later.value)

    async def test_comes_after_what_it_said_before(self, script: Make) -> None:
        async with script("text(request(), 'x' * 300_000)\nos._exit(3)") as client:
            assert len(text_of(await client.call_tool("any"))) == 300_000
            with pytest.raises(ConnectionLost, match="status 3"):
                await client.call_tool("any")

    async def test_is_noticed_while_its_own_child_holds_the_pipes(self, script: Make) -> None:
        code = """
child = subprocess.Popen(["sleep", "60"])
os.write(2, str(child.pid).encode())
request()
os._exit(3)
"""
        async with script(code) as client:
            with pytest.raises(ConnectionLost, match="status 3"):
                await client.call_tool("any")
            assert has_ended(int(client.last_words))

    async def test_is_seen_to_where_it_only_closes_its_output(self, script: Make) -> None:
        code = "request()\nos.write(2, str(os.getpid()).encode())\nos.close(1)\ntime.sleep(60)"
        async with script(code, grace=SHORT) as client:
            with pytest.raises(ConnectionLost, match="the server did not end by itself"):
                await client.call_tool("any")
            assert not is_known(int(client.last_words))

    async def test_is_seen_to_where_it_only_closes_its_input(self, script: Make, world: World) -> None:
        closed = Flag()
        code = "request()\nos.close(0)\nos.write(2, b'x')\ntime.sleep(60)"
        async with (
            script(code, grace=SHORT, on_stderr=lambda text: closed.set()) as client,
            world.tasks() as tasks,
        ):
            waiting = tasks.start(client.call_tool, "any")
            await closed.wait()
            with pytest.raises(ConnectionLost, match="the server did not end by itself"):
                await client.call_tool("any")
            assert isinstance(await waiting.outcome(), ConnectionLost)


ENDS: dict[str, tuple[str, str]] = {
    "as it should": ("", "hear()"),
    "by itself, before": ("", "pass"),
    "not at the end of its input": ("", "time.sleep(60)"),
    "not when it is asked to": ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "time.sleep(60)"),
    "leaving a child that holds the pipes": ("keep = subprocess.Popen(['sleep', '60'])", "hear()"),
    "leaving a child that ignores signals": (
        "keep = subprocess.Popen(['sh', '-c', 'trap \"\" TERM HUP; echo >&2 up; sleep 60'])",
        "hear()",
    ),
    "leaving a child that writes all the time, in a session of its own": (
        "",
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    while True: os.write(1, b'{}\\n' * 5000)\n"  # until nobody reads it
        "hear()",
    ),
    "writing all the time": ("", "while True: os.write(1, b'x' * 10000)"),
    "writing errors all the time": ("", "while True: os.write(2, b'x' * 10000)"),
    "with its streams closed": ("", "[os.close(number) for number in (0, 1, 2)]; time.sleep(60)"),
    "stopped": ("", "os.kill(os.getpid(), signal.SIGSTOP)"),
}


class TestItsEnd:
    @pytest.mark.parametrize(("before", "after"), ENDS.values(), ids=ENDS)
    async def test_leaves_nothing_within_a_bounded_time(self, script: Make, before: str, after: str) -> None:
        code = f"keep = None\n{before}\ntext(request(), json.dumps([os.getpid(), keep and keep.pid]))\n{after}"
        server, child = await given(script(code, grace=SHORT))
        assert not is_known(server)
        assert child is None or has_ended(child)

    async def test_waits_no_longer_than_that_for_one_that_reads_ever_so_slowly(
        self, script: Make, world: World
    ) -> None:
        """What still waits to be written then is of use to nobody: the calls have ended."""
        code = "text(request(), 'ok')\nwhile True: os.read(0, 4096); time.sleep(0.3)"
        async with script(code, grace=SHORT) as client, world.tasks() as tasks:
            await client.call_tool("any")
            waiting = tasks.start(client.call_tool, "any", {"text": "x" * 2**22})
            for _ in range(5):
                await turn()
            await client.close()
            lost = await waiting.outcome()
            assert (type(lost), str(lost)) == (ConnectionLost, "the client was closed")

    async def test_waits_for_a_server_that_takes_its_time(self, script: Make) -> None:
        """What it does at the end of its input, it can finish."""
        code = "text(request(), '1')\nsys.stdin.read()\ntime.sleep(0.1)\nos.write(2, b'cleaned up')"
        async with script(code) as client:
            await client.call_tool("any")
        assert client.last_words == "cleaned up"

    @pytest.mark.wants("cancel")
    async def test_is_the_same_when_what_waits_for_it_is_cancelled(self, script: Make, world: World) -> None:
        code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntext(request(), str(os.getpid()))\ntime.sleep(60)"
        async with script(code, grace=SHORT) as client, world.tasks() as tasks:
            pid = int(text_of(await client.call_tool("any")))
            closing = tasks.start(client.close)
            for _ in range(3):
                await turn()
            closing.cancel()
            assert await closing.outcome() in (CANCELLED, None)  # it may have had its way, within its time
            await client.close()
            assert not is_known(pid)

    async def test_comes_with_whatever_ends_the_block(self, script: Make) -> None:
        pids, error = [], ValueError("boom")

        async def fail() -> None:
            async with script("text(request(), str(os.getpid()))\nhear()") as client:
                pids.append(int(text_of(await client.call_tool("any"))))
                raise error

        with pytest.raises(ValueError, match="boom") as raised:
            await fail()
        assert (raised.value is error, is_known(pids[0])) == (True, False)

    @pytest.mark.wants("cancel")
    async def test_comes_with_the_cancellation_of_the_block(self, script: Make, world: World) -> None:
        pids, begun = [], Flag()

        async def block() -> None:
            async with script("text(request(), str(os.getpid()))\nhear()") as client:
                pids.append(int(text_of(await client.call_tool("any"))))
                begun.set()
                await Flag().wait()

        async with world.tasks() as tasks:
            blocked = tasks.start(block)
            await begun.wait()
            blocked.cancel()
            assert await blocked.outcome() == CANCELLED
        assert not is_known(pids[0])

    async def test_of_many_at_once_comes_in_any_order(self, script: Make, world: World) -> None:
        pids = []

        async def one() -> None:
            async with script("text(request(), str(os.getpid()))\nhear()") as client:
                pids.append(int(text_of(await client.call_tool("any"))))
                await client.close()
                await client.close()

        assert await world.gather(*[one] * 8) == [None] * 8
        assert [is_known(pid) for pid in pids] == [False] * 8

    async def test_a_signal_for_this_process_group_is_none_for_the_server(self, script: Make) -> None:
        """Control-C at a terminal reaches every process of the group in front; the server ends with its input."""
        assert await given(script(give("[os.getpid(), os.getpgid(0), os.getsid(0)]"))) != [os.getpgid(0)] * 3

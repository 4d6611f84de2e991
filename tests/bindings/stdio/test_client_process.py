"""`StdioClient` and the process that it starts: its command, its environment, its errors, its death and its end."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from children import PATIENCE, PRELUDE, SHORT, StdioClient, has_ended, script, text_of
from mcp_sansio import ConnectionLost

LAST_WORDS = "its error output ends with:\n"
NO_NUMBERS = not Path("/proc/self/fd").exists()


def is_known(pid: int) -> bool:
    """Whether the system still knows a child of that number, a zombie included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture(autouse=True)
def nothing_is_left() -> Any:
    """No descriptor, and no thread, whatever the test did."""
    gc.collect()
    files, threads = descriptors(), {*threading.enumerate()}
    yield
    gc.collect()
    for thread in {*threading.enumerate()} - threads:
        thread.join(PATIENCE)
    assert (descriptors(), {*threading.enumerate()} - threads) == (files, set())


def descriptors() -> list[str]:
    """What this process has open."""
    if NO_NUMBERS:
        return []
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except FileNotFoundError:
            pass  # the one of the listing itself
    return sorted(found)


def give(expression: str) -> str:
    """A script that answers its first call with that value, as JSON."""
    return f"text(request(), json.dumps({expression}))\nhear()"


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
    async def test_that_cannot_be_started_is_named(self, command: str, reason: str) -> None:
        client = StdioClient(command)
        with pytest.raises(ConnectionLost) as raised:
            await client.open()
        assert str(raised.value).startswith(f"cannot start {command!r}: ")
        assert reason in str(raised.value)
        await client.close()

    def test_has_its_arguments_one_by_one(self) -> None:
        with pytest.raises(TypeError, match=r"args must be a list of strings, not the string '-c pass'"):
            StdioClient(sys.executable, "-c pass")

    async def test_that_the_system_cannot_take_is_named_too(self) -> None:
        with pytest.raises(ConnectionLost, match=r"cannot start .*: embedded null byte"):
            await StdioClient(sys.executable, ["a\0b"]).open()

    async def test_a_folder_that_is_none_is_named(self) -> None:
        with pytest.raises(ConnectionLost, match=r"cannot start .*'/no/such/folder'"):
            async with StdioClient(sys.executable, cwd="/no/such/folder"):
                pass

    async def test_is_found_on_the_path_that_the_server_gets(self, tmp_path: Path) -> None:
        program = tmp_path / "my-server"
        program.write_text(f"#!{sys.executable}\n{PRELUDE}{give('sys.argv')}\n", "utf-8")
        program.chmod(0o755)
        arguments = ["an argument", "--größe=★", "", "$HOME"]
        client = StdioClient("my-server", arguments, env={"PATH": str(tmp_path)})
        assert await given(client) == [str(program), *arguments]

    async def test_with_a_folder_in_it_belongs_to_the_working_directory(self, tmp_path: Path) -> None:
        program = tmp_path / "my-server"
        program.write_text(f"#!{sys.executable}\n{PRELUDE}{give('os.getcwd()')}\n", "utf-8")
        program.chmod(0o755)
        assert await given(StdioClient("./my-server", cwd=tmp_path)) == str(tmp_path)


class TestTheEnvironment:
    async def test_has_what_programs_need_and_no_secrets(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("API_TOKEN", "secret")
        monkeypatch.setenv("HOME", "/home/of/mine")
        environment = await given(script(give("dict(os.environ)")))
        assert environment["PATH"] == os.environ["PATH"]
        assert environment["HOME"] == "/home/of/mine"
        assert "API_TOKEN" not in environment

    async def test_what_is_added_takes_nothing_away(self) -> None:
        environment = await given(script(give("dict(os.environ)"), env={"A": "1", "LANG": "de"}))
        assert (environment["A"], environment["LANG"], environment["PATH"]) == ("1", "de", os.environ["PATH"])


class TestItsErrors:
    @pytest.mark.parametrize("end", ["\n", "\r", ""], ids=["lines", "progress", "no line"])
    async def test_are_read_all_the_time(self, end: str) -> None:
        heard: list[str] = []
        code = f"sys.stderr.write(('x' * 1023 + {end!r}) * 256 + 'né'); sys.stderr.flush()\n"
        async with script(code + give("1"), on_stderr=heard.append, env={"PYTHONIOENCODING": "utf-8"}) as client:
            assert text_of(await client.call_tool("any")) == "1"
        assert "".join(heard) == ("x" * 1023 + end) * 256 + "né"
        assert (client.last_words[-2:], len(client.last_words.encode())) == ("né", 8192)

    async def test_are_no_sign_of_anything(self) -> None:
        async with script("sys.stderr.write('Traceback: ERROR'); sys.stderr.flush()\n" + give("1")) as client:
            assert text_of(await client.call_tool("any")) == "1"

    async def test_who_hears_them_may_fail(self, caplog: pytest.LogCaptureFixture) -> None:
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
    async def test_fails_what_is_in_flight(self, code: str, reason: str) -> None:
        async with script(code) as client:
            results = await asyncio.gather(*[client.call_tool("any") for _ in range(3)], return_exceptions=True)
            assert [type(result) for result in results] == [ConnectionLost] * 3
            assert all(reason in str(result) for result in results)
            with pytest.raises(ConnectionLost) as later:
                await client.ping()
            assert reason in str(later.value)

    async def test_comes_after_what_it_said_before(self) -> None:
        async with script("text(request(), 'x' * 300_000)\nos._exit(3)") as client:
            assert len(text_of(await client.call_tool("any"))) == 300_000
            with pytest.raises(ConnectionLost, match="status 3"):
                await client.call_tool("any")

    async def test_is_noticed_while_its_own_child_holds_the_pipes(self) -> None:
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

    async def test_is_seen_to_where_it_only_closes_its_output(self) -> None:
        code = "request()\nos.write(2, str(os.getpid()).encode())\nos.close(1)\ntime.sleep(60)"
        async with script(code, grace=SHORT) as client:
            with pytest.raises(ConnectionLost, match="the server did not end by itself"):
                await client.call_tool("any")
            assert not is_known(int(client.last_words))

    async def test_is_seen_to_where_it_only_closes_its_input(self) -> None:
        closed = asyncio.Event()
        code = "request()\nos.close(0)\nos.write(2, b'x')\ntime.sleep(60)"
        async with script(code, grace=SHORT, on_stderr=lambda text: closed.set()) as client:
            waiting = asyncio.ensure_future(client.call_tool("any"))
            await closed.wait()
            with pytest.raises(ConnectionLost, match="the server did not end by itself"):
                await client.call_tool("any")
            with pytest.raises(ConnectionLost):
                await waiting


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
    async def test_leaves_nothing_within_a_bounded_time(self, before: str, after: str) -> None:
        code = f"keep = None\n{before}\ntext(request(), json.dumps([os.getpid(), keep and keep.pid]))\n{after}"
        async with asyncio.timeout(PATIENCE):
            server, child = await given(script(code, grace=SHORT))
        assert not is_known(server)
        assert child is None or has_ended(child)

    async def test_waits_no_longer_than_that_for_one_that_reads_ever_so_slowly(self) -> None:
        """What still waits to be written then is of use to nobody: the calls have ended."""
        code = "text(request(), 'ok')\nwhile True: os.read(0, 4096); time.sleep(0.3)"
        async with script(code, grace=SHORT) as client:
            await client.call_tool("any")
            waiting = asyncio.ensure_future(client.call_tool("any", {"text": "x" * 2**22}))
            await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE):
                await client.close()
            with pytest.raises(ConnectionLost, match="the client was closed"):
                await waiting

    async def test_waits_for_a_server_that_takes_its_time(self) -> None:
        """What it does at the end of its input, it can finish."""
        code = "text(request(), '1')\nsys.stdin.read()\ntime.sleep(0.1)\nos.write(2, b'cleaned up')"
        async with script(code) as client:
            await client.call_tool("any")
        assert client.last_words == "cleaned up"

    async def test_is_the_same_when_what_waits_for_it_is_cancelled(self) -> None:
        code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\ntext(request(), str(os.getpid()))\ntime.sleep(60)"
        client = await script(code, grace=SHORT).open()
        pid = int(text_of(await client.call_tool("any")))
        closing = asyncio.ensure_future(client.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        await client.close()
        assert not is_known(pid)

    @pytest.mark.parametrize("error", [ValueError("boom"), asyncio.CancelledError()], ids=repr)
    async def test_comes_with_whatever_ends_the_block(self, error: BaseException) -> None:
        pids = []

        async def fail() -> None:
            async with script("text(request(), str(os.getpid()))\nhear()") as client:
                pids.append(int(text_of(await client.call_tool("any"))))
                raise error

        with pytest.raises(type(error)) as raised:
            await fail()
        assert (raised.value is error, is_known(pids[0])) == (True, False)

    async def test_many_at_once_in_any_order(self) -> None:
        clients = [await script("text(request(), str(os.getpid()))\nhear()").open() for _ in range(8)]
        pids = [int(text_of(result)) for result in await asyncio.gather(*[c.call_tool("any") for c in clients])]
        await asyncio.gather(*[client.close() for client in (*clients[::2], *clients[::-3], *clients)])
        assert [is_known(pid) for pid in pids] == [False] * 8

    async def test_a_signal_for_this_process_group_is_none_for_the_server(self) -> None:
        """Control-C at a terminal reaches every process of the group in front; the server ends with its input."""
        assert await given(script(give("[os.getpid(), os.getpgid(0), os.getsid(0)]"))) != [os.getpgid(0)] * 3


@pytest.mark.parametrize("deaf", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_a_loop_that_ends_without_closing_it_leaves_no_server(deaf: str) -> None:
    async def main() -> int:
        client = await script(f"{deaf}text(request(), str(os.getpid()))\ntime.sleep(60)", grace=SHORT).open()
        return int(text_of(await client.call_tool("any")))

    pid = asyncio.run(main())
    assert has_ended(pid)


def test_a_loop_that_ends_at_once_leaves_nothing_either() -> None:
    async def main() -> None:
        await script("hear()").open()

    asyncio.run(main())  # the fixture looks for what is left


class Unpolled(asyncio.SelectorEventLoop):
    """A loop that polls no descriptors, like the one of Windows."""

    def add_reader(self, *given: Any) -> None:
        raise NotImplementedError

    def add_writer(self, *given: Any) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("after", ["hear()", "time.sleep(60)"], ids=["a server that ends", "a server that does not"])
def test_a_loop_that_polls_nothing(after: str) -> None:
    async def main() -> None:
        code = f"call = request()\nos.write(2, b'begun')\ntext(call, call['params']['arguments']['text'])\n{after}"
        async with script(code, grace=SHORT) as client:
            assert text_of(await client.call_tool("any", {"text": "x" * 300_000})) == "x" * 300_000
        assert client.last_words == "begun"

    with asyncio.Runner(loop_factory=Unpolled) as runner:
        runner.run(main())


def test_a_client_process_that_is_killed_leaves_no_server() -> None:
    """Its server finds its input ended."""
    code = (
        "import asyncio, sys\nfrom mcp_sansio_stdio import StdioClient\n"
        "async def main():\n"
        f"    client = await StdioClient(sys.executable, ['-S', '-c', {PRELUDE + give('os.getpid()')!r}]).open()\n"
        "    print((await client.call_tool('any')).content[0].text, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    assert has_ended(pid)

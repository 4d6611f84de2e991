"""``python -m mcp_sansio_stdio``, as somebody types it. What it prints is tried in tests/test_inspecting.py."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from typing import Any

import pytest

import speak
import support
from child_servers import PACKAGES, PRELUDE, PROGRAM

support.need("mcp_sansio_stdio")
COMMAND = [sys.executable, "-m", "mcp_sansio_stdio"]
SERVER = ["--", sys.executable, PROGRAM]
ENV = [f"--env={name}={value}" for name, value in PACKAGES.items()]


def run(*words: str, typed: str = "", **environment: str) -> tuple[int, str, str]:
    """Its status, and what it writes."""
    done = subprocess.run(
        [*COMMAND, *ENV, *words],
        input=typed.encode(),
        capture_output=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_what_a_server_is() -> None:
    status, output, errors = run(*SERVER)
    assert (status, errors) == (0, "")
    assert output.startswith(f"program 1.0\n  revision      {speak.VERSIONS[0]}\n")
    assert "\n  echo\n      Give the text back.\n      - text (string)\n" in output


def test_what_a_server_is_for_programs_that_speak_no_utf_8() -> None:
    status, output, _ = run("--json", f"--revision={speak.VERSIONS[-1]}", *SERVER, PYTHONIOENCODING="ascii")
    assert (status, json.loads(output)["server"]["revision"]) == (0, speak.VERSIONS[-1])


def test_a_call_with_a_question() -> None:
    assert run("--call", "order", "loaves=3", *SERVER, typed="y\n")[:2] == (0, "ordered 3\n")
    assert run("--call", "order", "loaves=3", *SERVER)[:2] == (0, "not ordered: cancel\n")


def test_what_a_failing_server_wrote_is_shown_once() -> None:
    status, output, errors = run("--", sys.executable, "-c", "import sys; sys.exit('no oven')")
    assert (status, output) == (3, "")
    assert sorted(errors.splitlines()) == ["error: the server exited with status 1", "no oven"]


def test_the_wire_and_the_servers_errors() -> None:
    code = "sys.stderr.write('starting'); sys.stderr.flush(); text(request(), 'ok'); hear()"
    status, output, errors = run("-v", "--call", "any", "--", sys.executable, "-S", "-c", f"{PRELUDE}{code}")
    assert (status, output) == (1, "")  # it answers the list of tools with something else, and ends
    assert "starting" in errors
    assert '> {"jsonrpc":"2.0"' in errors


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["--", "no-such-command"], 3, "cannot start 'no-such-command': there is no such command on the PATH"),
        (["--", sys.executable, "-c", "raise SystemExit('boom')"], 3, "the server exited with status 1"),
        (["--cwd=/no/such/folder", *SERVER], 3, "/no/such/folder"),
        (["--call", "echo", "text", *SERVER], 2, "'text' is no argument"),
        (["--timeout=0.5", "--", "sleep", "60"], 3, "no answer to initialize within 0.5 seconds"),
        (["--env=OVENS", *SERVER], 2, "argument --env: 'OVENS' has no '=' after a name"),
        ([], 2, "what server?"),
    ],
    ids=str,
)
def test_what_goes_wrong(words: list[str], status: int, error: str) -> None:
    done = run(*words)
    assert (done[0], error in done[2], "Traceback" in done[2]) == (status, True, False)


@pytest.mark.parametrize("waits_for", ["a server", "a line"])
def test_an_interruption_leaves_nothing(waits_for: str) -> None:
    tool = ["--call", "wait"] if waits_for == "a server" else ["--call", "order", "loaves=1"]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, *ENV, *tool, *SERVER], **pipes) as process:
        said = b""
        while b"begun" not in said and b"ancel? " not in said:
            assert select.select([process.stderr], [], [], 60)[0], "nothing came"
            said += os.read(process.stderr.fileno(), 1000)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert b"Traceback" not in process.stderr.read()

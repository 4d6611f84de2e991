"""``python -m mcp_sansio_trio`` and ``mcp_sansio_sync``, as somebody types them: for a server at a URL, or a process.

What they print is tried in tests/test_inspecting.py.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import speak
import support
from child_servers import PACKAGES, PROGRAM
from core_site import core_site
from mcp_sansio import Exchange, Registry, elicit

SERVER = ["--", sys.executable, PROGRAM]
ENV = [f"--env={name}={value}" for name, value in PACKAGES.items()]


@pytest.fixture(params=["mcp_sansio_trio", "mcp_sansio_sync"])
def command(request: pytest.FixtureRequest) -> list[str]:
    """How it is started."""
    support.need(request.param)
    support.need({"mcp_sansio_trio": "trio", "mcp_sansio_sync": "urllib3"}[request.param])
    return [sys.executable, "-m", request.param]


def run(command: list[str], *words: str, typed: str = "") -> tuple[int, str, str]:
    """Its status, and what it writes."""
    done = subprocess.run(
        [*command, *words],
        input=typed,
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    return done.returncode, done.stdout, done.stderr


def build(event: Callable[[], Any]) -> Registry:
    registry = Registry("shop", "1")

    @registry.tool
    async def order(loaves: int, ex: Exchange) -> str:
        """Order bread."""
        return f"{loaves}: {(await ex.ask('sure', elicit('Sure?'))).action}"

    return registry


def test_what_a_server_at_a_url_is(command: list[str]) -> None:
    with core_site(build) as site:
        status, output, errors = run(command, site.url + "/mcp")
    assert (status, errors) == (0, "")
    assert output.startswith(f"shop 1\n  revision      {speak.VERSIONS[0]}\n")


def test_a_call_with_a_question_and_headers(command: list[str]) -> None:
    with core_site(build) as site:
        words = [site.url + "/mcp", "-H", "X-From: here", "--call", "order", "loaves=3"]
        assert run(command, *words, typed="y\n")[:2] == (0, "3: accept\n")
        assert run(command, *words)[:2] == (0, "3: cancel\n")


def test_what_a_server_is_that_it_starts(command: list[str]) -> None:
    status, output, errors = run(command, *ENV, *SERVER)
    assert (status, errors) == (0, "")
    assert output.startswith(f"program 1.0\n  revision      {speak.VERSIONS[0]}\n")


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["http://127.0.0.1:1/mcp"], 3, "Connection refused"),
        (["http://127.0.0.1:1/mcp", "more"], 2, "'more' is one word too many"),
        (["--", "no-such-command"], 3, "there is no such command on the PATH"),
        (["http://"], 2, "not an http or https URL"),
        ([], 2, "what server?"),
    ],
    ids=str,
)
def test_what_goes_wrong(command: list[str], words: list[str], status: int, error: str) -> None:
    done = run(command, *words)
    assert (done[0], error in done[2], "Traceback" in done[2]) == (status, True, False)


def test_what_a_failing_server_wrote_is_shown_once(command: list[str]) -> None:
    status, output, errors = run(command, "--", sys.executable, "-c", "import sys; sys.exit('no oven')")
    assert (status, output) == (3, "")
    assert sorted(errors.splitlines()) == ["error: the server exited with status 1", "no oven"]


def test_an_interruption_leaves_nothing(command: list[str]) -> None:
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with core_site(build) as site:
        words = [*command, site.url + "/mcp", "--call", "order", "loaves=1"]
        with subprocess.Popen(words, **pipes) as process:
            said = b""
            while b"ancel? " not in said:
                assert select.select([process.stderr], [], [], 60)[0], "nothing came"
                said += os.read(process.stderr.fileno(), 1000)
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130
            assert b"Traceback" not in process.stderr.read()

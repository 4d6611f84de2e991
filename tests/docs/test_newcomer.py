"""The words of the README and of "Getting started", tried: what they say is typed in, and answered as they promise."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

import pages
import support

support.need("mcp_sansio_aiohttp")

CONSOLE = [block.source for block in pages.blocks(support.ROOT / "README.md") if block.info == "console"]


@pytest.fixture
def port() -> Iterator[int]:
    """The port of the quickstart's server, in a process of its own."""
    quickstart = support.ROOT / "docs" / "examples" / "quickstart.py"
    command = [sys.executable, "-u", str(quickstart), "0"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            address = next(line for line in server.stdout if "Running on" in line)
            yield int(address.rpartition(":")[2].strip(" =)\n"))
        finally:
            server.terminate()


def curl_command() -> tuple[str, dict[str, str], bytes]:
    """The URL, headers and body of the README's curl command."""
    (line,) = [line for block in CONSOLE for line in block.replace("\\\n", " ").splitlines() if line.startswith("curl")]
    words = iter(shlex.split(line)[1:])
    url, headers, body = "", {}, b""
    for word in words:
        if word == "-H":
            name, _, value = next(words).partition(":")
            headers[name] = value.strip()
        elif word == "-d":
            body = next(words).encode()
        elif not word.startswith("-"):
            url = word
    return url, headers, body


def test_curl_gets_the_answer_that_the_readme_shows(port: int) -> None:
    url, headers, body = curl_command()
    with urlopen(Request(url.replace(":8000/", f":{port}/"), body, headers), timeout=30) as response:
        answer = json.load(response)
    (shown,) = [block.source for block in pages.blocks(support.ROOT / "README.md") if block.info == "json"]
    assert answer == json.loads(shown)


def test_the_client_of_the_command_line_calls_the_tool(port: int) -> None:
    (line,) = [line for block in CONSOLE for line in block.splitlines() if "-m mcp_sansio_aiohttp" in line]
    words = shlex.split(line.replace(":8000/", f":{port}/"))[1:]
    called = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, check=True)
    assert called.stdout == "5\n"


def test_the_two_commands_are_a_line_each() -> None:
    """They are pasted as they stand, and .ci/run takes them from here."""
    commands = [block for block in CONSOLE if block.startswith("python3 -m venv .venv && ")]
    assert [command.count("\n") for command in commands] == [1, 1]


# Getting started

STARTED = support.ROOT / "docs" / "getting-started.md"
BLOCKS = list(pages.blocks(STARTED))
#: The commands whose output the page shows, and that output.
SHOWN = {
    command.source.strip(): output.source
    for command, output in itertools.pairwise(BLOCKS)
    if (command.info, output.info) == ("console", "text")
}


@pytest.fixture
def bakery(tmp_path: Path) -> Iterator[Callable[[str], subprocess.CompletedProcess[str]]]:
    """Types a command of the page in, where its files are and its server runs, and answers its question by a yes."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
    for block in pages.examples(STARTED):
        (tmp_path / f"{block.file}.py").write_text(block.source.replace("8000", port), "utf-8")
    options: Any = {"cwd": tmp_path, "text": True, "stdout": subprocess.PIPE}
    options["env"] = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}

    def typed(command: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(command.replace("8000", port).replace(".venv/bin/python", sys.executable))
        return subprocess.run(words, input="y\n", stderr=subprocess.STDOUT, timeout=60, check=False, **options)

    with subprocess.Popen([sys.executable, "-u", "bakery.py"], stdin=subprocess.DEVNULL, **options) as server:
        assert server.stdout is not None
        try:
            assert any("Running on" in line for line in server.stdout)
            yield typed
        finally:
            server.terminate()


@pytest.mark.parametrize("command", SHOWN)
def test_what_getting_started_shows_is_what_is_said(
    bakery: Callable[[str], subprocess.CompletedProcess[str]], command: str
) -> None:
    support.need("mcp_sansio_stdio")
    said = bakery(command).stdout.replace("[c]ancel? ", "[c]ancel? y\n")  # a terminal shows what is typed
    assert said.lstrip() == SHOWN[command]


def test_the_test_of_getting_started_passes(bakery: Callable[[str], subprocess.CompletedProcess[str]]) -> None:
    (command,) = [block.source for block in BLOCKS if "pytest -q" in block.source]
    done = bakery(f"{command.strip()} -p no:cacheprovider")
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout

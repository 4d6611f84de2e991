"""The README's own words, tried: its server is started and its curl command answered with what it promises."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
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

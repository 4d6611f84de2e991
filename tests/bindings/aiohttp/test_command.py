"""``python -m mcp_sansio_aiohttp``, as somebody types it. What it prints is tried in tests/test_inspecting.py."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

import mcp_sansio
import speak
import support
from by_hand import Request, json_reply, plain
from callers import baking, listening

BINDING = support.need("mcp_sansio_aiohttp")
PACKAGES = [str(Path(str(package.__file__)).parents[1]) for package in (mcp_sansio, BINDING)]


async def run(*words: str, typed: str = "") -> tuple[int | None, str, str]:
    """Its status, and what it writes."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "error", "-m", "mcp_sansio_aiohttp", *words),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(PACKAGES), "PYTHONIOENCODING": "utf-8"},
    )
    output, errors = await process.communicate(typed.encode())
    return process.returncode, output.decode(), errors.decode()


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
async def test_what_a_server_is(path: str) -> None:
    async with baking() as site:
        status, output, errors = await run(site.url + path)
        json_status, printed, _ = await run(site.url + path, "--json", f"--revision={speak.VERSIONS[1]}")
    assert (status, errors) == (0, "")
    assert output.startswith("bakery 1.0 — The bakery\n  revision ")
    assert "\n  price — Price\n      What that many loaves cost.\n      - loaves (integer, minimum 1" in output
    shown = json.loads(printed)
    assert (json_status, shown["server"]["revision"]) == (0, speak.VERSIONS[1])
    assert {tool["name"] for tool in shown["tools"]} >= {"price", "modern"}


@pytest.mark.parametrize("version", speak.VERSIONS[:2])
async def test_a_call_with_a_question(version: str) -> None:
    words = [f"--revision={version}", "--call", "reserve", "loaves=3"]
    async with baking() as site:
        assert (await run(site.url + "/mcp", *words, typed="y\nAda\n"))[:2] == (0, "3 for Ada\n")
        assert (await run(site.url + "/mcp", *words, typed="n\n"))[:2] == (0, "not reserved: decline\n")


async def test_the_wire_and_the_headers() -> None:
    requests: list[Request] = []

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        requests.append(request)
        writer.write(plain(401, "WWW-Authenticate: Bearer", body=b"Who are you?"))

    async with listening(answer) as url:
        status, output, errors = await run(url, "-v", "-H", "Authorization: Bearer s3cret", "-H", "X-Team:bread")
    assert (status, output) == (1, "")
    assert "error: Who are you? (HTTP 401)" in errors
    assert f"> POST {url}" in errors
    assert "< 401" in errors
    assert "s3cret" not in errors
    assert (requests[0].headers["authorization"], requests[0].headers["x-team"]) == ("Bearer s3cret", "bread")


@pytest.mark.parametrize(
    ("words", "status", "error"),
    [
        (["http://127.0.0.1:9/"], 3, "cannot connect to http://127.0.0.1:9 ("),
        (["ftp://a.example/"], 2, "not an http or https URL"),
        (["http://127.0.0.1:9/", "-H", "a b: c"], 2, "not the name of a header"),
        (["http://127.0.0.1:9/", "-H", "Bearer"], 2, "argument -H/--header: 'Bearer' has no ':' after a name"),
        (["http://127.0.0.1:9/", "-H", ":x"], 2, "argument -H/--header: ':x' has no ':' after a name"),
        (["http://127.0.0.1:9/", "loaves=3"], 2, "'loaves=3' is one word too many"),
        ([], 2, "what server?"),
    ],
    ids=str,
)
async def test_what_goes_wrong(words: list[str], status: int, error: str) -> None:
    done = await run(*words)
    assert (done[0], error in done[2], "Traceback" in done[2]) == (status, True, False)


async def test_what_a_server_that_is_none_is_said_to_be() -> None:
    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(json_reply(b"<html>"))

    async with listening(answer) as url:
        status, _, errors = await run(url)
    assert status == 3
    assert "the server speaks none of" in errors

"""The bindings' commands in front of the servers of other projects: what they show, and a call that asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import support

from .pantry import EVERYTHING, FOUND_BY, PANTRIES, PATIENCE, Project, Running

support.need("mcp_sansio_aiohttp")
support.need("mcp_sansio_stdio")

TARGETS = [(project, transport) for project in PANTRIES.values() for transport in ("http", "stdio")]
EVERYWHERE = [*TARGETS, *((EVERYTHING, transport) for transport in EVERYTHING.transports)]


def named(value: object) -> str:
    return value.name if isinstance(value, Project) else str(value)


def run(programs: Running, project: Project, transport: str, *options: str, typed: str = "") -> str:
    """What the command prints about a server."""
    where = programs.where(project, transport, project.eras[0])
    if where.transport == "stdio":
        told = [word for name, value in FOUND_BY.items() for word in ("--env", f"{name}={value}")]
        words = ["mcp_sansio_stdio", *told, *options, "--", *where.command]
    else:
        words = ["mcp_sansio_aiohttp", where.url, *options]
    made = subprocess.run(
        [sys.executable, "-m", *words],
        input=typed,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUTF8": "1"},
        timeout=PATIENCE,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.mark.parametrize(("project", "transport"), EVERYWHERE, ids=named)
def test_what_a_server_is(programs: Running, project: Project, transport: str) -> None:
    shown = json.loads(run(programs, project, transport, "--json"))
    name, tool = ("mcp-servers/everything", "get-sum") if project is EVERYTHING else ("pantry", "add")
    assert shown["server"]["name"] == name
    (found,) = (listed for listed in shown["tools"] if listed["name"] == tool)
    assert sorted(found["inputSchema"]["properties"]) == ["a", "b"]
    assert shown["resources"]
    assert shown["prompts"]


@pytest.mark.parametrize(("project", "transport"), TARGETS, ids=named)
def test_a_call_that_asks(programs: Running, project: Project, transport: str) -> None:
    said = run(programs, project, transport, "--call", "confirm", "what=tea", typed="y\nAda\n")
    assert said == "accept: Ada\n"

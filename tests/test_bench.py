"""The benches still run: each exchange of the pure core is made and checked, and each table of growth is filled.

Nothing is timed here. What the benches compare needs environments of its own, but it sends and checks the same rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import support

BENCH = support.ROOT / "bench"
ROWS = {
    "2026-07-28": ("call", "list", "read", "stream", "ask"),
    "2025-11-25": ("call", "list", "read", "stream", "ask"),
    "2025-03-26": ("ask", "batch"),
}

if not BENCH.is_dir():
    pytest.skip("the benches are not part of a source distribution", allow_module_level=True)


def lines_of(script: str, *arguments: str) -> list[dict[str, Any]]:
    """The lines of JSON that a bench prints. It fails the test where it fails."""
    command = [sys.executable, BENCH / script, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_every_exchange_of_the_pure_core() -> None:
    measured = lines_of("core.py", "--rounds", "2", "--seconds", "0")
    expected = [
        f"core-{engine}/{kind}/{revision}"
        for engine in ("channel", "http")
        for revision, kinds in ROWS.items()
        for kind in kinds
    ]
    assert [row["name"] for row in measured] == expected
    assert all(len(row["core"]) == len(row["msgspec"]) == 2 for row in measured)
    assert all(cost > 0 for row in measured for cost in row["msgspec"])


def test_every_table_of_growth() -> None:
    tables = {table["name"]: table for table in lines_of("growth.py", "--quick", "--calls", "2")}
    assert set(tables) == {
        "growth/streams",
        "growth/sessions",
        "growth/tools",
        "growth/publish",
        "growth/batch",
        "growth/large",
        "growth/memory",
        "growth/imports",
    }
    assert all(len(line) == len(table["columns"]) for table in tables.values() for line in table["rows"])
    # One encoding for each revision that listens, however many streams there are: this is a count, and no timing.
    assert [line[:2] for line in tables["growth/publish"]["rows"]] == [["1", "1"], ["10", "5"], ["100", "5"]]


def test_every_table_of_many_workers() -> None:
    support.need("mcp_sansio_aiohttp")
    measured = lines_of("stores.py", "--rounds", "1", "--seconds", "0.01")
    tables = {table["name"]: {line[0]: line[1:] for line in table["rows"]} for table in measured}
    engines = ["memory", "SQLite", "Redis", "PostgreSQL"]
    expected = {"workers/session": engines, "workers/ask": [*engines, "sealed tokens"], "workers/pushed": engines}
    assert {name: list(lines) for name, lines in tables.items()} == expected
    # Figures or, where an engine is missing, the reason.
    assert all(lines["memory"][0].replace(",", "").isdigit() for lines in tables.values())

"""docs/conformance.md has the numbers that the conformance tests insist on, and the suite that tox.ini installs."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import support

CONFORMANCE = support.ROOT / "tests" / "conformance"
PAGE = (support.ROOT / "docs" / "conformance.md").read_text("utf-8")


def rows(section: str) -> list[list[str]]:
    """The cells of the table in a section."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def literals(path: Path) -> list[Any]:
    """Every literal of a module."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Dict | ast.List):
            try:
                found.append(ast.literal_eval(node))
            except ValueError:
                continue
    return found


def test_the_servers_numbers() -> None:
    written = [[revision, int(scenarios), int(checks)] for revision, scenarios, checks in rows("Servers")]
    asserted = literals(CONFORMANCE / "test_conformance.py")
    assert [tuple(row) for row in written] in asserted


def test_the_clients_numbers() -> None:
    written = {(revision, scenario): int(checks) for revision, scenario, checks in rows("Clients")}
    assert written in literals(CONFORMANCE / "test_client_conformance.py")


def test_the_suite() -> None:
    pins = re.findall(r"conformance@(\S+)", (support.ROOT / "tox.ini").read_text("utf-8"))
    assert re.findall(r"\d+\.\d+\.\d+-\w+\.\d+", PAGE) == pins

"""What the docs promise of tests: a plain one is short, takes milliseconds and needs no loop; checks name the rules."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import mcp_sansio
import pages
import support
from mcp_sansio.testing.checking import RULES

PAGE = support.ROOT / "docs" / "testing.md"
#: The blocks before the first test that is written as a function, and that one.
FIRST, WHOLE = pages.examples(PAGE)[:2]
RULE = re.compile(r"^([0-9])\. \*\*(.+?)\*\*", re.MULTILINE)
LOOPS = {"asyncio", "trio", "anyio", "concurrent.futures", "selectors", "socket", "ssl"}
PROGRAM = """
import sys, time, types
pytest = sys.modules["pytest"] = types.SimpleNamespace()
pytest.mark = types.SimpleNamespace(parametrize=lambda *given: lambda test: test)
page = sys.modules[__name__].__dict__
exec(compile({first!r}, "first", "exec"), page)
exec(compile({whole!r}, "whole", "exec"), page)
times = []
for _ in range(5):
    began = time.perf_counter()
    for revision in every_revision:
        test_it_asks_before_it_throws_away(revision)
    times.append(time.perf_counter() - began)
print(len(every_revision), min(times), *sorted(set(sys.modules) & {loops!r}))
"""


def test_the_whole_test_is_short() -> None:
    (test,) = [node for node in ast.walk(ast.parse(WHOLE.source)) if isinstance(node, ast.FunctionDef)][:1]
    assert test.end_lineno is not None
    assert test.end_lineno - test.lineno + 1 + len(test.decorator_list) < 15


def test_the_whole_test_runs_in_milliseconds_without_an_event_loop() -> None:
    program = PROGRAM.format(first=FIRST.source, whole=WHOLE.source, loops=LOOPS)
    environment = {**os.environ, "PYTHONPATH": str(Path(mcp_sansio.__file__).parents[1])}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    revisions, seconds, *loaded = done.stdout.split()
    assert (int(revisions), loaded) == (len(mcp_sansio.AdapterSet.default().versions), [])
    assert float(seconds) < 0.1


def test_the_checks_name_the_rules_of_the_page() -> None:
    page = (support.ROOT / "docs" / "write-a-transport.md").read_text("utf-8")
    rules = {
        int(number): words.rstrip(".").lower()
        for number, words in RULE.findall(page.split("\n## The rules\n")[1].split("\n## ")[0])
    }
    assert list(rules) == list(range(1, 10))
    assert {number: text[: len(rules[number])] for number, text in RULES.items()} == {
        number: rules[number] for number in RULES
    }

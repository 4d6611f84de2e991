"""What docs/testing.md promises of a plain test: it is short, it takes milliseconds, and it needs no event loop."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import mcp_sansio
import pages
import support

PAGE = support.ROOT / "docs" / "testing.md"
#: The blocks before the first test that is written as a function, and that one.
FIRST, WHOLE = pages.examples(PAGE)[:2]
LOOPS = {"asyncio", "trio", "anyio", "concurrent.futures", "selectors", "socket", "ssl"}
PROGRAM = """
import sys, time, types
pytest = sys.modules["pytest"] = types.SimpleNamespace()
pytest.mark = types.SimpleNamespace(parametrize=lambda *given: lambda test: test)
page = sys.modules[__name__].__dict__
exec(compile({first!r}, "first", "exec"), page)
exec(compile({whole!r}, "whole", "exec"), page)
began = time.perf_counter()
for revision in every_revision:
    test_it_asks_before_it_throws_away(revision)
print(len(every_revision), time.perf_counter() - began, *sorted(set(sys.modules) & {loops!r}))
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
    # Some ten milliseconds; a machine that is busy with other things may take longer.
    assert float(seconds) < 1.0

"""A change rehearsed: what a new revision costs.

A revision that nobody has specified (tests/_support/v2099_01_01.py) is put into a copy of the package: one new file,
and one line in the table of `selection`. The promise, and what tests/_support/rehearsed.py asks of the revision, run
there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_sansio
import support

SUPPORT = support.ROOT / "tests" / "_support"


@pytest.mark.skipif(support.DELETED_REVISION is not None, reason="this run is such a copy already")
def test_a_revision_is_one_file_and_one_line(tmp_path: Path) -> None:
    package = Path(mcp_sansio.__file__).parent
    copy = tmp_path / "mcp_sansio"
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(SUPPORT / "v2099_01_01.py", copy / "adapters")
    selection = copy / "adapters" / "selection.py"
    text, lines = re.subn(r"^REVISIONS = \(\n", r'\g<0>    "2099-01-01",\n', selection.read_text("utf-8"), flags=re.M)
    assert lines == 1
    selection.write_text(text, "utf-8")

    tests = [str(support.ROOT / "tests" / "test_promise.py"), str(SUPPORT / "rehearsed.py")]
    config = ["-c", str(support.ROOT / "pyproject.toml"), "--rootdir", str(support.ROOT), "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *config, *tests],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert re.search(r"\b[1-9]\d* passed\b", done.stdout), done.stdout

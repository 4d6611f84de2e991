"""The soak still runs, and finds nothing in a thousandth of its counts. By hand it is run in full."""

from __future__ import annotations

import subprocess
import sys

import pytest

import support

SOAK = support.ROOT / "soak"

if not SOAK.is_dir():
    pytest.skip("the soak is not part of a source distribution", allow_module_level=True)
if not sys.platform.startswith("linux"):
    pytest.skip("the soak looks into /proc", allow_module_level=True)
support.need("mcp_sansio_aiohttp")
support.need("mcp_sansio_stdio")


def test_a_thousandth_of_it() -> None:
    command = [sys.executable, SOAK / "run.py", "--scale", "0.001"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    parts = [line.partition(":")[0] for line in ran.stdout.splitlines() if not line.startswith(" ")]
    assert parts == [
        "calls over HTTP",
        "calls over pipes",
        "sessions that expire",
        "refused requests",
        "listen streams",
    ]

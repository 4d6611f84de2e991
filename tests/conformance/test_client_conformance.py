"""The official conformance suite's client scenarios, one at a time, with the everything-client.

Every scenario that is neither about authorisation nor about an extension runs at each revision that it applies to. The
suite has to be content by its exit code, which for one scenario heeds warnings and how the client ended; every check
must have succeeded; and there must be as many as were counted when the official Python SDK's client passed, or more,
where this client does more of what can be checked. A client that does nothing fails every scenario by that standard.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import conformance
import support
from conformance import Tally, table

support.need("mcp_sansio_aiohttp")
SUITE = conformance.command()
CLIENT = Path(__file__).with_name("everything_client.py")

#: Each scenario at each of its revisions, and how many checks it has to make.
RUNS = {
    ("2025-06-18", "initialize"): 1,
    ("2025-06-18", "tools_call"): 2,
    ("2025-11-25", "initialize"): 1,
    ("2025-11-25", "tools_call"): 2,
    ("2025-11-25", "elicitation-sep1034-client-defaults"): 5,
    ("2025-11-25", "sse-retry"): 3,
    ("2025-11-25", "json-schema-2020-12-preservation"): 9,
    ("2026-07-28", "tools_call"): 2,
    ("2026-07-28", "request-metadata"): 8,
    ("2026-07-28", "sep-2322-client-request-state"): 5,
    ("2026-07-28", "http-standard-headers"): 9,
    ("2026-07-28", "http-custom-headers"): 18,
    ("2026-07-28", "http-invalid-tool-headers"): 12,
    ("2026-07-28", "json-schema-ref-no-deref"): 1,
    ("2026-07-28", "json-schema-2020-12-preservation"): 9,
}

#: Headers of messages that the revision does not have: the scenario still lists the handshake.
NOT_SENT = {"ClientMcpMethodHeader_initialize", "ClientMcpMethodHeader_notifications_initialized"}


def run(folder: Path, command: str, revision: str, scenario: str) -> tuple[Tally, int, str]:
    """What the suite wrote of one scenario with the client of `command`, its exit code, and what it printed."""
    options = ["--command", command, "--scenario", scenario, "--spec-version", revision, "-o", str(folder)]
    made = subprocess.run([*SUITE, "client", *options], capture_output=True, text=True, check=False, timeout=100)
    (results,) = folder.iterdir()
    return Tally.of(results, NOT_SENT), made.returncode, made.stdout + made.stderr


@pytest.mark.parametrize(("revision", "scenario"), RUNS)
def test_every_check_succeeds(revision: str, scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"{sys.executable} -W error {CLIENT} --binding aiohttp"
    tally, code, printed = run(tmp_path, command, revision, scenario)
    with capsys.disabled():
        print(table(f"client at {revision}", [tally]))
    assert (tally.faults, tally.statuses["SUCCESS"], code) == ([], RUNS[revision, scenario], 0), printed


@pytest.mark.parametrize(("revision", "scenario"), RUNS)
def test_a_client_that_does_nothing_passes_no_scenario(revision: str, scenario: str, tmp_path: Path) -> None:
    tally, _, _ = run(tmp_path, "true", revision, scenario)
    assert tally.faults or tally.statuses["SUCCESS"] < RUNS[revision, scenario]

"""The official conformance suite's client scenarios, one at a time, with the everything-client.

Every scenario that is neither about authorisation nor about an extension runs at each revision that it applies to, once
with a client of that revision and once with one that finds out what the suite's server speaks. The
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


def run(folder: Path, command: str, *options: str) -> tuple[list[Tally], int, str]:
    """What the suite wrote of each scenario with the client of `command`, its exit code, and what it printed."""
    made = subprocess.run(
        [*SUITE, "client", "--command", command, "-o", str(folder), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    results = sorted(checks.parent for checks in folder.glob("*/checks.json"))
    return [Tally.of(result, NOT_SENT) for result in results], made.returncode, made.stdout + made.stderr


@pytest.mark.parametrize("binding", ["aiohttp", "trio", pytest.param("sync", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("told", ["", "--finds-out"], ids=["told", "finding out"])
@pytest.mark.parametrize(("revision", "scenario"), RUNS)
def test_every_check_succeeds(
    revision: str, scenario: str, told: str, binding: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    support.need(f"mcp_sansio_{binding}")
    command = f"{sys.executable} -W error {CLIENT} --binding {binding} {told}"
    (tally,), code, printed = run(tmp_path, command, "--scenario", scenario, "--spec-version", revision)
    with capsys.disabled():
        print(table(f"{binding} client at {revision} {told}", [tally]))
    assert (tally.faults, tally.statuses["SUCCESS"], code) == ([], RUNS[revision, scenario], 0), printed


@pytest.mark.parametrize("revision", sorted({revision for revision, _ in RUNS}))
def test_a_client_that_does_nothing_passes_no_scenario(revision: str, tmp_path: Path) -> None:
    tallies, _, _ = run(tmp_path, "true", "--suite", "all", "--spec-version", revision)
    found = {tally.scenario: tally for tally in tallies if (revision, tally.scenario) in RUNS}
    assert found.keys() == {scenario for dated, scenario in RUNS if dated == revision}
    content = [name for name, tally in found.items() if not tally.faults]
    assert [name for name in content if found[name].statuses["SUCCESS"] >= RUNS[revision, name]] == []

"""The official conformance suite, whole and at every revision that it knows, against the everything-server.

It needs the suite and the Node that runs it below ``$MCP_SANSIO_NPM`` (``tox -e conformance`` installs both).

Every check that the suite wrote down is read (tests/_support/conformance.py says why): all of them must have succeeded,
each scenario must have made checks of its own, and they must be as many as were counted when the official Python SDK's
server passed the suite, less one: that one looks into a list that comes as an event stream, and here a list comes as
JSON. The last test shows that a server without a single feature fails every scenario by that standard.

The suite always proposes the newest revision with a handshake, so a run at an older one checks what is sent against
that revision's schema, and no more; the older revisions' own tests are in tests/adapters and tests/server.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import conformance
import support
from conformance import Tally, faults_of, successes, table

support.need("jsonschema")
SUITE = conformance.command()

#: The bindings that serve, each with what it needs.
BINDINGS = {
    "aiohttp": ("mcp_sansio_aiohttp",),
    "asgi": ("mcp_sansio_asgi", "uvicorn"),
    "sync": ("mcp_sansio_sync",),
    "trio": ("mcp_sansio_trio",),
}
#: Scenarios of extensions that this library does not have. A frozen set of requirements runs them without scoring them.
EXTENSIONS = (
    *("tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal"),
    *("tasks-mrtr-input", "tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-required-task-error"),
    *("tasks-mrtr-composition", "tasks-status-notifications"),
)


def run(folder: Path, url: str, *options: str) -> tuple[list[Tally], int]:
    """What the suite wrote of every scenario, and its exit code. A scenario that crashed writes nothing."""
    made = subprocess.run(
        [*SUITE, "server", "--url", url, "-o", str(folder), *options], capture_output=True, text=True, check=False
    )
    assert made.returncode in (0, 1), made.stderr
    return sorted(map(Tally.of, folder.iterdir()), key=lambda tally: tally.scenario), made.returncode


#: A run of the suite takes its time, and the two that read HTTP themselves are tried always.
_PARAMS = [pytest.param(name, marks=() if name in ("aiohttp", "trio") else pytest.mark.thorough) for name in BINDINGS]


@pytest.fixture(scope="module", params=_PARAMS)
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the everything-server, served by each binding in turn. It must not have logged a single traceback."""
    for module in BINDINGS[request.param]:
        support.need(module)
    log = tmp_path_factory.mktemp("server") / "log"
    command = [sys.executable, str(Path(__file__).with_name("everything_server.py")), "--binding", request.param]
    with log.open("w") as errors, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, log.read_text()
        try:
            yield line.strip()
        finally:
            server.terminate()
    assert "Traceback" not in log.read_text(), log.read_text()


@pytest.mark.parametrize(
    ("revision", "scenarios", "checks"),
    [("2025-03-26", 1, 3), ("2025-06-18", 27, 56), ("2025-11-25", 33, 83), ("2026-07-28", 40, 152)],
)
def test_every_check_succeeds(
    url: str, revision: str, scenarios: int, checks: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tallies, code = run(tmp_path, url, "--suite", "all", "--spec-version", revision)
    with capsys.disabled():
        print(table(revision, tallies))
    assert (faults_of(tallies), len(tallies), successes(tallies), code) == ({}, scenarios, checks, 0)


@pytest.mark.parametrize(
    ("revision", "scenarios", "absent"), [("2025-11-25", 33, ()), ("2026-07-28", 50, sorted(EXTENSIONS))]
)
def test_the_frozen_requirements_are_met(
    url: str, revision: str, scenarios: int, absent: tuple[str, ...], tmp_path: Path
) -> None:
    tallies, code = run(tmp_path, url, "--requirements", revision)
    print(table(f"requirements of {revision}", tallies))
    assert (sorted(faults_of(tallies)), len(tallies), code) == (list(absent), scenarios, 0)


class NothingHere(BaseHTTPRequestHandler):
    """Answers everything with 404."""

    def do_GET(self) -> None:
        self.send_error(404)

    def do_POST(self) -> None:
        self.send_error(404)

    def do_DELETE(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_server_without_any_feature_passes_no_scenario(revision: str, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), NothingHere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            tallies, _ = run(
                tmp_path, f"http://127.0.0.1:{server.server_port}/mcp", "--suite", "all", "--spec-version", revision
            )
        finally:
            server.shutdown()
            thread.join()
    assert [tally.scenario for tally in tallies if not tally.faults] == []

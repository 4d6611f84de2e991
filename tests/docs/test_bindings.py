"""The tables of docs/bindings.md are those of the suite as it stands, and say that everything holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import support
from plugs import all_plugs

TABLE = json.loads((support.ROOT / "docs" / "bindings.json").read_text("utf-8"))
HERE = {(plug.kind, plug.name) for plug in all_plugs() if not plug.missing}
HOW = "write it anew: pytest -m '' tests/bindings --behaviours docs/bindings.json"


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the suite's tests, run on the bindings that are installed, should come to."""
    written: Path = tmp_path_factory.mktemp("bindings") / "bindings.json"
    own = ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only"),
            *("-m", "", "--behaviours", str(written), str(support.ROOT / "tests" / "bindings")),
        ],
        cwd=support.ROOT,
        env={name: value for name, value in os.environ.items() if name not in own},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout
    return json.loads(written.read_text("utf-8"))


@pytest.mark.parametrize("kind", ["http_server", "http_client", "channel_server", "channel_client"])
def test_the_table_is_that_of_the_suite(kind: str, collected: Any) -> None:
    installed = {binding for of, binding in HERE if of == kind}
    if not installed:
        pytest.skip("no binding of this kind is installed")
    table = {
        behaviour: {binding: said for binding, said in held.items() if binding in installed}
        for behaviour, held in TABLE[kind].items()
    }
    assert {behaviour: held for behaviour, held in table.items() if held} == collected[kind], HOW


def test_everything_holds() -> None:
    failed = [
        (kind, behaviour, binding)
        for kind, behaviours in TABLE.items()
        for behaviour, held in behaviours.items()
        for binding, said in held.items()
        if said == "no"
    ]
    assert failed == []

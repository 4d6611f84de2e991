"""What the tests of many workers share: the engines, each started once in a run, where tests do not stop it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from many_workers import Engines


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Each engine as soon as a test needs it."""
    folder: Path = tmp_path_factory.mktemp("engines")
    made = Engines(folder)
    yield made
    made.close()

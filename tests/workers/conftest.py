"""What the tests of many workers share: the engines, each started once in a run, where tests do not stop it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Each engine as soon as a test needs it."""
    # Here, and not above: where aiohttp is not installed this leaves a module out, and a module of tests has to be one.
    from many_workers import Engines

    made = Engines(tmp_path_factory.mktemp("engines"))
    yield made
    made.close()

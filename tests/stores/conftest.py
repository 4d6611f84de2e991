"""What the tests of stores share: the servers, started once in a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deployments import Servers


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Redis and PostgreSQL, each as soon as a test needs it."""
    made = Servers()
    yield made
    made.close()

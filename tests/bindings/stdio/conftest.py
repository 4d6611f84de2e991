"""Fixtures for what `processes` has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from processes import Process, Served, starting


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """Starts `Process`es, and ends them."""
    with starting() as begin:
        yield begin


@pytest.fixture
def served() -> type[Served]:
    """`Served`."""
    return Served

"""A fixture for what `lines` has."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from lines import Process, starting
from plugs import ChannelServer


@pytest.fixture
def start(channel_server: ChannelServer) -> Iterator[Callable[..., Process]]:
    """Starts `Process`es, and ends them."""
    with starting(channel_server) as begin:
        yield begin

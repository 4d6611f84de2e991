"""Clients of the binding under test, by what they start."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import child_servers
from plugs import ChannelClient

Make = Callable[..., Any]


@pytest.fixture
def program(channel_client: ChannelClient) -> Make:
    """Makes a client of the core on standard input and output."""
    return partial(child_servers.program, channel_client)


@pytest.fixture
def script(channel_client: ChannelClient) -> Make:
    """Makes a client of a script."""
    return partial(child_servers.script, channel_client)


@pytest.fixture
def child(channel_client: ChannelClient) -> Make:
    """Makes a client of any command."""
    return channel_client.client

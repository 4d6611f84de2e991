"""The promise, in memory: see tests/_support/promise.py."""

from __future__ import annotations

from functools import partial
from typing import Literal

import pytest

import promise
from mcp_sansio import AdapterSet
from mcp_sansio.testing import connect, every_revision

#: The first HTTP transport begins with a handshake.
WAYS: list[tuple[str, Literal["channel", "http", "pair"]]] = [
    *((revision, "channel") for revision in every_revision),
    *((revision, "http") for revision in every_revision),
    *((adapter.version, "pair") for adapter in AdapterSet.default().adapters if adapter.has_handshake),
]


@pytest.mark.parametrize(("revision", "over"), WAYS)
async def test_it_is_kept(revision: str, over: Literal["channel", "http", "pair"]) -> None:
    await promise.keep(partial(connect, promise.registry, revision, over=over), revision)

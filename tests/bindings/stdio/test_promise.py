"""The promise, over the pipes of a process: see tests/_support/promise.py."""

from __future__ import annotations

import sys
from functools import partial

import pytest

import promise
import support
from child_servers import PACKAGES
from mcp_sansio import AdapterSet
from mcp_sansio.testing import every_revision

StdioClient = support.need("mcp_sansio_stdio").StdioClient


@pytest.mark.parametrize("revision", every_revision)
async def test_it_is_kept(revision: str) -> None:
    adapter = AdapterSet.default().by_version[revision]
    opened = partial(StdioClient, sys.executable, [promise.__file__, "mcp_sansio_stdio"], env=PACKAGES, adapter=adapter)
    await promise.keep(opened, revision)

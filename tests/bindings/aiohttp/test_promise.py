"""The promise, over sockets: see tests/_support/promise.py."""

from __future__ import annotations

from functools import partial

import pytest

import promise
from callers import calling
from mcp_sansio import AdapterSet
from mcp_sansio.testing import every_revision
from sockets import Endpoint, SseEndpoint, serving, web

#: The first HTTP transport begins with a handshake.
WAYS = [(revision, "/mcp") for revision in every_revision]
WAYS += [(adapter.version, "/sse") for adapter in AdapterSet.default().adapters if adapter.has_handshake]


@pytest.mark.parametrize(("revision", "path"), WAYS)
async def test_it_is_kept(revision: str, path: str) -> None:
    app = web.Application()
    endpoint = Endpoint(promise.registry)
    endpoint.setup(app, "/mcp")
    SseEndpoint(endpoint).setup(app, "/sse", "/messages")
    async with serving(app) as site:
        await promise.keep(partial(calling, site, revision, path), revision)

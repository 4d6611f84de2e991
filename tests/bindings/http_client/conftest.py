"""Servers for a client, which are there until its loop has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from by_hand import Answer, listening, serving_by_hand
from core_site import CoreSite, core_site
from mcp_sansio import AdapterSet
from plugs import HttpClient


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """Ends the servers of a test."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def listen(servers: ExitStack) -> Callable[[Answer], str]:
    """Begins to answer requests by hand; the URL."""
    return lambda answer: servers.enter_context(listening(answer))


@pytest.fixture
def accept(servers: ExitStack) -> Callable[..., str]:
    """Begins to deal with whole connections by hand; the URL."""
    return lambda converse: servers.enter_context(serving_by_hand(converse))


@pytest.fixture
def serve(servers: ExitStack) -> Callable[..., CoreSite]:
    """Begins to serve what a function builds, by the core; see `core_site`."""
    return lambda build, **options: servers.enter_context(core_site(build, **options))


@pytest.fixture
def calling(http_client: HttpClient) -> Callable[..., Any]:
    """Makes a client of a `CoreSite`, or of a URL. Without a `version` it finds out."""

    def make(site: CoreSite | str, version: str | None = None, path: str = "/mcp", **options: Any) -> Any:
        adapter = None if version is None else AdapterSet.default().by_version[version]
        return http_client.client((site if isinstance(site, str) else site.url) + path, adapter, **options)

    return make

"""What a host of HTTP builds its server with: its options, and the engines behind its paths."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import AdapterSet, Config, MemorySessionStore, Registry, Runtime, Server
from speak import ENVELOPE, HANDSHAKE


class Mark:
    """Something to wait for, if anybody did."""

    def set(self) -> None:
        """See `mcp_sansio.runtime.Event`."""

    async def wait(self) -> None:
        """See `mcp_sansio.runtime.Event`."""


def runtime() -> Runtime:
    return Runtime(now=lambda: 0.0, token_bytes=bytes, event=Mark)


def server(**options: Any) -> Server:
    return Server.for_http(Registry("s", "1"), runtime(), **options)


def test_options_that_are_none_are_not_given() -> None:
    names = ("adapters", "config", "store", "states", "hub", "allowed_origins", "allowed_hosts")
    made = server(**dict.fromkeys(names))
    assert (made.config, made.adapters.versions) == (Config(), AdapterSet.default().versions)


def test_what_is_allowed_replaces_that_of_the_config() -> None:
    store, config = MemorySessionStore(clock=lambda: 0.0), Config(max_message=7, allowed_hosts=["a"])
    made = server(store=store, config=config, allowed_hosts=["b"], allowed_origins=["https://b"])
    assert made.config == Config(max_message=7, allowed_hosts=["b"], allowed_origins=["https://b"])
    assert made.store is store


@pytest.mark.skipif(not HANDSHAKE, reason="no revision has the pair")
def test_each_path_has_its_engine() -> None:
    made = server()
    routes = made.routes("/mcp/", sse_path="/sse", message_path="/messages")
    assert [*routes] == ["/mcp", "/sse", "/messages"]
    assert type(routes["/mcp"]()) is type(made.http_transaction())
    assert type(routes["/sse"]()) is type(routes["/messages"]()) is type(made.pair_transaction(message_path=""))
    assert [*made.routes(None, sse_path="/a/sse")] == ["/a/sse", "/messages"]
    assert [*made.routes("/")] == [""]


@pytest.mark.parametrize("paths", [("mcp", {}), ("/mcp", {"sse_path": "sse"}), ("", {})])
def test_a_path_begins_with_a_slash(paths: tuple[str, dict[str, str]]) -> None:
    with pytest.raises(ValueError, match=r"^a path begins with a slash, which '(mcp|sse|)' does not$"):
        server().routes(paths[0], **paths[1])


@pytest.mark.parametrize("version", ENVELOPE)
def test_the_pair_needs_a_revision_that_has_it(version: str) -> None:
    made = server(adapters=AdapterSet.default().only(version))
    with pytest.raises(ValueError, match="the pair of endpoints needs a revision with a handshake"):
        made.routes("/mcp", sse_path="/sse")

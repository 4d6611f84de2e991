"""A URL that is pinned to a revision speaks that revision from the handshake on, whatever the client offers."""

from __future__ import annotations

import pytest

from mcp_sansio import AdapterSet, Registry
from mcp_sansio.testing import Simulation

ADAPTERS = AdapterSet.default()
HANDSHAKE = [adapter.version for adapter in ADAPTERS.adapters if adapter.has_handshake]


@pytest.mark.parametrize("pinned", HANDSHAKE)
@pytest.mark.parametrize("offered", [*HANDSHAKE, "2099-01-01"])
def test_the_handshake_settles_on_the_pin(pinned: str, offered: str) -> None:
    simulation = Simulation(Registry("server", "1"))
    params = {"protocolVersion": offered, "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    opened = simulation.http(message, target=f"/mcp?mcp={pinned}")
    assert opened.messages[0]["result"]["protocolVersion"] == pinned
    # What the session remembers is the pin too: a message that states nothing is read by it.
    session = {"Mcp-Session-Id": opened.header("mcp-session-id") or ""}
    batch = simulation.http([{"jsonrpc": "2.0", "id": 2, "method": "ping"}], headers=session)
    allowed = ADAPTERS.by_version[pinned].allows_batch
    assert (batch.status, isinstance(batch.messages[0], list)) == ((200, True) if allowed else (400, False))

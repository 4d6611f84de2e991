"""What is asked of the invented revision, by tests/test_a_change_rehearsed.py, on a copy of the package that has it."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import AdapterSet, Registry
from mcp_sansio.testing import SimulatedHttp, Simulation, connect

NEW = "2099-01-01"


def registry() -> Registry:
    made = Registry("bakery", "1.0")

    @made.tool
    async def add(a: int, b: int) -> str:
        """Add two numbers."""
        return str(a + b)

    return made


def test_it_is_the_newest_of_six() -> None:
    versions = AdapterSet.default().versions
    assert (versions[0], len(versions)) == (NEW, 6)


@pytest.mark.parametrize("over", ["channel", "http"])
def test_a_client_that_names_no_revision_finds_it(over: Any) -> None:
    with connect(registry(), over=over) as client:
        result = client.call_tool("add", {"a": 2, "b": 3})
        assert (client.adapter.version, result.content[0].text) == (NEW, "5")


def answered(version: str, method: str, header: str) -> SimulatedHttp:
    """What comes back for a call of `add`, made in that revision, by that method and with that header."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "add", "arguments": {"a": 2, "b": 3}, "_meta": meta}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"MCP-Protocol-Version": version, "Mcp-Method": method, header: "add"}
    return Simulation(registry()).http(body, headers=headers)


@pytest.mark.parametrize(
    ("version", "method", "header", "status"),
    [
        (NEW, "tools/invoke", "Mcp-Target", 200),
        (NEW, "tools/call", "Mcp-Target", 404),
        (NEW, "tools/invoke", "Mcp-Name", 400),
        ("2026-07-28", "tools/call", "Mcp-Name", 200),
        ("2026-07-28", "tools/invoke", "Mcp-Name", 404),
        ("2026-07-28", "tools/call", "Mcp-Target", 400),
    ],
)
def test_each_revision_has_its_own_method_and_header(version: str, method: str, header: str, status: int) -> None:
    assert answered(version, method, header).status == status


def test_only_the_new_revision_has_the_new_member() -> None:
    (now,) = answered(NEW, "tools/invoke", "Mcp-Target").messages
    (before,) = answered("2026-07-28", "tools/call", "Mcp-Name").messages
    assert now == {**before, "result": {**before["result"], "cost": 0}}

"""docs/client.md names the peers that the client is tried against, in the versions that tox.ini installs."""

from __future__ import annotations

import re

import support

PINS = re.compile(
    r"^ +([a-z-]+)==([\d.]+)$|@modelcontextprotocol/(server|server-everything|conformance)@(\S+)", re.MULTILINE
)
NAMES = {
    "mcp": "`mcp`",
    "fastmcp": "FastMCP",
    "aiohttp-tiny-mcp": "aiohttp-tiny-mcp",
    "server": "`@modelcontextprotocol/server`",
    "server-everything": "`@modelcontextprotocol/server-everything`",
    "conformance": "the official conformance suite,",
}


def test_the_peers_are_those_of_the_tests() -> None:
    pins = PINS.findall((support.ROOT / "tox.ini").read_text("utf-8"))
    versions = {python or node: version or other for python, version, node, other in pins}
    assert versions.keys() == NAMES.keys()
    page = (support.ROOT / "docs" / "client.md").read_text("utf-8")
    assert [name for name, version in versions.items() if f"{NAMES[name]} {version} |" not in page] == []

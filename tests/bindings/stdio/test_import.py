"""What a server loads, since one is started for each client."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import support

stdio = support.need("mcp_sansio_stdio")


def test_a_server_loads_nothing_of_the_client() -> None:
    code = (
        "import sys, mcp_sansio_stdio\n"
        "own = [name for name in sys.modules if name.startswith('mcp_sansio')]\n"
        "print([name for name in own if name.split('.')[-1] in ('client', 'inspecting', '_client', '_process')])\n"
        "print(mcp_sansio_stdio.StdioClient.__name__, *mcp_sansio_stdio.__all__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nStdioClient StdioClient run_stdio serve_stdio\n"


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(AttributeError, match="module 'mcp_sansio_stdio' has no attribute 'nothing'"):
        stdio.nothing  # noqa: B018


SERVER = """
import sys
from mcp_sansio import Registry
from mcp_sansio_stdio import run_stdio

registry = Registry("server", "1.0")

@registry.tool
async def add(a: int, b: int = 2) -> str:
    return str(a + b)

before = set(sys.modules)
run_stdio(registry)
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""
HELLO = {
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "client", "version": "1.0"}},
}
CALL = {
    "method": "tools/call",
    "params": {
        "name": "add",
        "arguments": {"a": 1},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1.0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}


@pytest.mark.parametrize("message", [HELLO, CALL], ids=["handshake", "call"])
def test_the_first_answer_loads_the_revisions_and_nothing_else(message: dict[str, Any]) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, **message}) + "\n"
    done = subprocess.run([sys.executable, "-c", SERVER], input=line, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["result"]
    others = {name for name in done.stderr.split() if not name.startswith("mcp_sansio.adapters.")}
    assert others == set()

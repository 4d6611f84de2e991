"""What ``import mcp_sansio`` loads: a server over stdio is started for each client, which waits for all of it."""

from __future__ import annotations

import subprocess
import sys

#: What it needs of the standard library beyond what its three dependencies load: `logging`, the base64 of contents, and
#: what these are made of, and the context that each handler has of its own. Everything else waits until it is used.
NEEDED = {
    *("logging", "base64", "atexit", "binascii", "string", "struct", "_string", "_struct", "traceback", "_colorize"),
    *("math", "contextvars", "_contextvars"),
}
#: What only those need who speak over HTTP.
OF_HTTP = {
    *("server.gate", "server.heads", "server.http", "server.pair", "server.post", "server.session_stream"),
    *("server.session_transaction", "server.streamable", "wire.hosts", "wire.urls"),
}
CODE = """
import sys
import attrs, cattrs, cattrs.gen, msgspec, msgspec.json
before = set(sys.modules)
import mcp_sansio
print(*sorted(set(sys.modules) - before))
"""


def loaded() -> list[str]:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_core_loads_little_of_the_standard_library() -> None:
    others = {name for name in loaded() if name.partition(".")[0] != "mcp_sansio"}
    assert {name.partition(".")[0] for name in others} - NEEDED == set()


def test_the_core_loads_nothing_of_http_before_a_request() -> None:
    assert {f"mcp_sansio.{name}" for name in OF_HTTP} & set(loaded()) == set()
    assert {"mcp_sansio.server.server", "mcp_sansio.server.connection"} <= set(loaded())


def test_the_core_loads_no_client_and_nothing_of_the_tests() -> None:
    parts = {name.split(".")[1] for name in loaded() if "." in name and name.startswith("mcp_sansio.")}
    assert {"server", "adapters", "wire"} <= parts
    assert parts & {"client", "testing", "inspecting"} == set()

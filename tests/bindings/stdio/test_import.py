"""What a server loads, since one is started for each client."""

from __future__ import annotations

import subprocess
import sys

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

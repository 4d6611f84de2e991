"""A server with one tool, over HTTP. The README starts it and calls it with curl."""

import sys

from aiohttp import web

from mcp_sansio import Registry
from mcp_sansio_aiohttp import Endpoint

registry = Registry("quickstart", "1.0")


@registry.tool
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    web.run_app(Endpoint(registry).app("/mcp"), host="127.0.0.1", port=port)

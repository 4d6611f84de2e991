"""mcp-sansio over standard input and output: a server that its client starts as a process, and that client.

`run_stdio` is all that such a program needs. `serve_stdio` is for those who have an event loop, or other streams than
their own standard ones. `StdioClient` starts a server and calls it.
"""

from __future__ import annotations

from ._client import StdioClient
from ._serve import run_stdio, serve_stdio

__all__ = ["StdioClient", "run_stdio", "serve_stdio"]

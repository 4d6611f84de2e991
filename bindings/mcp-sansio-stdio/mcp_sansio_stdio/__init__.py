"""mcp-sansio over standard input and output: a server that its client starts as a process, and that client.

`run_stdio` is all that such a program needs. `serve_stdio` is for those who have an event loop, or other streams than
their own standard ones. `StdioClient` starts a server and calls it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._serve import run_stdio, serve_stdio

if TYPE_CHECKING:
    from ._client import StdioClient

__all__ = ["StdioClient", "run_stdio", "serve_stdio"]


def __getattr__(name: str) -> Any:
    """The client, loaded with its first use: a server does without, and starts the sooner."""
    if name != "StdioClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ._client import StdioClient

    return StdioClient

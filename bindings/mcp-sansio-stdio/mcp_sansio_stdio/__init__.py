"""mcp-sansio over standard input and output: a server that its client starts as a process, and that client.

`run_stdio` is all that such a program needs. `serve_stdio` is for those who have an event loop, or other streams than
their own standard ones. `StdioClient` starts a server and calls it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._client import StdioClient
    from ._serve import run_stdio, serve_stdio

__all__ = ["StdioClient", "run_stdio", "serve_stdio"]

#: What each name is loaded from, with its first use: a server does without the client, and starts the sooner.
_PLACES = {"StdioClient": "_client", "run_stdio": "_serve", "serve_stdio": "_serve"}


def __getattr__(name: str) -> Any:
    """See `_PLACES`."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_PLACES[name]}", __name__), name)

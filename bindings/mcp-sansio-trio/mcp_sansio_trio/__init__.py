"""mcp-sansio on trio: HTTP over h11 and standard input and output, a server and a client for each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import Client
    from .stdio import run_stdio, serve_stdio
    from .stdio_client import StdioClient

#: What each public name is loaded from, with its first use: a server does without a client, and starts the sooner.
_PLACES = {
    "Client": "client",
    "StdioClient": "stdio_client",
    "run_stdio": "stdio",
    "serve_stdio": "stdio",
}
__all__ = ["Client", "StdioClient", "run_stdio", "serve_stdio"]


def __getattr__(name: str) -> Any:
    """See `_PLACES`."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)

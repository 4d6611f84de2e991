"""mcp-sansio on trio: HTTP over h11 and standard input and output, a server and a client for each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_sansio.hosting import HttpRefusal

    from .client import Client
    from .driver import Request
    from .endpoint import Endpoint, serve_http
    from .http_server import HttpLimits
    from .stdio import run_stdio, serve_stdio
    from .stdio_client import StdioClient

#: What each public name is loaded from, with its first use: a server does without a client, and starts the sooner.
_PLACES = {
    "Client": "client", "Endpoint": "endpoint", "HttpLimits": "http_server", "HttpRefusal": "http_server",
    "Request": "driver", "StdioClient": "stdio_client", "run_stdio": "stdio", "serve_http": "endpoint",
    "serve_stdio": "stdio",
}  # fmt: skip
__all__ = [
    "Client", "Endpoint", "HttpLimits", "HttpRefusal", "Request", "StdioClient",
    "run_stdio", "serve_http", "serve_stdio",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """See `_PLACES`."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)

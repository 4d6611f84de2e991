"""mcp-sansio without an event loop: a blocking client over HTTP and stdio, and a WSGI application.

`Client` calls a server over HTTP and `StdioClient` one that it starts as a process, from any number of threads.
`Application` serves a `mcp_sansio.Registry` under any WSGI server. None of them holds a rule of the protocol.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._application import Application
    from ._client import Client
    from ._stdio import StdioClient

__all__ = ["Application", "Client", "StdioClient"]

_MODULES = {"Application": "_application", "Client": "_client", "StdioClient": "_stdio"}


def __getattr__(name: str) -> Any:
    """Each is loaded with its first use, since hardly anybody needs more than one of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value

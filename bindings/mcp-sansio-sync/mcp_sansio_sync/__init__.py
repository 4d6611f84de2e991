"""mcp-sansio without an event loop: a blocking client over HTTP and stdio, a WSGI application, and a stdio server.

`Client` calls a server over HTTP and `StdioClient` one that it starts as a process, from any number of threads.
`Application` serves a `mcp_sansio.Registry` under any WSGI server, `run_stdio` on standard input and output, and
`serve_stdio` on any two descriptors. None of them holds a rule of the protocol.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._application import Application
    from ._client import Client
    from ._serve import run_stdio, serve_stdio
    from ._stdio import StdioClient

__all__ = ["Application", "Client", "StdioClient", "run_stdio", "serve_stdio"]

_MODULES = {"Application": "_application", "Client": "_client", "StdioClient": "_stdio"}
_MODULES |= {"run_stdio": "_serve", "serve_stdio": "_serve"}


def __getattr__(name: str) -> Any:
    """Each is loaded with its first use, since hardly anybody needs more than one of them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __name__), name)
    return value

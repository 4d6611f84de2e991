"""mcp-sansio over HTTP with aiohttp: serves a `mcp_sansio.Registry`, and calls the servers of others.

`Endpoint` is Streamable HTTP, the one address for every revision that has it; `SseEndpoint` is the pair of addresses
that the first revision has instead. `Client` speaks to either. None of them holds a rule of the protocol: they carry
what a request or a response says to the core, and what the core says back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .endpoints import Endpoint, SseEndpoint
from .facts import PRINCIPAL

if TYPE_CHECKING:
    from .client import Client

__all__ = ["PRINCIPAL", "Client", "Endpoint", "SseEndpoint"]


def __getattr__(name: str) -> Any:
    """The client, loaded with its first use: a server does without, and starts the sooner."""
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .client import Client

    return Client

"""mcp-sansio over HTTP with aiohttp: serves a `mcp_sansio.Registry`, and calls the servers of others.

`Endpoint` is Streamable HTTP, the one address for every revision that has it; `SseEndpoint` is the pair of addresses
that the first revision has instead. `Client` speaks to either. None of them holds a rule of the protocol: they carry
what a request or a response says to the core, and what the core says back.
"""

from __future__ import annotations

from .client import Client
from .endpoints import Endpoint, SseEndpoint
from .facts import PRINCIPAL

__all__ = ["PRINCIPAL", "Client", "Endpoint", "SseEndpoint"]

"""Serves a `mcp_sansio.Registry` with aiohttp.

`Endpoint` is Streamable HTTP, the one address for every revision that has it; `SseEndpoint` is the pair of addresses
that the first revision has instead. Both hold no rule of the protocol: they carry what a request says to the core, and
what the core says back to the response.
"""

from __future__ import annotations

from .endpoints import Endpoint, SseEndpoint
from .facts import PRINCIPAL

__all__ = ["PRINCIPAL", "Endpoint", "SseEndpoint"]

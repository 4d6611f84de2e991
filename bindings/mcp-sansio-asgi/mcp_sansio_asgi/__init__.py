"""mcp-sansio as an ASGI application: serves a `mcp_sansio.Registry` under any ASGI server, in any ASGI framework.

`Application` is all of it. It needs nothing but the interface: no framework, no server, and no library for event loops.
It holds no rule of the protocol: it carries what a request says to the core, and what the core says back.
"""

from __future__ import annotations

from .application import Application

__all__ = ["Application"]

"""What only the binding can know of a request: who sent it, and whether it came in on a loopback address."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from mcp_sansio.hosting import is_loopback

#: Where a middleware puts the principal: ``request[PRINCIPAL] = "user-17"``. It is the plain string ``"principal"``
#: where aiohttp has no typed keys yet, and that string is read with any aiohttp.
PRINCIPAL: Final[Any] = web.RequestKey("principal", str) if hasattr(web, "RequestKey") else "principal"


def principal_of(request: web.Request) -> str | None:
    """The principal that a middleware put on `request`, or ``None``."""
    if not len(request):
        return None
    found: str | None = request.get(PRINCIPAL) or request.get("principal")
    return found


def is_on_loopback(request: web.Request) -> bool:
    """Whether `request` came in on an address that only this machine can reach."""
    transport = request.transport
    return transport is not None and is_loopback(transport.get_extra_info("sockname"))

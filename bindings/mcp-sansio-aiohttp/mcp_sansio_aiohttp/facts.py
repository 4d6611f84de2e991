"""What only the binding can know of a request: who sent it, and whether it came in on a loopback address."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import Any, Final

from aiohttp import web

#: Where a middleware puts the principal: ``request[PRINCIPAL] = "user-17"``. It is the plain string ``"principal"``
#: where aiohttp has no typed keys yet, and that string is read with any aiohttp.
PRINCIPAL: Final[Any] = web.RequestKey("principal", str) if hasattr(web, "RequestKey") else "principal"


def principal_of(request: web.Request) -> str | None:
    """The principal that a middleware put on `request`, or ``None``."""
    if not len(request):
        return None
    found: str | None = request.get(PRINCIPAL) or request.get("principal")
    return found


def checked_principal(principal: object) -> str | None:
    """`principal`, if it can be one: what belongs to a user is found again by it, so it has to be the same each time.

    Raises ``TypeError`` for anything but a string or ``None``, which aiohttp logs and answers with 500.
    """
    if principal is None or isinstance(principal, str):
        return principal
    kind = type(principal).__name__
    raise TypeError(f"a principal is a str or None, not {kind}: Endpoint(…, principal=…) takes a function for it")


def is_loopback(request: web.Request) -> bool:
    """Whether `request` came in on an address that only this machine can reach."""
    transport = request.transport
    address = transport.get_extra_info("sockname") if transport is not None else None
    # A unix socket's address is a string. It is guarded by its file's permissions, and no name is resolved to it.
    return isinstance(address, tuple) and _is_loopback(address[0])


@lru_cache(maxsize=64)
def _is_loopback(host: str) -> bool:
    address = ip_address(host)
    # A socket of both families shows an IPv4 address as ::ffff:127.0.0.1.
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)

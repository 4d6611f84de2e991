"""Whom an HTTP request is for, and where it comes from: hosts, origins and targets.

Source: RFC 9110 section 7; RFC 9112 section 3.2; RFC 6454 section 6.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import parse_qsl, unquote

__all__ = ["parse_host", "parse_origin", "split_target"]

_HOST = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[(?P<ipv6>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_MAX_PORT = 65535


@lru_cache(maxsize=64)
def parse_host(value: str) -> tuple[str, int | None] | None:
    """The host, in lower case, and the port of a ``Host`` header; None where it is malformed.

    An IPv6 address comes in its shortest form and in its brackets.
    """
    match = _HOST.fullmatch(value)
    if match is None:
        return None
    host, ipv6, digits = match.group("host", "ipv6", "port")
    port = int(digits) if digits else None
    if port is not None and not 0 < port <= _MAX_PORT:
        return None
    if ipv6 is None:
        return host.lower(), port
    try:
        return f"[{IPv6Address(ipv6)}]", port
    except AddressValueError:
        return None


def parse_origin(value: str) -> tuple[str, str, int | None] | None:
    """The scheme, host (as of :func:`parse_host`) and port of an ``Origin`` header; None for "null" and bad ones.

    A port that is the scheme's own is given as None, since browsers leave it out.
    """
    scheme, _, authority = value.partition("://")
    host = parse_host(authority)
    if host is None or not _SCHEME.fullmatch(scheme):
        return None
    scheme = scheme.lower()
    name, port = host
    return scheme, name, None if port == _DEFAULT_PORTS.get(scheme) else port


def split_target(target: str) -> tuple[str, dict[str, str]]:
    """The path of a request target and its query, both percent-decoded. Of equal keys the first counts. Never raises.

    A target in absolute form gives its path too.
    """
    path, _, query = target.partition("#")[0].partition("?")
    if not path.startswith("/") and "://" in path:
        path = "/" + path.partition("://")[2].partition("/")[2]
    if not query:
        return unquote(path), {}
    pairs = parse_qsl(query, keep_blank_values=True)
    return unquote(path), dict(reversed(pairs))

"""Who may talk to an HTTP endpoint, and in which forms: Host, Origin, CORS, Content-Type and Accept.

Pure functions of a request's header values and the configuration. They decide when a request comes in and not when a
server is built, because only then is it known which address it came in on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache, partial
from ipaddress import ip_address

from mcp_sansio.outcome import Failure, FailureKind
from mcp_sansio.wire.headers import JSON_TYPE, STREAM_TYPE, Headers, accepts, is_printable, media_type
from mcp_sansio.wire.hosts import parse_host, parse_origin

ANY = "*"

#: What a browser's script may read of a response (basic/transports names the headers).
EXPOSED = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate"
_PREFLIGHT_SECONDS = "7200"
_DEFAULT_PORTS = {"http": 80, "https": 443}


Pairs = tuple[tuple[str, str], ...]
Admission = tuple[Failure | None, Pairs]
"""Why a request is refused, or ``None``; and the headers that its response carries where it is not."""


def admission(
    *, allowed_hosts: Collection[str], allowed_origins: Collection[str]
) -> Callable[[str | None, str | None, bool], Admission]:
    """What judges requests by their Host, their Origin, and whether they came in on a loopback address.

    It remembers its verdicts, since clients send the same few values again and again.
    """
    return lru_cache(maxsize=64)(partial(_admission, tuple(allowed_hosts), tuple(allowed_origins)))


def _admission(
    allowed_hosts: Collection[str],
    allowed_origins: Collection[str],
    host: str | None,
    origin: str | None,
    loopback: bool,
) -> Admission:
    fault = fault_of_host(host, loopback=loopback, allowed=allowed_hosts) or fault_of_origin(
        origin, host, loopback=loopback, allowed_origins=allowed_origins, allowed_hosts=allowed_hosts
    )
    return fault, cors_headers(origin)


def fault_of_host(value: str | None, *, loopback: bool, allowed: Collection[str]) -> Failure | None:
    """Refuse a Host that did not mean this server (DNS rebinding), or give ``None``.

    On a loopback socket the name must be a loopback name or allowed. Elsewhere any name will do, unless some are
    allowed, which then are the only ones.
    """
    if ANY in allowed or not (loopback or allowed):
        return None
    if value is None:
        return _misdirected("") if allowed else None
    parsed = parse_host(value)
    if parsed is not None and ((loopback and _is_loopback(parsed[0])) or _matches(parsed, allowed)):
        return None
    return _misdirected(value)


def _misdirected(value: str) -> Failure:
    return Failure(FailureKind.MISDIRECTED, "the Host header names no host that this server answers to", value[:200])


def fault_of_origin(
    value: str | None,
    host: str | None,
    *,
    loopback: bool,
    allowed_origins: Collection[str],
    allowed_hosts: Collection[str],
) -> Failure | None:
    """Refuse a web page of a foreign origin (basic/transports, "Security Warning"), or give ``None``.

    An absent Origin is no browser. A loopback origin may talk to a loopback socket, and a page to the host it came from
    where that host is known to be this one.
    """
    if value is None or ANY in allowed_origins or value in allowed_origins:
        return None
    origin = parse_origin(value)
    if origin is not None and loopback and _is_loopback(origin[1]):
        return None
    if origin is not None and _is_same_host(origin, host, allowed_hosts):
        return None
    return Failure(
        FailureKind.FORBIDDEN, "the Origin header names an origin that may not talk to this server", value[:200]
    )


def _is_same_host(origin: tuple[str, str, int | None], host: str | None, allowed: Collection[str]) -> bool:
    parsed = parse_host(host) if host is not None else None
    if parsed is None or not _matches(parsed, allowed):
        return False
    scheme, name, port = origin
    default = _DEFAULT_PORTS.get(scheme)
    return parsed[0] == name and (parsed[1] or default) == (port or default)


def _matches(host: tuple[str, int | None], allowed: Collection[str]) -> bool:
    name, port = host
    for entry in allowed:
        wanted = parse_host(entry)
        if wanted is not None and wanted[0] == name and wanted[1] in (None, port):
            return True
    return False


@lru_cache(maxsize=64)  # a server is called by the same few names again and again
def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def cors_headers(origin: str | None) -> Pairs:
    """What lets the script of an accepted origin read the response; nothing where none, or nonsense, is stated."""
    if origin is None or not is_printable(origin):
        return ()
    return (
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", EXPOSED),
        ("Vary", "Origin"),
    )


def preflight_headers(headers: Headers, methods: str) -> Pairs:
    """The answer to a browser's preflight: the headers it asks for are allowed, since the origin is."""
    wanted = headers.get("access-control-request-headers", "")
    return (
        ("Access-Control-Allow-Methods", methods),
        ("Access-Control-Allow-Headers", wanted if wanted and is_printable(wanted) else "Content-Type"),
        ("Access-Control-Max-Age", _PREFLIGHT_SECONDS),
    )


@lru_cache(maxsize=256)
def fault_of_body(content_type: str | None, announced: str | None, most: int) -> Failure | None:
    """Refuse a body by the headers that describe it, or give ``None``."""
    return fault_of_content_type(content_type) or fault_of_length(announced, most)


def fault_of_content_type(stated: str | None) -> Failure | None:
    """Refuse a body that says it is not JSON, or give ``None``. Parameters and case do not matter."""
    if media_type(stated) == JSON_TYPE:
        return None
    return Failure(FailureKind.UNSUPPORTED_MEDIA, "the Content-Type must be application/json")


def fault_of_length(announced: str | None, most: int) -> Failure | None:
    """Refuse a body that is announced to be larger than `most` bytes, or give ``None``.

    What is no number is for the HTTP layer to refuse; the bytes themselves are counted in any case.
    """
    digits = (announced or "").strip()
    if not (digits.isascii() and digits.isdigit()) or int(digits[:20]) <= most:
        return None
    return too_large(most)


def too_large(most: int) -> Failure:
    """The refusal of a body of more than `most` bytes."""
    return Failure(FailureKind.TOO_LARGE, f"the body is larger than {most} bytes")


@lru_cache(maxsize=64)
def accepted_forms(accept: str | None) -> tuple[bool, bool]:
    """Whether a reply may be JSON, and whether it may be an event stream."""
    return accepts(accept, JSON_TYPE), accepts(accept, STREAM_TYPE)

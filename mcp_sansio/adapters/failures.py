"""The JSON-RPC code and the HTTP status of what fails alike on every revision; an adapter adds the rest."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_sansio.outcome import FailureKind

FailureCode = tuple[int, int]
"""A JSON-RPC error code, and the HTTP status that goes with it."""

COMMON_FAILURES: Mapping[FailureKind, FailureCode] = {
    FailureKind.PARSE: (-32700, 400),
    FailureKind.MALFORMED: (-32600, 400),
    FailureKind.HANDSHAKE_MISSING: (-32600, 400),
    FailureKind.SESSION_MISSING: (-32600, 400),
    FailureKind.SESSION_NOT_FOUND: (-32600, 404),
    FailureKind.FORBIDDEN: (-32600, 403),
    FailureKind.MISDIRECTED: (-32600, 421),
    FailureKind.METHOD_NOT_ALLOWED: (-32600, 405),
    FailureKind.NOT_ACCEPTABLE: (-32600, 406),
    FailureKind.UNSUPPORTED_MEDIA: (-32600, 415),
    FailureKind.TOO_LARGE: (-32600, 413),
    FailureKind.HEADERS_TOO_LARGE: (-32600, 431),
    FailureKind.TOO_SLOW: (-32600, 408),
    FailureKind.TOO_MANY: (-32600, 429),
    FailureKind.TIMED_OUT: (-32603, 200),
    FailureKind.UNAVAILABLE: (-32603, 503),
    FailureKind.INTERNAL: (-32603, 200),
}

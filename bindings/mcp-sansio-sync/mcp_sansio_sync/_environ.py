"""What PEP 3333 makes of an HTTP request. It has octets as characters."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

Environ = dict[str, Any]

#: Of a length, more than any body has. Python refuses to make a number of thousands.
_DIGITS = 20


def path_of(environ: Environ) -> str:
    """The path, quoted."""
    return quote(environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""), encoding="latin-1") or "/"


def target_of(environ: Environ) -> str:
    """The path and the query."""
    query = environ.get("QUERY_STRING", "")
    return path_of(environ) + (f"?{query}" if query else "")


def headers_of(environ: Environ) -> list[tuple[str, str]]:
    """The header section, as far as it is there."""
    named = [(name.removeprefix("HTTP_"), value) for name, value in environ.items() if name.startswith("HTTP_")]
    named += [(name, environ[name]) for name in ("CONTENT_TYPE", "CONTENT_LENGTH") if environ.get(name)]
    return [(name.replace("_", "-").title(), value) for name, value in named]


def length_of(environ: Environ) -> int | None:
    """How many bytes the body has, or ``None`` where the server marks its end. One that is no number has none."""
    length = environ.get("CONTENT_LENGTH") or "0"
    if length == "0" and environ.get("wsgi.input_terminated"):
        return None
    return int(length[:_DIGITS]) if length.isdecimal() else 0

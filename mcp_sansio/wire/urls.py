"""URLs as a client needs them: resolved against another, compared by origin, and taken apart for a request.

Source: RFC 3986 sections 5 and 3.2; RFC 6454 section 4; RFC 9112 section 3.2.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import lru_cache
from urllib.parse import quote, unquote, urljoin, urlsplit

from msgspec import Struct

from .hosts import parse_origin

__all__ = ["Origin", "Target", "are_same_origin", "origin_of", "resolve", "target_of"]

Origin = tuple[str, str, int | None]
"""Scheme and host in lower case, and the port where it is not the scheme's own (see `parse_origin`)."""

#: Some readers take a backslash for a slash, and some drop control characters: such a reference means two things.
_AMBIGUOUS = re.compile(r"[\\\x00-\x20\x7f]")


def origin_of(url: str) -> Origin | None:
    """The origin of an absolute http or https URL; ``None`` where it is no such URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https"):
        return None
    return parse_origin(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}")


def resolve(base: str, reference: str) -> str | None:
    """The absolute URL that `reference` stands for on the page `base`, without a fragment.

    ``None`` where it is no http or https URL, where it carries a name or a password, and where it holds a backslash, a
    blank or a control character, which not every reader takes for the same.
    """
    if _AMBIGUOUS.search(reference):
        return None
    try:
        url = urljoin(base, reference).partition("#")[0]
        stated = "@" in urlsplit(reference).netloc
    except ValueError:
        return None
    return None if stated or origin_of(url) is None else url


def are_same_origin(one: str, other: str) -> bool:
    """Whether two URLs have the same scheme, host and port."""
    origin = origin_of(one)
    return origin is not None and origin == origin_of(other)


class Target(Struct, frozen=True):
    """Where a request goes, for those who write its first lines themselves. All of it is ASCII."""

    scheme: str
    host: str
    port: int
    authority: str
    """What ``Host`` says."""
    path: str
    """With the query: the target of the request line."""
    authorization: str | None
    """What ``Authorization`` says where the URL has a name and a password (RFC 7617)."""

    @property
    def origin(self) -> tuple[str, str, int]:
        """What connections are shared by."""
        return self.scheme, self.host, self.port


#: What stands for itself in a path and in a query (RFC 3986 section 3.3), and what is quoted already.
_PATH, _QUERY = "/%:@!$&'()*+,;=~", "/%:@!$&'()*+,;=~?"
_PORTS = {"http": 80, "https": 443}


@lru_cache(maxsize=64)  # the same few for as long as a client lives
def target_of(url: str) -> Target:
    """The parts of an absolute http or https URL. Raises ``ValueError`` for what is none."""
    if origin_of(url) is None:
        raise ValueError(f"not an http or https URL: {url!r}")
    parts = urlsplit(url)
    host = parts.hostname or ""
    port = parts.port if parts.port is not None else _PORTS[parts.scheme]
    name = f"[{host}]" if ":" in host else host
    path = quote(parts.path or "/", safe=_PATH) + (f"?{quote(parts.query, safe=_QUERY)}" if parts.query else "")
    authority = name if port == _PORTS[parts.scheme] else f"{name}:{port}"
    return Target(parts.scheme, host, port, authority, path, _basic(parts.username, parts.password))


def _basic(name: str | None, password: str | None) -> str | None:
    if name is None:
        return None
    pair = f"{unquote(name)}:{unquote(password or '')}"
    return f"Basic {b64encode(pair.encode()).decode()}"

"""URLs as a client needs them: what one is resolved against another, and whether both are of one origin.

Source: RFC 3986 sections 5 and 3.2; RFC 6454 section 4.
"""

from __future__ import annotations

import re
from urllib.parse import urljoin, urlsplit

from .headers import parse_origin

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

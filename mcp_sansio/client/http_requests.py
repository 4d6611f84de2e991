"""The HTTP requests that a client sends, and the rule by which its own headers and the caller's become one set."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from mcp_sansio.wire.headers import check_headers
from mcp_sansio.wire.urls import Target

from .exchange import JSON_TYPE, STREAM_TYPE

#: What a POST accepts: both forms of a response ("Sending Messages to the Server", 2).
ACCEPT_EITHER = f"{JSON_TYPE}, {STREAM_TYPE}"


class HttpRequest(Struct, frozen=True):
    """An HTTP request to send. Redirects are not to be followed: they are facts like any other response.

    `exchange` names it in the facts about its response. `headers` are all that the request needs but those of HTTP
    itself (``Host``, ``Content-Length``, ``Accept-Encoding`` and the like).
    """

    exchange: Hashable
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes = b""

    def with_headers(self, headers: Mapping[str, str]) -> HttpRequest:
        """The request with more headers of the caller's, by the rule of `merged`. Raises as `check_headers` does."""
        check_headers(headers)
        return replace(self, headers=merged(headers, self.headers))

    def all_headers(self, target: Target, others: Mapping[str, str]) -> dict[str, str]:
        """The headers with those of HTTP itself, for a library that writes none of its own; `others` come with them.

        `target` is that of the URL. What the caller has given prevails.
        """
        own = {"host": target.authority, **others}
        if target.authorization is not None:
            own["authorization"] = target.authorization
        if self.method == "POST":
            own["content-length"] = str(len(self.body))
        for name in self.headers:
            own.pop(name.lower(), None)
        return {**own, **self.headers}


class HttpAbort(Struct, frozen=True):
    """Give up the request `exchange`, or the rest of its response. No fact about it is wanted any more."""

    exchange: Hashable


def merged(given: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """The caller's headers and the protocol's `own`. The protocol's prevail, whatever the case of their names.

    What the caller accepts is added to what the protocol accepts, so that neither gets lost.
    """
    lower = {name.lower(): name for name in own}
    headers = {name: value for name, value in given.items() if name.lower() not in lower}
    headers |= own
    wanted = next((value for name, value in given.items() if name.lower() == "accept"), None)
    if wanted and "accept" in lower:
        name = lower["accept"]
        headers[name] = _joined(headers[name], wanted)
    return headers


def _joined(own: str, wanted: str) -> str:
    held = [part.strip() for part in own.split(",")]
    more = [part.strip() for part in wanted.split(",")]
    return ", ".join([*held, *(part for part in more if part and part not in held)])

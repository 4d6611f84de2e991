"""What became of a request, in the words of the library's errors: the server's own words and status are kept."""

from __future__ import annotations

from typing import Any

from mcp_sansio.errors import ConnectionLost, HeadersFailed, McpError, ServerError, UnusableReply
from mcp_sansio.wire.json import JsonError, decode
from mcp_sansio.wire.jsonrpc import classify
from mcp_sansio.wire.urls import target_of

from .exchange import Refusal, Unreadable

NOT_FOUND = 404
_MAX_WORDS = 500


def refused(refusal: Refusal) -> ServerError:
    """A status that is no success, with the JSON-RPC error of its body or, without one, its text."""
    stated = _stated(refusal.body)
    if stated is None:
        text = shortened(refusal.body.decode(errors="replace")) or "the server refused the request without a word"
        return ServerError(None, text, status=refusal.status, headers=refusal.headers)
    return ServerError(
        stated["code"], stated["message"], stated.get("data"), status=refusal.status, headers=refusal.headers
    )


def unreadable(method: str, ending: Unreadable) -> UnusableReply:
    """A response that is none."""
    status = "" if ending.status is None else f" (HTTP {ending.status})"
    return UnusableReply(f"the response to {method} cannot be read: {ending.reason}{status}")


def lost(method: str, reason: str, cause: BaseException | None = None, connected: bool = True) -> McpError:
    """No response, or only the beginning of one. Where there was no connection to lose, `reason` says all."""
    text = f"the connection was lost before the response to {method} came: {reason}" if connected else reason
    return broken(text, cause)


def broken(text: str, cause: BaseException | None) -> McpError:
    """What `text` says, by that `cause`. A `HeadersFailed` is the error itself: there was nothing to lose yet."""
    if isinstance(cause, HeadersFailed):
        return cause
    error = ConnectionLost(text)
    error.__cause__ = cause
    return error


def unreached(url: str, reason: str) -> str:
    """Why nothing could be sent to `url`, of which a path, a query or a password says nothing more."""
    target = target_of(url)
    return f"cannot connect to {target.scheme}://{target.authority} ({reason})"


def shortened(text: str) -> str:
    """A page, or what an exception quotes of it, on one line and no longer than anybody would read."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_WORDS else line[:_MAX_WORDS] + "…"


def _stated(body: bytes) -> dict[str, Any] | None:
    try:
        return classify(decode(body)).error
    except JsonError:
        return None


def is_transient(error: McpError) -> bool:
    """Whether the same request may fare better later: the server is busy, or not there for the moment."""
    return isinstance(error, ServerError) and error.status in _TRANSIENT


#: 408 and 425 ask to try again, 429 to wait; the others come from what stands before a server that restarts.
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})

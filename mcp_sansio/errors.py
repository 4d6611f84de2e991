"""The exceptions that this library raises, each for one kind of reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class McpError(Exception):
    """The base of the library's exceptions, for callers who want one ``except``."""


class LocalProtocolError(McpError):
    """The caller drove an engine in a way its state does not allow. It is never raised for what a peer sent."""


class DeclarationError(McpError, ValueError):
    """Something cannot work as it was declared. The text says what, and how to mend it."""


class ToolError(McpError):
    """Raise this in a handler to tell the peer what went wrong: its text is sent as it is.

    In a tool it becomes a result with ``isError`` set; in a resource or a prompt, an internal error with that text.
    Any other exception is logged with its traceback and answered with a fixed sentence.
    """


class ResourceNotFound(McpError):
    """Raise this in a resource's handler when the URI names nothing: the peer gets its revision's "not found"."""


class SessionExpired(McpError):
    """A session went away, or kept losing writes to other workers, while a handler was writing to it."""


# What a call of a client may come to

#: Characters of a server's words that go into the text of an exception, which somebody will log.
_MOST_QUOTED = 2_000


class ServerError(McpError):
    """The server refused: its own words, and its own code.

    `code` is that of its JSON-RPC error, or ``None`` where an HTTP response had none; `message` and `data` are the
    server's, whole, and the exception's own text quotes no more than the beginning. `status` is the HTTP status, or
    ``None`` where there is no HTTP. `headers` are those of an HTTP response that refused the request as a whole, to be
    looked up without regard to case: ``WWW-Authenticate``, ``Retry-After``.
    """

    def __init__(
        self,
        code: int | None,
        message: str,
        data: Any = None,
        status: int | None = None,
        headers: Mapping[str, str] = {},
    ) -> None:
        marks = [f"code {code}"] if code is not None else []
        marks += [f"HTTP {status}"] if status is not None else []
        quoted = message if len(message) <= _MOST_QUOTED else message[:_MOST_QUOTED] + "…"
        super().__init__(f"{quoted} ({', '.join(marks)})" if marks else quoted)
        self.code = code
        self.message = message
        self.data = data
        self.status = status
        self.headers = headers


class CallTimeout(McpError, TimeoutError):
    """The server did not answer in time. The call was given up, and what comes for it later is dropped."""


class ConnectionLost(McpError, ConnectionError):
    """The connection ended, or could not be made, with the call in flight: whether the server acted is not known."""


class NegotiationFailed(McpError):
    """Client and server have no revision of the protocol in common. `versions` are those that the server named."""

    def __init__(self, message: str, versions: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.versions = tuple(versions)


class UnusableReply(McpError):
    """The server's reply to a call cannot be read. The text says what is wrong with it, and where."""


class AnswerFailed(McpError):
    """A question that the server put has no answer, so that the call which it belongs to cannot go on."""


class HeadersFailed(McpError):
    """The function that gives a client its `headers` raised, or gave none, and so a request was not sent.

    What it raised is the cause (``__cause__``).
    """


class CallAbandoned(McpError):
    """The caller gave the call up (``cancel``)."""

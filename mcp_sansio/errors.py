"""The exceptions that this library raises, each for one kind of reader."""

from __future__ import annotations


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

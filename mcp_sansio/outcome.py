"""What a dispatched operation comes to: a value, a need for input, or a failure.

Handlers never build these. They return values, raise, or ask; the dispatcher turns that into an outcome, and the
adapter of the revision in use turns the outcome into bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Self

from msgspec import Struct

from .errors import McpError
from .types import JSON

InputRequest = Mapping[str, JSON]
"""A question to the client: ``{"method": …, "params": {…}}``. Built by `elicit`, `sample` and `list_roots`."""


class FailureKind(StrEnum):
    """Everything that can go wrong with a message, in no revision's words.

    An adapter maps each kind to the JSON-RPC code and the HTTP status of its revision (``Adapter.failures``).
    """

    __hash__ = str.__hash__  # as for Operation

    PARSE = "parse"
    MALFORMED = "malformed"
    UNKNOWN_METHOD = "unknown_method"
    UNKNOWN_TARGET = "unknown_target"
    RESOURCE_NOT_FOUND = "resource_not_found"
    INVALID_PARAMS = "invalid_params"
    INVALID_ARGUMENTS = "invalid_arguments"
    HEADER_MISMATCH = "header_mismatch"
    UNSUPPORTED_VERSION = "unsupported_version"
    MISSING_CAPABILITY = "missing_capability"
    HANDSHAKE_MISSING = "handshake_missing"
    INVALID_STATE = "invalid_state"
    SESSION_MISSING = "session_missing"
    SESSION_NOT_FOUND = "session_not_found"
    FORBIDDEN = "forbidden"
    MISDIRECTED = "misdirected"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    UNSUPPORTED_MEDIA = "unsupported_media"
    TOO_LARGE = "too_large"
    HEADERS_TOO_LARGE = "headers_too_large"
    TOO_SLOW = "too_slow"
    TOO_MANY = "too_many"
    TIMED_OUT = "timed_out"
    UNAVAILABLE = "unavailable"
    INTERNAL = "internal"


class Value(Struct, frozen=True):
    """A result. `result` is a record of `mcp_sansio.types`, or one of the dispatcher's own (a list page, say)."""

    result: Any
    failure: ClassVar[None] = None


class Text(Value, frozen=True):
    """A result that is a text and nothing else, as that of most tools is: what surrounds it is the same every time."""

    result: str


class NeedsInput(Struct, frozen=True):
    """The questions that stand between a call and its result, by key.

    `request_state` is what the client has to bring back with the answers, if anything. `in_arguments` says that they
    ride in an ordinary result and come back as arguments, which is for peers that have no other way.
    """

    requests: Mapping[str, InputRequest]
    request_state: str | None = None
    in_arguments: bool = False
    failure: ClassVar[None] = None


class Failure(Struct, frozen=True):
    """A failure, with the message and the data that the peer may read."""

    kind: FailureKind
    message: str
    data: JSON = None

    @property
    def failure(self) -> Self:
        """Itself: of whatever a call came to, this is the failure, or ``None``."""
        return self


Outcome = Value | NeedsInput | Failure


class Rejected(McpError):
    """A message refused before it became a call. `failure` says why, in words meant for the peer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class NeedInput(BaseException):
    """Raise this in a handler to put several questions at once, or to leave `state` for the next attempt.

    It is a ``BaseException`` for the reason that an event loop's cancellation is one: a handler's
    ``except Exception`` must not eat a question. ``ex.ask`` raises it where the revision ends a call to ask.
    """

    def __init__(self, requests: Mapping[str, InputRequest], *, state: JSON = None) -> None:
        super().__init__("input required")
        self.requests = requests
        self.state = state

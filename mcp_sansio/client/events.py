"""What a client's engine tells its driver. Events come out of ``events()``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from msgspec import Struct

from mcp_sansio.catalogue import ServerDescription
from mcp_sansio.changes import Change
from mcp_sansio.errors import McpError
from mcp_sansio.types import JSON

from .calls import OutgoingCall, Question

if TYPE_CHECKING:
    from .known import Known


class CallEnded(Struct, eq=False):
    """`call` is over: `OutgoingCall.result` gives what came of it."""

    call: OutgoingCall


@attrs.define(eq=False)
class QuestionReceived:
    """The server asks something. Answer with the engine's ``answer``, or give up with ``fail``."""

    question: Question


@attrs.define(eq=False)
class QuestionWithdrawn:
    """Nobody waits for the answer to `question` any more: cancel what works on it."""

    question: Question


@attrs.frozen(eq=False)
class ProgressReceived:
    """`call` goes on. `progress` and `total` are in a unit of the server's own."""

    call: OutgoingCall
    progress: float
    total: float | None
    message: str | None


@attrs.frozen
class LogReceived:
    """A log message of the server. `level` is one of `LOG_LEVELS`."""

    level: str
    data: JSON
    logger: str | None


@attrs.frozen(eq=False)
class ListenStarted:
    """The listening that `call` asked for has begun: what changes from now on is told."""

    call: OutgoingCall


@attrs.frozen(eq=False)
class ChangeReceived:
    """Something changed. `call` is the listening that it is told for, or ``None`` for what every client is told."""

    change: Change
    call: OutgoingCall | None


@attrs.frozen
class Negotiated:
    """It is settled what is spoken. `server` is ``None`` where nobody asked the server to describe itself."""

    known: Known
    server: ServerDescription | None


@attrs.frozen
class ServerFaulted:
    """The server sent something wrong that belongs to no call, and that was passed over. For logs and counters.

    `matters` says that the caller misses something by it, like a tool that cannot be used.
    """

    fault: str
    matters: bool = False


@attrs.frozen(eq=False)
class ConnectionEnded:
    """Nothing more will come. `error` says why; every call that was in flight has ended with it."""

    error: McpError


ClientEvent = (
    CallEnded
    | QuestionReceived
    | QuestionWithdrawn
    | ProgressReceived
    | LogReceived
    | ListenStarted
    | ChangeReceived
    | Negotiated
    | ServerFaulted
    | ConnectionEnded
)

"""One decoded message, with the differences of the revisions flattened away.

The records that are made for each message, here and in `outcome`, `events` and `adapters.preamble`, are msgspec structs
and not attrs records: making one takes a quarter of the time, and there are a dozen for each message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from .operation import Operation
from .outcome import Failure
from .types import JSON, ProgressToken, RequestId


class ClientInfo(Struct, frozen=True):
    """Who is calling and what they can do.

    It comes from the handshake where the revision has one and from the message itself where it has not; nothing above
    an adapter can tell which. `capabilities` is open: members that nobody knows are kept and ignored.
    """

    name: str | None = None
    version: str | None = None
    capabilities: Mapping[str, JSON] = {}


#: Who has said nothing.
NOBODY = ClientInfo()


class Call(Struct, eq=False):
    """A request, or a notification where `id` is ``None``.

    `target` is what it is about: a tool's or prompt's name, a resource's URI. `arguments` are those of a tool or a
    prompt; `params` the whole params object, for what only one operation reads. `answers` holds the client's raw
    answers by key, `state` what the previous attempt left (set by the dispatcher once `request_state` is verified).
    `adapter` renders the reply; only flags of it may be read here. `tool` is the declaration of the tool that it is of,
    once that was looked up, and `text` the JSON text of the result, where that is known beforehand.
    """

    operation: Operation
    id: RequestId | None
    target: str | None
    arguments: Mapping[str, JSON]
    params: Mapping[str, JSON]
    client: ClientInfo
    adapter: Any
    progress_token: ProgressToken | None = None
    log_level: str | None = None
    answers: Mapping[str, JSON] = {}
    request_state: JSON = None
    state: JSON = None
    tool: Any = None
    text: bytes | None = None


class DecodeFailure(Struct, frozen=True):
    """A message that is no call. `id` is quoted where it could be read; `replies` is false for notifications."""

    id: RequestId | None
    failure: Failure
    replies: bool = True


class Reply(Struct, frozen=True):
    """A client's response to a question that this server pushed: either a `result` or an `error`."""

    id: RequestId
    result: JSON = None
    error: JSON = None


Decoded = Call | DecodeFailure | Reply

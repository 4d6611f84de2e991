"""What a server tells a client without being asked, with the differences of the revisions flattened away."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from .changes import Change, ChangeKind
from .types import JSON, ProgressToken, RequestId


class Progressed(Struct, frozen=True):
    """The call that `token` was given to goes on. `progress` and `total` are in a unit of the server's own."""

    token: ProgressToken
    progress: float
    total: float | None
    message: str | None


class Logged(Struct, frozen=True):
    """A log message. `level` is one of `mcp_sansio.types.LOG_LEVELS`, or one that nobody knows yet."""

    level: str
    data: JSON
    logger: str | None


class Changed(Struct, frozen=True):
    """Something changed. `subscription` is the id of the listen request that it is for, where the revision says so."""

    change: Change
    subscription: RequestId | None


class Acknowledged(Struct, frozen=True):
    """A listen request was taken on, for these kinds and resources of those that it named."""

    subscription: RequestId | None
    kinds: Collection[ChangeKind]
    uris: Collection[str]


class Withdrawn(Struct, frozen=True):
    """The server gives a request up: a question of its own, or a subscription."""

    request_id: RequestId


Notice = Progressed | Logged | Changed | Acknowledged | Withdrawn

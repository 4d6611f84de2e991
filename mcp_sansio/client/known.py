"""What a client found out about a server, to be kept for the next time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import attrs

from mcp_sansio.types import JSON


@attrs.frozen
class Known:
    """What an earlier client found out, so that the next one need not ask.

    It holds for one configuration of a server: a command line, or the origin of a URL. Where it is stale, a client
    finds out anew by itself.

    `revision` is the protocol's. `pair` says that the server has only the two endpoints of the first HTTP transport.
    """

    revision: str
    pair: bool = False

    def to_json(self) -> dict[str, JSON]:
        """As a JSON object."""
        return {"revision": self.revision, "pair": self.pair}

    @classmethod
    def from_json(cls, stored: JSON) -> Self | None:
        """What `to_json` gave, or ``None`` for anything else: it was somewhere outside meanwhile."""
        if not isinstance(stored, Mapping) or not isinstance(stored.get("revision"), str):
            return None
        return cls(stored["revision"], stored.get("pair") is True)

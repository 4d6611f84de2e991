"""The replies that are due for a message, and those to a batch, which go together."""

from __future__ import annotations

from msgspec import Struct

from mcp_sansio.call import Call, Decoded, DecodeFailure
from mcp_sansio.types import JSON, RequestId
from mcp_sansio.wire.jsonrpc import encode_batch


class Replies(Struct):
    """What is due for a batch.

    `expected` counts the responses still to come; `made` holds those that wait for the others.
    """

    expected: int
    made: list[bytes] = []

    def add(self, message: bytes | None) -> bool:
        """One response is made, or will never be (``None``). Whether nothing is still to come."""
        self.expected -= 1
        if message is not None:
            self.made.append(message)
        return self.expected <= 0

    def body(self) -> bytes | None:
        """The whole answer, or ``None`` where there is nothing to say."""
        return encode_batch(self.made) if self.made else None


def expects_reply(item: Decoded) -> bool:
    """Whether a response is due for what was decoded."""
    if isinstance(item, DecodeFailure):
        return item.replies
    return isinstance(item, Call) and item.id is not None


def quoted_id(body: JSON) -> RequestId | None:
    """The id to quote where the message `body` is refused as a whole. A response's own is of the other direction."""
    if not isinstance(body, dict) or ("method" not in body and ("result" in body or "error" in body)):
        return None
    return usable_id(body.get("id"))


def usable_id(value: JSON) -> RequestId | None:
    """A request's id as a peer sent it, or ``None`` for what cannot be one."""
    return value if isinstance(value, str | int) and not isinstance(value, bool) else None

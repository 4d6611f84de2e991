"""A listen request: a call that stays open and carries the changes its filter names, on any kind of connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_sansio.call import Call
from mcp_sansio.changes import Change, ChangeKind
from mcp_sansio.immediate import Listening
from mcp_sansio.outcome import Value
from mcp_sansio.wire.json import encode

from ._state import SUBSCRIPTION, SubscriptionInput, SubscriptionState
from .topics import Frame

if TYPE_CHECKING:
    from .server import Server


class ListenStream:
    """The subscription that `call` opened. `write` sends a message of it, `finish` its last one."""

    def __init__(
        self,
        server: Server,
        call: Call,
        listening: Listening,
        write: Callable[[bytes], None],
        finish: Callable[[bytes], None],
    ) -> None:
        self.call = call
        self.adapter = call.adapter
        self.state = SubscriptionState.OPEN
        self._server = server
        self._listening = listening
        self._write = write
        self._finish = finish
        self._id = encode(call.id)
        self._changes = [Change(kind) for kind in ChangeKind if kind in listening.kinds]
        self._changes += [Change(ChangeKind.RESOURCE_UPDATED, uri) for uri in listening.uris]

    def start(self) -> None:
        """Acknowledge, then listen: nothing may come before the acknowledgement."""
        self._write(self.adapter.encode_acknowledgement(self.call, self._listening))
        self._server.stream_opened(self)
        self._server.topics.subscribe(self, self._changes)

    def deliver(self, frame: Frame) -> None:
        """See `Listener.deliver`."""
        head, tail = frame
        assert tail is not None
        self._write(b"".join((head, self._id, tail)))

    def end(self) -> None:
        """The client gave the subscription up, or went away."""
        self.state = SUBSCRIPTION[self.state][SubscriptionInput.END]
        self._server.topics.unsubscribe(self, self._changes)
        self._server.stream_closed(self)

    def close(self) -> None:
        """The server ends the subscription, whose request gets its result.

        Source: basic/patterns/subscriptions, "Graceful Closure".
        """
        self.end()
        self._finish(self.adapter.encode(self.call, self._server.registry, Value(self._listening)))

"""Event streams that outlive a connection: the log of what was sent, and the stream of a session's announcements.

An event's id names its stream and its place in it, so that a client can come back with it and nobody can read another
stream's events by it (basic/transports, "Resumability and Redelivery").
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.changes import Change
from mcp_sansio.wire.sse import encode_event

from ._state import SUBSCRIPTION, SubscriptionInput, SubscriptionState
from .topics import Frame

if TYPE_CHECKING:
    from .http import HttpTransaction
    from .server import Server


#: How much of the id of a standalone stream is its own; what follows shows whose stream it is.
_OWN = 16


def standalone_id(stream_id: str, session_id: str) -> str:
    """`stream_id`, as that of a standalone stream of a session: any worker can tell, and no other session has it."""
    own = stream_id[: _OWN // 2] + stream_id[-_OWN // 2 :]
    return own + _mark(own, session_id)


def is_standalone(stream_id: str, session_id: str) -> bool:
    """Whether `stream_id` is one that `standalone_id` gave out for that session, at whatever worker."""
    return stream_id[_OWN:] == _mark(stream_id[:_OWN], session_id)


def _mark(own: str, session_id: str) -> str:
    from hashlib import sha256  # which loads OpenSSL, and a server without standalone streams does without

    return sha256(f"{own} {session_id}".encode()).hexdigest()[:_OWN]


class EventLog:
    """The last events of one stream.

    It keeps at most `max_events` events and `max_bytes` bytes of them. Who reads the stream now is `reader`, which is
    handed each event as it is written; there may be none for a while.
    """

    def __init__(self, stream_id: str, max_events: int, max_bytes: int, retry: int) -> None:
        self.id = stream_id
        self.finished = False
        self.reader: Callable[[bytes], None] | None = None
        self.on_finish: Callable[[], None] | None = None
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._retry = retry
        self._events: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._number = 0
        self._dropped = 0

    def prime(self) -> bytes:
        """The event without data that tells a client where to come back to, and after how long."""
        self._number += 1
        return encode_event(b"", id=f"{self.id}-{self._number}", retry=self._retry)

    def write(self, message: bytes) -> None:
        """Add `message` to the stream."""
        self._number += 1
        event = encode_event(message, id=f"{self.id}-{self._number}")
        self._events.append((self._number, event))
        self._bytes += len(event)
        while len(self._events) > self._max_events or (self._bytes > self._max_bytes and len(self._events) > 1):
            self._dropped, oldest = self._events.popleft()
            self._bytes -= len(oldest)
        if self.reader is not None:
            self.reader(event)

    def finish(self) -> None:
        """Nothing more will be written. Its reader, if there is one, is told, and no longer held."""
        self.finished = True
        on_finish, self.reader, self.on_finish = self.on_finish, None, None
        if on_finish is not None:
            on_finish()

    def reaches_back_to(self, number: int) -> bool:
        """Whether every event after the one with that number is still kept: a stream with a gap is not resumed."""
        return self._dropped <= number <= self._number

    def after(self, number: int) -> Sequence[bytes]:
        """The kept events that come after the one with that number."""
        return [event for held, event in self._events if held > number]

    def attach(self, reader: Callable[[bytes], None], on_finish: Callable[[], None]) -> None:
        """`reader` reads from now on. To the one before it the stream is over: each message goes to one reader."""
        before, self.reader, self.on_finish = self.on_finish, reader, on_finish
        if before is not None:
            before()

    def detach(self, reader: Callable[[bytes], None]) -> None:
        """`reader` has gone, unless another took its place already."""
        if self.reader == reader:
            self.reader = self.on_finish = None


class LogReader:
    """A response that reads `log`, from now until it ends, is let go of, or another reader takes over.

    With `waited_for`, what writes to the log waits until the client of this response keeps up (`Outlet.drained`).
    """

    def __init__(self, http: HttpTransaction, log: EventLog, *, waited_for: bool = False) -> None:
        self.log = log
        self._http = http
        self._waited_for = waited_for
        log.attach(self._write, self._finish)

    def _write(self, event: bytes) -> None:
        self._http.write(event)
        if self._http.is_congested and not self._waited_for:
            # A client that does not read loses its connection and not its stream: it may come back for the rest.
            self.let_go()
        self._http.wake()

    def _finish(self) -> None:
        self._http.end()
        self._http.wake()

    def detach(self) -> None:
        """Nobody reads the stream here any more; what is written meanwhile is kept for a return."""
        self.log.detach(self._write)

    def let_go(self) -> None:
        """End the response, but not the stream."""
        if not self._http.ended:
            self.detach()
            self._http.end()


class StandaloneStream:
    """The announcements of a session, on a stream of their own that the client opened with GET."""

    def __init__(self, server: Server, adapter: Adapter, log: EventLog) -> None:
        self.adapter = adapter
        self.log = log
        self.state = SubscriptionState.OPEN
        #: Whether this worker has heard itself say to all others that announcements go out here.
        self.is_known = False
        self._server = server
        self._changes: dict[Change, None] = {}

    def deliver(self, frame: Frame) -> None:
        """See `Listener.deliver`."""
        self.log.write(frame[0])

    def listen(self, changes: Iterable[Change]) -> None:
        """Announce `changes` here from now on."""
        held = list(changes)
        self._changes.update(dict.fromkeys(held))
        self._server.topics.subscribe(self, held)

    def ignore(self, changes: Iterable[Change]) -> None:
        """Do not announce `changes` here any more."""
        held = list(changes)
        for change in held:
            self._changes.pop(change, None)
        self._server.topics.unsubscribe(self, held)

    def silence(self) -> list[Change]:
        """Announce nothing here any more; what was announced."""
        changes = list(self._changes)
        self.ignore(changes)
        return changes

    def attach(self) -> None:
        """A connection reads the stream again."""
        self.state = SUBSCRIPTION[self.state][SubscriptionInput.ATTACH]

    def detach(self) -> None:
        """The connection has gone; what is announced meanwhile is kept for its return.

        That is no news where the stream is over, or where another connection reads it already.
        """
        if self.log.finished or self.log.reader is not None:
            return
        self.state = SUBSCRIPTION[self.state][SubscriptionInput.DETACH]

    def end(self) -> None:
        """The stream is over."""
        self.state = SUBSCRIPTION[self.state][SubscriptionInput.END]
        self.silence()
        self.log.finish()

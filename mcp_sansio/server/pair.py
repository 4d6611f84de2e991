"""The first HTTP transport: one endpoint streams the server's messages, another takes the client's.

It is a duplex channel in two halves. The GET that opens the stream owns a `ServerConnection`; the POSTs find it by the
identifier that the first event hands out (the oldest revision's basic/transports, "HTTP with SSE").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote

from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.events import Event, Part
from mcp_sansio.outcome import Failure, FailureKind, Rejected
from mcp_sansio.wire.sse import encode_event

from .connection import ServerConnection
from .http import HttpTransaction
from .inquiry import Inquiry

if TYPE_CHECKING:
    from .workers import Message


class PairTransaction(HttpTransaction):
    """A request to either endpoint of the pair.

    `message_path` is the absolute path of the one that takes messages, with the prefix that it is mounted under.
    """

    methods: ClassVar[dict[str, str]] = {"GET": "_open", "POST": "_message"}

    def __init__(self, *args: Any, message_path: str, adapters: AdapterSet, **options: Any) -> None:
        super().__init__(*args, **options)
        self.id = ""
        self._message_path = message_path
        self._adapters = adapters
        self._connection: ServerConnection | None = None
        self._inquiry: Inquiry | None = None

    # The stream

    def _open(self, body: bytes) -> None:
        if not self.head.accepts_stream:
            raise Rejected(Failure(FailureKind.NOT_ACCEPTABLE, "the Accept header does not admit text/event-stream"))
        fault = self.server.fault_of_streams()
        if fault is not None:
            raise Rejected(fault)
        self.id = self.server.workers.signed(self.server.runtime.token())
        self._connection = ServerConnection(
            self.server, adapters=self._adapters, principal=self.principal, request=self.request, wake=self.wake
        )
        self.server.pairs[self.id] = self
        self.server.stream_opened(self)
        self.start_stream()
        where = f"{quote(self._message_path)}?session_id={self.id}"
        self.write(encode_event(where.encode(), event="endpoint"))

    def events(self) -> list[Event]:
        """See `HttpTransaction.events`."""
        return super().events() + (self._connection.events() if self._connection else [])

    def data_to_send(self) -> list[Part]:
        """See `HttpTransaction.data_to_send`."""
        for message in self._connection.data_to_send() if self._connection else ():
            self.write(encode_event(message, event="message"))
        return super().data_to_send()

    def next_deadline(self) -> float | None:
        """See `HttpTransaction.next_deadline`."""
        held = self._connection.next_deadline() if self._connection else None
        inner = self._inquiry.deadline if self._inquiry else held
        due = [deadline for deadline in (super().next_deadline(), inner) if deadline is not None]
        return min(due) if due else None

    def handle_timeout(self, now: float) -> None:
        """See `HttpTransaction.handle_timeout`."""
        super().handle_timeout(now)
        if self._connection is not None:
            self._connection.handle_timeout(now)
        if self._inquiry is not None:
            self._inquiry.handle_timeout(now)

    def on_disconnect(self) -> None:
        """The stream was the channel: with it everything in flight is gone."""
        self._close_channel()

    def close(self) -> None:
        """The server shuts down: the stream ends."""
        self._close_channel()
        self.end()
        self.wake()

    def _close_channel(self) -> None:
        self.server.pairs.pop(self.id, None)
        self.server.stream_closed(self)
        if self._connection is not None:
            self._connection.receive_eof()

    # The messages

    def _message(self, body: bytes) -> None:
        stream_id = self.head.query.get("session_id", "")
        stream = self.server.pairs.get(stream_id)
        if stream is None and self.server.workers.is_from_another(stream_id):
            message = {"post": body.decode("latin-1"), "pair": stream_id, "principal": self.principal}
            self._inquiry = Inquiry(self, message, self._passed_on, lambda: self.refuse(_no_such_stream()))
            return
        if stream is None or stream.principal != self.principal:
            raise Rejected(_no_such_stream())
        fault = stream.fault_of_backlog()
        if fault is not None:
            raise Rejected(fault)
        self.respond(202)
        stream.receive_message(body)

    def _passed_on(self, answer: Message) -> None:
        """The worker that has the stream took the message, or says why not."""
        if answer["fault"] is None:
            self.respond(202)
        else:
            self.refuse(Failure(FailureKind.TOO_MANY, answer["fault"]))

    def on_over(self) -> None:
        """See `HttpTransaction.on_over`."""
        if self._inquiry is not None:
            self._inquiry.close()

    def fault_of_backlog(self) -> Failure | None:
        """Why the stream takes no message now, or ``None``."""
        waiting = self._backlog.size if self._backlog is not None else 0
        if waiting + (self._connection.unsent if self._connection is not None else 0) <= self.config.max_unsent:
            return None
        return Failure(FailureKind.TOO_MANY, "the stream is not read: answers wait there to be sent")

    def receive_message(self, body: bytes) -> None:
        """A message that came in on the other endpoint, for the channel whose stream this is."""
        if self._connection is not None:
            self._connection.receive_message(body)
            self.wake()


def _no_such_stream() -> Failure:
    return Failure(FailureKind.SESSION_NOT_FOUND, "there is no open stream with that session_id")

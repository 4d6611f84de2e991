"""One HTTP exchange of a client: the request to send, and what its response says, however it is cut into pieces.

A request is answered by one JSON body or by a stream of events (basic/transports, "Sending Messages to the Server").
Everything else that an HTTP server may answer comes to one of the ends below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from msgspec import Struct

from mcp_sansio.pieces import Pieces, octets
from mcp_sansio.wire.headers import Headers, media_type
from mcp_sansio.wire.sse import EventDecoder, Oversize

JSON_TYPE, STREAM_TYPE = "application/json", "text/event-stream"
#: What is kept of the body of an error: enough for a JSON-RPC error with its data, or for a page to recognise.
MAX_ERROR_BODY = 64 * 2**10
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class Due(Enum):
    """What a request is answered by, where all is well. `kinds` are the media types of that."""

    RESPONSE = (JSON_TYPE, STREAM_TYPE)
    """A JSON body or a stream of events."""
    STREAM = (STREAM_TYPE,)
    """A stream of events."""
    NOTHING = ()
    """Any status of success. What comes with it is ignored, since servers disagree on what that is."""

    def __init__(self, *kinds: str) -> None:
        self.kinds = kinds


class Message(Struct, frozen=True):
    """A whole JSON-RPC message, or a batch of them: a JSON body, or the data of an event."""

    data: bytes


class Named(Struct, frozen=True):
    """An event of a type that is no message."""

    event: str
    data: bytes


class Complete(Struct, frozen=True):
    """The response was read to its end, or there is nothing more in it to read."""


class Refusal(Struct, frozen=True):
    """A status that is no success. `body` is what the server said, up to `MAX_ERROR_BODY` bytes."""

    status: int
    headers: Headers
    body: bytes


class Redirect(Struct, frozen=True):
    """The server names another URL. `location` is the reference as it came."""

    status: int
    headers: Headers
    location: str


class Unreadable(Struct, frozen=True):
    """The response is not what the request is answered by. `reason` says what it is instead."""

    status: int | None
    headers: Headers
    reason: str


class Overlong(Struct, frozen=True):
    """An event over the limit was skipped; `size` is about what it had."""

    size: int


_COMPLETE = Complete()
_NO_HEADERS = Headers()
Ending = Complete | Refusal | Redirect | Unreadable
Finding = Message | Named | Overlong | Ending


class Response(Struct, eq=False):
    """What a response says. Facts give what was found in them, in order; an `Ending` is the last.

    `max_message` bounds a JSON body and the data of one event, `max_headers` the header section. Neither a stream's
    length nor its number of events is bounded: each is handed on at once.
    """

    due: Due
    max_message: int
    max_headers: int
    status: int | None = None
    headers: Headers = _NO_HEADERS
    ending: Ending | None = None
    #: What has come of a body that is no stream, without the piece that its end comes with: most have only that.
    _body: Pieces | None = None
    _events: EventDecoder | None = None

    def __repr__(self) -> str:
        return f"<Response {self.status}>"

    # Getters

    @property
    def is_stream(self) -> bool:
        """Whether the response is a stream of events."""
        return self._events is not None

    @property
    def last_event_id(self) -> str | None:
        """The last event id that the stream has set, if any: where to resume it."""
        return self._events.last_event_id if self._events else None

    @property
    def retry(self) -> int | None:
        """The delay, in milliseconds, that the stream asked for before it is reconnected to."""
        return self._events.retry if self._events else None

    # Facts in

    def receive_response(self, status: int, headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> list[Finding]:
        """The status and the header section."""
        if self.status is not None or self.ending is not None or status < 200:
            return []
        self.status = status
        self.headers = held = Headers.of(headers)
        if held.size > self.max_headers:
            return self._unreadable(f"its headers are larger than {self.max_headers} bytes")
        if status >= 300:
            location = held.get("location") if status in _REDIRECTS else None
            return [] if location is None else self._end(Redirect(status, held, location))
        return self._receive_success(media_type(held.fields.get("content-type")))

    def _receive_success(self, kind: str | None) -> list[Finding]:
        kinds = self.due.kinds
        if not kinds:
            return self._end(_COMPLETE)
        if kind not in kinds:
            return self._unreadable(f"it is {kind or 'of no media type'} and not {' or '.join(kinds)}")
        if kind == STREAM_TYPE:
            self._events = EventDecoder(self.max_message)
        return []

    def receive_data(self, data: bytes) -> list[Finding]:
        """A piece of the body."""
        if self.ending is not None or not data:
            return []
        if self.status is None:
            return self._unreadable("its body came before its status")
        if self._events is not None:
            self._events.receive_data(data)
            return self._found(self._events)
        if self._body is None:
            self._body = Pieces()
        self._body.add(data)
        if self.status >= 300:
            return self._refused(self._body.whole()) if self._body.size > MAX_ERROR_BODY else []
        return self._overlong() if self._body.size > self.max_message else []

    def _found(self, decoder: EventDecoder) -> list[Finding]:
        found: list[Finding] = []
        for event in decoder.events():
            if isinstance(event, Oversize):
                found.append(Overlong(event.size))
            elif event.event != "message":
                found.append(Named(event.event, event.data))
            elif event.data.strip():
                # What has an id and no data prepares for a reconnection and says nothing ("Sending Messages", 6).
                found.append(Message(event.data))
        return found

    def receive_end(self, data: bytes = b"") -> list[Finding]:
        """The body is complete with this piece of it."""
        if self.ending is not None:
            return []
        if self.status is None:
            return self._unreadable("it ended before it began")
        if self._events is not None:
            return [*self.receive_data(data), *self._end(_COMPLETE)]
        body = octets(data)
        if self._body is not None:
            self._body.add(data)
            body = self._body.whole()
        if self.status >= 300:
            return self._refused(body)
        if len(body) > self.max_message:
            return self._overlong()
        if not body.strip():
            return self._unreadable("its body is empty")
        return [Message(body), *self._end(_COMPLETE)]

    def _refused(self, body: bytes) -> list[Finding]:
        assert self.status is not None
        return self._end(Refusal(self.status, self.headers, body[:MAX_ERROR_BODY]))

    def _overlong(self) -> list[Finding]:
        return self._unreadable(f"it is larger than {self.max_message} bytes")

    def _unreadable(self, reason: str) -> list[Finding]:
        return self._end(Unreadable(self.status, self.headers, reason))

    def _end(self, ending: Ending) -> list[Finding]:
        self.ending = ending
        self._body = None
        return [ending]

"""A request of the client over Streamable HTTP and its reply, resumed where its stream breaks off.

Where streams carry event ids, one that ends before the response may be picked up again: by a GET with the last id that
this very stream had, after the delay that it asked for (basic/transports, "Resumability and Redelivery" and "Sending
Messages to the Server", 6). A server may end it at once and be polled that way.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from mcp_sansio.errors import ConnectionLost, McpError, UnusableReply

from .calls import OutgoingRequest
from .exchange import Complete, Due, Finding, Message, Overlong, Refusal, Response, Unreadable
from .http_errors import NOT_FOUND, is_transient, lost, refused, unreadable

if TYPE_CHECKING:
    from .http_exchanges import Flight
    from .http_streamable import Streamable

_RESPONSE = Due.RESPONSE  # named once: see `mcp_sansio.operation`
#: An id goes back in a header: one that cannot stand there, or that fills it, is no place to come back to.
_USABLE_ID = re.compile(r"[^\x00-\x1f\x7f]{1,2048}")


def usable_id(last_event_id: str | None) -> str | None:
    """The event id where it can be sent back."""
    return last_event_id if last_event_id is not None and _USABLE_ID.fullmatch(last_event_id) else None


class ReplyJob(Struct, eq=False):
    """One request, from its POST to its response."""

    request: OutgoingRequest
    _carrier: Streamable
    session_id: str | None
    status: int | None = None
    #: The HTTP request that is in flight for it.
    flight: Flight | None = None
    _response: Response | None = None
    _cursor: str | None = None
    _retry: int | None = None
    _resuming: bool = False
    #: How often in a row the stream was picked up again for nothing.
    _in_vain: int = 0
    _fault: str = "it is no response to this request"

    def __repr__(self) -> str:
        return f"<ReplyJob {self.request!r}>"

    # Commands

    def start(self) -> None:
        """Send the request."""
        request, carrier = self.request, self._carrier
        headers = carrier.headers_of(request, self.session_id)
        # A call has a deadline of its own, whichever way its reply comes.
        timeout = None if request.call is not None else carrier.client.config.timeout
        self.flight = carrier.exchanges.send(self, _RESPONSE, "POST", headers, request.message, timeout=timeout)

    def release(self) -> None:
        """Nobody waits for the reply any more."""
        self._carrier.timers.drop(self)
        if self.flight is not None and not self.flight.settled:
            self._carrier.exchanges.abort(self.flight)

    # What becomes of it

    def began(self, response: Response) -> None:
        """See `Job.began`."""
        self._response, self.status = response, response.status
        fault = None if self._resuming else self._carrier.reply_began(self.request, response)
        if self.request.is_handshake:
            self.session_id = self._carrier.session_id
        if fault is not None:
            self._fail(UnusableReply(f"the response to {self.request.method} cannot be used: {fault}"))

    def found(self, finding: Finding) -> None:
        """See `Job.found`."""
        if isinstance(finding, Message):
            self._receive(finding.data)
        elif isinstance(finding, Overlong):
            self._fail(UnusableReply(f"an event of {finding.size} bytes came for {self.request.method}: too large"))
        elif isinstance(finding, Complete):
            self._completed()
        elif isinstance(finding, Refusal):
            self._refused(finding)
        elif isinstance(finding, Unreadable):
            self._unreadable(finding)

    def lost(self, reason: str, cause: BaseException | None = None, connected: bool = True) -> None:
        """See `Job.lost`."""
        if self._resuming or self._response is not None:
            self._cut(reason, cause)
        else:
            self._fail(lost(self.request.method, reason, cause, connected))

    def _receive(self, data: bytes) -> None:
        client, request = self._carrier.client, self.request
        self._in_vain = 0
        fault = client.deliver(data, request)
        if fault is not None:
            self._fault = fault
        if self.flight is not None and client.flight.request_of(request.id) is not request:
            self._carrier.exchanges.settle(self.flight)
            self.flight = request.extra = None  # see `InFlight.end`

    def _completed(self) -> None:
        if self._response is not None and self._response.is_stream:
            self._cut("the stream ended")
        else:
            text = f"the response to {self.request.method} cannot be read: {self._fault}"
            self._fail(UnusableReply(text))

    def _refused(self, refusal: Refusal) -> None:
        error = refused(refusal)
        if self._resuming:
            self._not_resumed(error, f"the server answered {refusal.status}")
        elif refusal.status == NOT_FOUND and self.session_id is not None:
            self._carrier.session_gone(self.session_id, self.request, error)
        else:
            self._fail(error)

    def _unreadable(self, ending: Unreadable) -> None:
        if self._resuming:
            self._cut_for_good(ending.reason)
        else:
            self._fail(unreadable(self.request.method, ending))

    def _fail(self, error: McpError) -> None:
        self.release()
        self._carrier.client.failed(self.request, error)

    # Resuming

    def _cut(self, reason: str, cause: BaseException | None = None) -> None:
        """The stream broke off."""
        self._remember()
        config = self._carrier.client.config
        if not self.request.adapter.resumes_streams or self._cursor is None:
            self._fail(lost(self.request.method, reason, cause))
        elif self._in_vain >= config.max_reconnects:
            self._cut_for_good(f"{self._in_vain} attempts to resume its stream brought nothing", cause)
        else:
            delay = self._carrier.client.delay(self._retry, self._in_vain)
            self._in_vain += 1
            self._carrier.timers.set(self, self._carrier.client.runtime.now() + delay, self._resume)

    def _remember(self) -> None:
        response, self._response = self._response, None
        if response is None:
            return
        if response.retry is not None:
            self._retry = response.retry
        reached = usable_id(response.last_event_id)
        if reached is not None and reached != self._cursor:
            self._cursor, self._in_vain = reached, 0

    def _resume(self) -> None:
        assert self._cursor is not None
        self._resuming = True
        headers = self._carrier.stream_headers(self.request.adapter, self.session_id, self._cursor, self.request.call)
        self.flight = self._carrier.exchanges.send(self, Due.STREAM, "GET", headers)

    def _not_resumed(self, error: McpError, reason: str) -> None:
        if is_transient(error):
            self._cut(reason, error)
        else:
            self._cut_for_good(reason, error)

    def _cut_for_good(self, reason: str, cause: BaseException | None = None) -> None:
        text = f"the stream of {self.request.method} ended before its response, and cannot be resumed: {reason}"
        error = ConnectionLost(text)
        error.__cause__ = cause
        self._fail(error)

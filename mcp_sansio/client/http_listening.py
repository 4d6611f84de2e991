"""The standalone stream of a session, on which a server says what it was not asked for.

A server need not have one, and many that have none say so with another status than the one that there is for it. So
nothing that becomes of it is anything to worry about for the calls, which go their own way.

Source: basic/transports, "Listening for Messages from the Server".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_sansio.adapters.base import Adapter

from .exchange import Complete, Due, Finding, Message, Overlong, Refusal, Response, Unreadable
from .http_errors import NOT_FOUND, is_transient, refused
from .http_replies import usable_id

if TYPE_CHECKING:
    from .http_exchanges import Flight
    from .http_streamable import Streamable

#: What servers without such a stream answer. The first is the one that the specification has for it.
_NO_STREAM = frozenset({405, 404, 400, 406, 501})


class ListeningStream:
    """The stream, opened again whenever it ends, for as long as the session lives."""

    def __init__(self, carrier: Streamable) -> None:
        self._carrier = carrier
        self._adapter: Adapter | None = None
        self._flight: Flight | None = None
        self._response: Response | None = None
        self._cursor: str | None = None
        self._retry: int | None = None
        self._in_vain = 0
        self._opened_at: float | None = None

    def open(self, adapter: Adapter) -> None:
        """Open the stream, unless that was done."""
        if self._adapter is None:
            self._adapter = adapter
            self._request()

    def close(self) -> None:
        """The session is over."""
        self._carrier.timers.drop(self)
        if self._flight is not None and not self._flight.settled:
            self._carrier.exchanges.abort(self._flight)
        self._carrier.client.questions.stream_ended()
        self._forget()

    def _forget(self) -> None:
        self._adapter = self._flight = self._response = self._cursor = self._retry = None
        self._opened_at, self._in_vain = None, 0

    def _request(self) -> None:
        assert self._adapter is not None
        headers = self._carrier.stream_headers(self._adapter, self._carrier.session_id, self._cursor)
        self._flight = self._carrier.exchanges.send(self, Due.STREAM, "GET", headers)

    # What becomes of it

    def began(self, response: Response) -> None:
        """See `Job.began`."""
        self._response, self._opened_at = response, self._carrier.client.runtime.now()
        self._carrier.listening_answered()

    def found(self, finding: Finding) -> None:
        """See `Job.found`."""
        client = self._carrier.client
        if isinstance(finding, Message):
            self._in_vain = 0
            client.deliver(finding.data, None)
        elif isinstance(finding, Overlong):
            client.fault(f"an event of {finding.size} bytes was too large")
        elif isinstance(finding, Complete):
            self._ended()
        elif isinstance(finding, Refusal):
            self._refused(finding)
        elif isinstance(finding, Unreadable):
            self._give_up(f"the standalone stream cannot be read: {finding.reason}")

    def lost(self, reason: str, cause: BaseException | None = None, connected: bool = True) -> None:
        """See `Job.lost`."""
        self._ended()

    def _refused(self, refusal: Refusal) -> None:
        error = refused(refusal)
        if refusal.status == NOT_FOUND and self._opened_at is not None:
            # It was there before, so what is not found is the session.
            self._carrier.session_gone(self._carrier.session_id, None, error)
        elif is_transient(error):
            self._ended()
        else:
            self._give_up(None if refusal.status in _NO_STREAM else f"the standalone stream was refused: {error}")

    def _give_up(self, fault: str | None) -> None:
        if fault is not None:
            self._carrier.client.fault(fault, matters=True)
        self._flight = self._response = None
        self._carrier.listening_answered()

    def _ended(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            self._retry = response.retry if response.retry is not None else self._retry
            self._cursor = usable_id(response.last_event_id) or self._cursor
        client = self._carrier.client
        now = client.runtime.now()
        if response is not None and self._opened_at is not None:
            lasted = now - self._opened_at
            self._in_vain = 0 if lasted >= client.config.max_reconnect_delay else self._in_vain
        delay = client.delay(self._retry, self._in_vain)
        self._in_vain += 1
        self._carrier.timers.set(self, now + delay, self._request)
        self._carrier.listening_answered()

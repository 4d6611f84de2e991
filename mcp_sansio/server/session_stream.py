"""What a client reads of its session with GET: the announcements, or the rest of a stream that it lost."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.outcome import Failure, FailureKind, Rejected

from .http import HttpTransaction
from .sessions import LiveSession
from .streams import EventLog, LogReader, StandaloneStream


class SessionStream:
    """One response to GET that reads a stream of the session `live`."""

    def __init__(self, http: HttpTransaction, live: LiveSession) -> None:
        self._http = http
        self._live = live
        self._reader: LogReader | None = None
        self._standalone: StandaloneStream | None = None

    def open(self, adapter: Adapter, uris: Sequence[str]) -> None:
        """Open a new stream of announcements, for the session's subscriptions `uris`. Raises `Rejected`."""
        server = self._http.server
        fault = server.fault_of_streams()
        if fault is not None:
            raise Rejected(fault)
        log = self._live.new_log()
        self._standalone = StandaloneStream(server, adapter, log)
        self._start()
        if adapter.primes_streams:
            self._http.write(log.prime())
        self._reader = LogReader(self._http, log)
        self._live.add_standalone(self._standalone, list(uris))

    def resume(self, last_event_id: str) -> None:
        """Go on with a stream where the client lost it, and with that stream alone. Raises `Rejected`."""
        found = self._live.log_of(last_event_id)
        if found is None:
            text = "there is no stream of this session with that Last-Event-ID"
            raise Rejected(Failure(FailureKind.SESSION_NOT_FOUND, text))
        log, number = found
        self._standalone = self._live.standalone_of(log)
        if self._standalone is not None:
            self._standalone.attach()
        self._start()
        self._replay(log, number)

    def _start(self) -> None:
        self._http.start_stream()
        self._http.server.stream_opened(self)

    def _replay(self, log: EventLog, number: int) -> None:
        for event in log.after(number):
            self._http.write(event)
        if log.finished:
            self._http.end()
        else:
            self._reader = LogReader(self._http, log)

    def close(self) -> None:
        """The server shuts down: the stream ends here, and the client may come back to another worker for the rest."""
        if self._reader is not None:
            self._reader.let_go()
        self._http.wake()

    def over(self) -> None:
        """The response has ended, or nobody reads it any more."""
        self._http.server.stream_closed(self)
        if self._reader is not None:
            self._reader.detach()
        if self._standalone is not None:
            self._standalone.detach()

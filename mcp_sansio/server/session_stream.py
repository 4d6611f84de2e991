"""What a client reads of its session with GET: the announcements, or the rest of a stream that it lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.changes import LIST_CHANGES, Change, ChangeKind
from mcp_sansio.outcome import Rejected

from .http import HttpTransaction
from .inquiry import Inquiry
from .sessions import LiveSession
from .streams import EventLog, LogReader, StandaloneStream, is_standalone

if TYPE_CHECKING:
    from .workers import Message


class SessionStream:
    """One response to GET that reads a stream of the session `live`."""

    def __init__(self, http: HttpTransaction, live: LiveSession) -> None:
        self._http = http
        self._live = live
        self._reader: LogReader | DistantReader | None = None
        self._standalone: StandaloneStream | None = None

    def open(self, adapter: Adapter, uris: Sequence[str]) -> None:
        """Open a new stream of announcements, for the session's subscriptions `uris`. Raises `Rejected`."""
        server = self._http.server
        fault = server.fault_of_streams()
        if fault is not None:
            raise Rejected(fault)
        log = self._live.new_log(standalone=True)
        self._standalone = StandaloneStream(server, adapter, log)
        self._start()
        if adapter.primes_streams:
            self._http.write(log.prime())
        self._reader = LogReader(self._http, log)
        self._live.add_standalone(self._standalone, list(uris))
        server.workers.listening(self._live.id, log.id)

    def open_instead(self, adapter: Adapter, uris: Sequence[str]) -> None:
        """`open`, for a stream of announcements that is lost.

        What was announced meanwhile nobody knows, so that everything may have changed. Raises `Rejected`.
        """
        self.open(adapter, uris)
        assert self._standalone is not None
        for change in (*LIST_CHANGES, *(Change(ChangeKind.RESOURCE_UPDATED, uri) for uri in uris)):
            self._standalone.deliver(adapter.change_frame(change))

    def resume(self, last_event_id: str, reopen: Callable[[], None]) -> None:
        """Go on with a stream where the client lost it, and with that stream alone. Raises `Rejected`.

        `reopen` is called where that was one of announcements, and is lost: with the worker that had it, or as others
        took its place, or as too much came on it meanwhile. See `open_instead`. No more is lost then than what was
        announced, and to refuse it would say that the session is gone.
        """
        found = self._live.log_of(last_event_id)
        if found is not None:
            self._resume_here(*found)
            return
        stream_id = last_event_id.rpartition("-")[0]
        unknown = reopen if is_standalone(stream_id, self._live.id) else self._unknown
        if not self._http.server.workers.is_from_another(stream_id):
            unknown()
            return
        wanted = {"resume": last_event_id, "session": self._live.id}
        self._reader = DistantReader(self._http, wanted, self._start, unknown)

    def _resume_here(self, log: EventLog, number: int) -> None:
        self._standalone = self._live.standalone_of(log)
        if self._standalone is not None:
            self._standalone.attach()
        self._start()
        for event in log.after(number):
            self._http.write(event)
        if log.finished:
            self._http.end()
        else:
            self._reader = LogReader(self._http, log)

    def _unknown(self) -> None:
        # A GET gets a stream or 405 ("Listening for Messages from the Server", 3). 404 would say that the session is
        # gone, and have its client begin another ("Session Management", 3 and 4).
        self._http.refuse_method("there is no stream of this session with that Last-Event-ID")

    def _start(self) -> None:
        self._http.start_stream()
        self._http.server.stream_opened(self)

    def next_deadline(self) -> float | None:
        """When `handle_timeout` has something to do, in the runtime's seconds."""
        return self._reader.inquiry.deadline if isinstance(self._reader, DistantReader) else None

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        if isinstance(self._reader, DistantReader):
            self._reader.inquiry.handle_timeout(now)

    def on_silence(self) -> None:
        """Nothing was sent for a while."""
        if isinstance(self._reader, DistantReader):
            self._reader.on_silence()

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


class DistantReader:
    """A response that reads a log which another worker keeps.

    `start` is called when that worker answers, and `unknown` where none does.
    """

    def __init__(
        self, http: HttpTransaction, wanted: Message, start: Callable[[], None], unknown: Callable[[], None]
    ) -> None:
        self._http = http
        self._start = start
        self._unknown = unknown
        self._reading = self._probed = False
        self.inquiry = Inquiry(http, wanted, self._heard, unknown)

    def _heard(self, message: Message) -> None:
        http, self._probed = self._http, False
        if message.get("lost"):
            self._lost()
            return
        self._start()
        self._reading = True
        for event in message["events"]:
            http.write(event.encode())
        if message["over"]:
            self._reading = False
            http.end()
        elif http.is_congested:
            # As with a stream that is kept here: who does not read loses the connection, and not the stream.
            self.let_go()

    def _lost(self) -> None:
        """The worker that has the log leaves. Whoever reads already comes back for what there is then."""
        was_reading, self._reading = self._reading, False
        self.inquiry.close()
        if was_reading:
            self._http.end()
        else:
            self._unknown()

    def on_silence(self) -> None:
        """Tell the worker that has the log that somebody still reads, and hear from it whether it is still there."""
        if self._probed:
            self.let_go()
        else:
            self._probed = True
            self.inquiry.still_reads(True)

    def detach(self) -> None:
        """Nobody reads the stream here any more."""
        if self._reading:
            self._reading = False
            self.inquiry.still_reads(False)
        self.inquiry.close()

    def let_go(self) -> None:
        """End the response, but not the stream."""
        if not self._http.ended:
            self._http.end()

"""The response to a POST: JSON when everything is ready at once, a stream when something must precede a result.

It starts out as JSON. It becomes a stream the moment a call has something to say before its result, or when the client
would otherwise wait in silence for too long; so a call that never asks and never reports costs no stream.
"""

from __future__ import annotations

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.events import CallCancelled
from mcp_sansio.outcome import Failure
from mcp_sansio.wire.sse import encode_event

from ._state import ResponseState
from .calls import RunningCall
from .replies import Replies
from .session_transaction import SessionTransaction
from .sessions import InSession
from .streams import LogReader

_WAITING, _STREAMING = ResponseState.WAITING, ResponseState.STREAMING


class PostTransaction(SessionTransaction, InSession):
    """What an HTTP request is to the calls that came in it: their `Outlet`."""

    # None of these is there before the message is read; a class has them so that making one costs nothing.
    _adapter: Adapter | None = None
    #: What is due for a batch. Of any other message the reply is the response.
    _batch: Replies | None = None
    #: What reads the log of the stream, where that can be resumed.
    _reader: LogReader | None = None
    _let_go: float | None = None

    @property
    def rendering(self) -> Adapter:
        """See `HttpTransaction.rendering`: the revision of the message, once it is known."""
        return self._adapter or self.server.adapters.fallback

    # The calls' side: see `Outlet`

    @property
    def can_stream(self) -> bool:
        """See `Outlet.can_stream`. A client that went away can still be reached where it may resume."""
        return self.head.accepts_stream and (self.connected or self._reader is not None)

    def send(self, message: bytes) -> None:
        """See `Outlet.send`."""
        self.become_stream()
        self._write_message(message)

    def reply(self, running: RunningCall, message: bytes, failure: Failure | None) -> None:
        """See `Outlet.reply`."""
        self.add(message, failure)
        self._settle(running)

    def gone(self, running: RunningCall) -> None:
        """See `Outlet.gone`."""
        self.emit(CallCancelled(running.call))
        self.add(None)
        self._settle(running)

    def _settle(self, running: RunningCall) -> None:
        live = self._live
        if live is not None:
            live.calls.pop(running, None)
            self.server.release(live)
        self.settle_call(running)

    # The response

    def add(self, message: bytes | None, failure: Failure | None = None) -> None:
        """One reply is made, or will never be (``None``). When none is missing the response is complete."""
        if self._reader is not None or self.state is _STREAMING:
            self._add_to_stream(message)
        elif self._batch is None:
            self._respond(message, failure)
        elif self._batch.add(message):
            self._respond(self._batch.body(), None)

    def _add_to_stream(self, message: bytes | None) -> None:
        if message is not None:
            self._write_message(message)
        if self._batch is None or self._batch.add(message):
            self._finish()

    def _respond(self, message: bytes | None, failure: Failure | None) -> None:
        """Respond with that `message`, if there is one."""
        if message is None:
            self._end_without_reply()
        elif self.head.accepts_json:
            self.respond_json(200 if failure is None else self.rendering.http_status(failure), message)
        else:
            self.start_stream()
            self.write(encode_event(message))
            self.end()

    def _end_without_reply(self) -> None:
        # A request that was given up gets no response, but its HTTP exchange has to end: as an empty stream.
        if self.can_stream:
            self.start_stream()
            self.end()
        else:
            self.respond(202)

    def become_stream(self) -> None:
        """Start the stream, if that is still to be done and the client accepts one."""
        if self._reader is not None or self.state is not _WAITING or not self.can_stream:
            return
        self.start_stream()
        if self.rendering.resumes_streams and self._live is not None:
            log = self._live.new_log()
            if self.rendering.primes_streams:
                self.write(log.prime())
            self._reader = LogReader(self, log, waited_for=True)
        if self._batch is not None:
            for message in self._batch.made:
                self._write_message(message)
            self._batch.made.clear()

    def _write_message(self, message: bytes) -> None:
        if self._reader is not None:
            self._reader.log.write(message)
        else:
            self.write(encode_event(message))

    def _finish(self) -> None:
        if self._reader is not None:
            self._reader.log.finish()
        else:
            self.end()

    # Time and absence

    def let_go_after(self, seconds: float) -> None:
        """Stream at once and let go of the connection after that time, where the client comes back for the rest.

        Source: basic/transports, "Sending Messages to the Server" 6.
        """
        if self.rendering.primes_streams and self._live is not None:
            self.become_stream()
            self._let_go = self.server.runtime.now() + seconds

    def _check_patience(self, now: float) -> None:
        """Let go of the connection, if it is time to."""
        if self._let_go is not None and self._let_go <= now:
            self._let_go = None
            if self._reader is not None:
                self._reader.let_go()

"""The response to a POST: JSON when everything is ready at once, a stream when something must precede a result.

It starts out as JSON. It becomes a stream the moment a call has something to say before its result, or when the client
would otherwise wait in silence for too long; so a call that never asks and never reports costs no stream.
"""

from __future__ import annotations

from typing import Any

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.dispatcher import Peer
from mcp_sansio.events import CallCancelled
from mcp_sansio.outcome import Failure
from mcp_sansio.storage import Session
from mcp_sansio.wire.sse import encode_event

from ._state import ResponseState
from .calls import RunningCall
from .http import HttpTransaction
from .replies import Replies
from .sessions import NO_PEER, HttpSession, LiveSession
from .streams import LogReader


class PostReply:
    """What answers one POST: the `Outlet` of its calls.

    `forms` says whether the client accepts JSON, and a stream. With `live`, the part that the `session` has in this
    process, the stream can be resumed where the revision of `adapter` has that.
    """

    _reader: LogReader | None = None
    _let_go: float | None = None

    def __init__(
        self,
        http: HttpTransaction,
        adapter: Adapter,
        live: LiveSession | None,
        forms: tuple[bool, bool],
        replies: Replies,
        session: HttpSession | None,
    ) -> None:
        self.wake = http.wake
        self._http = http
        self._adapter = adapter
        self._live = live
        self._accepts_json, self._accepts_stream = forms
        self._replies = replies
        self._session = session

    # The calls' side: see `Outlet`

    @property
    def owner(self) -> object:
        """See `Outlet`: a session with its principal."""
        return None if self._session is None else self._session.owner

    @property
    def peer(self) -> Peer:
        """See `Outlet`."""
        return self._session or NO_PEER

    @property
    def session(self) -> Session | None:
        """See `Outlet`."""
        return None if self._session is None else self._session.values

    @property
    def principal(self) -> str | None:
        """See `Outlet`."""
        return self._http.principal

    @property
    def request(self) -> Any:
        """See `Outlet`."""
        return self._http.request

    @property
    def can_stream(self) -> bool:
        """See `Outlet.can_stream`. A client that went away can still be reached where it may resume."""
        return self._accepts_stream and (self._http.connected or self._reader is not None)

    def send(self, message: bytes) -> None:
        """See `Outlet.send`."""
        self.become_stream()
        self._write(message)

    def reply(self, running: RunningCall, message: bytes, failure: Failure | None) -> None:
        """See `Outlet.reply`."""
        self._over(running)
        self.add(message, failure)

    def gone(self, running: RunningCall) -> None:
        """See `Outlet.gone`."""
        self._over(running)
        self._http.emit(CallCancelled(running.call))
        self.add(None)

    async def drained(self) -> None:
        """See `Outlet.drained`."""
        await self._http.drained()

    def _over(self, running: RunningCall) -> None:
        self._http.settle_call(running)
        if self._live is not None:
            self._live.drop_call(running)
            self._http.server.release(self._live)

    # The response

    def start(self, running: RunningCall) -> None:
        """Have the driver run `running`, which replies here."""
        if self._live is not None:
            self._live.add_call(running)
        self._http.start_call(running)
        if not self._accepts_json:
            self.become_stream()

    def add(self, message: bytes | None, failure: Failure | None = None) -> None:
        """One reply is made, or will never be (``None``). When none is missing the response is complete."""
        streaming = self._reader is not None or self._http.state is ResponseState.STREAMING
        if streaming and message is not None:
            self._write(message)
        if not self._replies.add(message, failure):
            return
        if streaming:
            self._finish()
        else:
            self._respond()

    def _respond(self) -> None:
        body = self._replies.body()
        if body is None:
            self._end_without_reply()
        elif self._accepts_json:
            failure = self._replies.failure
            self._http.respond_json(200 if failure is None else self._adapter.http_status(failure), body)
        else:
            self._http.start_stream()
            self._http.write(encode_event(body))
            self._http.end()

    def _end_without_reply(self) -> None:
        # A request that was given up gets no response, but its HTTP exchange has to end: as an empty stream.
        if self.can_stream:
            self._http.start_stream()
            self._http.end()
        else:
            self._http.respond(202)

    def become_stream(self) -> None:
        """Start the stream, if that is still to be done and the client accepts one."""
        http = self._http
        if self._reader is not None or http.state is not ResponseState.WAITING or not self.can_stream:
            return
        http.start_stream()
        if self._adapter.resumes_streams and self._live is not None:
            log = self._live.new_log()
            if self._adapter.primes_streams:
                http.write(log.prime())
            self._reader = LogReader(http, log, waited_for=True)
        for message in self._replies.made:
            self._write(message)
        self._replies.made.clear()

    def _write(self, message: bytes) -> None:
        if self._reader is not None:
            self._reader.log.write(message)
        else:
            self._http.write(encode_event(message))

    def _finish(self) -> None:
        if self._reader is not None:
            self._reader.log.finish()
        else:
            self._http.end()

    # Time and absence

    def let_go_after(self, seconds: float) -> None:
        """Stream at once and let go of the connection after that time, where the client comes back for the rest.

        Source: basic/transports, "Sending Messages to the Server" 6.
        """
        if self._adapter.primes_streams and self._live is not None:
            self.become_stream()
            self._let_go = self._http.server.runtime.now() + seconds

    def next_deadline(self) -> float | None:
        """When `handle_timeout` has something to do, in the runtime's seconds."""
        return self._let_go

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        if self._let_go is not None and self._let_go <= now:
            self._let_go = None
            if self._reader is not None:
                self._reader.let_go()

    def on_silence(self) -> None:
        """Say something: a comment, for which a reply that waits becomes a stream."""
        self.become_stream()
        self._http.write_comment()

    def on_disconnect(self) -> None:
        """The client went away. A resumable stream waits for it."""
        if self._reader is not None:
            self._reader.detach()

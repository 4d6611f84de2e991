"""The response to a POST: JSON when everything is ready at once, a stream when something must precede a result.

It starts out as JSON. It becomes a stream the moment a call has something to say before its result, or when the client
would otherwise wait in silence for too long; so a call that never asks and never reports costs no stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

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

_STREAMING = ResponseState.STREAMING


class PostReply(Struct, eq=False):
    """What answers one POST: the `Outlet` of its calls.

    `held` is the session that it came in, if any. With `live`, the part that this has in the process, the stream can be
    resumed where the revision of `adapter` has that.
    """

    http: HttpTransaction
    wake: Callable[[], None]
    adapter: Adapter
    live: LiveSession | None
    held: HttpSession | None
    accepts_json: bool
    accepts_stream: bool
    #: What is due for a batch. Of any other message the reply is the response.
    batch: Replies | None
    reader: LogReader | None = None
    let_go: float | None = None

    # The calls' side: see `Outlet`

    @property
    def owner(self) -> object:
        """See `Outlet`: a session with its principal."""
        return None if self.held is None else self.held.owner

    @property
    def peer(self) -> Peer:
        """See `Outlet`."""
        return self.held or NO_PEER

    @property
    def session(self) -> Session | None:
        """See `Outlet`."""
        return None if self.held is None else self.held.values

    @property
    def principal(self) -> str | None:
        """See `Outlet`."""
        return self.http.principal

    @property
    def request(self) -> Any:
        """See `Outlet`."""
        return self.http.request

    @property
    def can_stream(self) -> bool:
        """See `Outlet.can_stream`. A client that went away can still be reached where it may resume."""
        return self.accepts_stream and (self.http.connected or self.reader is not None)

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
        self.http.emit(CallCancelled(running.call))
        self.add(None)

    async def drained(self) -> None:
        """See `Outlet.drained`."""
        await self.http.drained()

    def _over(self, running: RunningCall) -> None:
        self.http.settle_call(running)
        if self.live is not None:
            self.live.calls.pop(running, None)
            self.http.server.release(self.live)

    # The response

    def add(self, message: bytes | None, failure: Failure | None = None) -> None:
        """One reply is made, or will never be (``None``). When none is missing the response is complete."""
        if self.reader is not None or self.http.state is _STREAMING:
            self._add_to_stream(message)
        elif self.batch is None:
            self._respond(message, failure)
        elif self.batch.add(message):
            self._respond(self.batch.body(), None)

    def _add_to_stream(self, message: bytes | None) -> None:
        if message is not None:
            self._write(message)
        if self.batch is None or self.batch.add(message):
            self._finish()

    def _respond(self, message: bytes | None, failure: Failure | None) -> None:
        """Respond with that `message`, if there is one."""
        if message is None:
            self._end_without_reply()
        elif self.accepts_json:
            self.http.respond_json(200 if failure is None else self.adapter.http_status(failure), message)
        else:
            self.http.start_stream()
            self.http.write(encode_event(message))
            self.http.end()

    def _end_without_reply(self) -> None:
        # A request that was given up gets no response, but its HTTP exchange has to end: as an empty stream.
        if self.can_stream:
            self.http.start_stream()
            self.http.end()
        else:
            self.http.respond(202)

    def become_stream(self) -> None:
        """Start the stream, if that is still to be done and the client accepts one."""
        http = self.http
        if self.reader is not None or http.state is not ResponseState.WAITING or not self.can_stream:
            return
        http.start_stream()
        if self.adapter.resumes_streams and self.live is not None:
            log = self.live.new_log()
            if self.adapter.primes_streams:
                http.write(log.prime())
            self.reader = LogReader(http, log, waited_for=True)
        if self.batch is not None:
            for message in self.batch.made:
                self._write(message)
            self.batch.made.clear()

    def _write(self, message: bytes) -> None:
        if self.reader is not None:
            self.reader.log.write(message)
        else:
            self.http.write(encode_event(message))

    def _finish(self) -> None:
        if self.reader is not None:
            self.reader.log.finish()
        else:
            self.http.end()

    # Time and absence

    def let_go_after(self, seconds: float) -> None:
        """Stream at once and let go of the connection after that time, where the client comes back for the rest.

        Source: basic/transports, "Sending Messages to the Server" 6.
        """
        if self.adapter.primes_streams and self.live is not None:
            self.become_stream()
            self.let_go = self.http.server.runtime.now() + seconds

    def next_deadline(self) -> float | None:
        """When `handle_timeout` has something to do, in the runtime's seconds."""
        return self.let_go

    def handle_timeout(self, now: float) -> None:
        """Do what is due."""
        if self.let_go is not None and self.let_go <= now:
            self.let_go = None
            if self.reader is not None:
                self.reader.let_go()

    def on_silence(self) -> None:
        """Say something: a comment, for which a reply that waits becomes a stream."""
        self.become_stream()
        self.http.write_comment()

    def on_disconnect(self) -> None:
        """The client went away. A resumable stream waits for it."""
        if self.reader is not None:
            self.reader.detach()

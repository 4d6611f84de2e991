"""Streamable HTTP: one endpoint, a POST for each message, a session where the server opens one, and its stream.

Source: basic/transports, "Streamable HTTP", and basic/transports/streamable-http.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.errors import McpError

from ._state import NegotiationState
from .calls import OutgoingCall, OutgoingRequest
from .exchange import STREAM_TYPE, Due, Response
from .gate import Gate
from .http_listening import ListeningStream
from .http_notices import Notice
from .http_replies import ReplyJob

if TYPE_CHECKING:
    from .http import HttpClientSession

SESSION_HEADER = "Mcp-Session-Id"
#: "Visible ASCII characters (ranging from 0x21 to 0x7E)" ("Session Management", 1).
_SESSION_ID = re.compile(r"[\x21-\x7e]+")
_MAX_RENEWALS = 2


class Streamable:
    """How messages travel to a server that has the one endpoint."""

    def __init__(self, client: HttpClientSession) -> None:
        self.client = client
        self.exchanges, self.timers = client.exchanges, client.timers
        self.session_id: str | None = None
        self._adapter: Adapter | None = None
        self._listening = ListeningStream(self)
        self._notice: Notice | None = None
        #: How many sessions in a row were gone before they were of any use.
        self._renewals = 0
        self._gate = Gate(client.timers, self.transmit)

    # What the engine has it do

    def transmit(self, request: OutgoingRequest) -> None:
        """Send a request."""
        if self._gate.keeps(request):
            return
        if request.is_handshake:
            self._leave()
        # What finds out and the handshake are outside of any session.
        is_in_session = request.call is not None and request.adapter.has_handshake
        request.extra = job = ReplyJob(request, self, self.session_id if is_in_session else None)
        job.start()

    def post(self, message: bytes, adapter: Adapter, about: OutgoingRequest | None, what: str) -> Notice | None:
        """Send a message that is due no reply, if it can be. `what` names it.

        It belongs to the session of the request that it is `about`: no other knows that request, or what was asked on
        its stream.
        """
        job = None if about is None else about.extra
        session_id = job.session_id if isinstance(job, ReplyJob) else self.session_id
        headers = self.client.post_headers(self._headers(adapter, session_id), None if about is None else about.call)
        self._notice = Notice(what, self.client.fault)
        timeout = self.client.config.notice_timeout
        self.exchanges.send(self._notice, Due.NOTHING, "POST", headers, message, timeout=timeout)
        return self._notice

    def release(self, request: OutgoingRequest) -> bool:
        """Nobody waits for the reply to `request`. Whether it was sent."""
        if self._gate.forget(request):
            return False
        if isinstance(request.extra, ReplyJob):
            request.extra.release()
        return True

    def settled(self, adapter: Adapter) -> None:
        """It is known what is spoken: calls may go, once the server has had time for what comes before them."""
        if not adapter.has_handshake:
            return
        self._adapter = adapter
        self._gate.shut(self.client.runtime.now() + self.client.config.settle_timeout, self._go_on)
        assert self._notice is not None  # the one that the handshake ends with, sent just now
        self._notice.then = self._acknowledged

    def want_stream(self) -> None:
        """What comes on the standalone stream is wanted now."""
        adapter = self.client.adapter
        if not self._gate.is_shut and adapter is not None and adapter.has_handshake:
            self._listening.open(adapter)

    def close(self) -> None:
        """The session is not needed any more."""
        self._gate.clear()
        self._leave()

    # The beginning of a session

    def reply_began(self, request: OutgoingRequest, response: Response) -> str | None:
        """The head of a reply. The handshake's may name a session; what is wrong with it, if anything."""
        if not request.is_handshake:
            self._renewals = 0
            return None
        session_id = response.headers.get(SESSION_HEADER)
        if session_id is None:
            return None
        if not _SESSION_ID.fullmatch(session_id):
            return f"its {SESSION_HEADER} holds more than visible ASCII characters"
        self.session_id, self._adapter = session_id, request.adapter
        return None

    def _acknowledged(self) -> None:
        """The server has what the handshake ends with."""
        adapter = self.client.adapter
        if self._gate.is_shut and adapter is not None and self.client.wants_stream:
            self._listening.open(adapter)
        else:
            self._go_on()

    def listening_answered(self) -> None:
        """The standalone stream is open, or will not be for now."""
        self._go_on()

    def _go_on(self) -> None:
        self._gate.open()
        if self.client.wants_stream:
            self.want_stream()

    # Its end

    def session_gone(self, session_id: str | None, request: OutgoingRequest | None, error: McpError) -> None:
        """A request that carried `session_id` was answered 404, so nobody looked at it ("Session Management", 4).

        A new session is opened, once for all requests that come to know of it. Each of them is sent again, whatever it
        does, since it was not processed; one that finds no session twice fails.
        """
        negotiation = self.client.negotiation
        is_news = session_id is not None and session_id == self.session_id
        if is_news:
            self.session_id = None
            self._listening.close()
            self._renewals += 1
        will_do = self._renewals <= _MAX_RENEWALS
        call = None if request is None else self._park(request, error, may_wait=will_do)
        if is_news and negotiation.state is NegotiationState.READY:
            if will_do:
                negotiation.handshake()
            else:
                negotiation.lapse()
        elif call is not None:
            self._send_again(call)

    def _park(self, request: OutgoingRequest, error: McpError, *, may_wait: bool) -> OutgoingCall | None:
        call = request.call
        if call is None or call.restarted or not may_wait:
            self.client.failed(request, error)
            return None
        call.restarted = True
        self.client.park(call)
        return call

    def _send_again(self, call: OutgoingCall) -> None:
        if self.client.negotiation.state is NegotiationState.READY:
            del self.client.flight.waiting[call]
            self.client.flight.send(call)
        else:
            self.client.negotiation.start(call)

    def _leave(self) -> None:
        self._listening.close()
        session_id, self.session_id = self.session_id, None
        if session_id is None or self._adapter is None:
            return
        headers = self.client.given_headers(self._headers(self._adapter, session_id))
        # A server that lets nobody end sessions says 405, and one that has none any more 404: both are fine.
        timeout = self.client.config.notice_timeout
        self.exchanges.send(Notice("", _ignore), Due.NOTHING, "DELETE", headers, timeout=timeout)

    # Headers

    def headers_of(self, request: OutgoingRequest, session_id: str | None) -> dict[str, str]:
        """The headers of a request's POST, which belongs to that session."""
        mirrored = self.client.lists.mirrored(request.call)
        own = request.adapter.client_headers(request.method, request.params, mirrored)
        if session_id is not None:
            own[SESSION_HEADER] = session_id
        return self.client.post_headers(own, request.call)

    def stream_headers(
        self, adapter: Adapter, session_id: str | None, cursor: str | None, call: OutgoingCall | None = None
    ) -> dict[str, str]:
        """The headers of a GET, from the event `cursor` on."""
        resumed = {} if cursor is None else {"Last-Event-ID": cursor}
        own = {"Accept": STREAM_TYPE, **self._headers(adapter, session_id), **resumed}
        return self.client.given_headers(own, call)

    def _headers(self, adapter: Adapter, session_id: str | None) -> dict[str, str]:
        return adapter.client_headers("", {}) | _named(session_id)


def _named(session_id: str | None) -> dict[str, str]:
    return {} if session_id is None else {SESSION_HEADER: session_id}


def _ignore(fault: str, matters: bool) -> None:
    """It does not matter."""

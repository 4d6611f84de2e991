"""The first HTTP transport: a stream for what the server says, and an endpoint, which it names, for the client.

It is a duplex channel in two halves: with the stream, everything in flight is gone (the oldest revision's
basic/transports, "HTTP with SSE").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.errors import McpError, ServerError, UnusableReply
from mcp_sansio.wire.urls import are_same_origin, resolve

from .calls import OutgoingCall, OutgoingRequest
from .exchange import STREAM_TYPE, Complete, Due, Finding, Message, Named, Overlong, Refusal, Response, Unreadable
from .gate import Gate
from .http_errors import broken, lost, refused, unreadable
from .http_notices import Notice
from .negotiation import says_legacy

if TYPE_CHECKING:
    from .http import HttpClientSession
    from .http_exchanges import Flight, Job


class Pair:
    """How messages travel to a server that has only the pair.

    `refusal` is what the newer transport was refused with, where that was tried.
    """

    def __init__(self, client: HttpClientSession, refusal: McpError | None = None) -> None:
        self.client = client
        self.refusal = refusal
        self._endpoint: str | None = None
        self._stream: Flight | None = None
        #: The handshake, while the endpoint is not known.
        self._waiting: dict[OutgoingRequest, None] = {}
        self._notice: Notice | None = None
        self._gate = Gate(client.timers, self.transmit)

    # What the engine has it do

    def transmit(self, request: OutgoingRequest) -> None:
        """Send a request. Its reply comes on the stream."""
        if self._gate.keeps(request):
            return
        if request.is_handshake:
            self._hang_up()
        if self._endpoint is None:
            self._waiting[request] = None
            self._open(request)
        else:
            self._send(request)

    def post(self, message: bytes, adapter: Adapter, about: OutgoingRequest | None, what: str) -> Notice | None:
        """Send a message that is due no reply, if it can be. `what` names it, and it is `about` that request."""
        if self._endpoint is None:
            return None
        self._notice = Notice(what, self.client.fault)
        self._post(self._notice, adapter.client_headers("", {}), message, None if about is None else about.call)
        return self._notice

    def release(self, request: OutgoingRequest) -> bool:
        """Nobody waits for the reply to `request`. Whether it was sent."""
        return self._waiting.pop(request, request) is not None and not self._gate.forget(request)

    def settled(self, adapter: Adapter) -> None:
        """It is known what is spoken: calls may go, once what comes before them has arrived."""
        self._gate.shut(self.client.runtime.now() + self.client.config.settle_timeout, self._gate.open)
        assert self._notice is not None  # the one that the handshake ends with, sent just now
        self._notice.then = self._gate.open

    def want_stream(self) -> None:
        """Everything that the server says comes on the stream that there is."""

    def close(self) -> None:
        """The channel is not needed any more."""
        self._gate.clear()
        self._hang_up()

    # The endpoint for messages

    def _send(self, request: OutgoingRequest) -> None:
        headers = request.adapter.client_headers(request.method, request.params)
        self._post(_Delivery(self.client, request), headers, request.message, request.call)

    def _post(self, job: Job, headers: dict[str, str], message: bytes, call: OutgoingCall | None) -> None:
        client = self.client
        client.exchanges.send(
            job,
            Due.NOTHING,
            "POST",
            client.post_headers(headers, call),
            message,
            url=self._endpoint,
            timeout=client.config.notice_timeout,
        )

    # The stream

    def _open(self, request: OutgoingRequest) -> None:
        if self._stream is not None:
            return
        client = self.client
        own = {"Accept": STREAM_TYPE, **request.adapter.client_headers(request.method, request.params)}
        headers = client.given_headers(own, request.call)
        timeout = client.config.endpoint_timeout
        self._stream = client.exchanges.send(self, Due.STREAM, "GET", headers, timeout=timeout)

    def began(self, response: Response) -> None:
        """See `Job.began`."""

    def found(self, finding: Finding) -> None:
        """See `Job.found`."""
        if isinstance(finding, Message):
            self._received(finding.data)
        elif isinstance(finding, Named):
            self._named(finding)
        elif isinstance(finding, Overlong):
            self.client.fault(f"an event of {finding.size} bytes was too large")
        elif isinstance(finding, Refusal):
            self._ended(refused(finding))
        elif isinstance(finding, Unreadable):
            self._ended(UnusableReply(f"the stream of the older transport cannot be read: {finding.reason}"))
        elif isinstance(finding, Complete):
            self.lost("the server ended its stream")

    def lost(self, reason: str, cause: BaseException | None = None, connected: bool = True) -> None:
        """See `Job.lost`."""
        if self._endpoint is None and connected:
            reason = f"no endpoint event came on the stream of the older transport: {reason}"
        self._ended(broken(reason, cause))

    def _received(self, message: bytes) -> None:
        if self._endpoint is None:
            self.client.fault("a message before the endpoint was named, when nothing had been sent")
        else:
            self.client.deliver(message, None)

    def _named(self, event: Named) -> None:
        # The first endpoint is the endpoint: a later one could only lead somewhere else.
        if event.event != "endpoint" or self._endpoint is not None or self._stream is None:
            return
        named = event.data.decode(errors="replace").strip()
        endpoint = resolve(self._stream.request.url, named)
        if endpoint is None or not are_same_origin(endpoint, self._stream.request.url):
            text = f"the server names the endpoint {named[:200]!r}, which is no URL of its own origin"
            self._ended(UnusableReply(text))
            return
        self._endpoint = endpoint
        self.client.exchanges.limit(self._stream, None)
        waiting, self._waiting = self._waiting, {}
        for request in waiting:
            self._send(request)

    def _ended(self, error: McpError) -> None:
        """The stream is over, and with it everything that waits for something on it."""
        client, was_open = self.client, self._endpoint is not None
        failed = client.flight.requests()
        self._gate.clear()
        self._hang_up()
        if was_open:
            client.negotiation.lapse()
        elif failed and self.refusal is not None and not _is_outage(error):
            self.refusal.add_note(f"there is no older transport either: {error}")
            error = self.refusal
        for request in failed:
            client.failed(request, error)

    def _hang_up(self) -> None:
        stream, self._stream = self._stream, None
        self._endpoint = None
        self._waiting.clear()
        self.client.questions.stream_ended()
        if stream is not None and not stream.settled:
            self.client.exchanges.abort(stream)


def _is_outage(error: McpError) -> bool:
    return isinstance(error, ServerError) and not says_legacy(error)


class _Delivery:
    """A request on its way to the endpoint. That it arrived is no reply."""

    def __init__(self, client: HttpClientSession, request: OutgoingRequest) -> None:
        self._client = client
        self._request = request

    def began(self, response: Response) -> None:
        """See `Job.began`."""

    def found(self, finding: Finding) -> None:
        """See `Job.found`."""
        if isinstance(finding, Refusal):
            self._client.failed(self._request, refused(finding))
        elif isinstance(finding, Unreadable):
            self._client.failed(self._request, unreadable(self._request.method, finding))

    def lost(self, reason: str, cause: BaseException | None = None, connected: bool = True) -> None:
        """See `Job.lost`."""
        self._client.failed(self._request, lost(self._request.method, reason, cause, connected))

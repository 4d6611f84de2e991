"""The client's end of HTTP: requests out, responses in, whichever of the two HTTP transports the server has.

Facts in: `receive_response`, `receive_data`, `receive_end`, `receive_failure`, `handle_timeout`. After each of them,
and after each command, take everything: `events`, `data_to_send` and `next_deadline`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from mcp_sansio import wire_log
from mcp_sansio.adapters.base import Adapter
from mcp_sansio.errors import McpError, ServerError
from mcp_sansio.wire.headers import check_headers
from mcp_sansio.wire.json import JsonError, decode
from mcp_sansio.wire.urls import origin_of

from .calls import OutgoingCall, OutgoingRequest
from .engine import ClientEngine
from .exchange import JSON_TYPE
from .http_exchanges import Exchanges
from .http_notices import Notice
from .http_replies import ReplyJob
from .http_requests import ACCEPT_EITHER, HttpAbort, HttpRequest, merged
from .http_streamable import Streamable
from .negotiation import says_legacy
from .pair import Pair
from .timers import doubled

#: What is between two requests that a server asks to be made without any delay, in seconds.
_SHORTEST_DELAY = 0.1
_REFUSED = 400


class HttpClientSession(ClientEngine):
    """The client's end of HTTP, to the server at `url`. For the other options see `ClientEngine`.

    `headers` go with every request, besides the protocol's own, which prevail (see `merged`). Every number in a fact
    is that of the `HttpRequest` that it is about; facts about requests that are over, or were given up, are ignored.

    Raises ``ValueError`` for what is no http or https URL, and for what cannot be a header.
    """

    has_headers = True

    def __init__(self, url: str, *, headers: Mapping[str, str] = {}, **options: Any) -> None:
        super().__init__(**options)
        if origin_of(url) is None:
            raise ValueError(f"not an http or https URL: {url!r}")
        check_headers(headers)
        config = self.config
        self._given = dict(headers)
        self.is_pair = self._wants_stream = False
        self._answers = 0
        self.exchanges = Exchanges(
            url.partition("#")[0],
            self.runtime.now,
            max_message=config.max_message,
            max_headers=config.max_headers,
            max_redirects=config.max_redirects,
            linger=config.linger,
        )
        self._carrier: Streamable | Pair = Streamable(self)
        self.mind(self.exchanges)
        if self.known is not None and self.known.pair:
            self._use(Pair(self))

    # Facts in

    def receive_response(
        self, exchange: Hashable, status: int, headers: Mapping[str, str] | Iterable[tuple[str, str]]
    ) -> None:
        """The status and the header section of a response."""
        if self.logs_wire:
            wire_log.head_received(str(status), headers)
        self.exchanges.receive_response(exchange, status, headers)

    def receive_data(self, exchange: Hashable, data: bytes) -> None:
        """A piece of a response's body, however it is cut."""
        self.exchanges.receive_data(exchange, data)

    def receive_end(self, exchange: Hashable, data: bytes = b"") -> None:
        """A response is complete, with `data` as the last piece of its body, where that was not handed over yet."""
        self.exchanges.receive_end(exchange, data)

    def receive_failure(
        self, exchange: Hashable, reason: str, cause: BaseException | None = None, *, connected: bool = True
    ) -> None:
        """There is no response, or no more of it: no connection, or one that broke.

        `reason` is for people to read. `cause` becomes that of the call's error, and a `HeadersFailed` is the error
        itself. `connected` is ``False`` where there was no connection to send the request on, and the error says so:
        nothing was lost then.
        """
        self.exchanges.receive_failure(exchange, reason, cause, connected)

    # Commands

    def close(self) -> None:
        """See `ClientEngine.close`. Where the server opened a session, it is told that it is over.

        That request, and what says that a call was given up just before, is still to be sent and its response to be
        waited for, as long as `is_idle` is False.
        """
        if self.closed:
            return
        super().close()
        self.timers.clear()
        self.exchanges.abort_all(but=lambda job: isinstance(job, Notice) and job.is_parting)
        self._carrier.close()

    # Things to take

    def data_to_send(self) -> list[HttpRequest | HttpAbort]:
        """What there is to do, in order."""
        parts, self.exchanges.unsent = self.exchanges.unsent, []
        if self.logs_wire:
            for part in parts:
                _log(part)
        return parts

    def request_to_send(self, call: OutgoingCall) -> HttpRequest | None:
        """The request on whose response the reply to `call` is awaited, where the last thing that is to be done is it.

        It is for who sends it on behalf of that call, and not among `data_to_send` then.
        """
        job = None if call.request is None else call.request.extra
        flight = job.flight if isinstance(job, ReplyJob) else None
        unsent = self.exchanges.unsent
        if flight is None or not unsent or unsent[-1] is not flight.request:
            return None
        del unsent[-1]
        if self.logs_wire:
            _log(flight.request)
        return flight.request

    # Getters

    @property
    def is_idle(self) -> bool:
        """Whether no response is waited for."""
        return not self.exchanges

    @property
    def wants_stream(self) -> bool:
        """Whether anything is wanted that a server may say on a standalone stream alone."""
        return self._wants_stream or self.wants_changes or self.can_answer or self.log_level is not None

    # What a transport supplies

    def transmit(self, request: OutgoingRequest) -> None:
        """See `ClientEngine.transmit`."""
        if self.is_pair:
            self._suit(request.adapter)
        self._carrier.transmit(request)

    def notify(self, message: bytes, adapter: Adapter) -> None:
        """See `ClientEngine.notify`."""
        self._carrier.post(message, adapter, None, "a notification")

    def respond(self, message: bytes, adapter: Adapter, origin: OutgoingRequest | None) -> None:
        """See `ClientEngine.respond`. A server that asks on, and takes no answer, gets no more of them."""
        if self._answers >= self.config.max_answers:
            self.fault(f"an answer was left out, since {self._answers} others are on their way", matters=True)
            return
        notice = self._carrier.post(message, adapter, origin, "an answer")
        if notice is not None:
            self._answers += 1
            notice.then, notice.matters = self._answer_ended, True

    def _answer_ended(self) -> None:
        self._answers -= 1

    def release(self, request: OutgoingRequest, *, cancelled: bool, reason: str | None = None) -> None:
        """See `ClientEngine.release`. Where hanging up says it, nothing else does (basic/patterns/cancellation)."""
        was_sent = self._carrier.release(request)
        if cancelled and was_sent and request.call is not None and not request.adapter.disconnect_cancels:
            message = request.adapter.client_cancellation(request.id, reason)
            notice = self._carrier.post(message, request.adapter, request, "a cancellation")
            if notice is not None:
                notice.is_parting = True

    def want_announcements(self) -> None:
        """See `ClientEngine.want_announcements`."""
        self._wants_stream = True
        self._carrier.want_stream()

    def settled(self) -> None:
        """See `ClientEngine.settled`."""
        assert self.adapter is not None
        self._suit(self.adapter)
        self._carrier.settled(self.adapter)
        super().settled()

    def other_way(self, error: McpError) -> bool:
        """See `ClientEngine.other_way`: from the one endpoint to the pair ("Backwards Compatibility").

        The specification names three statuses, and an earlier text of it all of 4xx; servers that know no POST at that
        path have still others.
        """
        carrier = self._carrier
        if isinstance(carrier, Pair):
            self._use(Streamable(self))
            if carrier.refusal is None:
                # That there is only the pair was assumed, and tried first.
                self.negotiation.start_over()
                return True
            return False
        status = error.status if isinstance(error, ServerError) else None
        if status is None or status < _REFUSED or not says_legacy(error):
            return False
        self._use(Pair(self, error))
        self.negotiation.retry_handshake()
        return True

    def disagreed(self, error: McpError) -> None:
        """See `ClientEngine.disagreed`: "disconnect" (basic/lifecycle, "Version Negotiation")."""
        self._carrier.close()
        super().disagreed(error)

    def status_of(self, request: OutgoingRequest) -> int | None:
        """See `ClientEngine.status_of`."""
        return request.extra.status if isinstance(request.extra, ReplyJob) else None

    def _suit(self, adapter: Adapter) -> None:
        """A revision without a handshake is spoken at the one endpoint, whatever was tried before."""
        if self.is_pair and not adapter.has_handshake:
            self._use(Streamable(self))

    def _use(self, carrier: Streamable | Pair) -> None:
        self._carrier.close()
        self._carrier = carrier
        self.is_pair = isinstance(carrier, Pair)

    # For the carriers

    def deliver(self, data: bytes, origin: OutgoingRequest | None) -> str | None:
        """A whole message has come. What is wrong with it, where it is no JSON."""
        try:
            message = decode(data, max_depth=self.config.max_depth)
        except JsonError as error:
            self.fault(f"a message that is not JSON: {error}")
            return f"it is not JSON: {error}"
        self.received(message, origin, len(data))
        return None

    def delay(self, retry: int | None, in_vain: int) -> float:
        """How many seconds to wait before a stream that ended is opened again.

        `retry` is what the server asked for, in milliseconds, and `in_vain` how often that was done for nothing.
        """
        asked = self.config.reconnect_delay if retry is None else retry / 1000
        return max(asked, doubled(max(asked, _SHORTEST_DELAY), in_vain, self.config.max_reconnect_delay))

    def given_headers(self, own: dict[str, str], call: OutgoingCall | None = None) -> dict[str, str]:
        """The protocol's headers with those that the caller gave, for all requests and for this one."""
        if call is None or not call.headers:
            return merged(self._given, own) if self._given else own
        return merged(merged(self._given, call.headers), own)

    def post_headers(self, own: Mapping[str, str], call: OutgoingCall | None) -> dict[str, str]:
        """The headers of a POST."""
        return self.given_headers({"Content-Type": JSON_TYPE, "Accept": ACCEPT_EITHER, **own}, call)


def _log(part: HttpRequest | HttpAbort) -> None:
    if isinstance(part, HttpRequest):
        wire_log.head_sent(f"{part.method} {part.url}", part.headers)
        if part.body:
            wire_log.sent(part.body)

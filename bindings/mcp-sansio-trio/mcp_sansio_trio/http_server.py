"""HTTP/1.1 at the server's end of a stream: h11 between its bytes and requests, and a time limit for each wait.

Nothing of MCP is here. What HTTP leaves to a server is: how long a client may take, what of a request is refused before
anybody is asked, and how a connection ends (RFC 9110 and RFC 9112).
"""

from __future__ import annotations

from collections.abc import Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time

import attrs
import h11
import trio

from mcp_sansio import Body, End, Head, Part
from mcp_sansio.hosting import HttpRefusal

#: One read, one piece of a write, and how much of the next requests is taken in before the one at hand is answered.
_PIECE = 32 * 2**10
#: A client that is refused before it has sent everything often reads its answer only afterwards. So much more is
#: read and dropped, within this time in seconds, before the connection is cut (RFC 9112 section 9.6).
_LINGER_BYTES, _LINGER_SECONDS = 8 * 2**20, 5.0
#: How long saying goodbye may take, where a stream does that (TLS).
_CLOSING_SECONDS = 1.0
#: What a request line may have, besides the header section.
_REQUEST_LINE = 16 * 2**10
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


@attrs.frozen(kw_only=True)
class HttpLimits:
    """How long a client may take, in seconds; `math.inf` is no limit.

    `head_timeout` is for a request's header section, from its first byte on, and for the first byte of a connection,
    the TLS handshake included. `idle_timeout` is how long a connection is kept for its next request, and
    `write_timeout` how long a client may take to read 32 KiB of a response. The time for a request's body is
    `mcp_sansio.Config.receive_timeout`.

    Raises ``ValueError`` for what is not above zero.
    """

    head_timeout: float = attrs.field(default=30.0, validator=attrs.validators.gt(0))
    idle_timeout: float = attrs.field(default=75.0, validator=attrs.validators.gt(0))
    write_timeout: float = attrs.field(default=60.0, validator=attrs.validators.gt(0))


class HttpConnection:
    """The connection of one client. Its methods raise ``trio.BrokenResourceError`` when the client has gone.

    `max_headers` bounds a header section, in bytes.
    """

    linger = _LINGER_SECONDS
    _is_last = False
    _idle: trio.CancelScope | None = None

    def __init__(self, stream: trio.abc.Stream, limits: HttpLimits, max_headers: int) -> None:
        self._stream = stream
        self._limits = limits
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=max_headers + _REQUEST_LINE)
        self._method = b""
        self._is_first = True

    # Requests

    async def next_request(self) -> h11.Request | None:
        """The head of the next request; ``None`` where there is none.

        Raises ``h11.RemoteProtocolError`` for what is no HTTP, and `HttpRefusal` for what a server does not take.
        """
        event = await self._next_head()
        if not isinstance(event, h11.Request):
            return None
        self._is_first, self._method = False, event.method
        _check(event)
        return event

    async def _next_head(self) -> object:
        limits, begun = self._limits, bool(self._http.trailing_data[0])
        seconds = limits.head_timeout if begun or self._is_first else limits.idle_timeout
        with trio.move_on_after(seconds) as scope:
            self._idle = None if begun else scope
            while (event := self._http.next_event()) is h11.NEED_DATA:
                await self._receive()
                if not begun:
                    begun, self._idle = True, None
                    scope.deadline = trio.current_time() + limits.head_timeout
            return event
        if begun:
            raise HttpRefusal(408, f"the head took longer than {limits.head_timeout:g} seconds to come in")
        return None

    async def _receive(self) -> bytes:
        """Take in what comes next, which is ``b""`` at the end."""
        data = bytes(await self._stream.receive_some(_PIECE))
        held = data
        if self._http.their_state is h11.IDLE and not self._http.trailing_data[0]:
            held = data.lstrip(b"\r\n")  # line ends before a request are to be borne with (RFC 9112 section 2.2)
        if held or not data:
            self._http.receive_data(held)
        return data

    async def body(self) -> bytes | None:
        """The next piece of the request's body; ``None`` at its end."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            if self._http.they_are_waiting_for_100_continue:
                await self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
            if not await self._receive():
                raise trio.BrokenResourceError("the client left within its request")
        return bytes(event.data) if isinstance(event, h11.Data) else None

    def drop_rest(self) -> bool:
        """Drop what is here of the body; whether that is all of it, so that there may be another request."""
        try:
            while self._http.their_state is h11.SEND_BODY:
                if self._http.next_event() is h11.NEED_DATA:
                    return False
        except h11.RemoteProtocolError:
            return False
        return self._http.their_state not in (h11.IDLE, h11.ERROR)

    async def left(self) -> None:
        """Return when the client has gone. What it sends until then is kept; of too much of it no more is read."""
        try:
            while await self._receive():
                if len(self._http.trailing_data[0]) > _PIECE:
                    await trio.sleep_forever()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    # Responses

    async def send(self, parts: Sequence[Part]) -> None:
        """Send the next parts of the response, in one piece."""
        head, is_end = parts[0], isinstance(parts[-1], End)
        data = b"".join([part.data for part in parts if isinstance(part, Body)])
        sent: list[h11.Event] = []
        if isinstance(head, Head):
            sent.append(self._response(head, len(data) if is_end else None))
        if data and self._method != b"HEAD":
            sent.append(h11.Data(data=data))
        if is_end:
            sent.append(h11.EndOfMessage())
        await self._write(b"".join([self._http.send(event) or b"" for event in sent]))

    def _response(self, head: Head, length: int | None) -> h11.Response:
        """The head of a response, whose body has that `length` if it is known."""
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in head.headers]
        if length is not None and head.status != 204 and "Content-Length" not in dict(head.headers):
            pairs.append((b"Content-Length", b"%d" % length))
        pairs.append((b"Date", _date(int(time()))))
        if self._is_last or not self.drop_rest():
            pairs.append((b"Connection", b"close"))
        return h11.Response(status_code=head.status, headers=pairs, reason=_REASONS.get(head.status, b""))

    async def _write(self, data: bytes) -> None:
        for start in range(0, len(data), _PIECE):
            with trio.move_on_after(self._limits.write_timeout) as scope:
                await self._stream.send_all(data[start : start + _PIECE])
            if scope.cancelled_caught:
                raise trio.BrokenResourceError("the client does not read its response")

    # The end

    def retire(self) -> None:
        """Take no request after the one at hand, and none where there is none."""
        self._is_last = True
        if self._idle is not None:
            self._idle.cancel()

    def renew(self) -> bool:
        """Be ready for another request, if there can be one."""
        if self._is_last or not self._http.our_state is self._http.their_state is h11.DONE:
            return False
        self._http.start_next_cycle()
        self._method = b""
        return True

    async def refuse(self, refusal: HttpRefusal) -> None:
        """Answer a request with `refusal`, if it is not answered yet. It is the last."""
        self.retire()
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            text = f"{refusal.status}: {str(refusal) or _REASONS.get(refusal.status, b'').decode()}"
            headers = (("Content-Type", "text/plain; charset=utf-8"), *refusal.headers.items())
            await self.send([Head(refusal.status, headers), Body(text.encode(errors="replace")), End()])

    async def close(self) -> None:
        """End the connection. A client that is still sending gets the time to read what it was answered."""
        try:
            if self._http.our_state in (h11.MUST_CLOSE, h11.DONE) and not self.drop_rest():
                with trio.move_on_after(self.linger):
                    if isinstance(self._stream, trio.abc.HalfCloseableStream):
                        await self._stream.send_eof()
                    left = _LINGER_BYTES
                    while left > 0 and (data := await self._stream.receive_some(_PIECE)):
                        left -= len(data)
        except trio.BrokenResourceError:
            pass
        finally:
            with trio.move_on_after(_CLOSING_SECONDS):
                await self._stream.aclose()


def _check(request: h11.Request) -> None:
    """Raises `HttpRefusal` for what h11 lets pass, and a server should not take."""
    fields = dict(request.headers)
    if not request.http_version.startswith(b"1."):
        raise HttpRefusal(505, "this server speaks HTTP/1.1")
    if b"transfer-encoding" in fields and b"content-length" in fields:
        raise HttpRefusal(400, "a body has a Content-Length or is chunked, and not both")  # RFC 9112 section 6.1
    if fields.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise HttpRefusal(417)


@lru_cache(maxsize=2)
def _date(seconds: int) -> bytes:
    return formatdate(seconds, usegmt=True).encode()

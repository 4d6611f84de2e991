"""Drives one engine of the core with one request: ASGI's messages are facts, and parts of the response messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from mcp_sansio import End, HttpTransaction, Part, Pending, Whole
from mcp_sansio.driving import Orphans, Task
from mcp_sansio.response_driver import ResponseDriver, data_of
from mcp_sansio.wire.headers import Headers

from .body import Body
from .facts import Receive, Scope, Send, is_on_loopback, target_of
from .loops import Loop

OpenEngine = Callable[..., HttpTransaction]

#: A client that is refused before it has sent everything often reads its answer only afterwards. So much more is
#: read and dropped, within this time, before its connection ends.
_LINGER_BYTES = 8 * 2**20
_LINGER_SECONDS = 5.0
#: A small body, of which nothing was wanted, is read first, where it is there already: its connection goes on.
_GRACE_BYTES = 2**16
_GRACE_SECONDS = 0.05


class Driver(ResponseDriver):
    """One request on its way through the core.

    The application's own coroutine alone sends. Calls are tasks of their own, since they may outlive it, and so is a
    look out for the client's leaving, once something has been waited for.
    """

    #: Most calls that wait for something are done by then, and have cost a timer and no task.
    patience = 0.02

    # Defaults stand here, since most requests change none of them.
    engine: HttpTransaction
    _loop: Loop
    _watching: Task | None = None
    _has_begun = False
    _linger = _LINGER_SECONDS
    #: What the response's head says beside what the core has for it.
    _further_headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(
        self,
        loop: Loop,
        orphans: Orphans,
        scope: Scope,
        receive: Receive,
        send: Send,
        body: Body,
    ) -> None:
        super().__init__(loop, orphans)
        self._scope = scope
        self._receive = receive
        self._send = send
        self._body = body

    async def begin(self, pending: Pending) -> None:
        """Serve a request that has come in."""
        self._body.is_here = True
        given = pending.begin(self.start_call, self.wake)
        if isinstance(given, Whole):
            await send_at_once(self._send, given)
        else:
            self.engine = given
            await self._drive(None)

    async def run(self, open_engine: OpenEngine, principal: str | None) -> None:
        """Serve the request with an engine that `open_engine` makes."""
        scope, loopback = self._scope, is_on_loopback(self._scope)
        engine = self.engine = open_engine(principal=principal, loopback=loopback, request=scope, wake=self.wake)
        engine.receive_request(scope["method"], target_of(scope), Headers.of_bytes(scope["headers"]))
        await self._drive(self._take_body() if engine.receiving else None)

    async def _drive(self, body: Awaitable[None] | None) -> None:
        try:
            if body is not None:
                await self._take_in(body)
            await self._respond(self.take_now() or await self._first_parts())
        except ConnectionError:
            self.disconnect()
        except BaseException:
            self.disconnect()  # cancelled: the server stops, or has seen the client leave
            raise
        finally:
            if self._watching is not None:
                self._watching.cancel()
            self.leave()

    # The request

    async def _take_body(self) -> None:
        """Hand the body to the engine, for as long as that waits for it."""
        engine, body = self.engine, self._body
        while engine.receiving:
            piece = await body.take()
            if body.is_here:
                engine.receive_end(piece)
            else:
                engine.receive_body(piece)

    async def _take_in(self, body: Awaitable[None]) -> None:
        """Have the body taken in, which has until the engine's deadline. Most of them are there."""
        due = self.engine.next_deadline()
        _, rest = self._loop.begun(body)
        if rest is None:
            return
        assert due is not None
        if not await self._loop.within(due, rest):
            self.engine.handle_timeout(max(due, self._loop.now()))
            self._linger = 0.0  # it has had its time

    # The response

    async def _first_parts(self) -> list[Part]:
        """The first parts, which are there without a look out for the client once a call is done at its first step."""
        await self._loop.first_steps()
        return await self.take()

    async def _respond(self, parts: list[Part]) -> None:
        """Send the response to its end; it begins with `parts`. Raises ``ConnectionError`` when the client has left."""
        if isinstance(parts[-1], End):
            await self._send_whole(parts)
            return
        while True:
            is_last = isinstance(parts[-1], End)
            self.pause()
            await self._send_parts(parts, more=not is_last)
            self.resume()
            if is_last:
                return
            parts = await self.take()

    async def _send_whole(self, parts: list[Part]) -> None:
        """Send a response at once. The request may still be coming in, which is not read to its end."""
        if self._body.is_here or await self._has_come_in():
            await self._send_parts(parts)
            return
        if self._scope.get("http_version", "1.1").startswith("1"):
            self._further_headers = ((b"connection", b"close"),)
        await self._send_parts(parts, more=True)
        await self._loop.within(self._loop.now() + self._linger, self._body.drop(_LINGER_BYTES))
        await self._send_parts([End()])

    async def _has_come_in(self) -> bool:
        """Whether all of the request is here, as far as the core needs a body at all."""
        if self._scope["method"] != "POST":
            return True
        if self._body.is_here is None and self._linger and all(name != b"expect" for name, _ in self._scope["headers"]):
            _, rest = self._loop.begun(self._body.drop(_GRACE_BYTES))
            if rest is not None:
                await self._loop.within(self._loop.now() + _GRACE_SECONDS, rest)
        return bool(self._body.is_here)

    async def _send_parts(self, parts: list[Part], *, more: bool = False) -> None:
        """Send `parts`, of which all of them are the last unless there are `more`."""
        send = self._send
        try:
            if not self._has_begun:
                self._has_begun = True
                head: Any = parts[0]
                headers = [*_encoded(head.headers), *self._further_headers]
                await send({"type": "http.response.start", "status": head.status, "headers": headers})
            # Without data as well: some servers hold a head back until the body begins.
            await send({"type": "http.response.body", "body": data_of(parts), "more_body": more})
        except OSError as error:
            raise ConnectionResetError("the client left") from error

    # The end of the connection

    def watch(self) -> None:
        """See `ResponseDriver.watch`."""
        self._watching = self._loop.start(self._look_out())

    async def _look_out(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass  # the rest of a request that was answered before its end
        self.lose()


async def send_at_once(send: Send, whole: Whole) -> None:
    """Send a response that needed no engine."""
    try:
        headers = [*_encoded(whole.headers)]
        await send({"type": "http.response.start", "status": whole.status, "headers": headers})
        await send({"type": "http.response.body", "body": whole.body})
    except OSError:
        pass  # the client left


@lru_cache(maxsize=256)  # nearly all responses have the same few
def _encoded(headers: tuple[tuple[str, str], ...]) -> tuple[tuple[bytes, bytes], ...]:
    return tuple([(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers])

"""Drives one engine of the core with one request: ASGI's messages are facts, and parts of the response messages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from mcp_sansio import End, HttpTransaction, Part
from mcp_sansio.driving import Orphans, Task
from mcp_sansio.hosting import checked_principal
from mcp_sansio.response_driver import ResponseDriver, data_of
from mcp_sansio.wire.headers import Headers

from .facts import Message, Principal, Receive, Scope, Send, is_on_loopback, target_of
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
    """One request on its way through the core, whose engine `open_engine` makes.

    The application's own coroutine alone sends. Calls are tasks of their own, since they may outlive it, and so is a
    look out for the client's leaving, once something is waited for.
    """

    # Defaults stand here, since most requests change none of them.
    engine: HttpTransaction
    _loop: Loop
    _watching: Task | None = None
    _has_begun = False
    #: Whether all of the body is here, once a piece of it is.
    _has_all: bool | None = None
    _linger = _LINGER_SECONDS
    #: What the response's head says beside what the core has for it.
    _further_headers: tuple[tuple[bytes, bytes], ...] = ()

    def __init__(
        self,
        loop: Loop,
        orphans: Orphans,
        open_engine: OpenEngine,
        principal: Principal,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        super().__init__(loop, orphans)
        self._scope = scope
        self._receive = receive
        self._send = send
        self.engine = open_engine(
            principal=checked_principal(principal(scope)),
            loopback=is_on_loopback(scope),
            request=scope,
            wake=self.wake,
        )

    async def run(self) -> None:
        """Serve the request."""
        engine, scope = self.engine, self._scope
        try:
            engine.receive_request(scope["method"], target_of(scope), Headers.of_bytes(scope["headers"]))
            if engine.receiving:
                rest = self._loop.begun(self._take_in())
                if rest is not None:
                    await self._take_in_late(rest)
            parts = self.take_now()
            if self._has_all and parts and isinstance(parts[-1], End):
                await self._send_parts(parts)  # mostly
            else:
                await self._respond(parts or await self._first_parts())
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

    async def _take_in(self) -> None:
        """Read the body, for as long as the engine waits for it. Most of them are there, and in one piece."""
        engine = self.engine
        while True:
            piece = self._piece_of(await self._receive())
            if self._has_all:
                engine.receive_end(piece)
                return
            engine.receive_body(piece)
            if not engine.receiving:
                return

    async def _take_in_late(self, rest: Awaitable[None]) -> None:
        """Read the `rest` of the body, which has until the engine's deadline."""
        due = self.engine.next_deadline()
        assert due is not None
        if not await self._loop.within(due, rest):
            self.engine.handle_timeout(max(due, self._loop.now()))
            self._linger = 0.0  # it has had its time

    def _piece_of(self, message: Message) -> bytes:
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the client left")
        self._has_all = not message.get("more_body")
        piece: bytes = message.get("body", b"")
        return piece

    async def _read_and_drop(self, most: int) -> None:
        """Read the rest of the body, or about that many bytes of it."""
        while most > 0 and not self._has_all:
            most -= len(self._piece_of(await self._receive()))

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
        if self._has_all or await self._has_come_in():
            await self._send_parts(parts)
            return
        if self._scope.get("http_version", "1.1").startswith("1"):
            self._further_headers = ((b"connection", b"close"),)
        await self._send_parts(parts, more=True)
        await self._loop.within(self._loop.now() + self._linger, self._read_and_drop(_LINGER_BYTES))
        await self._send_parts([End()])

    async def _has_come_in(self) -> bool:
        """Whether all of the request is here, as far as the core needs a body at all."""
        if self._scope["method"] != "POST":
            return True
        if self._has_all is None and self._linger and all(name != b"expect" for name, _ in self._scope["headers"]):
            rest = self._loop.begun(self._read_and_drop(_GRACE_BYTES))
            if rest is not None:
                await self._loop.within(self._loop.now() + _GRACE_SECONDS, rest)
        return bool(self._has_all)

    async def _send_parts(self, parts: list[Part], *, more: bool = False) -> None:
        """Send `parts`, of which all of them are the last unless there are `more`."""
        send = self._send
        try:
            if not self._has_begun:
                self._has_begun = True
                head: Any = parts[0]
                headers = [*map(_encoded, head.headers), *self._further_headers]
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


@lru_cache(maxsize=256)  # nearly all responses have the same few
def _encoded(header: tuple[str, str]) -> tuple[bytes, bytes]:
    name, value = header
    return name.lower().encode("latin-1"), value.encode("latin-1")

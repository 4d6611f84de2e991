"""An HTTP server that is being checked: the client in front of it, and what a check does with the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mcp_sansio.events import Body, Head, Part
from mcp_sansio.types import JSON
from mcp_sansio.wire.json import decode
from mcp_sansio.wire.sse import EventDecoder, ServerSentEvent

from .checking import Maybe, settled, shown
from .server_scene import InFlight, Reader, ServerScene
from .speaker import Said

TARGET = "/mcp"
SESSION = "mcp-session-id"
_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


class HttpExchange(Protocol):
    """A request on its way, and its response as it comes in.

    The methods may be ``async def`` or plain functions.
    """

    def receive(self, seconds: float) -> Maybe[Part | None]:
        """The next part of the response: a `Head`, then pieces of its `Body` however cut, then `End`.

        ``None`` where nothing came within `seconds`. ``OSError`` where the connection was cut.
        """

    def disconnect(self) -> Maybe[None]:
        """Cut the connection."""


class HttpClient(Protocol):
    """A client in front of an HTTP server, as `check_http` needs it.

    The methods may be ``async def`` or plain functions.
    """

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Maybe[HttpExchange]:
        """Send a request, on a connection of its own, and do not wait for the response."""

    def wait(self, seconds: float) -> Maybe[object]:
        """Let time pass and read nothing: ``asyncio.sleep``, for example."""

    def shutdown(self) -> Maybe[None]:
        """Shut the server down, as its operator would, by `Server.shutdown`. It still accepts connections."""


class ResponseReader(Reader):
    """The response of an exchange, as far as it has been read."""

    def __init__(self, scene: HttpScene, said: Said, exchange: HttpExchange) -> None:
        super().__init__(scene, said)
        self._exchange = exchange
        self._events = EventDecoder(2**30)
        self._messages: list[JSON] = []
        self.head: Head | None = None
        self.body = b""
        self.ended = False

    @property
    def headers(self) -> dict[str, str]:
        """The headers, by their names in lower case."""
        return {name.lower(): value for name, value in self.head.headers} if self.head else {}

    async def disconnect(self) -> None:
        """Cut the connection."""
        await settled(self._exchange.disconnect())

    async def read(self, rule: int, otherwise: str) -> None:
        """Read the next part, which must come."""
        if not await self.has_more(self._scene.patience, rule, otherwise):
            self._scene.fail(rule, f"{otherwise}, for {self._scene.patience:g} seconds")

    async def has_more(self, seconds: float, rule: int, otherwise: str) -> bool:
        """Read the next part, if one comes."""
        try:
            part: Part | None = await settled(self._exchange.receive(seconds))
        except OSError as error:
            self._scene.fail(rule, f"{otherwise}: the connection is cut ({error!r})")
        if isinstance(part, Head):
            self.head = part
        elif isinstance(part, Body):
            self._receive(part.data)
        elif part is not None:
            self.ended = True
            if self.headers.get("content-type") == "application/json":
                self._messages += _decoded(self.body)
        return part is not None

    def _receive(self, data: bytes) -> None:
        self.body += data
        if self.headers.get("content-type") == "text/event-stream":
            self._events.receive_data(data)
            events = [event for event in self._events.events() if isinstance(event, ServerSentEvent)]
            self._messages += [message for event in events for message in _decoded(event.data)]

    async def message(self, rule: int, otherwise: str) -> JSON:
        """See `Reader.message`."""
        while not self._messages:
            if self.ended:
                self._scene.fail(rule, f"{otherwise}, and the response is over: {shown(self.head)} {shown(self.body)}")
            await self.read(rule, otherwise)
        return self._messages.pop(0)

    async def end(self, rule: int, otherwise: str) -> None:
        """See `Reader.end`."""
        while not self.ended:
            await self.read(rule, otherwise)


class HttpScene(ServerScene[ResponseReader]):
    """An HTTP server under a check."""

    client: HttpClient
    session: str | None = None

    async def open(self) -> None:
        """See `ServerScene.open`."""
        handshake = self.speaker.handshake()
        if handshake:
            opened = await self.say(handshake[0])
            await opened.message(4, "the handshake is not answered")
            self.session = opened.headers.get(SESSION)
            await self.tell(handshake[1])

    async def request(self, method: str, said: Said, query: str = "") -> ResponseReader:
        """Send a request that brings that message."""
        target = f"{TARGET}?{query}" if query else TARGET
        exchange = await settled(self.client.request(method, target, self.headers(said), said.body))
        return ResponseReader(self, said, exchange)

    def headers(self, said: Said) -> dict[str, str]:
        """The headers of a request that brings that message."""
        session = {} if self.session is None else {SESSION: self.session}
        return {**_HEADERS, **said.headers, **session}

    async def say(self, said: Said) -> ResponseReader:
        """See `ServerScene.say`."""
        return await self.request("POST", said)

    async def tell(self, said: Said) -> None:
        """See `ServerScene.tell`."""
        response = await self.say(said)
        await response.end(4, f"{shown(said.body)} is not accepted")
        if response.head is None or response.head.status != 202:
            self.fail(3, f"{shown(said.body)} brings {shown(response.head)}")

    async def give_up(self, call: InFlight[ResponseReader]) -> None:
        """See `ServerScene.give_up`: in the way that the revision has."""
        if self.adapter.disconnect_cancels:
            await call.response.disconnect()
            await self.ended(8, "the client has left, which gives its call up", call.name)
        else:
            await super().give_up(call)

    async def listen(self) -> ResponseReader:
        """A stream of announcements, which is open."""
        said = self.speaker.listen()
        if said is not None:
            stream = await self.say(said)
            await stream.message(4, "a request to listen is not acknowledged")
        else:
            stream = await self.request("GET", self.speaker.get())
            await stream.read(4, "a stream of a session does not begin")
        return stream


def _decoded(data: bytes) -> list[JSON]:
    """The message in `data`, if there is one."""
    try:
        return [decode(data)]
    except ValueError:
        return []

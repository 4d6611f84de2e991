"""An HTTP server that is being checked: the client in front of it, and what a check does with the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mcp_sansio.events import Body, Head, Part
from mcp_sansio.types import JSON
from mcp_sansio.wire.json import decode
from mcp_sansio.wire.sse import EventDecoder, ServerSentEvent

from .checking import Maybe, Scene, settled, shown
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


class Reader:
    """The response of an exchange, as far as it has been read."""

    def __init__(self, scene: HttpScene, exchange: HttpExchange) -> None:
        self._scene = scene
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
        """The next message of the response, which must come."""
        while not self._messages:
            if self.ended:
                self._scene.fail(rule, f"{otherwise}, and the response is over: {shown(self.head)} {shown(self.body)}")
            await self.read(rule, otherwise)
        return self._messages.pop(0)

    async def text(self, rule: int, text: str, otherwise: str) -> None:
        """The reply to a call must come next, and be that text."""
        message = await self.message(rule, otherwise)
        if message.get("result", {}).get("content", [{}])[0].get("text") != text:
            self._scene.fail(rule, f"{otherwise}; what came is {shown(message)}")
        await self.end(rule, f"{otherwise} as the last thing of its response")

    async def progress(self, rule: int, done: int, otherwise: str) -> None:
        """A report of progress must come next."""
        message = await self.message(rule, otherwise)
        if message.get("params", {}).get("progress") != done:
            self._scene.fail(rule, f"{otherwise}; what came is {shown(message)}")

    async def end(self, rule: int, otherwise: str) -> None:
        """The response must come to its end."""
        while not self.ended:
            await self.read(rule, otherwise)


class HttpScene(Scene):
    """An HTTP server under a check."""

    client: HttpClient
    session: str | None = None

    async def open(self) -> None:
        """Make the handshake, where there is one."""
        handshake = self.speaker.handshake()
        if handshake:
            opened = await self.say(handshake[0])
            await opened.message(4, "the handshake is not answered")
            self.session = opened.headers.get(SESSION)
            await self.accepted(handshake[1])

    async def request(self, method: str, headers: Mapping[str, str], body: bytes = b"", query: str = "") -> Reader:
        """Send a request."""
        target = f"{TARGET}?{query}" if query else TARGET
        return Reader(self, await settled(self.client.request(method, target, headers, body)))

    def headers(self, said: Said) -> dict[str, str]:
        """The headers of a request that brings that message."""
        session = {} if self.session is None else {SESSION: self.session}
        return {**_HEADERS, **said.headers, **session}

    async def say(self, said: Said) -> Reader:
        """POST a message."""
        return await self.request("POST", self.headers(said), said.body)

    async def accepted(self, said: Said) -> None:
        """POST what has no reply."""
        response = await self.say(said)
        await response.end(4, f"{shown(said.body)} is not accepted")
        if response.head is None or response.head.status != 202:
            self.fail(3, f"{shown(said.body)} brings {shown(response.head)}")

    async def echo(self, rule: int, otherwise: str) -> None:
        """A call must be answered."""
        response = await self.say(self.speaker.call("echo", text="still here"))
        await response.text(rule, "still here", otherwise)

    async def hold(self, *names: str) -> list[InFlight]:
        """Calls that go on until they are given up."""
        calls = []
        for name in names:
            said = self.speaker.call("hold", name=name)
            calls.append(InFlight(self, name, said, await self.say(said)))
        await self.started(*names)
        return calls

    async def relay(self, name: str, *after: str, token: str | None = None) -> InFlight:
        """A call that goes on when each of those is given up."""
        said = self.speaker.call("relay", token, name=name, after=list(after))
        call = InFlight(self, name, said, await self.say(said))
        await self.started(name)
        return call

    async def stuck(self, name: str) -> InFlight:
        """A call whose handler waits for ever."""
        marked = await self.say(self.speaker.call("mark", name="mark"))
        await marked.text(5, "marked", "a call is not answered")
        return await self.relay(name, "mark")

    async def listen(self) -> Reader:
        """A stream of announcements, which is open."""
        said = self.speaker.listen()
        if said is not None:
            stream = await self.say(said)
            await stream.message(4, "a request to listen is not acknowledged")
        else:
            stream = await self.request("GET", self.headers(self.speaker.get()))
            await stream.read(4, "a stream of a session does not begin")
        return stream


class InFlight:
    """A call in flight: its response, and the way to give it up that its revision has."""

    def __init__(self, scene: HttpScene, name: str, said: Said, response: Reader) -> None:
        self.name = name
        self._scene = scene
        self._said = said
        self.response = response

    async def give_up(self) -> None:
        """Give the call up, which ends its handler."""
        if self._scene.adapter.disconnect_cancels:
            await self.response.disconnect()
            await self._scene.ended(8, "the client has left, which gives its call up", self.name)
        else:
            await self._scene.accepted(self._scene.speaker.cancel(self._said.id))
            await self._scene.ended(5, "the client gave a call up", self.name)


def _decoded(data: bytes) -> list[JSON]:
    """The message in `data`, if there is one."""
    try:
        return [decode(data)]
    except ValueError:
        return []

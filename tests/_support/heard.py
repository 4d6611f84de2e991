"""What a client of HTTP says and hears, whatever moves the bytes: bare sockets (`talk`), or aiohttp's (`sockets`).

What a server says is held against the schema of the client's revision.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs

import speak
from mcp_sansio.wire.json import decode, encode
from mcp_sansio.wire.sse import EventDecoder, ServerSentEvent

JSON = Any
ACCEPT = "application/json, text/event-stream"


@attrs.frozen
class Answer:
    """A whole response. `headers` lack what HTTP servers add to every response of their own."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def message(self) -> JSON:
        """The only message in it."""
        (message,) = self.messages
        return message

    @property
    def messages(self) -> list[JSON]:
        """The messages in it."""
        if self.headers.get("Content-Type") != "text/event-stream":
            return [decode(self.body)] if self.body else []
        decoder = EventDecoder(2**24)
        decoder.receive_data(self.body)
        decoder.receive_eof()
        events = cast("list[ServerSentEvent]", list(decoder.events()))
        return [decode(event.data) for event in events if event.data]


class Events:
    """The events of a response while it comes."""

    def __init__(self, version: str, methods: Mapping[JSON, str]) -> None:
        self.last_id: str | None = None
        self._version = version
        self._methods = methods
        self._decoder = EventDecoder(2**24)
        self._events: list[ServerSentEvent] = []

    def hear(self, data: bytes) -> None:
        """What came next of the body."""
        self._decoder.receive_data(data)
        self._events += cast("list[ServerSentEvent]", list(self._decoder.events()))

    def heard(self) -> ServerSentEvent | None:
        """The next event, if it is there."""
        if not self._events:
            return None
        event = self._events.pop(0)
        self.last_id = event.id
        return event

    def message_of(self, event: ServerSentEvent) -> JSON:
        """The message in an event, or ``None``."""
        if not event.data or event.event != "message":
            return None
        message = decode(event.data)
        speak.check_all(self._version, [message], self._methods)
        return message


class Speaker(speak.Speaker):
    """What a client of Streamable HTTP of one revision says."""

    def __init__(self, version: str, **options: Any) -> None:
        super().__init__(version, cast("Any", None), **options)
        self.session: str | None = None
        self.extra: Mapping[str, str] = {}

    def headers(self, message: JSON = None) -> dict[str, str]:
        """What goes into the header section of a POST of `message`."""
        wanted = speak.Http.headers(cast("Any", self), message)
        return {"Accept": ACCEPT, "Content-Type": "application/json", **wanted, **self.extra}

    def written(self, message: JSON, headers: Mapping[str, str | None]) -> tuple[dict[str, str], bytes | None]:
        """The header section and the body that carry `message`; a header of ``None`` is left out."""
        held = {**self.headers(message), **headers}
        given = {name: value for name, value in held.items() if value is not None}
        return given, None if message is None else message if isinstance(message, bytes) else encode(message)

    def checked(self, answer: Answer, message: JSON) -> Answer:
        """The response to `message`."""
        if answer.headers.get("Content-Type") in ("application/json", "text/event-stream"):
            speak.check_all(self.version, answer.messages, speak.methods_of(message))
        return answer

    def calling(self, name: str, *, id: JSON = 1, token: JSON = None, **arguments: JSON) -> JSON:
        """The message that calls a tool."""
        return self.message("tools/call", {"name": name, "arguments": arguments}, id=id, token=token)


def address_in(event: ServerSentEvent | None) -> str:
    """What the first event of the first HTTP transport tells: where messages go."""
    assert event is not None
    assert event.event == "endpoint"
    return event.data.decode()


def text_of(message: JSON) -> str:
    """The text of a tool's result."""
    assert not message["result"].get("isError"), message
    (content,) = message["result"]["content"]
    return str(content["text"])

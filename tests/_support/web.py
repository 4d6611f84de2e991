"""The other end of an `HttpClientSession`, by hand: what a test says that a server says. No socket, no clock."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from calling import ANNOUNCING
from mcp_sansio import AdapterSet
from mcp_sansio.client.calls import Answered
from mcp_sansio.client.events import CallEnded, QuestionReceived, ServerFaulted
from mcp_sansio.client.http import HttpClientSession
from mcp_sansio.client.http_requests import HttpAbort, HttpRequest
from mcp_sansio.operation import Operation
from mcp_sansio.runtime import Runtime
from mcp_sansio.testing import FakeClock
from mcp_sansio.wire.json import decode, encode

JSON = Any
URL = "http://server.example/mcp"
BY_VERSION = AdapterSet.default().by_version
JSON_TYPE, STREAM_TYPE = {"Content-Type": "application/json"}, {"Content-Type": "text/event-stream"}


def event(message: JSON | bytes, id: str | None = None, retry: int | None = None, name: str | None = None) -> bytes:
    """An event of a stream, as a server of another hand would write it."""
    data = message if isinstance(message, bytes) else encode(message)
    lines = [] if name is None else [f"event: {name}"]
    lines += [] if id is None else [f"id: {id}"]
    lines += [] if retry is None else [f"retry: {retry}"]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"data: " + data + b"\r\n\r\n"


class Client:
    """An engine and everything that came out of it. `version` chooses a revision; without one, it is found out."""

    def __init__(self, version: str | None = None, *, url: str = URL, clock: FakeClock | None = None, **options: Any):
        self.clock = clock or FakeClock()
        counter = itertools.count(1)
        runtime = Runtime(now=self.clock, token_bytes=lambda size: next(counter).to_bytes(size, "big"), event=_no_event)
        options.setdefault("adapters", None if version is None else BY_VERSION[version])
        self.engine = HttpClientSession(url, runtime=runtime, **options)
        self.sent: list[HttpRequest | HttpAbort] = []
        self.happened: list[Any] = []

    # What came out

    def take(self) -> list[HttpRequest | HttpAbort]:
        """Take everything; what is new to send."""
        self.happened += self.engine.events()
        new = self.engine.data_to_send()
        self.sent += new
        return new

    def requests(self) -> list[HttpRequest]:
        """The requests that are new."""
        return [item for item in self.take() if isinstance(item, HttpRequest)]

    def request(self) -> HttpRequest:
        """The one thing that is new, which is a request."""
        (item,) = self.take()
        assert isinstance(item, HttpRequest), item
        return item

    @property
    def faults(self) -> list[str]:
        """What was passed over."""
        self.take()
        return [happened.fault for happened in self.happened if isinstance(happened, ServerFaulted)]

    @property
    def questions(self) -> list[Any]:
        """What was asked."""
        return [happened.question for happened in self.happened if isinstance(happened, QuestionReceived)]

    @property
    def ended(self) -> list[Any]:
        """The calls that ended, in order."""
        return [happened.call for happened in self.happened if isinstance(happened, CallEnded)]

    # What goes in

    def call(self, name: str = "echo", arguments: JSON = None, **options: Any) -> Any:
        """Call a tool."""
        params = {"name": name, "arguments": {} if arguments is None else arguments}
        return self.engine.call(Operation.CALL_TOOL, params, **options)

    def respond(
        self,
        request: HttpRequest,
        body: JSON | bytes = b"",
        *,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        end: bool = True,
    ) -> None:
        """The response to a request: bytes, or a JSON value."""
        is_json = not isinstance(body, bytes)
        given = (JSON_TYPE if is_json else {}) if headers is None else headers
        self.engine.receive_response(request.exchange, status, given)
        data = encode(body) if is_json else body
        if data:
            self.engine.receive_data(request.exchange, data)
        if end:
            self.engine.receive_end(request.exchange)

    def stream(self, request: HttpRequest, *events: bytes, end: bool = True, headers: Mapping[str, str] = {}) -> None:
        """A response that is a stream."""
        self.respond(request, b"".join(events), headers={**STREAM_TYPE, **headers}, end=end)

    def result(self, request: HttpRequest, result: JSON, **options: Any) -> None:
        """The response with a result."""
        self.respond(request, {"jsonrpc": "2.0", "id": id_of(request), "result": result}, **options)

    def advance(self, seconds: float) -> None:
        """Let time pass, with a stop at every deadline."""
        end = self.clock() + seconds
        while (at := self.engine.next_deadline()) is not None and at <= end:
            self.clock.advance(max(0.0, at - self.clock()))
            self.engine.handle_timeout(self.clock())
            self.take()
        self.clock.advance(end - self.clock())

    # Beginnings

    def shake(self, version: str, *, session: str | None = None, capabilities: JSON = None) -> list[HttpRequest]:
        """Answer the handshake that is out; its two requests."""
        (opening,) = self.requests()
        assert message_of(opening)["method"] == "initialize"
        info = {"name": "server", "version": "1"}
        result = {"protocolVersion": version, "capabilities": capabilities or ANNOUNCING, "serverInfo": info}
        self.result(opening, result, headers=JSON_TYPE | ({"mcp-session-id": session} if session else {}))
        notice = self.request()
        assert message_of(notice) == {"jsonrpc": "2.0", "method": "notifications/initialized"}
        self.respond(notice, status=202)
        return [opening, notice]


def opened(version: str, *, session: str | None = "s", stream: bool = False, **options: Any) -> Client:
    """A client that has begun: nothing is in flight but, with `stream`, the stream that it is listening to.

    That stream is the first of `sent`; otherwise a server that has none was asked in vain, where any was asked.
    """
    client = Client(version, **options)
    first = client.call("first")
    if BY_VERSION[version].has_handshake:
        client.shake(version, session=session)
    else:
        client.result(client.request(), {"supportedVersions": [version], "capabilities": {}})
    listening = None
    if BY_VERSION[version].has_handshake and client.engine.wants_stream:
        listening = client.request()
        if stream:
            client.stream(listening, end=False)
        else:
            client.respond(listening, status=405)
    client.result(client.request(), {"content": []})
    client.take()
    assert first.result() == {"content": []}
    client.sent = [listening] if stream and listening else []
    client.happened.clear()
    return client


def outcome(call: Any) -> JSON:
    """What came of a call: its result, or the kind and the text of its error."""
    assert call.ended, call
    if isinstance(call.outcome, Answered):
        return call.outcome.result
    error = call.outcome.error
    return type(error).__name__, str(error)


DONE = {"content": [{"type": "text", "text": "done"}]}


def response(id: JSON, result: JSON = DONE) -> JSON:
    """A response."""
    return {"jsonrpc": "2.0", "id": id, "result": result}


def initialized(version: JSON) -> JSON:
    """The result of a handshake; ``...`` leaves the version out."""
    held = {"capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    return held if version is ... else {"protocolVersion": version, **held}


def finish(client: Client, call: Any, result: JSON = DONE) -> None:
    """Answer the request that is out, which is that of the call."""
    request = client.request()
    client.result(request, result)
    client.take()
    assert outcome(call) == result


def message_of(request: HttpRequest) -> JSON:
    """The message that a request carries."""
    return decode(request.body)


def id_of(request: HttpRequest) -> JSON:
    """The id of the message that a request carries."""
    return message_of(request)["id"]


def _no_event() -> Any:
    raise AssertionError("a client's engine waits for nothing")

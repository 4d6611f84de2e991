"""Servers that do as they please in front of a client of HTTP, from any source of choices (see `grammar`)."""

from __future__ import annotations

from typing import Any

from grammar import Choices, pick
from hostile_channel import CALLS, ERRORS, NAME, NOTIFICATIONS, REQUESTS, RESULTS
from mcp_sansio import ClientConfig, HttpAbort, HttpRequest, Known, Operation
from mcp_sansio.client.events import CallEnded, QuestionReceived, QuestionWithdrawn
from mcp_sansio.wire.headers import check_headers
from mcp_sansio.wire.json import decode, encode
from mcp_sansio.wire.urls import are_same_origin
from speak import VERSIONS
from web import JSON_TYPE, STREAM_TYPE, URL, Client, event

JSON = Any
CONFIG = ClientConfig(
    timeout=20,
    max_timeout=60,
    ask_timeout=30,
    max_message=3000,
    max_headers=400,
    max_reconnects=3,
    max_rounds=3,
    max_pages=4,
    max_answers=8,
)
STATUSES = (200, 200, 200, 200, 202, 204, 301, 307, 308, 400, 401, 404, 404, 405, 429, 500, 501, 503, 100, 599)
HEADERS: tuple[dict[str, str], ...] = (
    {},
    JSON_TYPE,
    STREAM_TYPE,
    {**JSON_TYPE, "Mcp-Session-Id": "s"},
    {**JSON_TYPE, "Mcp-Session-Id": "a b"},
    {**STREAM_TYPE, "mcp-session-id": "t"},
    {"Content-Type": "text/html"},
    {"Location": "/mcp/"},
    {"Location": "http://evil.example/"},
    {"X": "y" * 500},
)
RAW = (b"", b"\n\n", b"data: ", b"id: 9\n", b"retry: 0\n\n", b"[" * 300, b'"' + b"x" * 900, b"\xff\xfe", b"\r")
ENDPOINTS = (b"/m", b"/m", b"http://evil.example/", b"?x")
#: What the two sides do, for those who choose among it.
STEPS = (
    *("call", "call", "give_up", "answer", "respond", "respond", "go_on", "finish", "speak_of_what_is_over"),
    *("behave", "behave", "behave", "name_an_endpoint", "refuse_everything", "pass_time"),
)


class HostileWeb:
    """A client of HTTP, and a server that answers anything. What holds whatever it answers is asserted."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        known = pick(choices, (None, None, Known(VERSIONS[0]), Known(VERSIONS[-1], pair=True)))
        self.client = Client(
            pick(choices, (None, None, *VERSIONS)),
            config=CONFIG,
            can_answer=bool(choices.number(0, 1)),
            wants_changes=bool(choices.number(0, 1)),
            log_level=pick(choices, (None, "info")),
            known=known,
        )
        self.calls: list[Any] = []
        self.questions: list[Any] = []
        #: The requests in flight, by their numbers; and the numbers of all that there ever were.
        self.out: dict[Any, HttpRequest] = {}
        self.seen: set[Any] = set()
        self._looked = 0

    # What the caller does

    def call(self) -> None:
        """Call, or listen."""
        kind = self.choices.number(0, len(CALLS))
        if kind == len(CALLS):
            self.calls.append(self.client.engine.listen(tools=True, uris=("a:b",)))
        else:
            operation, params = CALLS[kind]
            self.calls.append(self.client.engine.call(operation, params, wants_progress=True))
        self.look()

    def give_up(self) -> None:
        """Give a call up, perhaps one that has ended."""
        if self.calls:
            self.client.engine.cancel(pick(self.choices, self.calls))
        self.look()

    def answer(self) -> None:
        """Answer a question, or say that it cannot be."""
        if self.questions:
            question = self.questions.pop(self.choices.number(0, len(self.questions) - 1))
            if self.choices.number(0, 3):
                self.client.engine.answer(question, {"action": "accept", "content": {}})
            else:
                self.client.engine.fail(question, "no")
        self.look()

    # What the server does

    def respond(self) -> None:
        """Begin with a response, of whatever kind."""
        if self.out:
            exchange = pick(self.choices, list(self.out))
            self.client.engine.receive_response(exchange, pick(self.choices, STATUSES), pick(self.choices, HEADERS))
            self.look()
            self._say(exchange)
            if self.choices.number(0, 1):
                self._end(exchange)

    def go_on(self) -> None:
        """Go on with a response, perhaps one that has not begun."""
        if self.out:
            self._say(pick(self.choices, list(self.out)))

    def finish(self) -> None:
        """End a response, or break the connection."""
        if self.out:
            exchange = pick(self.choices, list(self.out))
            if self.choices.number(0, 1):
                self._end(exchange)
            else:
                del self.out[exchange]
                self.client.engine.receive_failure(exchange, "reset", OSError("reset"))
                self.look()

    def speak_of_what_is_over(self) -> None:
        """Facts about what is over, or never was, are about nothing."""
        over = [exchange for exchange in self.seen if exchange not in self.out]
        exchange, engine = pick(self.choices, [*over, 10**9]), self.client.engine
        self.look()
        before = len(self.client.happened)
        engine.receive_response(exchange, pick(self.choices, STATUSES), JSON_TYPE)
        engine.receive_data(exchange, b"{}")
        engine.receive_end(exchange)
        engine.receive_failure(exchange, "gone")
        assert (self.client.take(), len(self.client.happened)) == ([], before)

    def behave(self) -> None:
        """Answer everything as a decent server would, so that there is something to be indecent about."""
        streams, session = bool(self.choices.number(0, 1)), pick(self.choices, (None, "s", "t"))
        for exchange, request in list(self.out.items()):
            if exchange in self.out:
                self._answer_well(exchange, request, streams, session)

    def _answer_well(self, exchange: Any, request: HttpRequest, streams: bool, session: str | None) -> None:
        engine, message = self.client.engine, decode(request.body) if request.body else {}
        headers = {} if session is None else {"Mcp-Session-Id": session}
        if request.method == "GET":
            engine.receive_response(exchange, 200, STREAM_TYPE)
            self.look()
            return
        if "id" not in message or "method" not in message:
            engine.receive_response(exchange, 202, {})
        elif streams:
            engine.receive_response(exchange, 200, STREAM_TYPE | headers)
            engine.receive_data(exchange, event(self._reply(message), id="d1"))
        else:
            engine.receive_response(exchange, 200, JSON_TYPE | headers)
            engine.receive_data(exchange, encode(self._reply(message)))
        self.look()
        self._end(exchange)

    def _reply(self, message: JSON) -> JSON:
        """A response that fits the request."""
        result = pick(self.choices, RESULTS)
        if "protocolVersion" in message.get("params", {}):
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {}}
        elif message.get("method") == "server/discover":
            result = {"supportedVersions": list(VERSIONS[:1]), "capabilities": {}}
        return {"jsonrpc": "2.0", "id": message.get("id"), "result": result}

    def name_an_endpoint(self) -> None:
        """Be a server of the first transport, and answer what is asked on its stream."""
        exchange = next((number for number, request in self.out.items() if request.method == "GET"), None)
        if exchange is None:
            return
        engine = self.client.engine
        engine.receive_response(exchange, 200, STREAM_TYPE)
        engine.receive_data(exchange, event(b"/m", name="endpoint"))
        self.look()
        for request in list(self.out.values()):
            if request.body:
                engine.receive_data(exchange, event(self._reply(decode(request.body))))
                self.look()

    def refuse_everything(self) -> None:
        """Know nothing of anything that is out."""
        status = pick(self.choices, (404, 405))
        for exchange in list(self.out):
            self.client.engine.receive_response(exchange, status, {})
            self.look()
            self._end(exchange)

    def _say(self, exchange: Any) -> None:
        """A few pieces of a body."""
        for _ in range(self.choices.number(0, 3)):
            request = self.out.get(exchange)
            if request is None:
                return
            said = self._said(request)
            cut = self.choices.number(0, len(said))
            self.client.engine.receive_data(exchange, said[:cut])
            self.client.engine.receive_data(exchange, said[cut:])
            self.look()

    def _said(self, request: HttpRequest) -> bytes:
        """Something that a server may say in its response to `request`."""
        kind = self.choices.number(0, 6)
        if kind == 0:
            return pick(self.choices, RAW)
        if kind == 1:
            return self.choices.data()
        if kind == 2:
            return event(pick(self.choices, ENDPOINTS), name="endpoint")
        message = self._message(kind, decode(request.body) if request.body else {})
        if self.choices.number(0, 1):
            return encode(message)
        ids, delays = (None, "e1", "e2", "\x01"), (None, 0, 700)
        return event(message, id=pick(self.choices, ids), retry=pick(self.choices, delays))

    def _message(self, kind: int, asked: JSON) -> JSON:
        id = pick(self.choices, (asked.get("id"), asked.get("id"), 1, 2, None))
        if kind == 3:
            return {"jsonrpc": "2.0", "id": id, "error": pick(self.choices, ERRORS)}
        if kind == 4:
            return {"jsonrpc": "2.0", **pick(self.choices, NOTIFICATIONS)}
        if kind == 5:
            return {"jsonrpc": "2.0", "id": pick(self.choices, ("q", 7)), **pick(self.choices, (NAME, *REQUESTS))}
        return {"jsonrpc": "2.0", "id": id, "result": pick(self.choices, RESULTS)}

    def _end(self, exchange: Any) -> None:
        """The response is complete, unless it was given up meanwhile."""
        if self.out.pop(exchange, None) is not None:
            self.client.engine.receive_end(exchange)
            self.look()

    def pass_time(self, seconds: float | None = None) -> None:
        """Time passes, with a stop at every deadline."""
        client = self.client
        end = client.clock() + (pick(self.choices, (0.1, 1.0, 5.0, 30.0)) if seconds is None else seconds)
        steps = 0
        while (at := client.engine.next_deadline()) is not None and at <= end:
            client.clock.advance(max(0.0, at - client.clock()))
            client.engine.handle_timeout(client.clock())
            self.look()
            steps += 1
            assert steps < 300, "time does not get on"
        client.clock.advance(end - client.clock())

    # What holds

    def look(self) -> None:
        """Take everything. What is sent is sound, and no call ends twice."""
        before = len(self.client.sent)
        self.client.take()
        new = self.client.sent[before:]
        assert len(new) <= 100
        for item in new:
            if isinstance(item, HttpAbort):
                del self.out[item.exchange]
            else:
                self._departed(item)
        for happened in self.client.happened[self._looked :]:
            if isinstance(happened, QuestionReceived):
                self.questions.append(happened.question)
            elif isinstance(happened, QuestionWithdrawn) and happened.question in self.questions:
                self.questions.remove(happened.question)
        self._looked = len(self.client.happened)
        ended = [happened.call for happened in self.client.happened if isinstance(happened, CallEnded)]
        assert sorted(map(id, ended)) == sorted(id(call) for call in self.calls if call.ended)

    def _departed(self, request: HttpRequest) -> None:
        assert request.exchange not in self.seen
        self.seen.add(request.exchange)
        self.out[request.exchange] = request
        assert are_same_origin(request.url, URL)
        check_headers(request.headers)
        assert request.method in ("GET", "POST", "DELETE")
        assert (request.method == "POST") is bool(request.body)

    def close(self) -> None:
        """Whatever the server does, or does not, every call ends in time, and nothing is left."""
        for _ in range(6):
            self.pass_time(30)
        assert all(call.ended for call in self.calls if call.operation is not Operation.LISTEN)
        engine = self.client.engine
        engine.close()
        self.look()
        assert all(call.ended for call in self.calls)
        self.pass_time(60)
        assert (engine.is_idle, engine.next_deadline(), self.out) == (True, None, {})

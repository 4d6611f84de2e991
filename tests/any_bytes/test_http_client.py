"""Any server at all, from hypothesis: the client of HTTP ends every call, asks nobody for ever, and never fails."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mcp_sansio import ClientConfig, HttpAbort, HttpRequest, Operation
from mcp_sansio.client.events import CallEnded, QuestionReceived, QuestionWithdrawn
from mcp_sansio.client.http_requests import check_headers
from mcp_sansio.wire.json import decode, encode
from mcp_sansio.wire.urls import are_same_origin
from speak import VERSIONS
from web import JSON_TYPE, STREAM_TYPE, URL, Client, event

EXAMPLES = settings(max_examples=100, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))
CONFIG = ClientConfig(
    timeout=20, max_timeout=60, ask_timeout=30, max_message=3000, max_headers=400, max_reconnects=3, max_rounds=3
)
STATUSES = [200, 200, 200, 200, 202, 204, 301, 307, 308, 400, 401, 404, 404, 405, 429, 500, 501, 503, 100, 599]
HEADERS: list[dict[str, str]] = [
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
]
ASKED = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
RESULTS: list[Any] = [
    {"content": []},
    {"supportedVersions": [VERSIONS[0]], "capabilities": {}},
    {"resultType": "input_required", "inputRequests": {"k": {"method": "elicitation/create", "params": ASKED}}},
    {"resultType": "input_required", "requestState": "s"},
    {"tools": [{"name": "t", "inputSchema": {"type": "object"}}], "nextCursor": "1"},
    *(
        {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        for version in VERSIONS
    ),
    {},
    5,
]
ERRORS: list[Any] = [
    {"code": -32022, "message": "no", "data": {"supported": list(VERSIONS[:2]), "requested": "x"}},
    *({"code": code, "message": "no"} for code in (-32020, -32021, -32601, -32001)),
    {"code": "x"},
]
NOTES: list[Any] = [
    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}},
    {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
    {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": ASKED},
    {"jsonrpc": "2.0", "id": 7, "method": "ping"},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}},
    {"jsonrpc": "2.0"},
    [],
    None,
]
RAW = [b"", b"\n\n", b"data: ", b"id: 9\n", b"retry: 0\n\n", b"[" * 300, b'"' + b"x" * 900, b"\xff\xfe", b"\r"]


@st.composite
def spoken(draw: Any, request: HttpRequest) -> bytes:
    """Something that a server may say in its response to `request`."""
    kind = draw(st.sampled_from(["result", "result", "error", "note", "endpoint", "raw", "binary"]))
    if kind == "raw":
        raw: bytes = draw(st.sampled_from(RAW))
        return raw
    if kind == "binary":
        return draw(st.binary(max_size=40))  # type: ignore[no-any-return]
    if kind == "endpoint":
        return event(draw(st.sampled_from([b"/m", b"http://evil.example/", b"?x"])), name="endpoint")
    message = decode(request.body) if request.body else {}
    id = draw(st.sampled_from([message.get("id"), message.get("id"), 1, 2, None]))
    said: Any = draw(st.sampled_from(NOTES))
    if kind == "result":
        said = {"jsonrpc": "2.0", "id": id, "result": draw(st.sampled_from(RESULTS))}
    elif kind == "error":
        said = {"jsonrpc": "2.0", "id": id, "error": draw(st.sampled_from(ERRORS))}
    as_event = draw(st.booleans())
    event_id = draw(st.sampled_from([None, "e1", "e2", "\x01"]))
    return event(said, id=event_id, retry=draw(st.sampled_from([None, 0, 700]))) if as_event else encode(said)


class Server(RuleBasedStateMachine):
    """A server of no particular kind, and the client that has to do with it."""

    @initialize(
        version=st.sampled_from([None, None, *VERSIONS]),
        can_answer=st.booleans(),
        wants_changes=st.booleans(),
        log_level=st.sampled_from([None, "info"]),
    )
    def begin(self, **options: Any) -> None:
        self.client = Client(options.pop("version"), config=CONFIG, **options)
        self.calls: list[Any] = []
        self.out: dict[Any, HttpRequest] = {}
        self.seen: set[Any] = set()
        self.open_questions: list[Any] = []
        self.taken = 0

    def take(self, most: int = 60) -> None:
        """What came out holds what it always has to."""
        before = len(self.client.sent)
        self.client.take()
        new = self.client.sent[before:]
        assert len(new) <= most
        for item in new:
            if isinstance(item, HttpAbort):
                del self.out[item.exchange]
                continue
            assert item.exchange not in self.seen
            self.seen.add(item.exchange)
            self.out[item.exchange] = item
            assert are_same_origin(item.url, URL)
            check_headers(item.headers)
            assert item.method in ("GET", "POST", "DELETE")
            assert (item.method == "POST") is bool(item.body)
        for happened in self.client.happened[self.taken :]:
            if isinstance(happened, QuestionReceived):
                self.open_questions.append(happened.question)
            elif isinstance(happened, QuestionWithdrawn):
                self.open_questions.remove(happened.question)
        self.taken = len(self.client.happened)

    @rule(operation=st.sampled_from([Operation.CALL_TOOL, Operation.LIST_TOOLS, Operation.PING, Operation.DESCRIBE]))
    def call(self, operation: Operation) -> None:
        params = {"name": "t", "arguments": {}} if operation is Operation.CALL_TOOL else {}
        self.calls.append(self.client.engine.call(operation, params, wants_progress=True))

    @rule()
    def listen(self) -> None:
        self.calls.append(self.client.engine.listen(tools=True, uris=("a:b",)))

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        self.client.engine.cancel(data.draw(st.sampled_from(self.calls)))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), status=st.sampled_from(STATUSES), headers=st.sampled_from(HEADERS), end=st.booleans())
    def respond(self, data: Any, status: int, headers: Any, end: bool) -> None:
        exchange = data.draw(st.sampled_from(list(self.out)))
        self.client.engine.receive_response(exchange, status, headers)
        self.take()
        self.say(data, exchange)
        if end:
            self.end(exchange)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), streams=st.booleans(), session=st.sampled_from([None, "s", "t"]))
    def behave(self, data: Any, streams: bool, session: str | None) -> None:
        """Answer as a decent server would, so that there is something to be indecent about."""
        for exchange, request in list(self.out.items()):
            message = decode(request.body) if request.body else {}
            result = self.decent(message, data)
            reply = encode({"jsonrpc": "2.0", "id": message.get("id"), "result": result})
            headers = {} if session is None else {"Mcp-Session-Id": session}
            if "id" not in message or "method" not in message:
                kind = STREAM_TYPE if request.method == "GET" else {}
                self.client.engine.receive_response(exchange, 200 if kind else 202, kind)
            elif streams:
                self.client.engine.receive_response(exchange, 200, STREAM_TYPE | headers)
                self.client.engine.receive_data(exchange, event(reply, id="d1"))
            else:
                self.client.engine.receive_response(exchange, 200, JSON_TYPE | headers)
                self.client.engine.receive_data(exchange, reply)
            if request.method != "GET":
                self.take()
                self.end(exchange)

    def decent(self, message: Any, data: Any) -> Any:
        """What fits the request."""
        params = message.get("params", {})
        if "protocolVersion" in params:
            return {"protocolVersion": params["protocolVersion"], "capabilities": {}, "serverInfo": {}}
        if message.get("method") == "server/discover":
            return {"supportedVersions": list(VERSIONS[:1]), "capabilities": {}}
        return data.draw(st.sampled_from(RESULTS))

    @precondition(lambda self: any(request.method == "GET" for request in self.out.values()))
    @rule(data=st.data())
    def name_an_endpoint(self, data: Any) -> None:
        exchange = next(exchange for exchange, request in self.out.items() if request.method == "GET")
        self.client.engine.receive_response(exchange, 200, STREAM_TYPE)
        self.client.engine.receive_data(exchange, event(b"/m", name="endpoint"))
        self.take()
        for request in list(self.out.values()):
            said = (
                event(
                    {
                        "jsonrpc": "2.0",
                        "id": decode(request.body).get("id"),
                        "result": self.decent(decode(request.body), data),
                    }
                )
                if request.body
                else b""
            )
            self.client.engine.receive_data(exchange, said)
            self.take()

    @precondition(lambda self: self.out)
    @rule(status=st.sampled_from([404, 405]))
    def refuse_everything(self, status: int) -> None:
        for exchange in list(self.out):
            self.client.engine.receive_response(exchange, status, {})
            self.take()
            self.end(exchange)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def go_on(self, data: Any) -> None:
        self.say(data, data.draw(st.sampled_from(list(self.out))))

    def say(self, data: Any, exchange: Any) -> None:
        """A few pieces of a body."""
        for _ in range(data.draw(st.integers(0, 3))):
            request = self.out.get(exchange)
            if request is None:
                return
            said = data.draw(spoken(request))
            cut = data.draw(st.integers(0, len(said)))
            self.client.engine.receive_data(exchange, said[:cut])
            self.client.engine.receive_data(exchange, said[cut:])
            self.take()

    def end(self, exchange: Any) -> None:
        """The response is complete, unless it was given up meanwhile."""
        if self.out.pop(exchange, None) is not None:
            self.client.engine.receive_end(exchange)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), fails=st.booleans())
    def finish(self, data: Any, fails: bool) -> None:
        exchange = data.draw(st.sampled_from(list(self.out)))
        if fails:
            del self.out[exchange]
            self.client.engine.receive_failure(exchange, "reset")
        else:
            self.end(exchange)

    @precondition(lambda self: self.seen)
    @rule(data=st.data(), status=st.sampled_from(STATUSES))
    def speak_of_what_is_over(self, data: Any, status: int) -> None:
        over = [exchange for exchange in self.seen if exchange not in self.out]
        exchange = data.draw(st.sampled_from([*over, 10**9]))
        engine = self.client.engine
        before = len(self.client.happened)
        engine.receive_response(exchange, status, JSON_TYPE)
        engine.receive_data(exchange, b"{}")
        engine.receive_end(exchange)
        engine.receive_failure(exchange, "gone")
        assert self.client.take() == []
        assert len(self.client.happened) == before

    @precondition(lambda self: self.open_questions)
    @rule(data=st.data(), answers=st.booleans())
    def answer(self, data: Any, answers: bool) -> None:
        question = data.draw(st.sampled_from(self.open_questions))
        self.open_questions.remove(question)
        if answers:
            self.client.engine.answer(question, {"action": "accept", "content": {}})
        else:
            self.client.engine.fail(question, "no")

    @rule(seconds=st.sampled_from([0.1, 1, 5, 30]))
    def pass_time(self, seconds: float) -> None:
        end = self.client.clock() + seconds
        steps = 0
        while (at := self.client.engine.next_deadline()) is not None and at <= end:
            self.client.clock.advance(max(0.0, at - self.client.clock()))
            self.client.engine.handle_timeout(self.client.clock())
            self.take()
            steps += 1
            assert steps < 300, "time does not get on"
        self.client.clock.advance(end - self.client.clock())

    @invariant()
    def everything_is_taken(self) -> None:
        if hasattr(self, "client"):
            self.take()
            ended = [happened.call for happened in self.client.happened if isinstance(happened, CallEnded)]
            assert len(ended) == len(set(map(id, ended)))
            assert {id(call) for call in ended} == {id(call) for call in self.calls if call.ended}

    def teardown(self) -> None:
        if not hasattr(self, "client"):
            return
        # Whatever the server does, or does not, every call that is no listening ends in time.
        for _ in range(6):
            self.pass_time(30)
        assert all(call.ended for call in self.calls if call.operation is not Operation.LISTEN)
        self.client.engine.close()
        self.take()
        assert all(call.ended for call in self.calls)
        self.pass_time(60)
        assert (self.client.engine.is_idle, self.client.engine.next_deadline(), self.out) == (True, None, {})


def test_any_server() -> None:
    run_state_machine_as_test(Server, settings=EXAMPLES)  # type: ignore[no-untyped-call]

"""Servers that do as they please at the other end of a client's channel, from any source of choices (see `grammar`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calling import Line, description
from grammar import Choices, pick
from mcp_sansio import CallEnded, ClientConfig, ClientConnection, Known, Operation, QuestionReceived, elicit_accept
from mcp_sansio.in_arguments import META_KEY
from mcp_sansio.wire.json import decode, encode
from speak import VERSIONS

JSON = Any
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
NAME = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}},
}
SAMPLE = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 5}}
TOOL = {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}

#: Values of every kind, to stand where they may not.
ODD: list[JSON] = [
    None,
    True,
    0,
    -1,
    1.5,
    2**70,
    10**400,
    "",
    "x",
    "\u2028",
    [],
    [1],
    {},
    {"a": {"b": [None]}},
    [[[[]]]],
]

RESULTS: list[JSON] = [
    {"content": [{"type": "text", "text": "a"}]},
    {"content": [], "structuredContent": None, "isError": True},
    {"resultType": "input_required", "inputRequests": {"k": NAME}, "requestState": "s"},
    {"resultType": "input_required", "inputRequests": {"k": SAMPLE, "l": {"method": "roots/list"}}},
    {"resultType": "input_required", "requestState": ""},
    {"content": [], "_meta": {META_KEY: {"inputRequests": {"k": NAME}, "requestState": "s"}}},
    {"tools": [TOOL, {"name": "u"}], "nextCursor": "2", "ttlMs": 5000, "cacheScope": "public"},
    {"tools": [TOOL], "ttlMs": 10},
    {"tools": [], "nextCursor": ""},
    {"prompts": [{"name": "p"}], "resources": [], "resourceTemplates": []},
    {},
    *(description(version) for version in VERSIONS),
    description(VERSIONS[0], *VERSIONS),
    {"protocolVersion": "1999-01-01"},
]
ERRORS: list[JSON] = [
    {"code": code, "message": "no"} for code in (-32700, -32600, -32601, -32602, -32603, -32002, -32020, -32021, 0)
]
ERRORS += [
    {"code": -32022, "message": "no", "data": {"supported": list(held)}} for held in (VERSIONS, VERSIONS[:1], ())
]
ERRORS += [{"code": "x"}, {}, [], {"code": 1, "message": "m", "data": {"supported": 5}}]
NOTIFICATIONS: list[JSON] = [
    {"method": "notifications/progress", "params": {"progress": 1, "total": 2, "message": "m"}},
    {"method": "notifications/message", "params": {"level": "info", "data": {"a": 1}}},
    {"method": "notifications/cancelled", "params": {"requestId": 1}},
    {"method": "notifications/tools/list_changed"},
    {"method": "notifications/resources/updated", "params": {"uri": "x://a"}},
    {"method": "notifications/subscriptions/acknowledged", "params": {"notifications": {"toolsListChanged": True}}},
    {"method": "vendor/x", "params": {}},
]
REQUESTS: list[JSON] = [NAME, SAMPLE, {"method": "roots/list"}, {"method": "ping"}, {"method": "x", "params": {"a": 1}}]
CALLS: list[tuple[Operation, JSON]] = [
    (Operation.CALL_TOOL, {"name": "t", "arguments": {"a": "b"}}),
    (Operation.LIST_TOOLS, {}),
    (Operation.LIST_PROMPTS, {}),
    (Operation.READ_RESOURCE, {"uri": "x://a"}),
    (Operation.GET_PROMPT, {"name": "p"}),
    (Operation.PING, {}),
    (Operation.DESCRIBE, {}),
    (Operation.SET_LOG_LEVEL, {"level": "info"}),
]


class WithHeaders(ClientConnection):
    """A channel that has headers, as HTTP does: more of the engine is at work."""

    has_headers = True

    def transmit(self, request: Any) -> None:
        request.adapter.client_headers(request.method, request.params, self.lists.mirrored(request.call))
        super().transmit(request)


class HostileServer:
    """A client's channel, and a server that says anything on it. What holds whatever it says is asserted."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        options: dict[str, Any] = {
            "config": ClientConfig(
                timeout=10, max_timeout=40, ask_timeout=20, max_rounds=3, max_pages=4, max_message=4096
            ),
            "can_answer": bool(choices.number(0, 1)),
            "wants_changes": bool(choices.number(0, 1)),
            "log_level": pick(choices, (None, "info")),
            "known": pick(choices, (None, None, *(Known(version) for version in VERSIONS))),
        }
        window = pick(choices, ((), (), *((version,) for version in VERSIONS)))
        self.line = Line(*window, make=pick(choices, (ClientConnection, WithHeaders)), **options)
        self.calls: list[Any] = []
        self.ended: list[Any] = []
        self.questions: list[Any] = []
        self.asked: list[JSON] = []

    # What either side does

    def start(self) -> None:
        """The caller calls, or listens."""
        kind = self.choices.number(0, len(CALLS))
        if kind == len(CALLS):
            self.calls.append(self.line.engine.listen(tools=bool(self.choices.number(0, 1)), uris=("x://a",)))
        else:
            operation, params = CALLS[kind]
            self.calls.append(self.line.engine.call(operation, params, wants_progress=bool(self.choices.number(0, 1))))
        self.look()

    def give_up(self) -> None:
        """The caller gives a call up, perhaps one that has ended."""
        if self.calls:
            self.line.engine.cancel(pick(self.choices, self.calls))
        self.look()

    def answer(self) -> None:
        """The caller answers a question, perhaps one that was answered, or cannot."""
        if self.questions:
            question = pick(self.choices, self.questions)
            if self.choices.number(0, 3):
                self.line.engine.answer(question, elicit_accept({"v": self.choices.text()}))
            else:
                self.line.engine.fail(question, self.choices.text())
        self.look()

    def reply(self) -> None:
        """The server replies to something that was asked, or to something that was not."""
        ids = [message["id"] for message in self.asked] or [1]
        message: dict[str, JSON] = {"jsonrpc": "2.0", "id": pick(self.choices, ids)}
        if not self.choices.number(0, 9):
            message["id"] = pick(self.choices, ODD)
        if self.choices.number(0, 2):
            message["result"] = self.bent(pick(self.choices, RESULTS))
        else:
            message["error"] = self.bent(pick(self.choices, ERRORS))
        self.say(message)

    def notify(self) -> None:
        """The server tells something."""
        notification = pick(self.choices, NOTIFICATIONS)
        params = dict(notification.get("params", {}))
        ids = [message["id"] for message in self.asked] or [1]
        params["_meta"] = {SUBSCRIPTION: pick(self.choices, ids)}
        params["progressToken"] = pick(self.choices, ids)
        self.say({"jsonrpc": "2.0", "method": notification["method"], "params": self.bent(params)})

    def push(self) -> None:
        """The server asks something."""
        request = pick(self.choices, REQUESTS)
        params = self.bent(request.get("params", {}))
        id = pick(self.choices, (1, 2, "a", *ODD))
        self.say({"jsonrpc": "2.0", "id": id, "method": request["method"], "params": params})

    def say(self, message: JSON) -> None:
        """Send a message as it is, twice in a batch, or with bytes changed."""
        ways: list[Callable[[], bytes]] = [
            lambda: encode(message),
            lambda: encode(message),
            lambda: encode([message, message]),
            lambda: encode(message)[: self.choices.number(0, 200)],
            lambda: encode(message) + self.choices.data(),
            lambda: b"[" * 200 + encode(message) + b"]" * 200,
            self.choices.data,
        ]
        self.line.engine.receive_message(pick(self.choices, ways)())
        self.look()

    def bent(self, value: JSON) -> JSON:
        """`value`, perhaps with something odd in it somewhere."""
        if self.choices.number(0, 2) or not value:
            return value if self.choices.number(0, 8) else pick(self.choices, ODD)
        if isinstance(value, list):
            at = self.choices.number(0, len(value) - 1)
            return [*value[:at], self.bent(value[at]), *value[at + 1 :]]
        if isinstance(value, dict):
            name = pick(self.choices, list(value))
            return {**value, name: self.bent(value[name])}
        return pick(self.choices, ODD)

    def overlong(self) -> None:
        """The server sends more than is taken."""
        self.line.engine.receive_message(b"x" * 5000)
        self.look()

    def pass_time(self) -> None:
        """Time passes."""
        self.happened(self.line.wait(pick(self.choices, (0, 0.1, 3, 11, 60))))

    # What holds

    def look(self) -> None:
        """Take everything."""
        self.happened(self.line.engine.events())

    def happened(self, events: list[Any]) -> None:
        """Every event is of a known kind, and no call ends twice."""
        for event in events:
            if isinstance(event, CallEnded):
                self.ended.append(event.call)
            elif isinstance(event, QuestionReceived):
                self.questions.append(event.question)
        assert len(set(map(id, self.ended))) == len(self.ended)
        for data in self.line.engine.data_to_send():
            message = decode(data)
            if "method" in message and "id" in message:
                assert message["id"] not in [asked["id"] for asked in self.asked], "an id was used twice"
                self.asked.append(message)

    def close(self) -> None:
        """Left alone, everything that was begun comes to an end, and nothing is kept."""
        for _ in range(20):
            self.happened(self.line.wait(100))
        listening = [call for call in self.calls if self.line.engine.listens(call)]
        assert [call for call in self.calls if not call.ended and call not in listening] == []
        for call in listening:
            self.line.engine.cancel(call)
        self.happened(self.line.wait(100))
        self.line.engine.receive_eof()
        self.look()
        assert {id(call) for call in self.calls} == {id(call) for call in self.ended}
        assert self.line.engine.next_deadline() is None
        assert (self.line.engine.flight.requests(), dict(self.line.engine.flight.waiting)) == ([], {})

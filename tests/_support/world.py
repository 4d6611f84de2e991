"""A server with something of everything, peers that send it anything, and what must hold whatever they send.

* Nothing is raised by an engine, and nothing is logged as an error for what a peer sent.
* Nothing hangs: a response has ended, is a stream, or waits for a handler that waits.
* A request with a usable id gets one response, and none more; a call that was given up gets none.
* What is said validates against the schema of its revision, and can be written to a socket as it is.
* A refusal is not out of proportion to what it refuses.
* When everybody has gone, nothing is left.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import attrs
import msgspec

import grammar
import speak
import wire_schema
from grammar import Choices, pick
from mcp_sansio import (
    AdapterSet,
    CallCancelled,
    CompletionRequest,
    Config,
    Exchange,
    NeedInput,
    PeerFaulted,
    Registry,
    elicit,
    list_roots,
    sample,
)
from mcp_sansio.testing import SimulatedChannel, SimulatedHttp, Simulation
from mcp_sansio.wire.json import JsonError, decode
from mcp_sansio.wire.sse import ServerSentEvent

JSON = Any
FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}
#: Every way of asking, by the kind that a caller names.
QUESTIONS = {
    "form": elicit("Who?", FORM),
    "url": elicit("There", url="https://a.example/b"),
    "sample": sample("Hi", max_tokens=5),
    "roots": list_roots(),
}


class Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of an order."""

    sku: Annotated[str, msgspec.Meta(max_length=10)]
    n: int = 1


@attrs.define
class Order:
    """An argument with some of every kind of type."""

    lines: list[Line]
    when: str | None = None
    tags: set[str] = attrs.field(factory=set)
    grid: dict[str, list[int]] = attrs.field(factory=dict)
    pair: tuple[int, str] | None = None
    mode: Literal["a", "b", 3] = "a"


@cache
def registry() -> Registry:
    """Something of everything. No handler fails, whatever its arguments. It is made once, which takes its time."""
    made = Registry("s", "1", page_size=5, instructions="x")

    @made.tool
    async def echo(text: str, count: int = 1) -> dict[str, Any]:
        return {"text": text[:50], "count": count}

    @made.tool
    async def shapes(order: Order) -> int:
        return len(order.lines)

    @made.tool
    async def mirrored(
        region: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})],
        level: Annotated[int, msgspec.Meta(extra_json_schema={"x-mcp-header": "Level"})] = 1,
    ) -> str:
        return region[:50]

    @made.tool
    async def wait(ex: Exchange) -> str:
        await ex.wait_cancelled()
        return "late"

    @made.tool(streaming=True)
    async def report(steps: Annotated[int, msgspec.Meta(ge=0, le=20)], ex: Exchange) -> str:
        for step in range(steps):
            await ex.progress(step, steps, "going")
            await ex.log("info", {"step": step})
        return "done"

    @made.tool(ask_in_arguments=True)
    async def ask(kind: Literal["form", "url", "sample", "roots"], ex: Exchange) -> str:
        return (await ex.ask("name", QUESTIONS[kind])).action

    @made.tool
    async def ask_twice(ex: Exchange) -> str:
        if ex.state is None:
            raise NeedInput({"name": QUESTIONS["form"], "second": QUESTIONS["form"]}, state={"round": 1})
        return str(ex.accepted("second"))

    @made.tool(poll_after=5.0)
    async def later(ex: Exchange) -> str:
        await ex.wait_cancelled()
        return "late"

    @made.tool
    async def keep(key: str, value: Any, ex: Exchange) -> str:
        if ex.session is not None:
            await ex.session.set(key[:20], value)
        return "kept"

    if find_spec("jsonschema") is not None:
        properties = {"a": {"type": "integer"}, "b": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]}}

        @made.tool(input_schema={"type": "object", "properties": properties, "required": ["a"]})
        async def raw(arguments: dict[str, Any]) -> str:
            return "raw"

    @made.resource("text:one")
    async def one() -> str:
        return "one"

    @made.resource("user:{n}")
    async def user(n: int) -> str:
        return str(n)[:50]

    @made.resource("file:{+path}")
    async def file(path: str) -> bytes:
        return path.encode()[:50]

    @made.prompt
    async def greet(who: str, times: int = 1) -> str:
        return f"Greet {who[:50]}."

    @made.completion
    async def complete(request: CompletionRequest) -> list[str]:
        return [request.value[:50] + letter for letter in "abc"]

    return made


CONFIGS = (
    Config(keep_alive=100, call_timeout=400, ask_timeout=150, session_ttl=800, state_ttl=500, deletable_sessions=True),
    Config(
        keep_alive=90,
        call_timeout=300,
        ask_timeout=500,
        session_ttl=200,
        state_ttl=50,
        max_message=3000,
        max_depth=20,
        max_batch=3,
        max_headers=500,
        max_calls=3,
        max_answers=2,
        max_rounds=2,
        max_streams=2,
        max_subscriptions=2,
        max_unsent=150,
        replay_events=2,
        replay_bytes=200,
        replay_streams=2,
        max_state=150,
        require_session=True,
        deletable_sessions=True,
        allowed_origins=["*"],
        allowed_hosts=("localhost",),
    ),
)
#: What is spoken to who states no revision.
UNSTATED = {version for version in speak.VERSIONS if AdapterSet.default().by_version[version].is_implied} | {
    speak.VERSIONS[0]
}
#: Longer than anything that is kept.
LONG = 5000.0


class Errors(logging.Handler):
    """Keeps what the library logs as an error while it is entered, which no peer may bring about."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(logging.Formatter().format(record))

    def __enter__(self) -> Errors:
        logger = logging.getLogger("mcp_sansio")
        logger.addHandler(self)
        self._propagated, logger.propagate = logger.propagate, False
        return self

    def __exit__(self, *_: object) -> None:
        logger = logging.getLogger("mcp_sansio")
        logger.removeHandler(self)
        logger.propagate = self._propagated


class World:
    """A server in a simulation, and what every peer of it does."""

    def __init__(self, choices: Choices, *, schema: bool = True) -> None:
        self.choices = choices
        self.schema = schema
        self.registry = registry()
        self.config = CONFIGS[choices.number(0, len(CONFIGS) - 1)]
        self.simulation = Simulation(self.registry, config=self.config)
        self.server = self.simulation.server

    def publish(self) -> None:
        """Something changes."""
        if self.choices.number(0, 1):
            self.registry.resource_updated(pick(self.choices, ("text:one", "user:1")))
        else:
            self.registry.tool(name="new")(lambda: "x")
            self.registry.remove_tool("new")
        self.simulation.settle()

    def pass_time(self) -> None:
        """Time passes, little or much."""
        self.simulation.advance(pick(self.choices, (0.0, 6.0, 100.0, 160.0, 450.0, 1000.0)))

    def shut_down(self) -> None:
        """The operator stops the server."""
        self.server.shutdown()
        self.simulation.settle()

    def close(self) -> None:
        """Everybody goes; nothing may be left."""
        for peer in self.simulation.peers:
            if isinstance(peer, SimulatedHttp):
                peer.disconnect()
            else:
                peer.close()
        self.simulation.advance(LONG)
        self.check_nothing_left()

    def check_nothing_left(self) -> None:
        """Assert that nobody is remembered whose time is over."""
        server = self.server
        server._sweep()
        left = {
            "tasks": len(self.simulation.scheduler),
            "streams": len(server._streams),
            "pairs": len(server.pairs),
            "topics": len(server.topics),
            "questions": len(server.questions),
            "sessions in flight": len(server._live),
            "records": len(server.store),  # type: ignore[arg-type]
            "deadlines": sum(peer.engine.next_deadline() is not None for peer in self.simulation.peers),
        }
        assert not any(left.values()), left


# What is right about messages -----------------------------------------------------------------------------------------


def is_usable(id: JSON) -> bool:
    """Whether a request's id can be answered to."""
    return isinstance(id, str | int) and not isinstance(id, bool)


def members(value: JSON) -> list[JSON]:
    """The messages of a batch, or the one message."""
    return value if isinstance(value, list) else [value]


def awaiting(value: JSON) -> Counter[JSON]:
    """How often each id is that of a request, or of what can only have been meant as one, in a message or batch."""
    found: Counter[JSON] = Counter()
    for one in members(value):
        if not isinstance(one, dict) or not is_usable(one.get("id")):
            continue
        if "method" in one or ("result" in one) == ("error" in one):
            found[one["id"]] += 1
    return found


def responses(messages: Iterable[JSON]) -> list[JSON]:
    """The responses among messages and batches."""
    return [one for message in messages for one in members(message) if "method" not in one]


def ids_of(messages: Iterable[JSON]) -> Counter[JSON]:
    """How often each id is answered."""
    return Counter(one.get("id") for one in responses(messages))


def check_said(versions: Iterable[str], messages: Iterable[JSON], methods: dict[JSON, set[str]]) -> None:
    """Assert that each message is in the words of one of `versions`. `methods` are those of the requests, by id."""
    for message in messages:
        for one in members(message):
            known = methods.get(one.get("id")) if "method" not in one else None
            faults = [_fault(version, one, method) for version in versions for method in known or {None}]
            assert None in faults, faults


def _fault(version: str, message: JSON, method: str | None) -> str | None:
    try:
        wire_schema.check(version, message, answers=method)
    except Exception as error:  # a revision that lacks the definition fails in its own way
        return repr(error)
    return None


def versions_of(value: JSON, *more: str | None) -> set[str]:
    """The revisions that a message may be answered in."""
    found = {version for version in more if version in speak.VERSIONS}
    for one in members(value):
        params = one.get("params") if isinstance(one, dict) else None
        if isinstance(params, dict):
            meta = params.get("_meta")
            stated = meta.get(speak.META + "protocolVersion") if isinstance(meta, dict) else None
            found |= {version for version in (stated, params.get("protocolVersion")) if _is_version(version)}
    return found


def _is_version(value: JSON) -> bool:
    return isinstance(value, str) and value in speak.VERSIONS


def parsed(data: bytes) -> JSON:
    """What a body says, or ``None``."""
    try:
        return decode(data)
    except JsonError:
        return None


def is_proportionate(sent: int, body: JSON, messages: Sequence[JSON], received: int) -> bool:
    """Whether refusals are not much longer than what they refuse. What was asked for may be of any length."""
    if any("result" in one or "method" in one for message in messages for one in members(message)):
        return True
    return sent <= 8 * received + 600 * (1 + len(members(body)))


# HTTP -----------------------------------------------------------------------------------------------------------------

_SENDABLE = re.compile(r"[ -~\t]*")


class HttpWorld(World):
    """Clients of the HTTP endpoints."""

    def __init__(self, choices: Choices, *, schema: bool = True) -> None:
        super().__init__(choices, schema=schema)
        self.version = pick(choices, (*speak.VERSIONS, speak.VERSIONS[0]))
        self.session: str | None = None
        self.pair_ids: list[str] = []
        self.open: list[SimulatedHttp] = []

    def handshake(self) -> None:
        """Open a session as it should be done."""
        speaker = speak.Http.__new__(speak.Http)
        speak.Speaker.__init__(speaker, self.version, self.simulation)
        message = speaker.initialize()
        opened = self._send("POST", "/mcp", [("Content-Type", "application/json"), ("Host", "localhost")], message)
        self.session = opened.header("mcp-session-id")

    def post(self) -> SimulatedHttp:
        """Send a message, right or wrong."""
        asked = [message["id"] for peer in self.open[-10:] for message in peer.messages if _is_question(message)]
        value = grammar.mutated(self.choices, grammar.message(self.choices, self.version, asked))
        headers = grammar.headers_for(self.choices, value, self.version, self.session)
        return self._send("POST", self._target(), headers, value)

    def other(self) -> SimulatedHttp:
        """Send a request that is no POST."""
        method = pick(self.choices, ("GET", "GET", "GET", "DELETE", "OPTIONS", "PUT", "HEAD", "é", "x" * 50))
        headers = grammar.headers_for(self.choices, None, self.version, self.session)
        if method == "GET" and self.open and self.choices.number(0, 1):
            events = [event for peer in self.open[-10:] if peer.is_stream for event in peer.events()]
            ids = [event.id for event in events if isinstance(event, ServerSentEvent) and event.id]
            headers += [("Last-Event-ID", pick(self.choices, ids))] if ids else []
        return self._send(method, self._target(), headers, None)

    def pair(self) -> SimulatedHttp:
        """Send a request to the endpoints of the first transport."""
        headers = [("Content-Type", "application/json"), ("Host", "localhost")]
        for _ in range(self.choices.number(0, 1)):
            headers = grammar.with_odd_header(self.choices, headers)
        if self.choices.number(0, 2) == 0:
            opened = self._send("GET", "/sse", headers, None, pair=True)
            event = next(iter(opened.events()), None)
            if opened.is_stream and event is not None:
                self.pair_ids.append(event.data.decode().rpartition("=")[2])
            return opened
        value = grammar.mutated(self.choices, grammar.message(self.choices, self.version))
        target = "/messages?session_id=" + pick(self.choices, ["x", *self.pair_ids])
        return self._send("POST", target, headers, value, pair=True)

    def disconnect(self) -> None:
        """A client goes away."""
        if self.open:
            self.open.pop(self.choices.number(0, len(self.open) - 1)).disconnect()

    def _target(self) -> str:
        return pick(self.choices, grammar.TARGETS_OF_REQUESTS) if self.choices.number(0, 5) == 0 else "/mcp"

    def _send(
        self, method: str, target: str, headers: list[tuple[str, str]], value: JSON, *, pair: bool = False
    ) -> SimulatedHttp:
        data = b"" if value is None and method != "POST" else grammar.body(self.choices, value)
        return self.exchange(method, target, headers, data, pair=pair)

    def exchange(
        self, method: str, target: str, headers: list[tuple[str, str]], data: bytes, *, pair: bool = False
    ) -> SimulatedHttp:
        """One request, and everything that must hold of its response by then."""
        options: dict[str, Any] = {
            "principal": pick(self.choices, (*[None] * 15, "somebody")),
            "loopback": bool(self.choices.number(0, 1)),
        }
        server = self.server
        if pair:
            engine = server.pair_transaction(message_path="/messages", **options)
        else:
            engine = server.http_transaction(**options)
        exchange = self.simulation._exchange(engine)
        self.open.append(exchange)
        engine.receive_request(method, target, headers)
        cut = self.choices.number(0, len(data))
        gone = self.choices.number(0, 30) == 0
        for piece in (data[:cut], data[cut:]):
            engine.receive_body(piece)
        if gone:
            engine.receive_disconnect()
        engine.receive_end()
        self.simulation.settle()
        if not gone:
            self.check_response(exchange, method, data, sum(len(name) + len(text) for name, text in headers))
        return exchange

    def check_response(self, exchange: SimulatedHttp, method: str, data: bytes, head: int) -> None:
        """Assert that a response is one, and one to this request."""
        engine, body = exchange.engine, parsed(data)
        assert exchange.ended or exchange.is_stream or engine._running, "the request hangs"
        if exchange.head is None:
            return
        status = exchange.head.status
        assert 200 <= status < 600
        for _, text in exchange.head.headers:
            assert _SENDABLE.fullmatch(text), text
        length = exchange.header("content-length")
        assert length is None or int(length) == len(exchange.body)
        if status in (202, 204):
            assert not exchange.body
            return
        assert exchange.is_stream or (exchange.ended and exchange.header("content-type") == "application/json")
        if exchange.header("content-type") == "text/event-stream" and method == "GET":
            return
        self.check_messages(exchange, body, len(data) + head)

    def check_messages(self, exchange: SimulatedHttp, body: JSON, received: int) -> None:
        """Assert that what a POST is answered with, or a refusal, is right."""
        messages, wanted = exchange.messages, awaiting(body)
        answered = ids_of(messages)
        nameless = answered.pop(None, 0)
        assert nameless <= 1 + sum(not isinstance(one, dict) or not is_usable(one.get("id")) for one in members(body))
        assert answered <= wanted, (answered, wanted)
        if exchange.ended and not nameless and exchange.status != 405:
            given_up = Counter(event.call.id for event in exchange.happened if isinstance(event, CallCancelled))
            poll = exchange.engine._live is not None if hasattr(exchange.engine, "_live") else False
            assert poll or wanted - given_up <= answered, (answered, wanted)
        assert is_proportionate(len(exchange.body), body, messages, received)
        if self.schema:
            methods: dict[JSON, set[str]] = {}
            for one in members(body):
                for key, name in speak.methods_of(one).items():
                    methods.setdefault(key, set()).add(name)
            versions = versions_of(body, exchange.engine.rendering.version, self.version, *UNSTATED)
            check_said(versions, messages, methods)


def _is_question(message: JSON) -> bool:
    return isinstance(message, dict) and "method" in message and "id" in message


# A channel ------------------------------------------------------------------------------------------------------------


class ChannelWorld(World):
    """One client at the end of a duplex channel."""

    def __init__(self, choices: Choices, *, schema: bool = True) -> None:
        super().__init__(choices, schema=schema)
        self.version = pick(choices, (*speak.VERSIONS, speak.VERSIONS[0]))
        self.end: SimulatedChannel = self.simulation.channel()
        self.wanted: Counter[JSON] = Counter()
        self.answered: Counter[JSON] = Counter()
        self.excused: set[JSON] = set()
        self.methods: dict[JSON, set[str]] = {}
        self.versions: set[str] = {self.version, *UNSTATED}
        self.seen = 0
        self.at_eof = False

    def send(self) -> None:
        """Send a message, right or wrong."""
        asked = [message["id"] for message in self.end.messages[-20:] if _is_question(message)]
        value = grammar.mutated(self.choices, grammar.message(self.choices, self.version, asked))
        self.receive(grammar.body(self.choices, value))

    def handshake(self) -> None:
        """Open the connection as it should be done."""
        self.receive(speak.encode(grammar.initialize(self.choices, self.version)))
        self.receive(speak.encode(speak.notification("notifications/initialized")))

    def receive(self, data: bytes) -> None:
        """One message, and everything that must hold of what came out by then."""
        self.check_messages()  # of what time has brought since
        body = parsed(data)
        mine = Counter() if self.at_eof else awaiting(body)
        self.wanted += mine
        self.excused |= _cancelled(body) | _listened(body)
        self.versions |= versions_of(body)
        for one in members(body):
            for key, name in speak.methods_of(one).items():
                self.methods.setdefault(key, set()).add(name)
        before = len(self.end.happened)
        self.end.engine.receive_message(data)
        self.simulation.settle()
        messages = self.check_messages()
        if ids_of(messages)[None]:
            self.excused |= set(mine)
            assert any(isinstance(event, PeerFaulted) for event in self.end.happened[before:])
        # An answer may end an earlier call, whose id is as long as it was.
        mine_alone = not set(ids_of(messages)) - set(mine) - {None}
        sent = sum(map(len, self.end.sent[self.seen - len(messages) : self.seen]))
        assert not mine_alone or is_proportionate(sent, body, messages, len(data))

    def check_messages(self) -> list[JSON]:
        """Assert that what came out since the last time is right; it is given back."""
        messages = [decode(data) for data in self.end.sent[self.seen :]]
        assert not (self.at_eof and messages)
        self.seen += len(messages)
        answered = ids_of(messages)
        answered.pop(None, 0)
        self.answered += answered
        assert self.answered <= self.wanted, (self.answered, self.wanted)
        if self.schema:
            check_said(self.versions, messages, self.methods)
        return messages

    def overlong(self) -> None:
        """A message was skipped by the framing."""
        self.end.engine.receive_overlong(self.choices.number(0, 2**40))
        self.simulation.settle()
        self.check_messages()

    def eof(self) -> None:
        """The channel ends."""
        self.end.close()
        self.check_messages()
        self.at_eof = True

    def close(self) -> None:
        """Every call runs out of time and is answered; then everybody goes, and nothing may be left."""
        if not self.at_eof:
            self.simulation.advance(LONG)
            self.check_messages()
            missing = self.wanted - self.answered
            assert set(missing) <= self.excused, missing
        super().close()


def _cancelled(body: JSON) -> set[JSON]:
    found = set()
    for one in members(body):
        if isinstance(one, dict) and one.get("method") == "notifications/cancelled":
            params = one.get("params")
            id = params.get("requestId") if isinstance(params, dict) else None
            found |= {id} if is_usable(id) else set()
    return found


def _listened(body: JSON) -> set[JSON]:
    return {
        key for one in members(body) for key, name in speak.methods_of(one).items() if name == "subscriptions/listen"
    }

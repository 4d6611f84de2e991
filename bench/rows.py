"""The rows of the comparison: what a client sends for each, and what it has to get.

A row is a kind of exchange on a revision. The same bytes go to every contestant. Standard library only.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from servers import workload

Message = Any

NEW, OLD, OLDER = "2026-07-28", "2025-11-25", "2025-03-26"
META = "io.modelcontextprotocol/"
CLIENT = {"name": "bench", "version": "1.0"}
NAME = "Ada"
_FINISH = re.compile(r'\{\s*"mcpAnswers"')
BATCH = 50
IN_FLIGHT = 32
CALLERS = 8

#: Each kind of exchange: what its row is called, and the revisions that it is measured on.
KINDS = {
    "call": ("`tools/call`, two integers to text", (NEW, OLD)),
    "list": (f"`tools/list`, {workload.TOOLS} tools", (NEW, OLD)),
    "read": ("`resources/read`, 1 MB of text", (NEW, OLD)),
    "stream": (f"`tools/call` with {workload.STEPS} progress notifications", (NEW, OLD)),
    "ask": ("`tools/call` with a question", (NEW, OLD, OLDER)),
    "batch": (f"batch of {BATCH} `tools/call`", (OLDER,)),
    "pipelined": (f"`tools/call`, {IN_FLIGHT} in flight", (NEW, OLD)),
    "start": ("first answer after process start", (NEW, OLD)),
    "one": ("`tools/call`, one caller", (NEW, OLD)),
    "many": (f"`tools/call`, {CALLERS} callers at once", (NEW, OLD)),
}
WAYS = {
    NEW: ("mrtr", "the question is the result: two rounds"),
    OLD: ("pushed", "the question is pushed and answered"),
    OLDER: ("arguments", "the answer is in the arguments"),
}
TRANSPORT_KINDS = {
    "core-channel": ("call", "list", "read", "stream", "ask", "batch"),
    "core-http": ("call", "list", "read", "stream", "ask", "batch"),
    "http": ("call", "list", "read", "stream", "ask", "batch"),
    "stdio": ("call", "list", "read", "stream", "ask", "batch", "pipelined", "start"),
    "trio": ("call",),
    "asgi": ("call",),
    "uvloop": ("call",),
    "client": ("one", "many"),
}
#: Those that are HTTP, whoever serves it.
OVER_HTTP = ("http", "trio", "asgi", "uvloop")


@dataclass(frozen=True)
class Row:
    """One line of a table."""

    transport: str
    kind: str
    revision: str

    @property
    def name(self) -> str:
        """What ``--rows`` matches."""
        return f"{self.transport}/{self.kind}/{self.revision}"

    @property
    def title(self) -> str:
        """What the table says."""
        title = KINDS[self.kind][0]
        return f"{title}: {WAYS[self.revision][1]}" if self.kind == "ask" else title

    @property
    def way(self) -> str | None:
        """How the question is asked, if there is one."""
        return WAYS[self.revision][0] if self.kind == "ask" else None

    @property
    def is_new(self) -> bool:
        """Whether each message describes itself, and no handshake comes first."""
        return self.revision == NEW

    @property
    def capabilities(self) -> dict[str, Message]:
        """What the client declares: that it can be asked, where it is."""
        return {"elicitation": {"form": {}} if self.is_new else {}} if self.kind == "ask" else {}

    # What is sent

    def initialize(self) -> Message:
        """The request that starts a handshake."""
        params = {"protocolVersion": self.revision, "capabilities": self.capabilities, "clientInfo": CLIENT}
        return {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params}

    def initialized(self) -> Message:
        """The notification that ends it."""
        return {"jsonrpc": "2.0", "method": "notifications/initialized"}

    def request(self, message_id: Any) -> Message:
        """The request of this row. A batch is a list of them."""
        if self.kind == "batch":
            return [self.call(f"{message_id}-{number}", "add", {"a": number, "b": 2}) for number in range(BATCH)]
        if self.kind == "list":
            return self.envelope(message_id, "tools/list", {})
        if self.kind == "read":
            return self.envelope(message_id, "resources/read", {"uri": workload.URI})
        if self.kind == "stream":
            return self.call(message_id, "report", {}, progressToken=f"progress-{message_id}")
        if self.kind == "ask":
            return self._ask(message_id, {})
        return self.call(message_id, "add", {"a": 1, "b": 2})

    def envelope(self, message_id: Any, method: str, params: Message, **meta: Message) -> Message:
        """A request, with what this revision wants in each."""
        if self.is_new:
            meta[META + "protocolVersion"] = self.revision
            meta[META + "clientInfo"] = CLIENT
            meta[META + "clientCapabilities"] = self.capabilities
        held = {**params, "_meta": meta} if meta else params
        return {"jsonrpc": "2.0", "id": message_id, "method": method, "params": held}

    def call(self, message_id: Any, name: str, arguments: Message, **meta: Message) -> Message:
        """A call of a tool."""
        return self.envelope(message_id, "tools/call", {"name": name, "arguments": arguments}, **meta)

    def _ask(self, message_id: Any, arguments: Message, **params: Message) -> Message:
        message = self.call(message_id, "ask", arguments, **{workload.WAY: self.way})
        message["params"].update(params)
        return message

    def second(self, message_id: Any, first: Message) -> Message:
        """The request that answers the question which is the result `first`."""
        if "result" not in first:
            raise Wrong(f"no question: {shown(first)}")
        if self.way == "arguments":
            text = first["result"]["content"][0]["text"]
            finish, _ = json.JSONDecoder().raw_decode(text, _FINISH.search(text).start())
            for answered in finish["mcpAnswers"].values():
                answered["content"] = {"name": NAME}
            return self._ask(message_id, {name: value for name, value in finish.items() if value is not None})
        result = first["result"]
        answers = {key: accepted(question) for key, question in result["inputRequests"].items()}
        state = {"requestState": result["requestState"]} if "requestState" in result else {}
        return self._ask(message_id, {}, inputResponses=answers, **state)

    def answer(self, question: Message) -> Message:
        """The response to a question that was pushed."""
        return {"jsonrpc": "2.0", "id": question["id"], "result": accepted(question)}

    def headers(self, message: Message) -> dict[str, str]:
        """What HTTP mirrors of a message."""
        headers = {"MCP-Protocol-Version": self.revision}
        if self.is_new and isinstance(message, dict):
            params = message["params"]
            headers["Mcp-Method"] = message["method"]
            target = params.get("name", params.get("uri"))
            headers |= {} if target is None else {"Mcp-Name": target}
        return headers

    # What has to come back

    def check(self, messages: list[Message]) -> None:
        """Raise `Wrong` unless `messages`, in the order in which they came, are what the exchange should bring."""
        replies = list(itertools.chain.from_iterable(one if isinstance(one, list) else [one] for one in messages))
        for reply in replies:
            if "error" in reply or reply.get("result", {}).get("isError"):
                raise Wrong(f"an error: {shown(reply)}")
        try:
            CHECKS[self.kind](replies)
        except (KeyError, IndexError, TypeError, AssertionError) as error:
            raise Wrong(f"{type(error).__name__} {error} in {shown(messages)}") from error


class Wrong(Exception):
    """A contestant does not answer as it should."""


def shown(message: Message) -> str:
    """The start of it."""
    return json.dumps(message)[:300]


def accepted(question: Message) -> Message:
    """The answer to a question: each field of its form is filled in with the same name."""
    fields = question["params"]["requestedSchema"]["properties"]
    return {"action": "accept", "content": dict.fromkeys(fields, NAME)}


def text_of(reply: Message) -> str:
    """What a tool said."""
    [content] = reply["result"]["content"]
    return content["text"]


def check_call(replies: list[Message]) -> None:
    [reply] = replies
    assert text_of(reply) == "3"


def check_list(replies: list[Message]) -> None:
    [reply] = replies
    assert len(reply["result"]["tools"]) == workload.TOOLS


def check_read(replies: list[Message]) -> None:
    [reply] = replies
    [content] = reply["result"]["contents"]
    assert content["text"] == workload.TEXT


def check_stream(replies: list[Message]) -> None:
    *reports, reply = replies
    wanted = [(step, workload.STEPS, workload.message_of(step)) for step in range(1, workload.STEPS + 1)]
    given = [tuple(report["params"][name] for name in ("progress", "total", "message")) for report in reports]
    assert given == wanted
    assert text_of(reply) == "done"


def check_ask(replies: list[Message]) -> None:
    _, reply = replies
    assert text_of(reply) == workload.greeting(NAME)


def check_batch(replies: list[Message]) -> None:
    given = sorted(int(text_of(reply)) for reply in replies)
    assert given == [number + 2 for number in range(BATCH)]


def check_start(replies: list[Message]) -> None:
    [reply] = replies
    assert "result" in reply


CHECKS: dict[str, Callable[[list[Message]], None]] = {
    "call": check_call,
    "list": check_list,
    "read": check_read,
    "stream": check_stream,
    "ask": check_ask,
    "batch": check_batch,
    "pipelined": check_call,
    "start": check_start,
}


def every_row() -> Iterator[Row]:
    """All of them, in the order of the tables."""
    for transport, kinds in TRANSPORT_KINDS.items():
        for revision in (NEW, OLD, OLDER):
            for kind in kinds:
                if revision in KINDS[kind][1]:
                    yield Row(transport, kind, revision)


def pack(message: Message) -> bytes:
    """JSON without blanks."""
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()

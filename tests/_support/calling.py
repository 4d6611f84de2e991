"""A client at the end of a channel, without a server: a test hands in what a server says and looks at what comes out.

Every message that the client sends is held against the schema of the revision that it speaks (see `wire_schema`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import wire_schema
from mcp_sansio import (
    Adapter,
    AdapterSet,
    Answered,
    CallEnded,
    ClientConnection,
    ClientEvent,
    Failed,
    Implementation,
    Operation,
    OutgoingCall,
    Runtime,
    ServerFaulted,
)
from mcp_sansio.client.engine import ClientEngine
from mcp_sansio.testing import FakeClock, FakeEvent, Scheduler
from mcp_sansio.wire.json import decode, encode

JSON = Any
INFO = Implementation(name="client", version="9")
DISCOVER = "server/discover"


def runtime(clock: FakeClock | None = None) -> Runtime:
    """What a test lends to an engine: a clock that stands still, and tokens that count."""
    counter, scheduler = itertools.count(1), Scheduler()
    return Runtime(
        now=clock or FakeClock(),
        token_bytes=lambda size: next(counter).to_bytes(size, "big"),
        event=lambda: FakeEvent(scheduler),
    )


class Line:
    """A `ClientConnection` and the other end of its channel."""

    def __init__(self, *versions: str, make: Callable[..., Any] = ClientConnection, **options: Any) -> None:
        self.clock = FakeClock()
        adapters = AdapterSet.default()
        self.engine: Any = make(
            runtime=runtime(self.clock),
            adapters=adapters.only(*versions) if versions else adapters,
            **{"client_info": INFO, **options},
        )
        self.sent: list[bytes] = []

    # What the server does

    def say(self, *messages: JSON | bytes) -> list[ClientEvent]:
        """The server sends messages (bytes, or JSON values to encode); what happened by that."""
        for message in messages:
            self.engine.receive_message(message if isinstance(message, bytes) else encode(message))
        return self.engine.events()  # type: ignore[no-any-return]

    def reply(self, result: JSON, id: JSON = None) -> list[ClientEvent]:
        """The server answers, the last request if no `id` is given."""
        return self.say({"jsonrpc": "2.0", "id": self.last_id if id is None else id, "result": result})

    def refuse(self, code: int, message: str = "no", data: JSON = None, id: JSON = None) -> list[ClientEvent]:
        """The server answers with an error."""
        error = {"code": code, "message": message} if data is None else {"code": code, "message": message, "data": data}
        return self.say({"jsonrpc": "2.0", "id": self.last_id if id is None else id, "error": error})

    def notify(self, method: str, **params: JSON) -> list[ClientEvent]:
        """The server sends a notification."""
        return self.say({"jsonrpc": "2.0", "method": method, "params": params})

    def wait(self, seconds: float) -> list[ClientEvent]:
        """Time passes, with every deadline on the way."""
        end = self.clock() + seconds
        while (deadline := self.engine.next_deadline()) is not None and deadline <= end:
            self.clock.advance(max(0.0, deadline - self.clock()))
            self.engine.handle_timeout(self.clock())
        self.clock.advance(end - self.clock())
        return self.engine.events()  # type: ignore[no-any-return]

    # What the client said

    def take(self) -> list[JSON]:
        """The messages that came out since the last time."""
        messages = self.engine.data_to_send()
        self.sent += messages
        decoded = [decode(message) for message in messages]
        adapter: Adapter | None = self.engine.adapter
        for message in decoded:
            if adapter is not None and "method" in message and message["method"] not in (DISCOVER, "initialize"):
                wire_schema.check(adapter.version, message)
        return decoded

    def methods(self) -> list[str]:
        """The methods of the messages that came out since the last time; of a response, its kind."""
        return [message.get("method") or ("error" if "error" in message else "result") for message in self.take()]

    @property
    def last_id(self) -> JSON:
        """The id of the last request."""
        self.take()
        ids = [message["id"] for message in map(decode, self.sent) if "method" in message and "id" in message]
        return ids[-1]

    # Shortcuts

    def settle(self, version: str) -> list[ClientEvent]:
        """Find out that the server speaks `version`; what happened by that. The client must speak that alone."""
        self.engine.call(Operation.DESCRIBE)
        return self.reply(description(version))


def settled(version: str, **options: Any) -> Line:
    """A client that speaks `version` with its server already. Its next id is 2."""
    line = Line(version, **options)
    line.settle(version)
    line.take()
    return line


#: What a server declares that announces the changes of all its lists.
ANNOUNCING = {name: {"listChanged": True} for name in ("tools", "prompts", "resources")}


def description(version: str, *versions: str, capabilities: JSON = ANNOUNCING) -> dict[str, JSON]:
    """What a server of `version` says of itself: the result of its handshake, or without one what it speaks at all."""
    if AdapterSet.default().by_version[version].has_handshake:
        return {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "s", "version": "1"}}
    meta = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
    listed = list(versions or (version,))
    return {"resultType": "complete", "supportedVersions": listed, "capabilities": capabilities, "_meta": meta}


def meta(version: str, capabilities: JSON = None, **more: JSON) -> dict[str, JSON]:
    """What each request has in its ``_meta``, on the revisions where it describes itself."""
    prefix = "io.modelcontextprotocol/"
    return {
        **more,
        prefix + "protocolVersion": version,
        prefix + "clientInfo": {"name": INFO.name, "version": INFO.version},
        prefix + "clientCapabilities": {} if capabilities is None else capabilities,
    }


def ended(events: list[ClientEvent]) -> list[tuple[OutgoingCall, JSON]]:
    """The calls that ended, each with its raw result or its error."""
    return [(event.call, outcome_of(event.call)) for event in events if isinstance(event, CallEnded)]


def outcome_of(call: OutgoingCall) -> JSON:
    """The raw result of a call, its error, or ``None`` where it has not ended."""
    if isinstance(call.outcome, Answered):
        return call.outcome.result
    return call.outcome.error if isinstance(call.outcome, Failed) else None


def failure_of(call: OutgoingCall) -> tuple[str, str]:
    """The class and the text of a call's error."""
    assert isinstance(call.outcome, Failed), call
    return type(call.outcome.error).__name__, str(call.outcome.error)


def faults(events: list[ClientEvent]) -> list[str]:
    """What the server did wrong that was passed over."""
    return [event.fault for event in events if isinstance(event, ServerFaulted)]


__all__ = [
    "ANNOUNCING",
    "ClientEngine",
    "Line",
    "description",
    "ended",
    "failure_of",
    "faults",
    "meta",
    "outcome_of",
    "settled",
]

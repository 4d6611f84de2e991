"""Clients of one revision in front of a `Simulation`: what each has to send, so that a test says only what it is about.

Every message that the server sends to them is held against the schema of the revision (see `wire_schema`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import wire_schema
from mcp_sansio import AdapterSet, Head, MemorySessionStore, Registry
from mcp_sansio.testing import SimulatedChannel, SimulatedHttp, Simulation
from mcp_sansio.wire.headers import encode_value
from mcp_sansio.wire.json import decode, encode

JSON = Any
VERSIONS = AdapterSet.default().versions
HANDSHAKE = tuple(version for version in VERSIONS if AdapterSet.default().by_version[version].has_handshake)
ENVELOPE = tuple(version for version in VERSIONS if version not in HANDSHAKE)

META = "io.modelcontextprotocol/"
CLIENT = {"name": "client", "version": "9"}
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
TARGETS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class DistantStore(MemorySessionStore):
    """A store that a driver has to wait for, as it would for one of another process."""

    answers_at_once = False

    def __init__(self) -> None:
        super().__init__(clock=lambda: 0.0)


class Speaker:
    """What a client of `version` has to say. `capabilities` is what it declares."""

    def __init__(
        self,
        version: str,
        simulation: Simulation | Registry,
        *,
        capabilities: Mapping[str, JSON] = EVERYTHING,
        config: Any = None,
        **options: Any,
    ) -> None:
        self.version = version
        self.adapter = AdapterSet.default().by_version[version]
        if isinstance(simulation, Registry):
            simulation = Simulation(simulation, config=config)
        self.simulation: Simulation = simulation
        self.capabilities = capabilities
        self.options = options
        self.log_level: str | None = None

    @property
    def meta(self) -> dict[str, JSON]:
        """What goes into each request's ``_meta``."""
        if self.adapter.has_handshake:
            return {}
        meta: dict[str, JSON] = {META + "protocolVersion": self.version, META + "clientInfo": CLIENT}
        meta[META + "clientCapabilities"] = dict(self.capabilities)
        return meta | ({} if self.log_level is None else {META + "logLevel": self.log_level})

    def message(
        self, method: str, params: Mapping[str, JSON] | None = None, *, id: JSON = 1, token: JSON = None
    ) -> dict[str, JSON]:
        """A request."""
        meta = self.meta | ({} if token is None else {"progressToken": token}) | (params or {}).get("_meta", {})
        held = {**(params or {}), **({"_meta": meta} if meta else {})}
        return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": held} if held or params else {})}

    def initialize(self, *, id: JSON = 0) -> dict[str, JSON]:
        """The request that starts a handshake."""
        params = {"protocolVersion": self.version, "capabilities": dict(self.capabilities), "clientInfo": CLIENT}
        return {"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}


def notification(method: str, params: JSON = None) -> dict[str, JSON]:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def methods_of(message: JSON) -> dict[JSON, str]:
    """The methods of the requests in a message or batch, by id."""
    found = {}
    for one in message if isinstance(message, list) else [message]:
        if isinstance(one, dict) and isinstance(one.get("method"), str):
            key = one.get("id")
            found[key if isinstance(key, str | int) else None] = one["method"]
    return found


def check_all(version: str, messages: list[JSON], methods: Mapping[JSON, str]) -> None:
    """Hold messages of a server against the schema of `version`."""
    for message in messages:
        for one in message if isinstance(message, list) else [message]:
            wire_schema.check(version, one, answers=None if "method" in one else methods.get(one.get("id")))


class Http(Speaker):
    """A client of Streamable HTTP. It has made its handshake, where its revision has one."""

    def __init__(self, version: str, simulation: Simulation | Registry, **options: Any) -> None:
        super().__init__(version, simulation, **options)
        self.session: str | None = None
        if self.adapter.has_handshake:
            self.open()

    def open(self) -> SimulatedHttp:
        """Make the handshake."""
        opened = self.post(self.initialize(), headers={"MCP-Protocol-Version": None})
        assert opened.status == 200, opened.body
        self.session = opened.header("mcp-session-id")
        accepted = self.post(notification("notifications/initialized"))
        assert (accepted.status, accepted.body) == (202, b"")
        return opened

    def headers(self, message: JSON = None) -> dict[str, str]:
        """What the revision wants in the header section of a POST of `message`."""
        headers = {"MCP-Protocol-Version": self.version}
        if self.session is not None:
            headers["Mcp-Session-Id"] = self.session
        if not self.adapter.has_handshake and isinstance(message, dict) and {"id", "method"} <= set(message):
            headers["Mcp-Method"] = str(message["method"])
            params = message.get("params")
            target = params.get(TARGETS.get(message["method"], "")) if isinstance(params, dict) else None
            if isinstance(target, str):
                headers["Mcp-Name"] = encode_value(target)
        return headers

    def post(self, message: JSON, *, headers: Mapping[str, str | None] = {}, target: str = "/mcp") -> SimulatedHttp:
        """POST a message; a header of ``None`` is left out."""
        held = {**self.headers(message), **headers}
        given = {name: value for name, value in held.items() if value is not None}
        exchange = self.simulation.http(message, target=target, headers=given, **self.options)
        if exchange.body and exchange.header("content-type") in ("application/json", "text/event-stream"):
            check_all(self.version, exchange.messages, methods_of(message))
        return exchange

    def request(
        self,
        method: str,
        params: Mapping[str, JSON] | None = None,
        *,
        id: JSON = 1,
        token: JSON = None,
        headers: Mapping[str, str | None] = {},
    ) -> SimulatedHttp:
        """POST a request."""
        return self.post(self.message(method, params, id=id, token=token), headers=headers)

    def call(self, name: str, arguments: JSON = None, **more: Any) -> SimulatedHttp:
        """Call a tool."""
        headers = more.pop("headers", {})
        id, token = more.pop("id", 1), more.pop("token", None)
        params = {"name": name, "arguments": arguments or {}, **more}
        return self.request("tools/call", params, id=id, token=token, headers=headers)

    def answer(self, question: JSON, result: JSON) -> SimulatedHttp:
        """Answer a question that was pushed."""
        return self.post({"jsonrpc": "2.0", "id": question["id"], "result": result})

    def get(self, *, headers: Mapping[str, str] = {}) -> SimulatedHttp:
        """Open the standalone stream."""
        return self.simulation.http(method="GET", headers={**self.headers(), **headers}, **self.options)

    def delete(self) -> SimulatedHttp:
        """End the session."""
        return self.simulation.http(method="DELETE", headers=self.headers(), **self.options)


class Channel(Speaker):
    """A client at the end of a duplex channel. It has made its handshake, where its revision has one."""

    def __init__(self, version: str, simulation: Simulation | Registry, **options: Any) -> None:
        super().__init__(version, simulation, **options)
        self.end: SimulatedChannel = self.simulation.channel(**self.options)
        self._methods: dict[JSON, str] = {}
        if self.adapter.has_handshake:
            self.send(self.initialize())
            assert self.send(notification("notifications/initialized")) == []

    def send(self, message: JSON | bytes) -> list[JSON]:
        """Send a message; what came back by now."""
        self._methods |= methods_of(decode(message) if isinstance(message, bytes) else message)
        before = len(self.end.sent)
        self.end.send(message)
        return self.since(before)

    def since(self, before: int) -> list[JSON]:
        """The messages that came after the first `before`."""
        messages = [decode(data) for data in self.end.sent[before:]]
        check_all(self.version, messages, self._methods)
        return messages

    def request(
        self, method: str, params: Mapping[str, JSON] | None = None, *, id: JSON = 1, token: JSON = None
    ) -> list[JSON]:
        """Send a request."""
        return self.send(self.message(method, params, id=id, token=token))

    def call(self, name: str, arguments: JSON = None, *, id: JSON = 1, token: JSON = None, **more: Any) -> list[JSON]:
        """Call a tool."""
        return self.request("tools/call", {"name": name, "arguments": arguments or {}, **more}, id=id, token=token)

    def answer(self, question: JSON, result: JSON) -> list[JSON]:
        """Answer a question that was pushed."""
        return self.send({"jsonrpc": "2.0", "id": question["id"], "result": result})


def wire(value: JSON) -> bytes:
    """The bytes of a JSON value, its members in the order given."""
    return encode(value)


def json_head(status: int, body: bytes, *headers: tuple[str, str]) -> Head:
    """The head of a response of JSON."""
    return Head(status, (("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers))


STREAM_HEAD = Head(
    200,
    (
        ("Content-Type", "text/event-stream"),
        ("Cache-Control", "no-cache, no-transform"),
        ("X-Accel-Buffering", "no"),
    ),
)


def assert_json(exchange: SimulatedHttp, status: int, message: JSON) -> None:
    """The whole response is this status and this message, byte by byte."""
    body = wire(message)
    assert (exchange.head, exchange.body, exchange.ended) == (json_head(status, body), body, True)

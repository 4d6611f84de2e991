"""A shop that every one of these tests can call, over each kind of connection, and what its replies look like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import speak
from mcp_sansio import Exchange, Registry, elicit
from mcp_sansio.testing import SimulatedHttp, Simulation

JSON = Any
ENDS: dict[str, Callable[..., Any]] = {"http": speak.Http, "channel": speak.Channel}
#: Every revision over every kind of connection.
EVERYWHERE = [(end, version) for end in ENDS for version in speak.VERSIONS]
NEWEST = speak.VERSIONS[0]
HANDSHAKE, ENVELOPE = speak.HANDSHAKE, speak.ENVELOPE


class Shop:
    """A registry, a simulation of it, and the doors behind which its `nap` waits."""

    def __init__(self, **options: Any) -> None:
        self.heard: list[Any] = []
        self.doors: dict[str, Any] = {}
        self.registry = Registry("shop", "1.0")
        self._declare()
        self.simulation = Simulation(self.registry, **options)

    def _declare(self) -> None:
        @self.registry.tool
        async def echo(text: str) -> str:
            """Give the text back."""
            self.heard.append(text)
            return text

        @self.registry.tool
        async def nap(name: str, ex: Exchange) -> str:
            """Report, wait behind the door of that name, and report again."""
            door = self.doors[name] = self.simulation.runtime.event()
            await ex.progress(1)
            await door.wait()
            await ex.progress(2)
            return name

        @self.registry.tool
        async def confirm(ex: Exchange) -> str:
            """Ask for an agreement."""
            answer = await ex.ask("sure", elicit("Sure?"))
            return answer.action

    def open(self, name: str) -> None:
        """Let the nap of that name end."""
        self.doors[name].set()
        self.simulation.settle()

    def client(self, end: str, version: str, **options: Any) -> Any:
        """A client of `version` over that kind of connection."""
        return ENDS[end](version, self.simulation, **options)


def say(client: Any, message: JSON) -> list[JSON]:
    """Send a message over whatever connection `client` has; the messages that come back at once."""
    if isinstance(client, speak.Http):
        messages: list[JSON] = client.post(message).messages
        return messages
    back: list[JSON] = client.send(message)
    return back


def result(version: str, id: JSON, body: JSON) -> JSON:
    """The response of the shop with that result, as `version` has it."""
    if version in ENVELOPE:
        meta = {"io.modelcontextprotocol/serverInfo": {"name": "shop", "version": "1.0"}, **body.get("_meta", {})}
        body = {**body, "resultType": "complete", "_meta": meta}
    return {"jsonrpc": "2.0", "id": id, "result": body}


def text(version: str, id: JSON, said: str, **more: JSON) -> JSON:
    """The response that carries one text."""
    return result(version, id, {"content": [{"type": "text", "text": said}], **more})


def error(id: JSON, code: int, message: str, **data: JSON) -> JSON:
    """The response that is an error; an `id` of ``...`` is left out."""
    named = {} if id is ... else {"id": id}
    return {"jsonrpc": "2.0", **named, "error": {"code": code, "message": message, **data}}


def summary(exchange: SimulatedHttp) -> JSON:
    """The whole of a response, for comparison."""
    return exchange.status, exchange.head and dict(exchange.head.headers), exchange.messages, exchange.ended

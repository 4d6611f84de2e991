"""Calls that leave state behind and come back with it, however their revision carries it."""

from __future__ import annotations

from typing import Any

import support
from mcp_sansio import AdapterSet, Exchange, NeedInput, Registry, elicit, elicit_accept
from mcp_sansio.testing import Simulation
from speak import Http, wire

REFUSAL = "requestState is not valid for this call; start the call again without it"
CARRIERS = tuple(
    adapter.version for adapter in AdapterSet.default().adapters if adapter.can_ask or adapter.asks_in_arguments
)
ANSWERS = {"q": elicit_accept()}
#: Where state is kept: in a store, or in the token.
KINDS = ("stored", "sealed")
KEY = bytes(range(32))


def registry() -> Registry:
    """Two tools and a prompt, of which a tool has the name of the prompt. Each leaves state and asks."""
    made = Registry("s", "1")

    async def ask(ex: Exchange) -> str:
        if ex.answered("q"):
            return f"had {ex.state}"
        raise NeedInput({"q": elicit("Sure?")}, state={"n": 1})

    @made.tool
    async def one(ex: Exchange, x: int = 0) -> str:
        """One."""
        return await ask(ex)

    @made.tool
    async def two(ex: Exchange, x: int = 0) -> str:
        """Two."""
        return await ask(ex)

    @made.prompt(name="one")
    async def prompt(ex: Exchange, x: str = "") -> str:
        return await ask(ex)

    return made


def simulation(kind: str, **options: Any) -> Simulation:
    """A server that keeps state in that way."""
    if kind == "sealed":
        support.need("cryptography")
        from mcp_sansio import SealedState

        options.setdefault("states", SealedState([KEY]))
    return Simulation(registry(), **options)


class Caller:
    """Calls tools with a state, however the revision carries it."""

    def __init__(self, version: str, held: Simulation, **options: Any) -> None:
        self.modern = version == "2026-07-28"
        self.speaker = Http(version, held, **options)
        self.simulation = held

    def call(self, name: str, arguments: dict[str, Any], *, state: Any, answers: Any = ANSWERS) -> Any:
        """Call the tool `name` for the second time."""
        if self.modern:
            return self.speaker.call(name, arguments, inputResponses=answers, requestState=state)
        return self.speaker.call(name, {**arguments, "mcpAnswers": answers, "mcpState": state})

    def first(self, name: str = "one", arguments: Any = None) -> str:
        """The state that a first attempt leaves."""
        [asked] = self.speaker.call(name, arguments).messages
        result = asked["result"]
        held = result if self.modern else result["_meta"]["mcp-sansio/input-required"]
        return held["requestState"]  # type: ignore[no-any-return]

    def assert_refused(self, exchange: Any) -> None:
        """The whole response is the one refusal."""
        body = wire({"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": REFUSAL}})
        assert (exchange.status, exchange.body) == (400 if self.modern else 200, body)

    def assert_done(self, exchange: Any) -> None:
        """The call came to its end, and had its state."""
        assert exchange.status == 200
        assert exchange.messages[0]["result"]["content"] == [{"type": "text", "text": "had {'n': 1}"}]

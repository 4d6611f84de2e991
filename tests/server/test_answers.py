"""A handler that asks one question after the other, for clients that answer what they were asked last and no more.

The official clients in Python and TypeScript are such clients. What they said before has to come back with the
requestState, or the handler, which starts over, would ask its first question forever.
"""

from __future__ import annotations

from typing import Any

import pytest

from mcp_sansio import Config, Exchange, NeedInput, Registry, elicit
from mcp_sansio.testing import Simulation

JSON = Any
STATELESS = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}
pytestmark = pytest.mark.revision(STATELESS)


def registry() -> Registry:
    made = Registry("asker", "1")

    @made.tool
    async def introduce(ex: Exchange) -> str:
        first = await ex.ask("first", elicit("First name?"))
        last = await ex.ask("last", elicit("Last name?"))
        sure = await ex.ask("sure", elicit(f"{first['name']} {last['name']}?"))
        return f"{first['name']} {last['name']} {sure.action}"

    @made.tool
    async def insist(ex: Exchange) -> str:
        if ex.action("age") is None or ex.state is None:
            raise NeedInput({"age": elicit("Age?")}, state={"asked": 1})
        age = await ex.ask("age", elicit("Age?"))
        if age["years"] < 0:
            raise NeedInput({"age": elicit("Again: age?")}, state={"asked": ex.state["asked"] + 1})
        return f"{age['years']} after {ex.state['asked']}"

    return made


def call(simulation: Simulation, tool: str, **params: JSON) -> JSON:
    """Call a tool: its result without what every result has, or its error."""
    body = {"name": tool, "arguments": {}, "_meta": META, **params}
    headers = {"Mcp-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    reply = simulation.http(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body}, headers=headers
    ).messages[0]
    if "error" in reply:
        return reply["error"]
    return {key: value for key, value in reply["result"].items() if key != "_meta"}


def accepted(**content: JSON) -> JSON:
    return {"action": "accept", "content": content}


def question(text: str) -> JSON:
    schema = {"type": "object", "properties": {}}
    return {"method": "elicitation/create", "params": {"message": text, "requestedSchema": schema}}


def test_answers_of_earlier_rounds_are_kept_for_the_client() -> None:
    simulation = Simulation(registry())
    first = call(simulation, "introduce")
    # Nothing is known yet, so nothing has to come back.
    assert first == {"resultType": "input_required", "inputRequests": {"first": question("First name?")}}
    second = call(simulation, "introduce", inputResponses={"first": accepted(name="Ada")})
    assert second.pop("requestState")
    assert second == {"resultType": "input_required", "inputRequests": {"last": question("Last name?")}}
    second = call(simulation, "introduce", inputResponses={"first": accepted(name="Ada")})
    third = call(
        simulation,
        "introduce",
        inputResponses={"last": accepted(name="Lovelace")},
        requestState=second["requestState"],
    )
    assert third["inputRequests"] == {"sure": question("Ada Lovelace?")}
    final = call(
        simulation, "introduce", inputResponses={"sure": {"action": "decline"}}, requestState=third["requestState"]
    )
    assert final == {"resultType": "complete", "content": [{"type": "text", "text": "Ada Lovelace decline"}]}


def test_what_the_client_says_now_outranks_what_it_said_before() -> None:
    simulation = Simulation(registry())
    second = call(simulation, "introduce", inputResponses={"first": accepted(name="Ada")})
    answers = {"first": accepted(name="Grace"), "last": accepted(name="Hopper")}
    third = call(simulation, "introduce", inputResponses=answers, requestState=second["requestState"])
    assert third["inputRequests"] == {"sure": question("Grace Hopper?")}


def test_an_answer_is_dropped_when_its_question_is_put_again() -> None:
    simulation = Simulation(registry())
    first = call(simulation, "insist")
    second = call(simulation, "insist", inputResponses={"age": accepted(years=-1)}, requestState=first["requestState"])
    assert second["inputRequests"] == {"age": question("Again: age?")}
    # Without a new answer the question is put once more, rather than the old answer read once more.
    third = call(simulation, "insist", requestState=second["requestState"])
    assert third["inputRequests"] == {"age": question("Age?")}
    last = call(simulation, "insist", inputResponses={"age": accepted(years=7)}, requestState=third["requestState"])
    assert last == {"resultType": "complete", "content": [{"type": "text", "text": "7 after 1"}]}


def test_answers_that_are_kept_are_bounded() -> None:
    simulation = Simulation(registry(), config=Config(max_state=200))
    reply = call(simulation, "introduce", inputResponses={"first": accepted(name="A" * 200)})
    assert reply == {"code": -32600, "message": "what a call has to keep for its next attempt is over 200 bytes"}

"""The promise: one server and one caller, who is asked on every revision, over every transport.

`registry` is the server, which names no revision. `keep` is the caller: it is handed a way to open a client, and does
with each what a caller can do. ``python promise.py BINDING`` serves the registry over standard input and output.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp_sansio import (
    AdapterSet,
    Exchange,
    NeedInput,
    Registry,
    ServerError,
    elicit,
    elicit_accept,
    elicit_cancel,
    elicit_decline,
)

registry = Registry("promise", "1.0")
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
looked_up: list[str] = []

Open = Callable[..., AbstractAsyncContextManager[Any]]
"""Opens a client: ``open(on_ask=…)``."""


@registry.tool
async def deploy(service: str, ex: Exchange) -> str:
    """Deploy a service, once somebody agrees to it."""
    answer = await ex.ask("sure", elicit(f"Deploy {service}?"))
    return f"deployed {service}" if answer.accepted else f"stopped at {answer.action}"


@registry.tool
async def rename(ex: Exchange) -> str:
    """Ask for a new name."""
    answer = await ex.ask("name", elicit("What is it called now?", NAME))
    return f"renamed to {answer['name']}"


@registry.tool
async def careful(ex: Exchange) -> str:
    """Ask, and take it for a no where nobody can be asked."""
    answer = await ex.ask("sure", elicit("Go ahead?"), default=elicit_decline())
    return str(answer.action)


@registry.tool
async def interview(ex: Exchange) -> str:
    """Ask one thing after the other."""
    first = await ex.ask("first", elicit("Your name?", NAME))
    last = await ex.ask("last", elicit(f"And then, {first['name']}?", NAME))
    return f"{first['name']} {last['name']}"


@registry.tool
async def purge(target: str, ex: Exchange) -> str:
    """Look something up once, ask, and go on with what was found."""
    if not ex.answered("sure"):
        looked_up.append(target)
        raise NeedInput({"sure": elicit(f"Purge {target}?")}, state={"found": [target.upper(), len(looked_up)]})
    found, times = ex.state["found"]
    return f"purged {found}, looked up {times} times" if ex.accepted("sure") else "kept"


def said(result: Any) -> str:
    """The text of a result."""
    (block,) = result.content
    text: str = block.text
    return text


async def refusal(call: Awaitable[Any]) -> ServerError:
    """The error that a call comes to."""
    try:
        result = await call
    except ServerError as error:
        return error
    raise AssertionError(f"not refused: {result}")


async def keep(open: Open, revision: str) -> None:
    """Everything that the promise holds, at one revision."""
    await _accept_decline_cancel(open)
    await _data_by_schema(open)
    await _questions_in_order(open)
    await _state(open)
    adapter = AdapterSet.default().by_version[revision]
    if adapter.can_push_ask:
        await _nobody_can_answer(open)
    else:
        await _the_manual_round(open, adapter)


async def _accept_decline_cancel(open: Open) -> None:
    for reply, expected in (
        (elicit_accept(), "deployed web"),
        (elicit_decline(), "stopped at decline"),
        (elicit_cancel(), "stopped at cancel"),
    ):
        asked: list[Any] = []

        async def answer(
            request: Mapping[str, Any], asked: list[Any] = asked, reply: Mapping[str, Any] = reply
        ) -> Mapping[str, Any]:
            asked.append((request["method"], request["params"]["message"]))
            return reply

        async with open(on_ask=answer) as client:
            assert said(await client.call_tool("deploy", {"service": "web"})) == expected
        assert asked == [("elicitation/create", "Deploy web?")]


async def _data_by_schema(open: Open) -> None:
    def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
        assert request["params"]["requestedSchema"] == NAME
        return elicit_accept({"name": "widget"})

    async with open(on_ask=answer) as client:
        assert said(await client.call_tool("rename")) == "renamed to widget"


async def _questions_in_order(open: Open) -> None:
    asked: list[str] = []

    def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
        asked.append(request["params"]["message"])
        return elicit_accept({"name": f"answer {len(asked)}"})

    async with open(on_ask=answer) as client:
        assert said(await client.call_tool("interview")) == "answer 1 answer 2"
    assert asked == ["Your name?", "And then, answer 1?"]


async def _state(open: Open) -> None:
    async with open(on_ask=lambda request: elicit_accept()) as client:
        first = said(await client.call_tool("purge", {"target": "cache"}))
        again = said(await client.call_tool("purge", {"target": "logs"}))
    times = int(first.split()[-2])
    assert first == f"purged CACHE, looked up {times} times"
    assert again == f"purged LOGS, looked up {times + 1} times"


async def _nobody_can_answer(open: Open) -> None:
    """A client without ``on_ask`` says that it cannot be asked."""
    async with open() as client:
        assert said(await client.call_tool("careful")) == "decline"
        error = await refusal(client.call_tool("deploy", {"service": "web"}))
        assert error.data == {"requiredCapabilities": {"elicitation": {}}}


async def _the_manual_round(open: Open, adapter: Any) -> None:
    """The question is the result, and the call is made again with the answer."""
    async with open() as client:
        question = await client.call_tool("purge", {"target": "cache"})
        assert isinstance(question, dict)
        requests, state = adapter.client_input_requests(question)
        assert [request["params"]["message"] for request in requests.values()] == ["Purge cache?"]
        answers = dict.fromkeys(requests, elicit_accept())
        done = await client.call_tool("purge", {"target": "cache"}, input_responses=answers, request_state=state)
    assert said(done).startswith("purged CACHE, looked up ")


if __name__ == "__main__":
    importlib.import_module(sys.argv[1]).run_stdio(registry)

"""When a state that a store keeps is spent, and when it may be brought again: by one attempt at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import support
from mcp_sansio import (
    Config,
    Exchange,
    MemorySessionStore,
    NeedInput,
    Registry,
    StoreFull,
    StoreUnavailable,
    ToolError,
    elicit,
    elicit_accept,
    sample,
)
from mcp_sansio.asker import Stop
from mcp_sansio.outcome import Failure, FailureKind
from mcp_sansio.testing import Simulation, connect
from speak import ENVELOPE, VERSIONS, Channel, Http
from stateful import CARRIERS, REFUSAL

FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
pytestmark = pytest.mark.revision("2026-07-28")
REFUSED = {"code": -32602, "message": REFUSAL}


class Watched(MemorySessionStore):
    """A store that keeps account of what it is asked, and fails while it has a failure."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked: list[str] = []
        self.failure: Exception | None = None

    async def create(self, key: str, data: Any, *, ttl: float) -> bool:
        self._ask("create")
        return await super().create(key, data, ttl=ttl)

    async def get(self, key: str, *, ttl: float | None = None) -> Any:
        self._ask("get")
        return await super().get(key, ttl=ttl)

    async def delete(self, key: str) -> None:
        self._ask("delete")
        await super().delete(key)

    async def take(self, key: str) -> Any:
        self._ask("take")
        return await super().take(key)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.failure is not None:
            raise self.failure


class Shop:
    """A server whose handler asks, and ends as `end` does once it was answered. `client` speaks the newest revision."""

    def __init__(self, end: Callable[[Exchange], Awaitable[str]], **config: Any) -> None:
        registry = self.registry = Registry("s", "1")
        self.end = end

        @registry.tool
        @registry.prompt
        async def ask(ex: Exchange) -> str:
            """Ask."""
            if not ex.answered("q"):
                raise NeedInput({"q": elicit("Sure?", FORM)}, state={"left": [1]})
            return await self.end(ex)

        self.store = Watched(clock=lambda: self.simulation.clock())
        self.simulation = Simulation(registry, store=self.store, config=Config(**config))
        self.client = Http(ENVELOPE[0], self.simulation)

    def begin(self, what: str = "tools/call") -> str:
        """The state that the first attempt leaves."""
        return self.state_of(self.client.request(what, {"name": "ask"}))

    def go_on(self, state: str, what: str = "tools/call", n: Any = 1, **answers: Any) -> Any:
        """The second attempt, as far as it has come. What the store is asked is counted from here on."""
        self.store.asked.clear()
        given = {"q": elicit_accept({"n": n}), **answers}
        return self.client.request(what, {"name": "ask", "inputResponses": given, "requestState": state})

    def state_of(self, exchange: Any) -> str:
        """The state that came with a question."""
        return exchange.messages[0]["result"]["requestState"]  # type: ignore[no-any-return]

    def assert_spent(self, state: str) -> None:
        """It does not work any more, and nothing is kept for it."""
        self.end = done
        assert said(self.go_on(state)) == REFUSED
        assert (self.store.asked, len(self.store)) == (["take"], 0)

    def assert_there(self, state: str, what: str = "tools/call") -> None:
        """It works, as it did at first, and once."""
        self.end = done
        assert said(self.go_on(state, what)) == "had {'left': [1]}"
        assert said(self.go_on(state, what)) == REFUSED


async def done(ex: Exchange) -> str:
    return f"had {ex.state}"


def said(exchange: Any) -> Any:
    """The text of a result, or the error."""
    [message] = exchange.messages
    if "error" in message:
        return message["error"]
    result = message["result"]
    content = result["content"][0] if "content" in result else result["messages"][0]["content"]
    return content["text"]


def raising(error: BaseException) -> Callable[[Exchange], Awaitable[str]]:
    async def end(ex: Exchange) -> str:
        ex.state["left"].append(2)  # what it does to it is its own
        raise error

    return end


@pytest.mark.parametrize("raw", [None, {"type": "object"}], ids=["typed", "raw"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_handler_may_change_its_arguments_before_it_asks(version: str, raw: Any) -> None:
    """What a state is bound to, and what a handler is run again with, is what the client sent."""
    if raw is not None:
        support.need("jsonschema")
    registry = Registry("s", "1")

    async def spoil(arguments: dict[str, Any], ex: Exchange) -> str:
        """Spoil."""
        inner = arguments["arguments"] if raw is None else arguments
        seen = str(inner)
        inner["list"].append(inner.pop("x"))
        if not ex.answered("q"):
            raise NeedInput({"q": elicit("Sure?")}, state=1)
        return seen

    registry.tool(spoil) if raw is None else registry.tool(input_schema=raw)(spoil)
    inner = {"list": [[]], "x": {"y": 1}}
    for _ in range(2):
        with connect(registry, version, on_ask=lambda _: elicit_accept()) as client:
            result = client.call_tool("spoil", {"arguments": {"arguments": inner}} if raw is None else inner)
        assert result.content[0].text == str(inner)  # type: ignore[union-attr]


# Spent ----------------------------------------------------------------------------------------------------------------


def test_each_attempt_asks_the_store_once() -> None:
    shop = Shop(done)
    state = shop.begin()
    assert shop.store.asked == ["create"]
    assert said(shop.go_on(state)) == "had {'left': [1]}"
    assert shop.store.asked == ["take"]
    shop.assert_spent(state)


def test_an_attempt_that_asks_again_takes_what_was_left_and_leaves_anew() -> None:
    """Its handler runs between the two, so that they cannot be one."""

    async def again(ex: Exchange) -> str:
        return f"{(await ex.ask('more', elicit('More?'))).action} {ex.state}"

    shop = Shop(again)
    first = shop.begin()
    second = shop.state_of(shop.go_on(first))
    assert shop.store.asked == ["take", "create"]
    assert said(shop.go_on(first)) == REFUSED
    assert said(shop.go_on(second, more=elicit_accept())) == "accept {'left': [1]}"
    assert shop.store.asked == ["take"]
    shop.assert_spent(second)


@pytest.mark.parametrize("error", [ToolError("sold out"), ValueError("a bug")], ids=["told", "a bug"])
def test_a_tool_that_failed_is_a_result(error: Exception) -> None:
    """The client has what there is to have, and the tool may have done half of its work."""
    shop = Shop(raising(error))
    state = shop.begin()
    assert shop.go_on(state).messages[0]["result"]["isError"] is True
    assert shop.store.asked == ["take"]
    shop.assert_spent(state)


# Put back -------------------------------------------------------------------------------------------------------------


def need_sampling(ex: Exchange) -> Awaitable[str]:
    return ex.ask("text", sample("x", max_tokens=1))  # type: ignore[return-value]


FAILURES = {
    "the store fails": (raising(StoreUnavailable("gone")), "the session store cannot be reached"),
    "the client cannot be asked": (
        need_sampling, "this needs the client capability 'sampling', which the client did not declare",
    ),
    "too much is left": (
        raising(NeedInput({"r": elicit("?")}, state="x" * 2**16)),
        "what a call has to keep for its next attempt is over 65536 bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("failure", FAILURES)
def test_a_call_that_fails_may_be_made_again(failure: str) -> None:
    end, text = FAILURES[failure]
    shop = Shop(end)
    shop.client.capabilities = {"elicitation": {}}
    state = shop.begin()
    for _ in range(2):
        assert said(shop.go_on(state))["message"] == text
        assert shop.store.asked == ["take", "create"]
    shop.assert_there(state)


@pytest.mark.parametrize("error", [ToolError("sold out"), ValueError("a bug")], ids=["told", "a bug"])
def test_a_prompt_that_fails_may_be_asked_for_again(error: Exception) -> None:
    shop = Shop(raising(error))
    state = shop.begin("prompts/get")
    assert said(shop.go_on(state, "prompts/get"))["code"] == -32603
    assert shop.store.asked == ["take", "create"]
    shop.assert_there(state, "prompts/get")


def test_an_answer_that_is_malformed_may_be_put_right() -> None:
    async def ask(ex: Exchange) -> str:
        return f"{(await ex.ask('q', elicit('Sure?', FORM)))['n']} {ex.state}"

    shop = Shop(ask)
    state = shop.begin()
    malformed = {"code": -32602, "message": "the answer to 'q' is malformed: content.n must be of type integer"}
    assert said(shop.go_on(state, n="one")) == malformed
    assert said(shop.go_on(state, n=1)) == "1 {'left': [1]}"
    shop.assert_spent(state)


def test_too_many_answers_may_be_fewer() -> None:
    shop = Shop(done, max_answers=2)
    state = shop.begin()
    many = {f"a{number}": elicit_accept() for number in range(2)}
    assert said(shop.go_on(state, **many))["message"] == "a call may bring 2 answers at most"
    assert shop.store.asked == ["take", "create"]
    shop.assert_there(state)


def test_a_tool_that_is_away_for_a_moment() -> None:
    """As where a worker of another release declares it, and this one does not."""
    shop = Shop(done)
    state = shop.begin()
    spec = shop.registry.tools["ask"]
    shop.registry.remove_tool("ask")
    assert said(shop.go_on(state))["message"] == "there is no tool named 'ask'"
    shop.registry.tool(spec.bound.fn)
    shop.assert_there(state)


def waiting(**config: Any) -> Shop:
    """Its handler never ends by itself."""

    async def wait(ex: Exchange) -> str:
        await shop.simulation.scheduler.event().wait()
        raise AssertionError("nobody raised that flag")

    shop = Shop(wait, **config)
    return shop


def test_a_client_that_leaves_may_come_back() -> None:
    shop = waiting()
    state = shop.begin()
    left = shop.go_on(state)
    assert shop.store.asked == ["take"]
    left.disconnect()
    assert shop.store.asked == ["take", "create"]
    shop.assert_there(state)


def test_a_call_that_takes_too_long_may_be_made_again() -> None:
    shop = waiting(call_timeout=5.0)
    state = shop.begin()
    late = shop.go_on(state)
    shop.simulation.advance(5)
    assert said(late)["message"] == "the call took longer than 5 seconds"
    assert shop.store.asked == ["take", "create"]
    shop.assert_there(state)


@pytest.mark.parametrize("version", CARRIERS)
def test_a_call_that_is_cancelled_may_be_made_again(version: str) -> None:
    shop = waiting()
    channel = Channel(version, shop.simulation)
    [asked] = channel.call("ask")
    modern = version in ENVELOPE
    result = asked["result"] if modern else asked["result"]["_meta"]["mcp-sansio/input-required"]
    answers, state = {"q": elicit_accept({"n": 1})}, result["requestState"]

    def go_on(id: int) -> list[Any]:
        if modern:
            return channel.call("ask", id=id, inputResponses=answers, requestState=state)
        return channel.call("ask", {"mcpAnswers": answers, "mcpState": state}, id=id)

    assert go_on(2) == []
    channel.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    shop.end = done
    [again] = go_on(3)
    assert again["result"]["content"][0]["text"] == "had {'left': [1]}"
    [replayed] = go_on(4)
    assert replayed["error"] == REFUSED


def test_what_is_put_back_lives_as_long_as_at_first() -> None:
    shop = Shop(raising(StoreUnavailable("gone")))
    state = shop.begin()
    shop.simulation.advance(899)
    shop.go_on(state)
    shop.simulation.advance(899)
    shop.assert_there(state)
    state = shop.begin()
    shop.end = raising(StoreUnavailable("gone"))
    shop.go_on(state)
    shop.simulation.advance(900)
    shop.assert_spent(state)


# At the same moment ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True], ids=["the first is done", "the first fails"])
def test_of_attempts_at_the_same_moment_one_runs(fails: bool) -> None:
    shop = Shop(done)
    gate, ran = shop.simulation.scheduler.event(), []

    async def slow(ex: Exchange) -> str:
        ran.append(1)
        await gate.wait()
        if fails:
            raise StoreUnavailable("gone")
        return await done(ex)

    shop.end = slow
    state = shop.begin()
    first, *others = [shop.go_on(state) for _ in range(5)]
    assert [(other.status, said(other)) for other in others] == [(400, REFUSED)] * 4
    assert (first.status, len(ran)) == (None, 1)
    gate.set()
    shop.simulation.settle()
    if fails:
        assert first.status == 503
        shop.assert_there(state)
    else:
        assert said(first) == "had {'left': [1]}"
        shop.assert_spent(state)
    assert len(ran) == 1


# A store that fails ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [StoreUnavailable, OSError])
def test_a_store_that_is_away_when_the_client_comes_back(
    failure: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(done)
    state = shop.begin()
    shop.store.failure = failure("no route to host 10.0.0.7")
    away = shop.go_on(state)
    assert (away.status, said(away)["message"]) == (503, "the session store cannot be reached")
    assert caplog.text.count("no route to host 10.0.0.7") == 1
    assert ("Traceback" in caplog.text) is (failure is OSError), "what is known to happen needs none"
    shop.store.failure = None
    shop.assert_there(state)


@pytest.mark.parametrize("failure", [StoreUnavailable, OSError])
def test_a_store_that_is_away_when_something_is_left(
    failure: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(done)
    shop.store.failure = failure("no route to host 10.0.0.7")
    away = shop.client.request("tools/call", {"name": "ask"})
    assert (away.status, said(away)["message"]) == (503, "the session store cannot be reached")
    assert caplog.text.count("no route to host 10.0.0.7") == 1
    shop.store.failure = None
    shop.assert_there(shop.begin())


@pytest.mark.parametrize("failure", [StoreUnavailable("no route to host"), StoreFull("full"), OSError("no route")])
def test_what_cannot_be_put_back_is_lost_and_the_call_fails_as_it_did(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(done)

    async def fail(ex: Exchange) -> str:
        shop.store.failure = failure
        raise Stop(Failure(FailureKind.TIMED_OUT, "nobody answered"))

    shop.end = fail
    state = shop.begin()
    assert said(shop.go_on(state))["message"] == "nobody answered"
    [logged] = [record.getMessage() for record in caplog.records if "lost" in record.getMessage()]
    assert logged.startswith("call_tool 'ask' failed, and what it was left is lost")
    assert str(failure) in caplog.text
    assert ("Traceback" in caplog.text) is isinstance(failure, OSError), "what is known to happen needs none"
    shop.store.failure = None
    shop.assert_spent(state)

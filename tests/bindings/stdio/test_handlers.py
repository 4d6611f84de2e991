"""How handlers run below `serve_stdio`: at once, in tasks, in threads, until they are cancelled or out of time."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

import speak
from mcp_sansio import Config, Exchange, Registry, elicit, elicit_cancel

NEWEST_HANDSHAKE = speak.HANDSHAKE[0]
Serve = Callable[..., Any]


@pytest.fixture
def registry() -> Registry:
    """Nothing declared."""
    return Registry("handlers", "1")


CALLER = contextvars.ContextVar("CALLER", default="unset")


class Caller:
    """A dependency."""


def caller() -> Caller:
    """Make it, and leave a trace in the context."""
    CALLER.set("set by a dependency")
    return Caller()


def text_of(message: Any) -> Any:
    """The text that a tool gave."""
    return message["result"]["content"][0]["text"]


class TestAsync:
    async def test_each_runs_in_one_task_from_its_first_step_on(self, served: Serve, registry: Registry) -> None:
        """What asyncio ties to a task (timeouts, task groups, context) works before and after the first wait."""
        variable = contextvars.ContextVar("variable", default="unset")

        @registry.tool
        async def check(name: str) -> list[Any]:
            task = asyncio.current_task()
            before = variable.get()
            variable.set(name)
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                group.create_task(asyncio.sleep(0))
                await asyncio.sleep(0)
            return [asyncio.current_task() is task, task is not None, before, variable.get()]

        async with served(registry, version=NEWEST_HANDSHAKE) as client:
            for name in ("a", "b"):
                assert text_of(await client.call("check", {"name": name})) == f'[true,true,"unset","{name}"]'

    async def test_many_are_in_flight_at_once(self, served: Serve, registry: Registry) -> None:
        barrier = asyncio.Barrier(200)

        @registry.tool
        async def meet() -> str:
            await barrier.wait()
            return "met"

        async with served(registry) as client:
            call = client.speaker.message("tools/call", {"name": "meet", "arguments": {}})
            await client.send(*({**call, "id": number} for number in range(200)))
            replies = [await client.receive() for _ in range(200)]
            assert {text_of(reply) for reply in replies} == {"met"}
            assert sorted(reply["id"] for reply in replies) == [*range(200)]

    async def test_more_than_may_be_in_flight_arrive_in_one_write(self, served: Serve, registry: Registry) -> None:
        """Calls that wait for nothing are over before the next ones are looked at."""

        @registry.tool
        async def quick() -> str:
            return "done"

        async with served(registry, config=Config(max_calls=100)) as client:
            call = client.speaker.message("tools/call", {"name": "quick", "arguments": {}})
            await client.send(*({**call, "id": number} for number in range(1000)))
            assert {text_of(await client.receive()) for _ in range(1000)} == {"done"}

    @pytest.mark.parametrize("at_once", [False, True], ids=["while it runs", "in the same write"])
    async def test_cancelled(self, served: Serve, registry: Registry, at_once: bool) -> None:
        ends: list[str] = []

        @registry.tool
        async def wait(ex: Exchange) -> str:
            await ex.log("info", "begun")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise
            return "never"

        async with served(registry, version=NEWEST_HANDSHAKE) as client:
            await client.send(client.speaker.message("logging/setLevel", {"level": "info"}))
            await client.receive()
            call = client.speaker.message("tools/call", {"name": "wait", "arguments": {}}, id="w")
            cancel = speak.notification("notifications/cancelled", {"requestId": "w"})
            if at_once:
                await client.send(call, cancel)
            else:
                await client.send(call)
                assert (await client.receive())["method"] == "notifications/message"
                await client.send(cancel)
            await client.send(client.speaker.message("ping", id="p"))
            assert (await client.receive())["id"] == "p"
            assert ends == ["cancelled"]

    async def test_out_of_time(self, served: Serve, registry: Registry) -> None:
        cancelled = asyncio.Event()

        @registry.tool
        async def wait() -> str:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return "never"

        async with served(registry, config=Config(call_timeout=0.05)) as client:
            for number in (1, 2):
                error = (await client.call("wait", id=number))["error"]
                assert error == {"code": -32603, "message": "the call took longer than 0.05 seconds"}
                await asyncio.wait_for(cancelled.wait(), 60)
                cancelled.clear()

    async def test_an_earlier_deadline_comes_first(self, served: Serve, registry: Registry) -> None:
        """The timer stands at the call's deadline when the question, which has less time, is asked."""

        @registry.tool
        async def ask(ex: Exchange) -> str:
            await asyncio.sleep(0)
            return str((await ex.ask("q", elicit("Well?"), default=elicit_cancel())).action)

        async with served(registry, version=NEWEST_HANDSHAKE, config=Config(ask_timeout=0.05)) as client:
            question = await client.call("ask")
            withdrawn, reply = await client.receive(), await client.receive()
            assert withdrawn["params"]["requestId"] == question["id"]
            assert text_of(reply) == "cancel"


class TestInThreads:
    async def test_side_by_side(self, served: Serve, registry: Registry) -> None:
        barrier = threading.Barrier(20)

        @registry.tool
        def meet() -> str:
            barrier.wait(60)
            return "met"

        async with served(registry) as client:
            call = client.speaker.message("tools/call", {"name": "meet", "arguments": {}})
            await client.send(*({**call, "id": number} for number in range(20)))
            assert {text_of(await client.receive()) for _ in range(20)} == {"met"}

    async def test_many_more_calls_than_threads(self, served: Serve, registry: Registry) -> None:
        @registry.tool
        def quick(number: int) -> int:
            return number

        async with served(registry) as client:
            for number in range(500):
                await client.start("quick", {"number": number}, id=number)
            replies = [await client.receive() for _ in range(500)]
            assert {reply["id"]: text_of(reply) for reply in replies} == {n: str(n) for n in range(500)}

    async def test_they_see_the_context_of_their_call(self, served: Serve, registry: Registry) -> None:
        registry.provide(Caller, caller)

        @registry.tool
        def read(caller: Caller) -> str:
            return CALLER.get()

        async with served(registry) as client:
            assert text_of(await client.call("read")) == "set by a dependency"

    @pytest.mark.parametrize("kind", [StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit, ValueError])
    async def test_what_they_raise_ends_the_call_alone(
        self, served: Serve, registry: Registry, kind: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        """A StopIteration would never reach the call's future, and a SystemExit would end the server."""

        @registry.tool
        def fail() -> str:
            raise kind("on purpose")

        async with served(registry) as client:
            for number in (1, 2):
                reply = await client.call("fail", id=number)
                assert reply["result"]["isError"] is True
                assert text_of(reply) == "The tool failed because of an internal error."
        assert kind.__name__ in caplog.text

    async def test_what_they_announce_arrives(self, served: Serve, registry: Registry) -> None:
        """Several threads announce at once, while the loop takes what they announce."""
        uris = [f"note://{number}" for number in range(400)]
        registry.resource("note://{name}")(read_note)

        @registry.tool
        def update(part: int) -> str:
            for uri in uris[part::4]:
                registry.resource_updated(uri)
            return "updated"

        async with served(registry, version=NEWEST_HANDSHAKE) as client:
            for uri in uris:
                await client.send(client.speaker.message("resources/subscribe", {"uri": uri}))
                assert (await client.receive())["result"] == {}
            for _ in range(5):
                for part in range(4):
                    await client.start("update", {"part": part}, id=part)
                messages = [await client.receive() for _ in range(404)]
                updated = [message["params"]["uri"] for message in messages if "method" in message]
                assert sorted(updated) == sorted(uris)


def read_note(name: str) -> str:
    return name

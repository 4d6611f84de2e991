"""How handlers run: at once, in tasks, in threads, until they are cancelled or out of time."""

from __future__ import annotations

import contextvars
import threading

import pytest

import speak
from flags import Flag, turn
from foreign import Panic
from lines import served, text_of
from mcp_sansio import Config, Exchange, Registry, elicit, elicit_cancel
from plugs import ChannelServer

NEWEST_HANDSHAKE = speak.HANDSHAKE[0]


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


class TestAsyncHandlers:
    def test_each_has_a_context_of_its_own_from_its_first_step_on(
        self, channel_server: ChannelServer, registry: Registry
    ) -> None:
        variable = contextvars.ContextVar("variable", default="unset")

        @registry.tool
        async def check(name: str) -> str:
            before = variable.get()
            variable.set(name)
            await turn()
            return f"{before}, {variable.get()}"

        with served(channel_server, registry, version=NEWEST_HANDSHAKE) as client:
            for name in ("a", "b"):
                assert text_of(client.call("check", {"name": name})) == f"unset, {name}"

    def test_one_that_panics_ends_its_call_alone(self, channel_server: ChannelServer, registry: Registry) -> None:
        """An extension module may raise what is no `Exception` for a fault of its own."""

        @registry.tool
        async def panic() -> str:
            await turn()
            raise Panic("on purpose")

        with served(channel_server, registry) as client:
            for number in (1, 2):
                assert client.call("panic", id=number)["error"]["message"] == "the call was interrupted"

    def test_many_are_in_flight_at_once(self, channel_server: ChannelServer, registry: Registry) -> None:
        all_here = Flag()
        waiting: list[None] = []

        @registry.tool
        async def meet() -> str:
            waiting.append(None)
            if len(waiting) == 200:
                all_here.set()
            await all_here.wait()
            return "met"

        with served(channel_server, registry) as client:
            call = client.speaker.message("tools/call", {"name": "meet", "arguments": {}})
            client.send(*({**call, "id": number} for number in range(200)))
            replies = [client.receive() for _ in range(200)]
            assert {text_of(reply) for reply in replies} == {"met"}
            assert sorted(reply["id"] for reply in replies) == [*range(200)]

    def test_more_than_may_be_in_flight_arrive_in_one_write(
        self, channel_server: ChannelServer, registry: Registry
    ) -> None:
        """Calls that wait for nothing are over before the next ones are looked at."""

        @registry.tool
        async def quick() -> str:
            return "done"

        with served(channel_server, registry, config=Config(max_calls=100)) as client:
            call = client.speaker.message("tools/call", {"name": "quick", "arguments": {}})
            client.send(*({**call, "id": number} for number in range(1000)))
            assert {text_of(client.receive()) for _ in range(1000)} == {"done"}

    @pytest.mark.parametrize("at_once", [False, True], ids=["while it runs", "in the same write"])
    def test_cancelled(self, channel_server: ChannelServer, registry: Registry, at_once: bool) -> None:
        begun, cancelled = Flag(), Flag()

        @registry.tool
        async def wait(ex: Exchange) -> str:
            begun.set()
            try:
                await ex.log("info", "begun")
                await Flag().wait()
            except BaseException:
                cancelled.set()
                raise
            return "never"

        with served(channel_server, registry, version=NEWEST_HANDSHAKE) as client:
            client.send(client.speaker.message("logging/setLevel", {"level": "info"}))
            client.receive()
            call = client.speaker.message("tools/call", {"name": "wait", "arguments": {}}, id="w")
            cancel = speak.notification("notifications/cancelled", {"requestId": "w"})
            if at_once:
                client.send(call, cancel)
            else:
                client.send(call)
                assert (client.receive())["method"] == "notifications/message"
                client.send(cancel)
            client.send(client.speaker.message("ping", id="p"))
            assert (client.receive())["id"] == "p"
            if begun.is_set:  # not every loop begins with a call that is given up before its first step
                cancelled.seen()
            assert begun.is_set or at_once

    def test_out_of_time(self, channel_server: ChannelServer, registry: Registry) -> None:
        cancelled = Flag()

        @registry.tool
        async def wait() -> str:
            try:
                await Flag().wait()
            finally:
                cancelled.set()
            return "never"

        with served(channel_server, registry, config=Config(call_timeout=0.05)) as client:
            for number in (1, 2):
                error = (client.call("wait", id=number))["error"]
                assert error == {"code": -32603, "message": "the call took longer than 0.05 seconds"}
                cancelled.seen()
                cancelled.clear()

    def test_an_earlier_deadline_comes_first(self, channel_server: ChannelServer, registry: Registry) -> None:
        """The timer stands at the call's deadline when the question, which has less time, is asked."""

        @registry.tool
        async def ask(ex: Exchange) -> str:
            await turn()
            return str((await ex.ask("q", elicit("Well?"), default=elicit_cancel())).action)

        with served(channel_server, registry, version=NEWEST_HANDSHAKE, config=Config(ask_timeout=0.05)) as client:
            question = client.call("ask")
            withdrawn, reply = client.receive(), client.receive()
            assert withdrawn["params"]["requestId"] == question["id"]
            assert text_of(reply) == "cancel"


class TestPlainHandlers:
    def test_side_by_side(self, channel_server: ChannelServer, registry: Registry) -> None:
        barrier = threading.Barrier(20)

        @registry.tool
        def meet() -> str:
            barrier.wait(60)
            return "met"

        with served(channel_server, registry) as client:
            call = client.speaker.message("tools/call", {"name": "meet", "arguments": {}})
            client.send(*({**call, "id": number} for number in range(20)))
            assert {text_of(client.receive()) for _ in range(20)} == {"met"}

    def test_many_more_calls_than_threads(self, channel_server: ChannelServer, registry: Registry) -> None:
        @registry.tool
        def quick(number: int) -> int:
            return number

        with served(channel_server, registry) as client:
            for number in range(500):
                client.begin("quick", {"number": number}, id=number)
            replies = [client.receive() for _ in range(500)]
            assert {reply["id"]: text_of(reply) for reply in replies} == {n: str(n) for n in range(500)}

    def test_they_see_the_context_of_their_call(self, channel_server: ChannelServer, registry: Registry) -> None:
        registry.provide(Caller, caller)

        @registry.tool
        def read(caller: Caller) -> str:
            return CALLER.get()

        with served(channel_server, registry) as client:
            assert text_of(client.call("read")) == "set by a dependency"

    @pytest.mark.parametrize("kind", [StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit, ValueError])
    def test_what_they_raise_ends_the_call_alone(
        self,
        channel_server: ChannelServer,
        registry: Registry,
        kind: type[BaseException],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        """A StopIteration would never reach the call's future, and a SystemExit would end the server."""

        @registry.tool
        def fail() -> str:
            raise kind("on purpose")

        with served(channel_server, registry) as client:
            for number in (1, 2):
                reply = client.call("fail", id=number)
                assert reply["result"]["isError"] is True
                assert text_of(reply) == "The tool failed because of an internal error."
        assert kind.__name__ in caplog.text

    def test_what_they_announce_arrives(self, channel_server: ChannelServer, registry: Registry) -> None:
        """Several threads announce at once, while the loop takes what they announce."""
        uris = [f"note://{number}" for number in range(400)]
        registry.resource("note://{name}")(read_note)

        @registry.tool
        def update(part: int) -> str:
            for uri in uris[part::4]:
                registry.resource_updated(uri)
            return "updated"

        with served(channel_server, registry, version=NEWEST_HANDSHAKE) as client:
            for uri in uris:
                client.send(client.speaker.message("resources/subscribe", {"uri": uri}))
                assert (client.receive())["result"] == {}
            for _ in range(5):
                for part in range(4):
                    client.begin("update", {"part": part}, id=part)
                messages = [client.receive() for _ in range(404)]
                updated = [message["params"]["uri"] for message in messages if "method" in message]
                assert sorted(updated) == sorted(uris)


def read_note(name: str) -> str:
    return name

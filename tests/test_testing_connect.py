"""`connect`: a client and a server joined in memory, without an event loop, on asyncio and on trio."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import attrs
import pytest

import mcp_sansio
import speak
import support
from mcp_sansio import (
    AdapterSet,
    CallTimeout,
    Change,
    ChangeKind,
    Config,
    Exchange,
    McpError,
    Registry,
    ServerError,
    elicit,
    elicit_accept,
    elicit_decline,
)
from mcp_sansio.testing import JoinedClient, PlainClient, Simulation, connect, every_revision

JSON = Any
Over = Literal["channel", "http", "pair"]
#: Every revision, and everything that may lie between the two.
WAYS = [(revision, over) for revision in every_revision for over in ("channel", "http")]
WAYS += [(revision, "pair") for revision in speak.HANDSHAKE]
everywhere = pytest.mark.parametrize(("revision", "over"), WAYS)


@attrs.define
class Bakery:
    """A server, and what its handlers do."""

    registry: Registry = attrs.field(factory=lambda: Registry("bakery", "1.0"))
    running: list[str] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        for tool in (self.price, self.throw_away, self.bake, self.prove):
            self.registry.tool(tool)
        self.registry.resource("bread:/rye")(self.rye)

    def price(self, loaves: int) -> str:
        """What that many loaves cost."""
        return f"{loaves * 3} euros"

    async def throw_away(self, kind: str, ex: Exchange) -> str:
        """Throw away what is left of a kind of bread."""
        answer = await ex.ask("sure", elicit(f"Throw away all {kind} bread?"))
        return f"no more {kind}" if answer.accepted else "kept"

    async def bake(self, loaves: int, ex: Exchange) -> str:
        """Bake, and report."""
        for done in range(loaves):
            await ex.progress(done + 1, loaves)
        await ex.log("warning", "hot")
        return f"{loaves} loaves"

    async def prove(self, ex: Exchange) -> str:
        """Wait until given up."""
        self.running.append("prove")
        try:
            await ex.wait_cancelled()
            return "nobody reads this"
        finally:
            self.running.remove("prove")

    async def rye(self) -> str:
        """Rye."""
        return "dark"


def text(result: Any) -> str:
    """The text of a result."""
    said: str = result.content[0].text
    return said


# Without an event loop


@everywhere
def test_a_plain_test(revision: str, over: Over) -> None:
    with connect(Bakery().registry, revision, over=over) as client:
        assert isinstance(client, PlainClient)
        assert client.initialize().name == "bakery"
        assert client.adapter is not None
        assert client.adapter.version == revision
        assert [tool.name for tool in client.list_tools()] == ["price", "throw_away", "bake", "prove"]
        assert text(client.call_tool("price", {"loaves": 2})) == "6 euros"
        assert client.read_resource("bread:/rye").contents[0].text == "dark"  # type: ignore[union-attr]
        client.ping()


def test_the_revision_is_found_out() -> None:
    with connect(Bakery().registry) as client:
        client.ping()
        assert client.adapter is not None
        assert client.adapter.version == every_revision[0]
        assert client.known is not None


@everywhere
def test_a_tool_that_asks(revision: str, over: Over) -> None:
    asked: list[JSON] = []

    def say(request: JSON) -> JSON:
        asked.append(request["params"]["message"])
        return elicit_accept() if len(asked) == 1 else elicit_decline()

    with connect(Bakery().registry, revision, over=over, on_ask=say) as client:
        assert text(client.call_tool("throw_away", {"kind": "rye"})) == "no more rye"
        assert text(client.call_tool("throw_away", {"kind": "oat"})) == "kept"
    assert asked == ["Throw away all rye bread?", "Throw away all oat bread?"]


@everywhere
def test_what_is_reported(revision: str, over: Over) -> None:
    heard: list[Any] = []
    with connect(
        Bakery().registry,
        revision,
        on_progress=lambda *report: heard.append(report),
        on_log=lambda *log: heard.append(log),
    ) as client:
        client.set_log_level("info")
        assert text(client.call_tool("bake", {"loaves": 2})) == "2 loaves"
    assert heard == [(1, 2, None), (2, 2, None), ("warning", "hot", None)]


@everywhere
def test_time_passes_when_everybody_waits(revision: str, over: Over) -> None:
    bakery = Bakery()
    with connect(bakery.registry, revision, over=over) as client:
        with pytest.raises(CallTimeout):
            client.call_tool("prove", timeout=30)
        assert client.clock() == 30.0
        assert bakery.running == []


@everywhere
def test_time_under_control(revision: str, over: Over) -> None:
    with connect(Bakery().registry, revision, over=over, server_config=Config(call_timeout=45)) as client:
        call = client.start(client.calls.call_tool("prove"))
        client.advance(44.5)
        assert not call.done
        with pytest.raises(RuntimeError, match=r"^it has not ended$"):
            call.result()
        client.advance(0.5)
        with pytest.raises(ServerError, match=r"^the call took longer than 45 seconds"):
            call.result()


@everywhere
def test_a_call_is_given_up(revision: str, over: Over) -> None:
    bakery = Bakery()
    with connect(bakery.registry, revision, over=over) as client:
        call = client.start(client.calls.call_tool("prove"))
        assert bakery.running == ["prove"]
        call.cancel()
        client.advance(0)
        assert (bakery.running, call.done) == ([], True)
        assert text(client.call_tool("price", {"loaves": 1})) == "3 euros"


def test_a_call_is_given_up_before_it_began() -> None:
    with connect(Bakery().registry) as client:
        call = client.simulation.scheduler.start(client.calls.call_tool("prove"))  # type: ignore[union-attr]
        call.cancel()
        assert call.done


@everywhere
def test_calls_in_flight_end_with_the_client(revision: str, over: Over) -> None:
    bakery = Bakery()
    with connect(bakery.registry, revision, over=over) as client:
        call = client.start(client.calls.call_tool("prove"))
        scheduler = client.simulation.scheduler
    assert (bakery.running, call.done, len(scheduler)) == ([], True, 0)


def test_waiting_for_nothing() -> None:
    async def wait(client: PlainClient) -> None:
        await client.simulation.runtime.event().wait()

    with connect(Bakery().registry) as client:
        with pytest.raises(RuntimeError, match=r"^this waits for something that nothing brings about$"):
            client.run(wait(client))
        assert text(client.call_tool("price", {"loaves": 1})) == "3 euros"


@everywhere
def test_changes(revision: str, over: Over) -> None:
    bakery = Bakery()
    with connect(bakery.registry, revision, over=over) as client, client.listen(tools=True) as changes:
        assert list(changes) == []
        bakery.registry.remove_tool("price")
        assert list(changes) == [Change(ChangeKind.TOOLS)]
        assert [tool.name for tool in client.list_tools()] == ["throw_away", "bake", "prove"]


@everywhere
def test_two_clients_of_one_server(revision: str, over: Over) -> None:
    bakery = Bakery()
    simulation = Simulation(bakery.registry)
    with connect(simulation, revision, over=over) as one, connect(simulation, revision, over=over) as two:
        call = one.start(one.calls.call_tool("prove"))
        assert text(two.call_tool("price", {"loaves": 1})) == "3 euros"
        assert not call.done
    assert call.done


@everywhere
async def test_two_clients_on_a_loop(revision: str, over: Over) -> None:
    bakery = Bakery()
    async with connect(bakery.registry, revision, over=over) as one:
        async with connect(one.simulation, revision, over=over) as two:
            assert text(await two.call_tool("price", {"loaves": 1})) == "3 euros"
        assert text(await one.call_tool("price", {"loaves": 1})) == "3 euros"
        assert len(one.simulation.links) == 1


async def test_a_simulation_is_plain_or_on_a_loop() -> None:
    with pytest.raises(TypeError, match=r"^a Simulation is joined by `with`"):
        await connect(Simulation(Bakery().registry)).__aenter__()
    async with connect(Bakery().registry) as client:
        with pytest.raises(TypeError, match=r"^a Simulation is joined by `with`"):
            connect(client.simulation).__enter__()


def test_what_there_is_not_is_refused() -> None:
    unknown: Any = "websocket"
    with pytest.raises(ValueError, match="over='websocket' is none of channel, http, pair"):
        connect(Bakery().registry, over=unknown)
    with pytest.raises(ValueError, match="'1999-01-01' is not among the revisions"):
        connect(Bakery().registry, "1999-01-01")
    for revision in sorted(set(every_revision) - set(speak.HANDSHAKE)):
        for named in (revision, AdapterSet.default().only(revision), AdapterSet.default().by_version[revision]):
            with pytest.raises(ValueError, match=f"over='pair' carries .* a handshake, and {revision} has none"):
                connect(Bakery().registry, named, over="pair")


@everywhere
def test_an_answer_that_is_none_is_named(revision: str, over: Over, caplog: pytest.LogCaptureFixture) -> None:
    agrees: Any = lambda request: True  # noqa: E731 - what somebody writes first
    with connect(Bakery().registry, revision, over=over, on_ask=agrees) as client, pytest.raises(McpError):
        client.call_tool("throw_away", {"kind": "rye"})
    assert caplog.records[-1].exc_info is not None
    said = "the answer to elicitation/create must be a mapping, such as elicit_accept() gives, not True"
    assert str(caplog.records[-1].exc_info[1]) == said


def test_a_handler_that_waits_for_a_loop_is_told_apart() -> None:
    registry = Registry("s", "1")

    class Something:
        def __await__(self) -> Any:
            yield self

        def __repr__(self) -> str:
            return "<something>"

    @registry.tool
    async def wait() -> str:
        """Wait."""
        await Something()
        return "never"

    with (
        connect(registry) as client,
        pytest.raises(TypeError, match=r"nothing to wait for but the Exchange"),
    ):
        client.call_tool("wait")


def test_no_event_loop_is_imported(tmp_path: Path) -> None:
    source = '''
import itertools
import sys
from mcp_sansio import Exchange, Registry, elicit, elicit_accept
from mcp_sansio.testing import connect, every_revision

registry = Registry("bakery", "1.0")

@registry.tool
async def throw_away(kind: str, ex: Exchange) -> str:
    """Ask."""
    answer = await ex.ask("sure", elicit("Sure?"))
    return f"no more {kind}" if answer.accepted else "kept"

for revision, over in itertools.product(every_revision, ("channel", "http")):
    with connect(registry, revision, over=over, on_ask=lambda request: elicit_accept()) as client:
        print(client.call_tool("throw_away", {"kind": "rye"}).content[0].text)
print(sorted(set(sys.modules) & {"asyncio", "trio", "anyio", "selectors", "socket", "ssl", "threading", "time"}))
'''
    program = tmp_path / "plain.py"
    program.write_text(source, "utf-8")
    environment = {**os.environ, "PYTHONPATH": str(Path(mcp_sansio.__file__).parents[1])}
    code = f"import attrs, msgspec, runpy; runpy.run_path({str(program)!r})"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    *said, modules = done.stdout.splitlines()
    assert said == ["no more rye"] * len(every_revision) * 2
    assert not {"asyncio", "trio", "anyio", "selectors", "socket", "ssl"} & set(eval(modules))


# On asyncio, and on trio


async def _whole(revision: str, over: Over, sleep: Any, event: Any) -> None:
    """What holds on any loop: handlers, callbacks and the test wait for whatever it has."""
    bakery = Bakery()
    go_on, heard = event(), []

    @bakery.registry.tool
    async def rise(ex: Exchange) -> str:
        """Rise."""
        await ex.progress(1)
        await go_on.wait()
        await sleep(0.001)
        return "risen"

    async def say(request: JSON) -> JSON:
        await sleep(0.001)
        return elicit_accept()

    async def report(done: float, total: float | None, message: str | None) -> None:
        heard.append(done)
        await sleep(0)
        go_on.set()

    async with connect(bakery.registry, revision, over=over, on_ask=say, on_progress=report) as client:
        assert isinstance(client, JoinedClient)
        assert text(await client.call_tool("throw_away", {"kind": "rye"})) == "no more rye"
        assert text(await client.call_tool("rise")) == "risen"
        with pytest.raises(ServerError):
            await client.call_tool("unknown")
        async with client.listen(tools=True) as changes:
            bakery.registry.remove_tool("price")
            assert await anext(changes) == Change(ChangeKind.TOOLS)
    assert heard == [1]


@everywhere
async def test_on_asyncio(revision: str, over: Over) -> None:
    await _whole(revision, over, asyncio.sleep, asyncio.Event)
    assert len(asyncio.all_tasks()) == 1


@everywhere
async def test_time_on_asyncio(revision: str, over: Over) -> None:
    bakery = Bakery()
    async with connect(bakery.registry, revision, over=over, server_config=Config(call_timeout=45)) as client:
        call = asyncio.create_task(client.call_tool("prove"))  # type: ignore[arg-type,var-annotated]
        await client.advance(44.5)
        assert (bakery.running, call.done()) == (["prove"], False)
        await client.advance(0.5)
        with pytest.raises(ServerError, match=r"^the call took longer than 45 seconds"):
            await call
        assert client.clock() == 45.0


@everywhere
async def test_a_task_that_is_cancelled_gives_its_call_up(revision: str, over: Over) -> None:
    bakery = Bakery()
    async with connect(bakery.registry, revision, over=over) as client:
        call = asyncio.create_task(client.call_tool("prove"))  # type: ignore[arg-type,var-annotated]
        await client.advance(0)
        call.cancel()
        await client.advance(0)
        assert (bakery.running, call.cancelled()) == ([], True)


async def test_what_is_in_flight_ends_with_the_client() -> None:
    bakery = Bakery()
    async with connect(bakery.registry) as client:
        call = asyncio.create_task(client.call_tool("prove"))  # type: ignore[arg-type,var-annotated]
        await client.advance(0)
    with pytest.raises(mcp_sansio.ConnectionLost):
        await call
    assert bakery.running == []
    assert len(asyncio.all_tasks()) == 1


@everywhere
def test_on_trio(revision: str, over: Over) -> None:
    trio = support.need("trio")
    trio.run(_whole, revision, over, trio.sleep, trio.Event)


@everywhere
def test_time_on_trio(revision: str, over: Over) -> None:
    trio = support.need("trio")

    async def main() -> None:
        bakery = Bakery()
        async with connect(bakery.registry, revision, over=over, server_config=Config(call_timeout=45)) as client:
            failures: list[ServerError] = []

            async def call() -> None:
                try:
                    await client.call_tool("prove")
                except ServerError as error:
                    failures.append(error)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(call)
                await client.advance(44.5)
                assert (bakery.running, failures) == (["prove"], [])
                await client.advance(0.5)
            assert [failure.message for failure in failures] == ["the call took longer than 45 seconds"]

    trio.run(main)


def test_without_a_loop_there_is_nothing_to_enter() -> None:
    entering = connect(Registry("s", "1")).__aenter__()
    with pytest.raises(RuntimeError):
        entering.send(None)

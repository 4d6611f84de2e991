"""A client and a server that are joined in memory, for tests with an event loop and for tests without one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Unpack, get_args

import attrs

from mcp_sansio.adapters.base import Adapter
from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.changes import Change
from mcp_sansio.client.api import ClientApi, Listening
from mcp_sansio.client.blocking_api import BlockingApi, BlockingListening
from mcp_sansio.client.callbacks import Work
from mcp_sansio.client.options import ClientOptions, callbacks_of, check_client_options, engine_options_of
from mcp_sansio.registry import Registry
from mcp_sansio.server.config import Config

from .clock import FakeClock
from .links import link_of
from .loops import LoopScheduler, running_scheduler
from .recorded import Over, RecordedConnection, RecordedSession, engine_of, settings_of
from .recorder import Recorder
from .scheduler import Pending, Scheduler
from .simulation import Link, Simulation

T = TypeVar("T")

#: The names of all revisions, newest first: ``@pytest.mark.parametrize("revision", every_revision)``.
every_revision = AdapterSet.default().versions

_DAY = 86_400.0


def connect(
    registry: Registry | Simulation,
    revision: str | Adapter | AdapterSet | None = None,
    *,
    over: Over = "channel",
    headers: Mapping[str, str] = {},
    principal: str | None = None,
    server_config: Config | None = None,
    **options: Unpack[ClientOptions],
) -> Connection:
    """Join a client to a server of `registry`, in memory.

    In a plain test: ``with connect(registry) as client: client.call_tool(…)``. No event loop is needed or imported, and
    handlers wait for nothing but their Exchange. In a test on asyncio or trio: ``async with connect(registry) as
    client: await client.call_tool(…)``. There handlers, callbacks and the test may wait for whatever the loop has. The
    two give a `PlainClient` and a `JoinedClient`, with the methods of every client. Time stands still on both sides
    until ``client.advance(seconds)``.

    `revision` is one (by its name, or an adapter), some, or ``None`` for a client that finds out by itself. Between the
    two lies a channel, Streamable HTTP, or the pair of endpoints that was before it: `over`. `headers` go with every
    request over HTTP, and `principal` is whom the server takes the client for. `server_config` are the limits of the
    server, and `options` those of every client (`ClientOptions`).

    For a server with other options give its `Simulation` for the registry, and for another client of the same server
    ``client.simulation``. Raises ``ValueError`` for a revision or an `over` that there is not, or a pair of endpoints
    for none but revisions without a handshake, and ``TypeError`` for what is no option, and where a simulation and the
    test are not of one kind, plain or on a loop.
    """
    if not isinstance(revision, str | Adapter | AdapterSet | None):
        raise TypeError(
            f"revision is a name, an Adapter or an AdapterSet, not {revision!r}; callbacks have names: on_ask=…"
        )
    check_client_options(options)
    if over not in get_args(Over):
        raise ValueError(f"over={over!r} is none of {', '.join(get_args(Over))}")
    adapters = AdapterSet.default().only(revision) if isinstance(revision, str) else revision
    spoken = AdapterSet([adapters]) if isinstance(adapters, Adapter) else adapters
    if over == "pair" and spoken is not None and spoken.with_handshake() is None:
        raise ValueError(f"over='pair' carries revisions with a handshake, and {', '.join(spoken.versions)} has none")
    return Connection(_Sides(registry, adapters, over, headers, principal, server_config, options))


@attrs.frozen
class _Sides:
    """The arguments of `connect`, from which both sides are made."""

    served: Registry | Simulation
    adapters: Adapter | AdapterSet | None
    over: Over
    headers: Mapping[str, str]
    principal: str | None
    server_config: Config | None
    options: ClientOptions

    def join(self, scheduler: Scheduler | LoopScheduler) -> JoinedClient:
        """A client, and the server if there is none yet, whose tasks run on `scheduler`."""
        simulation = self.served
        if not isinstance(simulation, Simulation):
            simulation = Simulation(simulation, scheduler=scheduler, config=self.server_config)
        if isinstance(simulation.scheduler, Scheduler) is not isinstance(scheduler, Scheduler):
            raise TypeError("a Simulation is joined by `with`, and one that was made on an event loop by `async with`")
        options: dict[str, Any] = {"adapters": self.adapters, **engine_options_of(self.options)}
        engine = engine_of(self.over, self.headers, runtime=simulation.runtime, **options)
        settings = settings_of({"over": self.over, "headers": self.headers, **options}, simulation.server)
        engine.recorder = Recorder(simulation.clock, settings)
        client = JoinedClient(simulation, engine, self.options)
        client.link = link_of(simulation, engine, client, self.principal)
        return client


class Connection:
    """What `connect` gives: entered by ``with`` in a plain test, and by ``async with`` on an event loop."""

    def __init__(self, sides: _Sides) -> None:
        self._sides = sides
        self._entered: list[tuple[Any, JoinedClient]] = []

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if hasattr(PlainClient, name):
                text += ": enter it for a client, as in `with connect(…) as client`"
            raise AttributeError(text, name=name, obj=self)

    def __enter__(self) -> PlainClient:
        return PlainClient(self._enter(Scheduler()))

    def __exit__(self, *raised: object) -> None:
        scheduler, client = self._entered.pop()
        client.give_up()
        client.link.cut()
        scheduler.close()

    async def __aenter__(self) -> JoinedClient:
        return self._enter(running_scheduler())

    async def __aexit__(self, *raised: object) -> None:
        scheduler, client = self._entered.pop()
        await client.close()
        client.link.cut()
        await scheduler.close()

    def _enter(self, scheduler: Scheduler | LoopScheduler) -> JoinedClient:
        client = self._sides.join(scheduler)
        self._entered.append((scheduler, client))
        return client


class JoinedClient(ClientApi):
    """A client whose server is in the same `simulation`, for tests that have an event loop.

    It has the methods of every client. Time stands still until `advance`. `recorder` has what was said.
    """

    #: What lies between the client and the server.
    link: Link

    def __init__(
        self, simulation: Simulation, engine: RecordedConnection | RecordedSession, options: ClientOptions
    ) -> None:
        self.simulation = simulation
        self.recorder = engine.recorder
        super().__init__(engine, **callbacks_of(options))

    @property
    def clock(self) -> FakeClock:
        """The clock of both sides."""
        return self.simulation.clock

    async def advance(self, seconds: float) -> None:
        """Let time pass for both sides, stopping at every deadline on the way."""
        scheduler, end = self.simulation.scheduler, self.clock() + seconds
        assert isinstance(scheduler, LoopScheduler)
        await scheduler.settle()
        while (due := self.simulation.next_deadline()) is not None and due <= end:
            self.simulation.advance_to(due)
            await scheduler.settle()
        self.clock.advance(end - self.clock())

    async def close(self) -> None:
        """See `ClientApi.close`."""
        self.give_up()
        scheduler = self.simulation.scheduler
        if isinstance(scheduler, LoopScheduler):
            await scheduler.settle()

    def give_up(self) -> None:
        """End everything in flight, and tell the server what it is to be told."""
        self._engine.close()
        self.simulation.settle()

    def _flush(self) -> None:
        self.simulation.stir()

    def _spawn(self, work: Work) -> Callable[[], None]:
        scheduler: Any = self.simulation.scheduler

        async def run() -> None:
            await work()

        task = scheduler.spawn(run())
        return lambda: scheduler.cancel(task)


class PlainClient(BlockingApi):
    """A client whose server is in the same `simulation`, for tests that have no event loop.

    It has the methods of every client without their ``await``. When everybody waits, time passes by itself up to the
    next thing that is due, so a call that nothing answers ends in its timeout at once.

    `calls` has the same methods as coroutines, for `start` and `run`, and `recorder` what was said.
    """

    def __init__(self, calls: JoinedClient) -> None:
        super().__init__(calls)
        self.calls = calls
        self.simulation = calls.simulation
        self.recorder = calls.recorder

    @property
    def clock(self) -> FakeClock:
        """The clock of both sides."""
        return self.simulation.clock

    def listen(self, **wanted: Any) -> PlainListening:
        """See `ClientApi.listen`; a plain context manager, and what it gives is iterated over without ``async``."""
        return PlainListening(self, self.calls.listen(**wanted))

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Pending[T]:
        """Begin with ``client.calls.call_tool(…)``, say, and go on: what is given has its result once it has ended."""
        scheduler = self.simulation.scheduler
        assert isinstance(scheduler, Scheduler)
        pending = scheduler.start(coroutine)
        self.simulation.settle()
        return pending

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end: what it returns, or raises. Time passes when everybody waits.

        Raises ``RuntimeError`` where it waits for what nothing brings about, even in a day.
        """
        pending, limit = self.start(coroutine), self.clock() + _DAY
        while not pending.done:
            due = self.simulation.next_deadline()
            if due is None or due > limit:
                pending.cancel()
                raise RuntimeError("this waits for something that nothing brings about")
            self.simulation.advance_to(due)
        return pending.result()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.run(work)

    def advance(self, seconds: float) -> None:
        """Let time pass for both sides, stopping at every deadline on the way."""
        self.simulation.settle()
        self.simulation.advance(seconds)


class PlainListening(BlockingListening):
    """What `PlainClient.listen` gives. Iterate over it for the changes that have come since the last time."""

    def __init__(self, client: PlainClient, listening: Listening) -> None:
        super().__init__(client.run, listening)
        self._client = client

    def __next__(self) -> Change:
        coming = self._client.start(self._listening.__anext__())
        if not coming.done:
            coming.cancel()
            raise StopIteration
        try:
            return coming.result()
        except StopAsyncIteration:
            raise StopIteration from None

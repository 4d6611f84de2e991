"""Simulations whose POSTs are answered by `Server.respond`, or by transactions that know nothing of earlier requests.

What a client and a driver see of the two has to be the same.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Coroutine, Mapping
from typing import Any, cast

from mcp_sansio import Head, HttpTransaction, Pending, Registry, Whole
from mcp_sansio.call import Call
from mcp_sansio.events import CallReceived, Event
from mcp_sansio.server.heads import RequestHeads
from mcp_sansio.testing import Scheduler, SimulatedHttp, Simulation
from mcp_sansio.testing.scheduler import Task
from mcp_sansio.types import JSON
from mcp_sansio.wire.headers import Headers
from mcp_sansio.wire.json import encode

Pairs = list[tuple[bytes, bytes]]
#: How far a call has come when a driver's `start` returns: loops differ in that.
STARTS = ("not at all", "its first step", "as far as it can")


class Stepping(Scheduler):
    """A scheduler that can take a task's first step at once."""

    def begin(self, coroutine: Coroutine[Any, Any, None], how_far: str) -> Task:
        """Start `coroutine`, so far as one of `STARTS` says."""
        task = self.spawn(coroutine)
        if how_far == "its first step":
            self._ready.remove(task)
            self._step(task, lambda: coroutine.send(None))
        elif how_far == "as far as it can":
            self.run()
        return task


class Forgetful(Simulation):
    """Each request is the first: nothing that was remembered of others is there any more."""

    def http(self, body: JSON | bytes = b"", **options: Any) -> SimulatedHttp:
        """See `Simulation.http`."""
        self.server.familiar.forget()
        self.server.heads = RequestHeads(self.server.config, self.server.adapters)
        return super().http(body, **options)


class Responding(Simulation):
    """Each POST is answered by `Server.respond`, whose `start` takes a call so `far` as one of `STARTS` says."""

    def __init__(self, registry: Registry, *, far: str = STARTS[1], **options: Any) -> None:
        super().__init__(registry, scheduler=Stepping(), **options)
        self.far = far
        #: For each POST, whether its response was there at once.
        self.at_once: list[bool] = []

    def http(
        self,
        body: JSON | bytes = b"",
        *,
        method: str = "POST",
        target: str = "/mcp",
        headers: Mapping[str, str] = {},
        **options: Any,
    ) -> SimulatedHttp:
        """See `Simulation.http`."""
        if method != "POST":
            return super().http(body, method=method, target=target, headers=headers, **options)
        exchange = Responded(self, options)
        exchange.request(body, method=method, target=target, headers=headers)
        return exchange


class Responded(SimulatedHttp):
    """A POST that `Server.respond` is asked for, and its response as far as it has come."""

    simulation: Responding

    def __init__(self, simulation: Responding, options: dict[str, Any]) -> None:
        super().__init__(simulation, cast("HttpTransaction", None))
        self._options = options

    def request(self, body: JSON | bytes, *, method: str, target: str, headers: Mapping[str, str]) -> None:
        """See `SimulatedHttp.request`."""
        simulation = self.simulation
        data = body if isinstance(body, bytes) else encode(body)
        given = self._given(target, headers_of(headers), data, **self._options)
        simulation.at_once.append(isinstance(given, Whole))
        if isinstance(given, Whole):
            self.head, self.body, self.ended = Head(given.status, given.headers), given.body, True
        else:
            self.engine = given
            simulation.add(self)
        simulation.settle()

    def _given(
        self, target: str, headers: Pairs, data: bytes, *, loopback: bool = False, **options: Any
    ) -> Whole | HttpTransaction:
        server, wake = self.simulation.server, self.simulation.stir
        head = server.admit(target, headers, loopback=loopback)
        if head is None:
            engine = server.http_transaction(wake=wake, loopback=loopback, **options)
            engine.receive_request("POST", target, Headers.of_bytes(headers))
            engine.receive_end(data)
            return engine
        given = server.respond(head, data, **options)
        return given.begin(self.start, wake) if isinstance(given, Pending) else given

    def start(self, call: Call, work: Awaitable[None]) -> None:
        """See `Pending.begin`."""
        coroutine = cast("Coroutine[Any, Any, None]", work)
        self.happened.append(CallReceived(call, lambda: coroutine))
        scheduler = cast("Stepping", self.simulation.scheduler)
        self._tasks[call] = scheduler.begin(coroutine, self.simulation.far)

    def disconnect(self) -> None:
        """See `SimulatedHttp.disconnect`."""
        if self.engine is not None:
            super().disconnect()


def headers_of(given: Mapping[str, str]) -> Pairs:
    """The headers of a request that a `Simulation` would send, as they come over the wire."""
    usual = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    held = usual | {name.lower(): value for name, value in given.items()}
    return [(name.encode(), value.encode("latin-1")) for name, value in held.items()]


def nameless(body: bytes) -> bytes:
    """A body without the names of streams, which are drawn."""
    return re.sub(rb"(?m)^id: [0-9a-f]{32}-", b"id: stream-", body)


def _is_nobodys(event: Event) -> bool:
    """Whether this is a call that a driver need not be handed, since it waits for nothing."""
    return isinstance(event, CallReceived) and event.call.tool is not None and event.call.tool.bound.never_waits


def seen(exchange: SimulatedHttp) -> tuple[int | None, Any, bytes, bool, list[str]]:
    """All that a client and a driver see of a request, but for how many streams there were before."""
    head = exchange.head
    happened = [repr(event) for event in exchange.happened if not _is_nobodys(event)]
    return exchange.status, None if head is None else head.headers, nameless(exchange.body), exchange.ended, happened

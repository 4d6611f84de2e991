"""What trio lends to the core's server role: its clock, its events, its threads, and the way back from those."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from mcp_sansio import Runtime
from mcp_sansio.driving import Orphans, guarded, run_for_another

from .loop import Loop, Task

logger = logging.getLogger("mcp_sansio_trio")

T = TypeVar("T")

#: Plain ``def`` handlers that run at once. More wait for their turn.
_THREADS = 64


class ServingLoop(Loop):
    """The loop of one connection. See `mcp_sansio.response_driver.ServingLoop`."""

    now = Loop.time
    event = staticmethod(trio.Event)

    def __init__(self) -> None:
        super().__init__()
        self.orphans = Orphans()

    def start(self, work: Awaitable[None]) -> Task:
        """See `Loop.start`. Whatever becomes of a handler, its server goes on."""
        return super().start(guarded(work, trio.Cancelled, logger))


def runtime_of(now: Callable[[], float], run_in_loop: Callable[[Callable[[], None]], None]) -> Runtime:
    """What a server on trio lends to the core. A call that is cancelled is let go, and its thread goes on."""
    threads = trio.CapacityLimiter(_THREADS)

    async def run_sync(function: Callable[[], T], /) -> T:
        return await trio.to_thread.run_sync(run_for_another, function, abandon_on_cancel=True, limiter=threads)

    return Runtime(
        now=now,
        token_bytes=secrets.token_bytes,
        event=trio.Event,
        run_sync=run_sync,
        run_in_loop=run_in_loop,
        wall_clock=time.time,
        pause=trio.lowlevel.checkpoint,
    )

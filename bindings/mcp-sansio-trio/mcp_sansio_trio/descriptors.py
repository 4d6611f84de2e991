"""What standard input and output need of trio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

import trio

from mcp_sansio_stdio.means import WaitingLoop

from .loop import Loop

T = TypeVar("T")


class StdioLoop(Loop, WaitingLoop):
    """A `Loop` for descriptors and processes."""

    event = trio.Event
    writable = staticmethod(trio.lowlevel.wait_writable)

    async def readable(self, descriptor: int, /) -> None:
        """See `mcp_sansio_stdio.means.WaitingLoop`. The calls that were read before have their first step first."""
        await trio.lowlevel.wait_readable(descriptor)
        await trio.lowlevel.checkpoint()

    async def in_a_thread(self, function: Callable[[], T], /) -> T:
        """See `mcp_sansio_stdio.means.Means`."""
        return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=trio.CapacityLimiter(inf))

    async def within(self, seconds: float, wait: Callable[[], Awaitable[object]], /) -> None:
        """See `mcp_sansio_stdio.means.Means`."""
        with trio.move_on_after(seconds):
            await wait()

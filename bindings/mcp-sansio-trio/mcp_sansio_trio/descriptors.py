"""Reading and writing file descriptors on trio, without blocking it; see `mcp_sansio_stdio.descriptors` for how.

What cannot be polled has a thread: a regular file, the output to a terminal (which may block all the same), and
everything on Windows. What is under way there when nobody waits for it any more is left to its thread.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from math import inf
from typing import TypeVar

import trio

from mcp_sansio.stream_driver import Sink, Source, StreamDriver, TaskSink, TaskSource
from mcp_sansio_stdio.descriptors import PIECE, can_poll_writes, has_hung_up, write_piece, writer

from .loop import Loop

T = TypeVar("T")


async def in_a_thread(function: Callable[[], T]) -> T:
    """Do what blocks for as long as it likes. A cancellation leaves it to its thread."""
    return await trio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=trio.CapacityLimiter(inf))


def attach(driver: StreamDriver, loop: Loop, source: int, sink: int) -> None:
    """Connect `driver` with its peer at the other ends of two descriptors. Raises ``OSError`` for what is none."""
    driver.sink = _open_sink(driver, loop, sink)
    driver.source = open_source(loop, source, driver.receive)


def open_source(loop: Loop, descriptor: int, receive: Callable[[bytes], None]) -> Source:
    """Read `descriptor`: `receive` gets what arrives, and ``b""`` at the end, or for an error."""
    read, hung_up = partial(_read, descriptor), partial(has_hung_up, descriptor)
    return TaskSource(read, receive, start=loop.start, event=trio.Event, hung_up=hung_up)


def _open_sink(driver: StreamDriver, loop: Loop, descriptor: int) -> Sink:
    if sys.platform == "win32" or not can_poll_writes(descriptor):
        later = partial(_write_in_a_thread, descriptor)
        return TaskSink(later, driver.feed, driver.broken, start=loop.start)
    now, release = writer(descriptor)

    async def later_then(data: memoryview) -> int:
        await trio.lowlevel.wait_writable(descriptor)
        return now(data)

    return TaskSink(later_then, driver.feed, driver.broken, start=loop.start, now=now, release=release)


async def _write_in_a_thread(descriptor: int, data: memoryview) -> int:
    return await in_a_thread(partial(write_piece, descriptor, data))


async def _read(descriptor: int) -> bytes:
    while True:
        try:
            await trio.lowlevel.wait_readable(descriptor)
        except OSError:
            return await in_a_thread(partial(os.read, descriptor, PIECE))
        try:
            return os.read(descriptor, PIECE)
        except (BlockingIOError, InterruptedError):
            pass  # it was for somebody else

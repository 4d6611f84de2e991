"""Reading and writing file descriptors on asyncio, without blocking the loop; see `descriptors` for how.

What is not polled has a thread: a regular file, the output to a terminal (which may block all the same), and everything
on Windows.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from functools import partial

from mcp_sansio.stream_driver import Sink, Source, TaskSink, TaskSource

from ._threads import DaemonThreads
from .descriptors import PIECE, can_poll_writes, write_piece, writer
from .means import PolledSource


def open_source(descriptor: int, receive: Callable[[bytes], None]) -> Source:
    """Read `descriptor` on the running loop: `receive` gets what arrives, and ``b""`` at the end.

    An error counts as the end, since nothing more will come. The descriptor stays open when the source is closed, and a
    read that is under way is left to its thread.
    """
    loop = asyncio.get_running_loop()
    source = PolledSource(loop, descriptor, receive)
    try:
        source.resume()
    except (OSError, NotImplementedError):
        threads = DaemonThreads(1)
        return TaskSource(
            lambda: loop.run_in_executor(threads, os.read, descriptor, PIECE),
            receive,
            start=asyncio.ensure_future,
            event=asyncio.Event,
            release=threads.shutdown,
        )
    return source


def open_sink(descriptor: int, written: Callable[[], None], broken: Callable[[], None]) -> Sink:
    """Write `descriptor` on the running loop.

    `written` is called when what had to wait is written, `broken` when nobody can read it, which may be within `write`.
    The descriptor stays open when the sink is closed. Raises ``OSError`` for what is no open descriptor.
    """
    loop = asyncio.get_running_loop()
    tell = partial(loop.call_soon, written)
    if can_poll_writes(descriptor):
        try:
            loop.add_writer(descriptor, tell)  # to see whether it can be polled
            loop.remove_writer(descriptor)
        except NotImplementedError:
            pass  # a loop that polls nothing
        else:
            now, release = writer(descriptor)
            later = partial(_later, loop, descriptor, now)
            return TaskSink(later, tell, broken, start=asyncio.ensure_future, now=now, release=release)
    threads = DaemonThreads(1)
    return TaskSink(
        lambda data: loop.run_in_executor(threads, write_piece, descriptor, data),
        tell,
        broken,
        start=asyncio.ensure_future,
        release=threads.shutdown,
    )


async def _later(
    loop: asyncio.AbstractEventLoop, descriptor: int, now: Callable[[memoryview], int], data: memoryview
) -> int:
    writable = asyncio.Event()
    loop.add_writer(descriptor, writable.set)
    try:
        await writable.wait()
    finally:
        loop.remove_writer(descriptor)
    return now(data)

"""The public functions: a process that is a server, and a server on any two streams of bytes."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Unpack

from mcp_sansio import Registry, Runtime, Server, ServerOptions, StreamServing

from ._eager import starter, within
from ._loop import Loop
from ._threads import DaemonThreads
from .descriptors import HasDescriptor, descriptor_of
from .means import attach
from .takeover import end_without_waiting, private_stdio, signals_to

#: Plain ``def`` handlers that run at once. More wait for their turn.
_THREADS = 64
#: Seconds that what handlers left running has to clean up.
_UNWINDING = 0.25


def run_stdio(registry: Registry, **options: Unpack[ServerOptions]) -> None:
    """Serve `registry` on the standard input and output, and return when the client closes the input.

    It runs an event loop of its own. `options` are those of `ServerOptions`. Raises ``RuntimeError``
    within a running loop.

    While it serves, the standard output belongs to the protocol: what anything else prints, child processes included,
    goes to the standard error, and the standard input is empty for everybody else. Both come back at the end.

    The end comes with the end of the input, with an output that nobody reads, or with SIGINT or SIGTERM where the
    program has no handler for them. Calls in flight then have half a second before they are cancelled, and replies are
    written for as long as the client reads. Nothing that a handler left running keeps the process: plain ``def``
    handlers run in daemon threads, tasks that ignore their cancellation are abandoned, and threads of the program's own
    that are no daemons have half a second after the main thread has ended.

    Source: basic/transports, "stdio"; basic/lifecycle, "Shutdown".
    """
    _refuse_a_running_loop()
    with private_stdio() as (source, sink):
        loop = asyncio.new_event_loop()
        # asyncio.run would wait without limit for tasks that ignore their cancellation, and for the pool of to_thread.
        threads = DaemonThreads(_THREADS)
        loop.set_default_executor(threads)
        try:
            loop.run_until_complete(_run(registry, source, sink, threads, options))
        finally:
            loop.run_until_complete(_abandon_the_rest())
            loop.close()
    end_without_waiting()


async def serve_stdio(
    served: Registry | Server, source: int | HasDescriptor, sink: int | HasDescriptor, **options: Unpack[ServerOptions]
) -> None:
    """Serve one client that writes to `source` and reads from `sink`, on the running loop, until `source` ends.

    Each is a descriptor, or has one: the end of a pipe, a binary file, a socket, which may be both. The descriptors are
    used as they are (what a file object has buffered is not seen) and are left open. `served` is a `Registry`, to which
    the `ServerOptions` belong, or a `Server` that other clients share. Cancel the task to end it early.

    The end is as with `run_stdio`, except that signals and the process's own streams are left alone. Raises
    ``TypeError`` for options beside a `Server`.
    """
    threads = DaemonThreads(_THREADS)
    try:
        server = StreamServing.server_of(served, partial(_runtime, threads), options)
        await _served(_serving(server, descriptor_of(source), descriptor_of(sink)))
    finally:
        threads.shutdown()


def _refuse_a_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError("run_stdio runs an event loop of its own; where one is running already, await serve_stdio")


async def _run(registry: Registry, source: int, sink: int, threads: DaemonThreads, options: ServerOptions) -> None:
    loop = asyncio.get_running_loop()
    serving = _serving(Server(registry, runtime=_runtime(threads), **options), source, sink)
    noticed: list[int] = []

    def wake_up(number: int) -> None:
        # For its wake-up: a signal that comes just before the loop waits would be noticed only after that.
        if sys.platform != "win32":
            loop.add_signal_handler(number, lambda: None)
            noticed.append(number)

    with signals_to(partial(loop.call_soon_threadsafe, serving.shut_down), wake_up):
        try:
            await _served(serving)
        finally:
            for number in noticed:
                loop.remove_signal_handler(number)


class _Serving(StreamServing):
    """Takes in what comes as the task that serves.

    asyncio calls back outside of any task. But a handler that runs where its call comes in may ask for its task, as the
    scopes of anyio do.
    """

    as_the_task: Callable[..., None]

    def receive(self, data: bytes) -> None:
        """See `StreamDriver.receive`."""
        self.as_the_task(super().receive, data)

    def feed(self) -> None:
        """See `StreamDriver.feed`."""
        self.as_the_task(super().feed)


def _serving(server: Server, source: int, sink: int) -> StreamServing:
    loop, means = asyncio.get_running_loop(), Loop()
    serving = _Serving(server, means, start=starter(loop), logger=logging.getLogger("mcp_sansio_stdio"))
    serving.as_the_task = partial(within, asyncio.current_task(), loop)
    attach(serving, means, source, sink)
    return serving


async def _served(serving: StreamServing) -> None:
    try:
        await serving.serve()
    finally:
        await serving.leave()


def _runtime(threads: DaemonThreads) -> Runtime:
    loop, here = asyncio.get_running_loop(), threading.get_ident()

    def run_in_loop(function: Callable[[], None], /) -> None:
        function() if threading.get_ident() == here else loop.call_soon_threadsafe(function)

    return Runtime(
        now=loop.time,
        token_bytes=os.urandom,
        event=asyncio.Event,
        run_sync=lambda function: loop.run_in_executor(threads, contextvars.copy_context().run, function),
        run_in_loop=run_in_loop,
        wall_clock=time.time,
        pause=partial(asyncio.sleep, 0),
    )


async def _abandon_the_rest() -> None:
    """Cancel what handlers left running on the loop, and wait a moment for it."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest:
        await asyncio.wait(rest, timeout=_UNWINDING)
    try:
        await asyncio.wait_for(asyncio.get_running_loop().shutdown_asyncgens(), _UNWINDING)
    except TimeoutError:
        pass  # a generator that does not end keeps nobody

"""A process that is a server, on trio, and a server on any two streams of bytes."""

from __future__ import annotations

import logging
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Unpack

import trio

from mcp_sansio import Registry, Server, ServerOptions, StreamServing
from mcp_sansio.driving import guarded
from mcp_sansio_stdio.descriptors import HasDescriptor, descriptor_of
from mcp_sansio_stdio.means import attach
from mcp_sansio_stdio.takeover import end_without_waiting, private_stdio, signals_to

from .descriptors import StdioLoop
from .loop import Task
from .runtime import runtime_of

Stop = Callable[[], object]


def run_stdio(registry: Registry, **options: Unpack[ServerOptions]) -> None:
    """Serve `registry` on the standard input and output, and return when the client closes the input.

    It is a ``trio.run`` of its own. `options` are those of `ServerOptions`. Raises ``RuntimeError`` within another.

    While it serves, the standard output belongs to the protocol: what anything else prints, child processes included,
    goes to the standard error, and the standard input is empty for everybody else. Both come back at the end.

    The end comes with the end of the input, with an output that nobody reads, or with SIGINT or SIGTERM where the
    program has no handler for them. Calls in flight then have half a second before they are cancelled, and replies are
    written for as long as the client reads. Plain ``def`` handlers do not keep the process, and threads of the
    program's own that are no daemons do so for half a second. A handler that shields itself from its cancellation is
    waited for, as everywhere in trio.

    Source: basic/transports, "stdio"; basic/lifecycle, "Shutdown".
    """
    stops: list[Stop] = [partial(signal.raise_signal, signal.SIGTERM)]  # while there is nothing to stop
    with private_stdio() as (source, sink), signals_to(lambda: stops[-1]()):
        trio.run(_serve, registry, source, sink, options, stops)
    end_without_waiting()


async def serve_stdio(
    served: Registry | Server, source: int | HasDescriptor, sink: int | HasDescriptor, **options: Unpack[ServerOptions]
) -> None:
    """Serve one client that writes to `source` and reads from `sink`, until `source` ends.

    Each is a descriptor, or has one: the end of a pipe, a binary file, a socket, which may be both. The descriptors are
    used as they are (what a file object has buffered is not seen) and are left open. `served` is a `Registry`, to which
    the `ServerOptions` belong, or a `Server` that other clients share. Cancel it to end it early: what is ready to be
    written still is, for as long as the client reads.

    The end is as with `run_stdio`, except that signals and the process's own streams are left alone. Raises
    ``TypeError`` for options beside a `Server`.
    """
    await _serve(served, descriptor_of(source), descriptor_of(sink), options, [])


async def _serve(served: Registry | Server, source: int, sink: int, options: ServerOptions, stops: list[Stop]) -> None:
    async with StdioLoop() as loop:
        server = StreamServing.server_of(served, partial(runtime_of, loop.time, loop.run_in_loop), options)
        logger = logging.getLogger("mcp_sansio_trio")

        def start(work: Awaitable[None]) -> Task:
            return loop.start(guarded(work, trio.Cancelled, logger))

        serving = StreamServing(server, loop, start=start, logger=logger)
        attach(serving, loop, source, sink)
        stops.append(partial(loop.call_from_anywhere, serving.shut_down))
        try:
            await serving.serve()
        finally:
            with trio.CancelScope(shield=True):
                await serving.leave()

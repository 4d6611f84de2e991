"""A process that is a server, without an event loop, and a server on any two streams of bytes."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Unpack

from mcp_sansio import Registry, Server, ServerOptions, StreamServing
from mcp_sansio.waits import check_handlers
from mcp_sansio_stdio.descriptors import HasDescriptor, descriptor_of
from mcp_sansio_stdio.means import attach
from mcp_sansio_stdio.takeover import end_without_waiting, private_stdio, signals_to

from ._loop import Loop


def run_stdio(registry: Registry, **options: Unpack[ServerOptions]) -> None:
    """Serve `registry` on the standard input and output, and return when the client closes the input.

    The calling thread does it, without an event loop. Plain ``def`` handlers run in threads of their own. ``async``
    ones run as they are, and may wait for their Exchange alone. `options` are those of `ServerOptions`. Raises
    `DeclarationError` for a handler that can be seen to wait for an event loop.

    While it serves, the standard output belongs to the protocol: what anything else prints, child processes included,
    goes to the standard error, and the standard input is empty for everybody else. Both come back at the end.

    The end comes with the end of the input, with an output that nobody reads, or with SIGINT or SIGTERM where the
    program has no handler for them. Calls in flight then have half a second before they are cancelled, and replies are
    written for as long as the client reads. Nothing that a handler left running keeps the process: plain ``def``
    handlers run in daemon threads, ``async`` ones that ignore their cancellation are abandoned, and threads of the
    program's own that are no daemons have half a second after the main thread has ended.

    Source: basic/transports, "stdio"; basic/lifecycle, "Shutdown".
    """
    stops: list[Callable[[], object]] = [partial(signal.raise_signal, signal.SIGTERM)]  # while there is nothing to stop
    with private_stdio() as (source, sink), signals_to(lambda: stops[-1]()):
        serve_stdio(registry, source, sink, ready=stops.append, **options)
    end_without_waiting()


def serve_stdio(
    served: Registry | Server,
    source: int | HasDescriptor,
    sink: int | HasDescriptor,
    *,
    ready: Callable[[Callable[[], object]], object] = lambda stop: None,
    **options: Unpack[ServerOptions],
) -> None:
    """Serve one client that writes to `source` and reads from `sink`, in the calling thread, until `source` ends.

    Each is a descriptor, or has one: the end of a pipe, a binary file, a socket, which may be both. The descriptors are
    used as they are (what a file object has buffered is not seen) and are left open. `served` is a `Registry`, to which
    the `ServerOptions` belong, or a `Server`, whose runtime has the `Event` and the `run_outside` of
    `mcp_sansio.stepping`; it may have other clients, but none in another thread.

    `ready` is called once it serves, with a function that ends it early, which any thread and any signal handler may
    call. The end is as with `run_stdio`, except that signals and the process's own streams are left alone. Raises
    `DeclarationError` as `run_stdio` does, and ``TypeError`` for options beside a `Server`.
    """
    if not isinstance(served, Server):
        check_handlers(served)
    with closing(Loop()) as loop:
        server = StreamServing.server_of(served, loop.runtime, options)
        serving = StreamServing(server, loop, start=loop.begin, logger=logging.getLogger("mcp_sansio_sync"))
        attach(serving, loop, descriptor_of(source), descriptor_of(sink))
        ready(partial(loop.call_from_anywhere, serving.stop if server is served else serving.shut_down))
        try:
            loop.run(serving.serve())
        finally:
            loop.run(serving.leave())

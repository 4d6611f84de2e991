"""A WSGI application that serves a registry, each request in the thread that brings it.

That thread runs the handlers of its request and sends what they say; where a handler waits for the client, it waits.
One lock is around the core. It is let go of while a plain function runs, while something is sent and while nothing is
to be done, so an ``async def`` that computes for long keeps the others waiting, as it does on an event loop.

Rejected: a thread that has the server to itself, as a client's engine has one. Handlers would run in other threads than
their requests, where a framework's connections and contexts are not; and many a WSGI server forks after it has loaded
the application, or allows no threads of one's own.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from http import HTTPStatus
from typing import Any, Unpack, cast

import attrs

from mcp_sansio import BlockingTransaction, Body, Config, End, Head, Hub, Part, Registry, Runtime, Server, ServerOptions
from mcp_sansio.hosting import checked_principal, is_loopback
from mcp_sansio.stepping import Event, run_outside, run_sync
from mcp_sansio.waits import check_handlers

from ._environ import Environ, headers_of, length_of, path_of, target_of

_PHRASES = {status.value: status.phrase for status in HTTPStatus}
#: What WSGI wants to be said to a client whose request never was complete.
_GONE = Head(400, (("Content-Length", "0"),))


def remote_user(environ: Environ) -> str | None:
    """Who the request is from, as the WSGI server or a middleware found."""
    return environ.get("REMOTE_USER") or None


class Application:
    """Serves `registry` over Streamable HTTP, wherever it is mounted. `options` are those of `ServerOptions`.

    `path` is the only one that is served, with and without a slash at its end; unless given, every path is, which is
    for an application that is mounted at one. `allowed_origins` (``https://app.example``) and `allowed_hosts`
    (``mcp.example``, with a port or without) replace the members of that name in ``config``.

    `sse_path` and `message_path` are the pair of addresses of the first HTTP transport, which is served where
    `sse_path` is given. Each client holds a thread, which runs the handlers of all its calls unless a loop is lent.

    `principal` is called with each request's environment and gives the user whom it is from, or ``None``. Sessions,
    streams, and the state of questions belong to that user. Unless given, it is ``REMOTE_USER``.

    A stream of changes holds the thread of its request for as long as it is open. So there are none, and the server
    says so, unless `announces_changes` is true; then have as many threads as ``Config.max_streams`` admits, and more.

    `loop` is a running asyncio loop in another thread. Handlers that are ``async`` run there, and may wait for whatever
    it has. So may a store, and a `hub`, which needs one. Without it an ``async`` handler waits for its Exchange alone.

    Raises `DeclarationError` for a handler that can be seen to wait for an event loop where none is lent, and
    ``ValueError`` for a `hub` without one, and for an `sse_path` where no revision that is served has that transport.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        path: str | None = None,
        sse_path: str | None = None,
        message_path: str = "/messages",
        allowed_origins: Collection[str] | None = None,
        allowed_hosts: Collection[str] | None = None,
        announces_changes: bool = False,
        principal: Callable[[Environ], str | None] = remote_user,
        hub: Hub | None = None,
        loop: Any = None,
        **options: Unpack[ServerOptions],
    ) -> None:
        if loop is None:
            if hub is not None:
                raise ValueError("a hub has to be waited for: lend a loop, as in Application(registry, loop=loop, …)")
            check_handlers(registry)
        config = Config.of(options.get("config"), allowed_origins=allowed_origins, allowed_hosts=allowed_hosts)
        options["config"] = attrs.evolve(config, announces_changes=announces_changes)
        self._path = None if path is None else path.rstrip("/")
        self._principal = principal
        self._lock = threading.RLock()
        self._lent = None if loop is None else _lent(loop, self._lock)
        self.server = Server(registry, runtime=self._runtime(), hub=hub, **options)
        self._pair: tuple[str, ...] = ()
        if sse_path is not None:
            self._pair = (sse_path.rstrip("/"), message_path.rstrip("/"))
            self.server.pair_transaction(message_path="")  # refuses now what every request would be refused for
        if self._lent is not None and hub is not None:
            self._lent.keep_up(self.server)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Serve one request, as PEP 3333 has it."""
        path = path_of(environ).rstrip("/")
        is_of_pair = path in self._pair
        if not is_of_pair and self._path is not None and path != self._path:
            start_response("404 Not Found", [("Content-Type", "text/plain"), ("Content-Length", "9")])
            return [b"Not Found"]
        transaction = BlockingTransaction(
            self.server,
            threading.Condition(self._lock),
            loop=self._lent,
            message_path=self._pair[1] if is_of_pair else None,
            principal=checked_principal(self._principal(environ)),
            loopback=is_loopback((environ.get("REMOTE_ADDR", ""), 0)),
            request=environ,
        )
        method, read = environ["REQUEST_METHOD"], environ["wsgi.input"].read
        transaction.receive(method, target_of(environ), headers_of(environ), read, length_of(environ))
        parts = transaction.next_parts()
        head = cast("Head", parts[0]) if parts else _GONE
        start_response(f"{head.status} {_PHRASES.get(head.status, 'Unknown')}", list(head.headers))
        return Response(transaction, parts)

    def shutdown(self) -> None:
        """End open streams as their revision wants it, and refuse new requests. Calls go on. Any thread may do it."""
        self._run_locked(self.server.shutdown)

    def _runtime(self) -> Runtime:
        return Runtime(
            now=time.monotonic,
            token_bytes=secrets.token_bytes,
            event=Event,
            run_sync=run_sync,
            run_in_loop=self._run_locked,
            wall_clock=time.time,
            # A job is done without the lock, so that who waits for it has a chance.
            pause=partial(run_outside, partial(time.sleep, 0)) if self._lent is None else self._lent.pause,
        )

    def _run_locked(self, function: Callable[[], None], /) -> None:
        with self._lock:
            function()


def _lent(loop: Any, lock: threading.RLock) -> Any:
    from ._lent import LentLoop  # nobody else needs asyncio

    return LentLoop(loop, lock)


class Response:
    """The body of a response, for the WSGI server to iterate and to close."""

    def __init__(self, transaction: BlockingTransaction, parts: list[Part]) -> None:
        self._transaction = transaction
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        parts = self._parts
        while parts:
            data = b"".join([part.data for part in parts if isinstance(part, Body)])
            if data:
                yield data
            parts = [] if isinstance(parts[-1], End) else self._transaction.next_parts()

    def close(self) -> None:
        """See PEP 3333: called at the end, whether the client has all of it or has left."""
        self._transaction.leave()

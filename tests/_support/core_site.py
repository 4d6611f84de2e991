"""The core at a socket: a server for clients to be tried against, which is nobody's binding.

A `Simulation` runs the handlers, so they wait for nothing but their Exchange and the events that it makes, and its
clock stands still. Threads carry the bytes.
"""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from by_hand import Accepted, Request, listening, plain
from flags import PATIENCE
from mcp_sansio import Registry
from mcp_sansio.testing import Scheduler, Simulation

T = TypeVar("T")


class CoreSite:
    """A simulated server that is being served at `url`."""

    def __init__(self, build: Callable[[Any], Registry], options: Any) -> None:
        self.url = ""
        self._lock = threading.RLock()
        self._waiting: set[socket.socket] = set()
        self._connections: set[Accepted] = set()
        self._build, self._options = build, options
        self._begin()

    def _begin(self) -> None:
        scheduler = Scheduler()
        #: Makes what handlers may wait for. Set it by `do`.
        self.event = scheduler.event
        self._simulation = Simulation(self._build(scheduler.event), scheduler=scheduler, **self._options)
        self.server = self._simulation.server

    def restart(self) -> None:
        """Be another server at the same address, which knows nothing and has no connection."""
        with self._lock:
            self._begin()
            connections, self._connections = self._connections, set()
        for connection in connections:
            connection.shut()  # and its own thread closes it

    def do(self, work: Callable[[], T]) -> T:
        """Do something to the server, and all that it brings about."""
        with self._lock:
            result = work()
            self._simulation.settle()
            for waker in self._waiting:
                with suppress(BlockingIOError):  # who has not looked for so long finds enough there to wake it
                    waker.send(b"!")
        return result

    def answer(self, request: Request, connection: Accepted) -> None:
        """See `by_hand.Answer`."""
        assert "accept" in request.headers or request.method == "DELETE", request
        assert ("content-type" in request.headers) is (request.method == "POST"), request
        path = request.path.partition("?")[0].rstrip("/")
        is_pair = path in ("/sse", "/messages")
        if is_pair and self.server.adapters.with_handshake() is None:
            connection.send(plain(404))
            return
        mine, waker = socket.socketpair()
        waker.setblocking(False)
        with mine, waker:
            with self._lock:
                self._connections.add(connection)
                self._waiting.add(waker)
                simulation = self._simulation
            send = simulation.pair if is_pair else simulation.http
            try:
                exchange = self.do(
                    lambda: send(request.body, method=request.method, target=request.path, headers=request.headers)
                )
                self._carry(exchange, connection, mine)
                with self._lock:
                    simulation.remove(exchange)
            except ConnectionError:
                self.do(exchange.disconnect)
                connection.close()
            finally:
                with self._lock:
                    self._waiting.remove(waker)

    def _carry(self, exchange: Any, connection: Accepted, woken: socket.socket) -> None:
        """Send the response as it comes, to its end."""
        is_chunked = False
        while True:
            with self._lock:
                new = exchange.unread()
            if new is None:
                if not self._wait(connection, woken):
                    raise ConnectionError
                continue
            if new.head is not None:
                is_chunked = not any(name == "Content-Length" for name, _ in new.head.headers)
                connection.send(_head(new.head, is_chunked))
            if new.data:
                connection.send(_chunk(new.data) if is_chunked else new.data)
            if new.ended:
                connection.send(b"0\r\n\r\n" if is_chunked else b"")
                return

    @staticmethod
    def _wait(connection: Accepted, woken: socket.socket) -> bool:
        """Wait for something new to send. False where the client has gone."""
        ready, _, _ = select.select([connection.socket, woken], [], [], PATIENCE)
        assert ready, "nothing happened"
        if woken in ready:
            woken.recv(2**16)
            return True
        return bool(connection.socket.recv(1, socket.MSG_PEEK))


def _head(head: Any, is_chunked: bool) -> bytes:
    lines = [f"HTTP/1.1 {head.status} Whatever", *(f"{name}: {value}" for name, value in head.headers)]
    if is_chunked and head.status not in (204, 304):
        lines.append("Transfer-Encoding: chunked")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@contextmanager
def core_site(build: Callable[[Any], Registry], **options: Any) -> Iterator[CoreSite]:
    """Serve what `build` makes, at ``/mcp`` and as the pair ``/sse``. `build` is given what makes events.

    `options` are those of `mcp_sansio.Server`.
    """
    site = CoreSite(build, options)
    with listening(site.answer) as site.url:
        yield site

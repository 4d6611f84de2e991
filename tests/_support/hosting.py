"""A binding's server of HTTP for a test, and clients in front of it. Nothing may be left of either."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import speak
import talk
from flags import PATIENCE
from mcp_sansio import Registry
from plugs import HttpServer, Serving, Settings

_SETTINGS = {"path", "pair", "user_header", "patience"}


@contextmanager
def serving(http: HttpServer, registry: Registry, **given: Any) -> Iterator[Serving]:
    """Serve `registry`. `given` are `plugs.Settings`, and the options of the server.

    At the end, no thread and no descriptor is left of it.
    """
    settings = {name: given.pop(name) for name in _SETTINGS & {*given}}
    threads, descriptors = threading.active_count(), _descriptors()
    with http.serve(registry, Settings(given, **settings)) as running:
        try:
            yield running
        finally:
            for connection in [*talk.opened]:
                connection.close()
    until(lambda: threading.active_count() <= threads, "threads are left")
    assert _descriptors() - descriptors <= _KEPT, "descriptors are left"


#: Descriptors that a process may open once and keep.
_KEPT = 2


def _descriptors() -> int:
    listed = Path("/proc/self/fd")
    return len(os.listdir(listed)) if listed.is_dir() else 0


def until(holds: Callable[[], Any], otherwise: str) -> Any:
    """Wait until something holds that another thread brings about; what it is."""
    end = time.monotonic() + PATIENCE
    while not (held := holds()):
        assert time.monotonic() < end, otherwise
        time.sleep(0.001)
    return held


def stands_still(value: Callable[[], int], seconds: float = 0.05) -> int:
    """`value`, once it is above zero and has not changed for that time."""
    before, since = 0, time.monotonic()
    while time.monotonic() - since < seconds or not before:
        assert time.monotonic() - since < PATIENCE, "nothing happens"
        if (now := value()) != before:
            before, since = now, time.monotonic()
        time.sleep(0.001)
    return before


def connections(running: Serving) -> int:
    """How many connections of clients the server has not ended yet, as the operating system sees it."""
    return sum(state in ("ESTABLISHED", "CLOSE_WAIT") for state in _states(running))


def is_listening(running: Serving) -> bool:
    """Whether new clients are let in."""
    return "LISTEN" in _states(running)


def settle(running: Serving) -> None:
    """Return once the server has read all that was sent to it, and has then answered another request."""
    until(lambda: not _unread(running), "the server does not read")
    client = talk.Client(speak.VERSIONS[0], running)
    client.send("OPTIONS")
    client.close()


def _unread(running: Serving) -> int:
    return sum(int(line[4].partition(":")[2], 16) for line in _sockets(running) if line[3] in ("01", "08"))


def _states(running: Serving) -> list[str]:
    """The states of the server's sockets, as far as they matter here."""
    return [_STATES[line[3]] for line in _sockets(running) if line[3] in _STATES]


def _sockets(running: Serving) -> list[list[str]]:
    """What the operating system says of the server's sockets; see proc(5), /proc/net/tcp."""
    address = f"0100007F:{running.port:04X}"
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [line for line in lines if line[1] == address]


_STATES = {"01": "ESTABLISHED", "08": "CLOSE_WAIT", "0A": "LISTEN"}

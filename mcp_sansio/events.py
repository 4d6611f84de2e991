"""What an engine tells its driver: events that happened, and the parts of an HTTP response.

Events come out of ``events()``, parts and messages out of ``data_to_send()``. An event with a ``run`` is work to do:
await it, in a task of its own where other work must go on meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from .call import Call
from .outcome import Failure

Work = Callable[[], Awaitable[None]]


class CallReceived(Struct, eq=False):
    """A call for a handler. Spawn ``run()`` in a task; it replies by itself and raises nothing but cancellation.

    Cancel the task after `CallCancelled`, or with the engine itself. A task that is cancelled before its first step
    leaves its call in flight until `Config.call_timeout`.
    """

    call: Call
    run: Work

    def __repr__(self) -> str:
        return f"CallReceived(call={self.call!r})"


class CallCancelled(Struct, eq=False):
    """The peer gave up on `call`: cancel the task that runs it. It will not be answered."""

    call: Call


class StoreNeeded(Struct, eq=False):
    """The engine waits for the session store. Await ``run()``, then take everything again."""

    run: Work

    def __repr__(self) -> str:
        return "StoreNeeded()"


class PeerFaulted(Struct, frozen=True):
    """The peer sent something wrong, which was answered as its revision says. For logs and counters."""

    failure: Failure


Event = CallReceived | CallCancelled | StoreNeeded | PeerFaulted


class Head(Struct, frozen=True):
    """The start of an HTTP response. `headers` are in order, names as they should be written."""

    status: int
    headers: tuple[tuple[str, str], ...]


class Body(Struct, frozen=True):
    """A piece of an HTTP response's body."""

    data: bytes


class End(Struct, frozen=True):
    """The HTTP response is complete; nothing follows."""


Part = Head | Body | End


class Whole(Struct, frozen=True):
    """An HTTP response of which all is there. `headers` are as in `Head`."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

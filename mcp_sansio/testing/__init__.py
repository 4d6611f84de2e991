"""Tests without a socket, an event loop or a clock: of handlers, of the protocol, and of a transport of one's own.

`Simulation` is a server whose bytes a test sends and reads itself.
"""

from __future__ import annotations

from .clock import FakeClock
from .scheduler import Cancelled, FakeEvent, Scheduler
from .simulation import SimulatedChannel, SimulatedHttp, Simulation

__all__ = [
    "Cancelled",
    "FakeClock",
    "FakeEvent",
    "Scheduler",
    "SimulatedChannel",
    "SimulatedHttp",
    "Simulation",
]

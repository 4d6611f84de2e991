"""Tests without a socket, an event loop or a clock: of handlers, of the protocol, and of a transport of one's own.

`connect` joins a client to a server in memory, and `Simulation` is a server whose bytes a test sends and reads itself.
What both sides say is recorded, and `replay` runs it again for either. `check_channel`, `check_http` and
`check_channel_client` find out whether a driver of the engines keeps the rules of a transport, `check_store` whether a
store keeps those of `SessionStore`.
"""

from __future__ import annotations

from .channel_checks import ChannelClient, check_channel
from .client import Connection, JoinedClient, PlainClient, PlainListening, connect, every_revision
from .client_checks import ChannelServer, check_channel_client
from .clock import FakeClock
from .http_checks import check_http
from .http_scene import HttpClient, HttpExchange
from .recorder import Recorder
from .replay import play, replay
from .scheduler import Cancelled, FakeEvent, Pending, Scheduler
from .simulation import SimulatedChannel, SimulatedHttp, Simulation
from .store_checks import check_store
from .transcript import Transcript

__all__ = [
    "Cancelled",
    "ChannelClient",
    "ChannelServer",
    "Connection",
    "FakeClock",
    "FakeEvent",
    "HttpClient",
    "HttpExchange",
    "JoinedClient",
    "Pending",
    "PlainClient",
    "PlainListening",
    "Recorder",
    "Scheduler",
    "SimulatedChannel",
    "SimulatedHttp",
    "Simulation",
    "Transcript",
    "check_channel",
    "check_channel_client",
    "check_http",
    "check_store",
    "connect",
    "every_revision",
    "play",
    "replay",
]

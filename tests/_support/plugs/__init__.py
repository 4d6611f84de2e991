"""Where a binding is plugged into the one suite of all bindings. tests/bindings/README.md says how.

Every module beside this one names in `PLUGS` what it plugs in. A plug imports its binding when it is used, not before,
so that the plugs of what is not installed can be told apart, and left out.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import attrs
import pytest

from flags import Flag
from mcp_sansio import Config, Registry, Server
from worlds import World

#: What a binding may be unable to do for a reason of its kind, which its plug then states. A test says which it wants.
TRAITS = {
    "cancel": "calls, and the handlers that run them, can be given up from outside while they wait",
    "trickling": "the deadline for a body that comes in slowly is the server's",
    "http": "HTTP itself is read by the binding, or by the library that it is for",
    "connections": "the binding says whether a connection is kept for another request, or ended",
    "threads": "plain functions run in threads apart, and their call can be answered before they have ended",
}


class Plug:
    """A binding in one of its roles."""

    #: Which tests it is for: the name of their folder below tests/bindings.
    kind: ClassVar[str]
    #: What it is called in the names of tests, and in the table of the documentation.
    name: ClassVar[str]
    #: The modules that have to be installed, the binding's own first.
    needs: ClassVar[tuple[str, ...]]
    #: The traits that it lacks, each with the reason, as a sentence for the documentation.
    lacks: ClassVar[Mapping[str, str]] = {}
    #: What its tests are marked with: `thorough` where another plug of the same binding finds out nearly all of it.
    marks: ClassVar[Collection[pytest.MarkDecorator]] = ()

    @property
    def missing(self) -> list[str]:
        """The modules that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


@attrs.frozen
class Settings:
    """What a test wants of a server of HTTP."""

    #: Those of `mcp_sansio.ServerOptions`, and ``allowed_origins`` and ``allowed_hosts``.
    options: Mapping[str, Any] = attrs.field(factory=dict)
    path: str = "/mcp"
    #: Serve the first transport as well, by the same server, at ``/sse`` and ``/messages``.
    pair: bool = False
    #: The header whose value is the principal of a request.
    user_header: str | None = None
    #: Seconds that calls in flight have when it stops.
    patience: float = 10.0


class Serving:
    """A server of HTTP that runs. A plug makes one of its own."""

    #: Where it listens.
    host: str
    port: int
    #: The core's server, to look at from outside.
    server: Server
    #: Whether it is told that a client has left before it sends something to it.
    is_told_of_leaving = True

    def stop(self) -> None:
        """Stop serving, as an operator would, and return when that is done. A second time does nothing."""
        raise NotImplementedError


class HttpServer(Plug):
    """A server of HTTP."""

    kind = "http_server"
    #: The seconds of silence after which it sends something, in tests of clients that leave: `Config.keep_alive`.
    keep_alive: ClassVar[float] = Config().keep_alive

    def serve(self, registry: Registry, settings: Settings) -> AbstractContextManager[Serving]:
        """Serve `registry` on 127.0.0.1, in this process and in threads of its own, for the time of a block.

        At the end of the block everything that it started must have ended; what has not, or has failed, raises.
        """
        raise NotImplementedError


class HttpClient(Plug):
    """A client of HTTP."""

    kind = "http_client"

    def world(self) -> World:
        """Where its tests run."""
        raise NotImplementedError

    def client(self, url: str, adapter: Any = None, **options: Any) -> Any:
        """A client, called within `world`, that has not begun. `options` are those that every client has."""
        raise NotImplementedError


class ChannelServer(Plug):
    """A server at the end of two descriptors."""

    kind = "channel_server"
    #: The blocking function that serves a registry on the standard streams: ``module:function``.
    run_stdio: ClassVar[str]

    def serve(
        self, served: Registry | Server, source: int, sink: int, options: Mapping[str, Any]
    ) -> AbstractContextManager[Ended]:
        """Serve on two descriptors, in this process and in threads of its own, for the time of a block.

        At the end of the block it is given up, where it has not ended by itself.
        """
        raise NotImplementedError


class Ended:
    """What a test may ask of a server on descriptors. Its plug raises `flag` when it has ended."""

    def __init__(self) -> None:
        self.flag = Flag()

    def wait(self, seconds: float) -> bool:
        """Whether it ends by itself within that time. What it failed with raises."""
        try:
            self.flag.seen(seconds)
        except AssertionError:
            return False
        return True


class ChannelClient(Plug):
    """A client that starts its server as a process."""

    kind = "channel_client"

    def world(self) -> World:
        """Where its tests run."""
        raise NotImplementedError

    def client(self, command: str, args: Collection[str] = (), adapter: Any = None, **options: Any) -> Any:
        """A client, called within `world`, that has not begun. `options` are those that every client has."""
        raise NotImplementedError


def all_plugs() -> list[Plug]:
    """Every plug there is, in the order of the names of their modules."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    return [plug for module in modules for plug in module.PLUGS]

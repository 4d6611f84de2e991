"""One face for every client: the same operations, with the JSON of the wire in and out.

A `Peer` is a connected client of some library. What it hands on is what that library made of the server's messages;
members that the server did not send are left out, so that results compare as a whole.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar, Literal

import attrs

JSON = Any
Ask = Callable[[str, JSON], JSON]
"""Answers a question of the server: its method and params in, the client's result out."""
Progress = Callable[[float, float | None, str | None], None]
Transport = Literal["http", "sse", "stdio"]
Era = Literal["legacy", "modern"]

#: The requests for lists, by the member that their results have.
LISTS = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}


@attrs.frozen
class Where:
    """Where the server is: an address, or the command that starts it."""

    transport: Transport
    url: str = ""
    command: Sequence[str] = ()


class Refused(Exception):
    """The server answered with an error; `error` is its ``code``, ``message`` and ``data``."""

    def __init__(self, error: Mapping[str, JSON]) -> None:
        super().__init__(dict(error))
        self.error = dict(error)


class Declined(Exception):
    """Raised by an `Ask`: the client answers the question with an error of this text."""


class NotSent(Exception):
    """The client did not send this: it knows that the revision has no such request."""


class Heard:
    """The notifications that came in, in their order."""

    def __init__(self) -> None:
        self.messages: list[JSON] = []
        self._news = asyncio.Event()

    def add(self, message: JSON) -> None:
        """A notification came in."""
        self.messages.append(message)
        self._news.set()

    async def take(self, method: str) -> JSON:
        """The next notification of `method`, as soon as it is there; those before it are dropped."""
        while (message := await self.next())["method"] != method:
            pass
        return message

    async def next(self) -> JSON:
        """The next notification, as soon as it is there."""
        while not self.messages:
            self._news.clear()
            await self._news.wait()
        return self.messages.pop(0)


@attrs.frozen
class Listening:
    """An open subscription: the filter that the server honours, and in time how it ended."""

    honored: JSON
    ended: Awaitable[Literal["graceful", "remote", "local"]]


class Peer:
    """A connected client."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self.heard = Heard()

    @property
    def revision(self) -> str:
        """The revision that was settled on."""
        raise NotImplementedError

    @property
    def server(self) -> JSON:
        """What the server said of itself: ``serverInfo``, ``capabilities`` and ``instructions``."""
        raise NotImplementedError

    async def items(self, kind: str) -> list[JSON]:
        """A whole list, in the way that the library offers it first."""
        raise NotImplementedError

    async def page(self, kind: str, cursor: str | None) -> JSON:
        """One page of a list."""
        raise NotImplementedError

    async def call(self, name: str, arguments: JSON = None, progress: Progress | None = None) -> JSON:
        """Call a tool. Cancelling the task gives the call up. Raises `Refused`."""
        raise NotImplementedError

    async def read(self, uri: str) -> JSON:
        """Read a resource. Raises `Refused`."""
        raise NotImplementedError

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> JSON:
        """Get a prompt. Raises `Refused`."""
        raise NotImplementedError

    async def complete(self, ref: JSON, argument: JSON, context: Mapping[str, str] | None = None) -> JSON:
        """Complete an argument. Raises `Refused`."""
        raise NotImplementedError

    async def ping(self) -> JSON:
        """Ping. Raises `Refused`."""
        raise NotImplementedError

    async def set_log_level(self, level: str) -> JSON:
        """Ask for log messages, where the revision has that request. Raises `Refused`."""
        raise NotImplementedError

    async def subscribe(self, uri: str) -> JSON:
        """Subscribe to a resource, where the revision has that request. Raises `Refused`."""
        raise NotImplementedError

    async def unsubscribe(self, uri: str) -> JSON:
        """Unsubscribe from a resource. Raises `Refused`."""
        raise NotImplementedError

    def listen(self, **notifications: JSON) -> AbstractAsyncContextManager[Listening]:
        """Listen for changes, where the revision has that request. The filter's members are in snake_case."""
        raise NotImplementedError

    async def roots_changed(self) -> None:
        """Say that the client's roots changed."""
        raise NotImplementedError


def connect(
    client: str, era: Era | str, where: Where, *, ask: Ask | None = None, log_level: str | None = None
) -> AbstractAsyncContextManager[Peer]:
    """A connected client of that name: ``python``, ``fastmcp`` or ``typescript``.

    `era` is ``legacy`` (the handshake), ``modern`` (the client finds out what there is) or a revision that it insists
    on. `ask` answers questions; without it the client declares that it cannot be asked. `log_level` is what a client
    of a stateless revision wants to hear.
    """
    if client == "typescript":
        from .typescript import TypeScript

        return TypeScript.connect(era, where, ask=ask, log_level=log_level)
    from .python import FastMcp, Official

    kind = {"python": Official, "fastmcp": FastMcp}[client]
    return kind.connect("auto" if era == "modern" else era, where, ask=ask, log_level=log_level)


@asynccontextmanager
async def quietly() -> AsyncIterator[None]:
    """Let a client use what newer revisions deprecate."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*(deprecated|removed) as of 2026-07-28.*")
        yield

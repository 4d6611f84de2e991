"""The server that a transport's driver is checked with: tools that do what a driver has to get right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mcp_sansio.asking import elicit
from mcp_sansio.exchange import Exchange
from mcp_sansio.registry import Registry

#: What the tool `flood` reports in all, in pieces of so many bytes, to a client that reads none of it. It is more than
#: the buffers of any operating system.
FLOOD, PIECE = 64 * 2**20, 256 * 2**10


class Subject:
    """A registry, and what its handlers are doing.

    Its tools wait for nothing but each other, and for that they use what an Exchange has: a `relay` goes on when the
    call of a `hold` is given up. So they run on any event loop, and without one.
    """

    def __init__(self) -> None:
        self.registry = Registry("checked", "1.0")
        #: The handlers that have begun and not ended, by name.
        self.running: list[str] = []
        #: Those that have begun at all.
        self.begun: set[str] = set()
        #: How many bytes `flood` has reported.
        self.flooded = 0
        self._held: dict[str, Exchange] = {}
        tools: tuple[Callable[..., object], ...] = (self.echo, self.plain, self.declare, self.count, self.flood)
        for tool in (*tools, self.ask, self.mark, self.hold, self.relay):
            self.registry.tool(tool)

    def begin(self) -> None:
        """Forget what was, for a new server of the same registry: to declare it takes longer than most checks."""
        self.running.clear()
        self.begun.clear()
        self._held.clear()
        self.flooded = 0

    @contextmanager
    def _running(self, name: str) -> Iterator[None]:
        self.begun.add(name)
        self.running.append(name)
        try:
            yield
        finally:
            self.running.remove(name)

    async def echo(self, text: str) -> str:
        """The text."""
        return text

    def plain(self, text: str) -> str:
        """The text, from a plain function."""
        return text

    async def count(self, to: int, ex: Exchange) -> str:
        """Report every number up to that one."""
        for number in range(1, to + 1):
            await ex.progress(number, to)
        return f"counted to {to}"

    async def mark(self, name: str, ex: Exchange) -> str:
        """Return. A relay that waits for this one waits for ever, since what is over is not given up any more."""
        self._held[name] = ex
        return "marked"

    async def hold(self, name: str, ex: Exchange) -> str:
        """Wait until the call is given up."""
        self._held[name] = ex
        with self._running(name):
            await ex.wait_cancelled()
            return "nobody reads this"

    async def relay(self, name: str, after: list[str], ex: Exchange) -> str:
        """Wait for each of those holds to be given up, one after the other, and report it."""
        with self._running(name):
            for number, held in enumerate(after, 1):
                await self._held[held].wait_cancelled()
                await ex.progress(number)
            return f"{name} is over"

    async def ask(self, name: str, ex: Exchange) -> str:
        """Ask the user."""
        with self._running(name):
            answer = await ex.ask("sure", elicit("Sure?"))
            return f"the user chose to {answer.action}"

    async def flood(self, name: str, ex: Exchange) -> str:
        """Report more than anybody wants to read."""
        with self._running(name):
            for number in range(FLOOD // PIECE):
                await ex.progress(number, message="x" * PIECE)
                self.flooded += PIECE
            return "nobody held the flood up"

    def declare(self, name: str) -> str:
        """Declare a further tool for a moment, from a plain function."""
        self.registry.tool(name=name)(self.echo)
        self.registry.remove_tool(name)
        return "declared"

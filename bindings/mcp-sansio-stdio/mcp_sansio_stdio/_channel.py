"""A channel between two file descriptors, on asyncio: how its end is waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from mcp_sansio.stream_driver import StreamDriver
from mcp_sansio.wire.lines import DuplexEngine

from ._streams import open_sink, open_source

#: Seconds that calls have to finish once the end has come, and that a peer may read nothing before it counts as gone.
GRACE = 0.5


class Channel(StreamDriver):
    """Connects `engine` with its peer at the other end of `source` and `sink`, which are file descriptors."""

    def __init__(self, engine: DuplexEngine, max_message: int, source: int, sink: int) -> None:
        self._own_loop = asyncio.get_running_loop()
        super().__init__(engine, max_message, self._own_loop)
        self.at_end = asyncio.Event()  # nothing more comes in, or nobody reads what goes out
        self.silent = asyncio.Event()  # nothing more comes in
        self._thread = threading.get_ident()
        self._stuck: tuple[int, int] | None = None
        self._idle = asyncio.Event()
        self.sink = open_sink(sink, self.feed, self.broken)
        self.source = open_source(source, self.receive)

    async def taken_in(self) -> None:
        """Wait until the engine has had everything that came in up to the end, for as long as the peer reads."""
        await self._while_it_moves(lambda: self.lines.held or not self.lines.at_eof)

    async def sent(self) -> None:
        """Wait until everything is written, for as long as the peer reads."""
        await self._while_it_moves(lambda: self.sink.pending)

    async def _while_it_moves(self, left: Callable[[], int]) -> None:
        while left():
            now = (self.lines.fed, self.sink.written)
            if now == self._stuck:
                return
            self._stuck = now
            self._idle.clear()
            try:
                await asyncio.wait_for(self._idle.wait(), GRACE)
            except TimeoutError:
                pass  # whether anything moved meanwhile is what counts

    def stop(self) -> None:
        """Read no more, and forget what the engine has not had."""
        self.source.close()
        self.drop_input()
        self.ended()

    def broken(self) -> None:
        """Nobody reads the output."""
        self.at_end.set()

    def ended(self) -> None:
        """Nothing more comes in."""
        self.at_end.set()
        self.silent.set()

    def idle(self) -> None:
        """Nothing waits, neither for the engine nor to be written."""
        self._idle.set()

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back on the loop's thread, from whichever."""
        try:
            here = threading.get_ident() == self._thread
            (self._own_loop.call_soon if here else self._own_loop.call_soon_threadsafe)(callback)
        except RuntimeError:
            pass  # the loop was closed in this very moment

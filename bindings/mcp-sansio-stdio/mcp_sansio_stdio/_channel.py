"""A channel between two file descriptors, on asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from mcp_sansio.stream_driver import StreamDriver
from mcp_sansio.wire.lines import DuplexEngine

from ._streams import open_sink, open_source


class Channel(StreamDriver):
    """Connects `engine` with its peer at the other ends of the descriptors `source` and `sink`. See `StreamDriver`."""

    def __init__(
        self, engine: DuplexEngine, max_message: int, source: int, sink: int, take_events: Callable[[], None]
    ) -> None:
        self._asyncio = loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        super().__init__(engine, max_message, loop, take_events=take_events, event=asyncio.Event)
        self.sink = open_sink(sink, self.feed, self.broken)
        self.source = open_source(source, self.receive)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call back on the loop's thread, from whichever."""
        try:
            here = threading.get_ident() == self._thread
            (self._asyncio.call_soon if here else self._asyncio.call_soon_threadsafe)(callback)
        except RuntimeError:
            pass  # the loop was closed in this very moment

"""asyncio's loop for the core's drivers, and their streams on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import get_ident
from typing import Any

from mcp_sansio.stream_driver import StreamDriver

from ._streams import open_sink, open_source


class Loop:
    """The running loop, with a `call_soon` for every thread. See `mcp_sansio.stream_driver.Loop`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        self.time = self._loop.time
        self.call_at = self._loop.call_at

    def call_soon(self, callback: Callable[[], Any], /) -> None:
        """Call back on the loop's thread, from whichever."""
        try:
            (self._loop.call_soon if get_ident() == self._thread else self._loop.call_soon_threadsafe)(callback)
        except RuntimeError:
            pass  # the loop was closed in this very moment


def attach(driver: StreamDriver, source: int, sink: int) -> None:
    """Connect `driver` with its peer at the other ends of two descriptors."""
    driver.sink = open_sink(sink, driver.feed, driver.broken)
    driver.source = open_source(source, driver.receive)

"""A server that is a child process, on asyncio: listened to, and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from subprocess import Popen

from mcp_sansio.child_process import LastWords

from ._streams import open_source
from ._threads import DaemonThreads
from .processes import ChildPipes, wait_for


class Child(ChildPipes):
    """A process of which everything is known that its client needs: what it says on its error output, and its end.

    `gone` is done once the process has ended. See `mcp_sansio.child_process.Child`.
    """

    def __init__(self, popen: Popen[bytes], last_words: LastWords) -> None:
        super().__init__(popen, last_words)
        self._silent = asyncio.Event()
        self._source = open_source(self.errors, self._hear)
        self._threads = DaemonThreads(1)
        self.gone = asyncio.wrap_future(self._threads.submit(wait_for, popen))

    async def has_gone(self, within: float) -> bool:
        """Whether the process has ended, which it has so many seconds for."""
        await asyncio.wait([self.gone], timeout=within)
        return self.gone.done()

    async def is_silent(self, within: float, silent: Callable[[], Awaitable[object]]) -> None:
        """Wait for the end of its error output, after `silent`."""
        try:
            async with asyncio.timeout(within):
                await silent()
                await self._silent.wait()
        except TimeoutError:
            pass  # who holds the pipes has had a moment to let go

    async def reaped(self, within: float) -> None:
        """Wait for the status of the process, after which its number is no longer its own."""
        reaped = asyncio.wrap_future(self._threads.submit(self._popen.wait))
        self._threads.shutdown()
        await asyncio.wait([reaped], timeout=within)

    def close(self) -> None:
        """See `ChildPipes.close`."""
        self._source.close()
        super().close()

    def _hear(self, data: bytes) -> None:
        """Take everything, all the time: a server that cannot write its errors does not answer either."""
        self.last_words.receive(data)
        if not data:
            self._silent.set()

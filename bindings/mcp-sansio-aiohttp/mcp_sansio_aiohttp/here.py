"""Work in the caller's own task that can be ended from elsewhere without ending the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Here:
    """Stands for the work, as a task of its own would. ``asyncio.timeout`` goes about it in the same way."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._is_cancelled = False

    def cancel(self) -> None:
        """End the work soon."""
        if not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    async def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do the `work`, to its end or until it is cancelled. A cancellation of the task itself comes out of here."""
        before = self._task.cancelling()
        try:
            await work
            if self._is_cancelled:
                await asyncio.sleep(0)  # a cancellation that did not find the task waiting arrives at its next wait
        except asyncio.CancelledError:
            if not self._is_cancelled or self._task.uncancel() > before:
                raise

"""`program`, with tools that leave to asyncio's loop what they should not."""

from __future__ import annotations

import asyncio
import time

from program import begun, main, registry


@registry.tool
async def sleep_in_a_thread_of_asyncio() -> str:
    """Sleep in the loop's default executor."""
    begun()
    await asyncio.to_thread(time.sleep, 60)
    return "never"


@registry.tool
async def ignore_cancellation() -> str:
    """Wait, whatever anybody says."""
    begun()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass


@registry.tool
async def leave_a_task() -> str:
    """Leave a task behind that ignores its cancellation."""
    tasks.append(asyncio.ensure_future(ignore_cancellation()))
    return "left"


tasks: list[asyncio.Future[str]] = []

if __name__ == "__main__":
    main()

"""The core on standard input and output: a server for clients to start, which is nobody's binding.

It serves the bakery, and tools that are about processes. As `core_site`, it is a `Simulation`.
"""

from __future__ import annotations

import os
import sys

import bakery
from mcp_sansio import Exchange
from mcp_sansio.testing import Scheduler, Simulation


def main() -> None:
    """Serve until the input ends."""
    scheduler = Scheduler()
    registry = bakery.build(scheduler.event)

    @registry.tool
    async def echo(text: str) -> str:
        """Give the text back."""
        return text

    @registry.tool
    async def wait(ex: Exchange) -> str:
        """Say on the error output that it has begun and that it was given up, and wait in between."""
        os.write(2, b"begun\n")
        try:
            await scheduler.event().wait()
        finally:
            os.write(2, b"given up\n")
        return "never"

    channel = Simulation(registry, scheduler=scheduler).channel()
    while line := sys.stdin.buffer.readline():
        channel.send(line.removesuffix(b"\n"))
        while channel.sent:
            sys.stdout.buffer.write(channel.sent.pop(0) + b"\n")
        sys.stdout.buffer.flush()
    channel.close()


if __name__ == "__main__":
    main()

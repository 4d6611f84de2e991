"""The core on standard input and output: a server for clients to start, which is nobody's binding.

As `core_site`, it is a `Simulation`: its tools wait for nothing but their Exchange and the events of its scheduler.
"""

from __future__ import annotations

import os
import sys

from mcp_sansio import Exchange, Registry, elicit
from mcp_sansio.testing import Scheduler, Simulation

scheduler = Scheduler()
registry = Registry("program", "1.0", instructions="Größe — ★ 漢")


@registry.tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@registry.tool
def echo_plainly(text: str) -> str:
    """Give the text back."""
    return text


@registry.tool
async def order(loaves: int, ex: Exchange) -> str:
    """Order bread."""
    answer = await ex.ask("confirm", elicit(f"Order {loaves} loaves?"))
    return f"ordered {loaves}" if answer.accepted else f"not ordered: {answer.action}"


@registry.tool
async def wait() -> str:
    """Say on the error output that it has begun and that it was given up, and wait in between."""
    os.write(2, b"begun\n")
    try:
        await scheduler.event().wait()
    finally:
        os.write(2, b"given up\n")
    return "never"


@registry.tool
async def complain(ex: Exchange) -> str:
    """Log something."""
    await ex.log("error", "x" * 1000)
    return "complained"


def main() -> None:
    """Serve until the input ends."""
    channel = Simulation(registry, scheduler=scheduler).channel()
    while line := sys.stdin.buffer.readline():
        channel.send(line.removesuffix(b"\n"))
        while channel.sent:
            sys.stdout.buffer.write(channel.sent.pop(0) + b"\n")
        sys.stdout.buffer.flush()
    channel.close()


if __name__ == "__main__":
    main()

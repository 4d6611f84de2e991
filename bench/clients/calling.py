"""What every client of the comparison does: calls `add` for as long as it is told to, so that each file beside this one
says only how its library makes a call. Standard library only, since every environment runs it.

    python CLIENT URL REVISION

It says ``ready`` once a call has been answered. Each line on its standard input, ``SECONDS CALLERS``, is a run, and is
answered with a line of JSON: how many calls there were, the seconds that they took, and those that this process
computed. The server listens in another process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

Call = Callable[[int, int], Awaitable[str]]
"""Calls `add` with two integers: the text that the server answers."""

NEWEST = "2026-07-28"


def main(connect: Callable[[str, str], AbstractAsyncContextManager[Call]]) -> None:
    """Run the client that `connect` opens, for a URL and a revision, as the command line and the input say."""
    url, revision = sys.argv[1:]
    asyncio.run(_serve(connect(url, revision)))


async def _serve(opening: AbstractAsyncContextManager[Call]) -> None:
    loop = asyncio.get_running_loop()
    async with opening as call:
        await _one(call)
        print("ready", flush=True)
        # While nothing is measured, the input may be waited for in a thread.
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            seconds, callers = line.split()
            print(json.dumps(await _measured(call, float(seconds), int(callers))), flush=True)


async def _measured(call: Call, seconds: float, callers: int) -> dict[str, float]:
    for _ in range(2):
        await asyncio.gather(*(_one(call) for _ in range(callers)))
    gc.collect()
    counts = [0] * callers
    computed, started = time.process_time(), time.perf_counter()
    await asyncio.gather(*(_caller(call, number, counts, started + seconds) for number in range(callers)))
    taken = time.perf_counter() - started
    return {"exchanges": sum(counts), "seconds": taken, "processor": time.process_time() - computed}


async def _caller(call: Call, number: int, counts: list[int], deadline: float) -> None:
    """Call, and call again once there is the answer."""
    clock = time.perf_counter
    while True:
        await _one(call)
        counts[number] += 1
        if clock() >= deadline:
            return


async def _one(call: Call) -> None:
    text = await call(1, 2)
    if text != "3":
        raise SystemExit(f"a wrong answer: {text!r}")

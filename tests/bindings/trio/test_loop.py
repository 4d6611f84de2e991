"""What the drivers go by on trio, whose tasks have their turns in no order."""

from __future__ import annotations

from math import inf
from typing import Any

import support

trio = support.need("trio")
testing = support.need("trio.testing")
Loop = support.need("mcp_sansio_trio.loop").Loop


def test_what_is_called_soon_comes_after_the_first_steps_that_were_started_in_the_same_turn() -> None:
    async def main() -> None:
        async with Loop() as loop:
            loop.call_at(inf, lambda: None)  # so that what minds the time waits already
            for _ in range(50):
                await one_turn_for_both(loop)

    async def one_turn_for_both(loop: Any) -> None:
        came, go_on, called = list[str](), trio.Event(), trio.Event()

        async def first_step() -> None:
            came.append("step")

        def soon() -> None:
            came.append("soon")
            called.set()

        async def start() -> None:
            await go_on.wait()
            for _ in range(8):
                loop.start(first_step())
            loop.call_soon(soon)

        loop.start(start())
        await testing.wait_all_tasks_blocked()
        go_on.set()
        loop.call_soon(lambda: None)  # wakes what minds the time in the turn of `start`
        await called.wait()
        assert came == ["step"] * 8 + ["soon"]

    trio.run(main)

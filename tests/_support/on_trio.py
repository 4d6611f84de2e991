"""Tests that are trio's own: each runs in a ``trio.run``, and leaves no descriptor open."""

from __future__ import annotations

import functools
import gc
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import support
from flags import PATIENCE

trio = support.need("trio")


def on_trio(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an ``async def`` test on trio, on a clock that a test may give as ``clock``'s fixture."""

    @functools.wraps(test)
    def run(*args: Any, **options: Any) -> None:
        async def whole() -> None:
            with trio.fail_after(PATIENCE):
                await test(*args, **options)

        gc.collect()
        before = descriptors()
        trio.run(whole)
        assert descriptors() == before, "it has left something open"

    return run


def descriptors() -> list[str]:
    """What this process has open, where that can be seen."""
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        return []
    found = []
    for number in os.listdir(folder):
        try:
            found.append(os.readlink(folder / number))
        except OSError:
            pass  # the one that listed the folder
    return sorted(found)

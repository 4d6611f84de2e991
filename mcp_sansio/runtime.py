"""What a binding lends to the core: time, randomness, a way to wait and a way to run blocking code.

The core imports no clock, no random source and no event loop. It is handed these four, so that a test can hand it a
fake clock, counted tokens and a scheduler of twenty lines, and compare bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import attrs

__all__ = ["Event", "RunSync", "Runtime"]

T = TypeVar("T")


class Event(Protocol):
    """A flag to wait for: ``asyncio.Event`` and ``trio.Event`` both fit."""

    def set(self) -> None:
        """Raise the flag; everybody who waits goes on."""

    async def wait(self) -> Any:
        """Return once the flag is raised, at once if it already is."""


class RunSync(Protocol):
    """Runs a blocking function off the event loop, as ``asyncio.to_thread`` does."""

    def __call__(self, function: Callable[[], T], /) -> Awaitable[T]:
        """The result of `function`, awaited."""


async def run_in_place(function: Callable[[], T], /) -> T:
    """A `RunSync` for those who have no threads to lend: the function blocks its caller."""
    return function()


async def no_pause() -> None:
    """A `Runtime.pause` for those whose handlers have a thread each."""


def run_at_once(function: Callable[[], None], /) -> None:
    """Runs `function` on the calling thread, for those whose handlers have no other."""
    function()


def given_now(work: Awaitable[T]) -> T:
    """What `work`, which waits for nothing, gives. Raises ``RuntimeError`` where it waits all the same."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        given: T = end.value
        return given
    steps.close()
    raise RuntimeError("what was said to answer at once has to be waited for")


@attrs.frozen(kw_only=True)
class Runtime:
    """What a binding lends.

    `now` gives monotonic seconds, `token_bytes` that many unguessable bytes (``secrets.token_bytes``), `event` a fresh
    `Event`, and `run_sync` runs a plain ``def`` handler. Where that is another thread, `run_in_loop` brings a function
    back to the thread that drives the engines (``loop.call_soon_threadsafe``), since such a handler may declare tools
    and announce updates; on the driving thread itself it should run the function at once.

    `wall_clock` gives seconds since the epoch (``time.time``), which are the same for every process, as `now` need not
    be. It is for what expires wherever it is brought (`SealedState`), and nothing else asks for it.

    `pause` lets everything else on the loop have its turn (``asyncio.sleep(0)``): a handler that reports on and on to
    nobody waits for nothing else.
    """

    now: Callable[[], float]
    token_bytes: Callable[[int], bytes]
    event: Callable[[], Event]
    run_sync: RunSync = run_in_place
    run_in_loop: Callable[[Callable[[], None]], None] = run_at_once
    wall_clock: Callable[[], float] | None = None
    pause: Callable[[], Awaitable[object]] = no_pause

    def token(self) -> str:
        """A fresh identifier of 128 bits: 32 hexadecimal digits, so it is safe in a header, a URL and a log."""
        return self.token_bytes(16).hex()

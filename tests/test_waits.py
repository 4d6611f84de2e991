"""Which handlers can be seen to wait for an event loop."""

from __future__ import annotations

import asyncio
import asyncio as aio
from asyncio import sleep
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from mcp_sansio import CompletionRequest, DeclarationError, Exchange, Registry, elicit
from mcp_sansio.waits import check_handlers


async def naps() -> str:
    """Sleep."""
    await asyncio.sleep(1)
    return "awake"


async def naps_by_another_name() -> str:
    """Sleep."""
    return await aio.to_thread(str, 1)


async def has_a_timeout() -> str:
    """Be in time."""
    async with asyncio.timeout(1):
        return "in time"


async def naps_within() -> str:
    """Sleep, in a function of its own."""

    async def nap() -> str:
        await asyncio.sleep(2)
        return "awake"

    return await nap()


class Bed:
    """Something with a method."""

    async def naps_in_bed(self) -> str:
        """Sleep."""
        await asyncio.sleep(3)
        return "awake"


async def asks(ex: Exchange) -> str:
    """Ask, which is no loop's business."""
    await ex.progress(1)
    asyncio.iscoroutine(ex)
    return (await ex.ask("sure", elicit("Sure?"))).action


async def hides() -> str:
    """Sleep, in a way that is not followed."""
    await sleep(0)
    return "awake"


def blocks() -> str:
    """A plain function."""
    return "done"


@pytest.mark.parametrize(
    ("handler", "awaited"),
    [
        (naps, "asyncio.sleep(1)"),
        (naps_by_another_name, "aio.to_thread(str, 1)"),
        (has_a_timeout, "asyncio.timeout(1)"),
        (naps_within, "asyncio.sleep(2)"),
        (Bed().naps_in_bed, "asyncio.sleep(3)"),
    ],
)
def test_what_awaits_a_loop_by_its_name_is_seen(handler: Any, awaited: str) -> None:
    registry = Registry("s", "1")
    registry.tool(handler)
    with pytest.raises(DeclarationError) as refused:
        check_handlers(registry)
    assert str(refused.value) == (
        f"{handler.__name__!r} awaits {awaited}, and there is no event loop here: make it a plain function that "
        "blocks, or lend a loop"
    )


def test_what_does_not_is_left_alone() -> None:
    registry = Registry("s", "1")
    for handler in (asks, hides, blocks):
        registry.tool(handler)
    registry.tool(partial(naps), name="partial", description="It has no code of its own.")
    registry.tool(eval("lambda: 'no source'"), name="evaluated", description="It has no source.")
    check_handlers(registry)


def test_resources_prompts_completions_and_providers_are_looked_at() -> None:
    async def complete(request: CompletionRequest) -> list[str]:
        await asyncio.sleep(1)
        return []

    async def provide() -> AsyncIterator[int]:
        await asyncio.sleep(1)
        yield 1

    for declare in (
        lambda registry: registry.resource("a:b")(naps),
        lambda registry: registry.prompt(naps),
        lambda registry: registry.completion()(complete),
        lambda registry: registry.provide(int, provide),
    ):
        registry = Registry("s", "1")
        declare(registry)
        with pytest.raises(DeclarationError, match=r"awaits asyncio\.sleep\(1\)"):
            check_handlers(registry)

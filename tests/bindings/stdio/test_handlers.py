"""What asyncio ties to a task holds for handlers below `serve_stdio`, too."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import speak
import support
from lines import served, text_of
from mcp_sansio import Registry
from plugs.stdio_asyncio import StdioServer

support.need("mcp_sansio_stdio")


def test_each_runs_in_one_task_from_its_first_step_on() -> None:
    """What asyncio ties to a task (timeouts, task groups, context) works before and after the first wait."""
    registry = Registry("handlers", "1")
    variable = contextvars.ContextVar("variable", default="unset")

    @registry.tool
    async def check(name: str) -> list[Any]:
        task = asyncio.current_task()
        before = variable.get()
        variable.set(name)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
            await asyncio.sleep(0)
        return [asyncio.current_task() is task, task is not None, before, variable.get()]

    with served(StdioServer(), registry, version=speak.HANDSHAKE[0]) as client:
        for name in ("a", "b"):
            assert text_of(client.call("check", {"name": name})) == f'[true,true,"unset","{name}"]'


def test_one_that_waits_for_nothing_is_in_a_task_too() -> None:
    """Whether it is the first of its kind or one of many, which came alone or together: anyio's scopes ask for it."""
    registry = Registry("handlers", "1")

    @registry.tool
    async def check() -> bool:
        return asyncio.current_task() is not None

    with served(StdioServer(), registry, version=speak.HANDSHAKE[0]) as client:
        alone = [text_of(client.call("check", id=number)) for number in range(4)]
        call = client.speaker.message("tools/call", {"name": "check", "arguments": {}})
        client.send(*({**call, "id": number} for number in range(200)))
        together = [text_of(client.receive()) for _ in range(200)]
    assert {*alone, *together} == {"true"}

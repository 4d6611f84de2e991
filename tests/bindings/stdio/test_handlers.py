"""What asyncio ties to a task holds for handlers below `serve_stdio`, too."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest

import speak
from mcp_sansio import Registry

NEWEST_HANDSHAKE = speak.HANDSHAKE[0]
Serve = Callable[..., Any]


@pytest.fixture
def registry() -> Registry:
    """Nothing declared."""
    return Registry("handlers", "1")


CALLER = contextvars.ContextVar("CALLER", default="unset")


def text_of(message: Any) -> Any:
    """The text that a tool gave."""
    return message["result"]["content"][0]["text"]


class TestAsync:
    async def test_each_runs_in_one_task_from_its_first_step_on(self, served: Serve, registry: Registry) -> None:
        """What asyncio ties to a task (timeouts, task groups, context) works before and after the first wait."""
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

        async with served(registry, version=NEWEST_HANDSHAKE) as client:
            for name in ("a", "b"):
                assert text_of(await client.call("check", {"name": name})) == f'[true,true,"unset","{name}"]'

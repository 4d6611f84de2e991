"""aiohttp-tiny-mcp."""

from __future__ import annotations

from typing import Any

import workload
from aiohttp_tiny_mcp import Endpoint, Exchange, Registry, elicit, run_stdio
from pydantic import BaseModel

registry = Registry("bench", "1.0")


class Add(BaseModel):
    """Two numbers."""

    a: int
    b: int


class Nothing(BaseModel):
    """No arguments."""


class Asked(BaseModel):
    """What is asked of a filler."""

    first: int
    second: str = ""
    third: list[str] | None = None


@registry.tool
async def add(args: Add) -> str:
    """Add two numbers."""
    return str(args.a + args.b)


@registry.tool(streaming=True)
async def report(args: Nothing, ex: Exchange) -> str:
    """Report progress, and be done."""
    for step in range(1, workload.STEPS + 1):
        await ex.progress(step, workload.STEPS, workload.message_of(step))
    return "done"


@registry.tool
async def ask(args: Nothing, ex: Exchange) -> str:
    """Ask for a name."""
    answer = await ex.ask("name", elicit(workload.QUESTION, workload.FORM))
    return workload.greeting(answer["name"])


async def filler(args: Asked) -> str:
    """Say what was asked."""
    return f"{args.first} {args.second} {args.third}"


for name in workload.FILLERS:
    registry.tool(filler, name=name, description=workload.FILLER_DESCRIPTION)


@registry.resource(workload.URI, name="text", mime_type="text/plain")
async def text(args: Nothing) -> Any:
    """A megabyte."""
    return workload.TEXT


def http() -> None:
    """Serve /mcp."""
    from serving import serve_aiohttp

    serve_aiohttp(Endpoint(registry).app("/mcp"))


def stdio() -> None:
    """Serve the standard input and output."""
    import asyncio

    asyncio.run(run_stdio(registry))


if __name__ == "__main__":
    workload.main(http=http, stdio=stdio)

"""mcp-sansio, installed from this checkout: the core with the binding of each transport."""

from __future__ import annotations

import workload

from mcp_sansio import Exchange, Registry, elicit

registry = Registry("bench", "1.0", page_size=workload.TOOLS)


@registry.tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@registry.tool
async def report(ex: Exchange) -> str:
    """Report progress, and be done."""
    for step in range(1, workload.STEPS + 1):
        await ex.progress(step, workload.STEPS, workload.message_of(step))
    return "done"


@registry.tool
async def ask(ex: Exchange) -> str:
    """Ask for a name."""
    answer = await ex.ask("name", elicit(workload.QUESTION, workload.FORM))
    return workload.greeting(answer["name"])


async def filler(first: int, second: str = "", third: list[str] | None = None) -> str:
    """Say what was asked."""
    return f"{first} {second} {third}"


for name in workload.FILLERS:
    registry.tool(name=name, description=workload.FILLER_DESCRIPTION)(filler)


@registry.resource(workload.URI, name="text", mime_type="text/plain")
async def text() -> str:
    """A megabyte."""
    return workload.TEXT


def http() -> None:
    """Serve /mcp."""
    from aiohttp import web
    from serving import serve_aiohttp

    from mcp_sansio_aiohttp import Endpoint

    app = web.Application()
    Endpoint(registry).setup(app, "/mcp")
    serve_aiohttp(app)


def on_trio() -> None:
    """Serve /mcp with trio and h11."""
    import trio

    from mcp_sansio_trio import serve_http

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            ((_, port),) = await nursery.start(serve_http, registry, "127.0.0.1", 0, "/mcp")
            workload.announce(port)

    trio.run(serve)


def asgi() -> None:
    """Serve /mcp under uvicorn."""
    from serving_asgi import serve_asgi

    from mcp_sansio_asgi import Application

    serve_asgi(Application(registry, path="/mcp"))


def stdio() -> None:
    """Serve the standard input and output."""
    from mcp_sansio_stdio import run_stdio

    run_stdio(registry)


if __name__ == "__main__":
    workload.main(http=http, trio=on_trio, asgi=asgi, stdio=stdio)

"""mcp, the official Python SDK: its MCPServer, on the ASGI server that it brings along."""

from __future__ import annotations

from typing import Annotated

import workload
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field

server = MCPServer("bench", version="1.0", log_level="ERROR")


@server.tool(structured_output=False)
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool(structured_output=False)
async def report(context: Context) -> str:
    """Report progress, and be done."""
    for step in range(1, workload.STEPS + 1):
        await context.report_progress(step, workload.STEPS, workload.message_of(step))
    return "done"


class Form(BaseModel):
    """What is asked."""

    name: str = Field(title="Name")


async def question() -> Elicit[Form]:
    """Ask, in the way that the revision has."""
    return Elicit(workload.QUESTION, Form)


@server.tool(structured_output=False)
async def ask(answer: Annotated[Form, Resolve(question)]) -> str:
    """Ask for a name."""
    return workload.greeting(answer.name)


async def filler(first: int, second: str = "", third: list[str] | None = None) -> str:
    """Say what was asked."""
    return f"{first} {second} {third}"


for name in workload.FILLERS:
    server.add_tool(filler, name=name, description=workload.FILLER_DESCRIPTION, structured_output=False)


@server.resource(workload.URI, name="text", mime_type="text/plain")
async def text() -> str:
    """A megabyte."""
    return workload.TEXT


def http() -> None:
    """Serve /mcp."""
    from serving_asgi import serve_asgi

    serve_asgi(server.streamable_http_app())


def stdio() -> None:
    """Serve the standard input and output."""
    server.run("stdio")


if __name__ == "__main__":
    workload.main(http=http, asgi=http, stdio=stdio)

"""FastMCP."""

from __future__ import annotations

import workload
from fastmcp import Context, FastMCP
from fastmcp.tools import Tool
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

server = FastMCP("bench", version="1.0")


@server.tool(output_schema=None)
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool(output_schema=None)
async def report(context: Context) -> str:
    """Report progress, and be done."""
    for step in range(1, workload.STEPS + 1):
        await context.report_progress(step, workload.STEPS, workload.message_of(step))
    return "done"


@server.tool(output_schema=None)
async def ask(context: Context) -> str | InputRequiredResult:
    """Ask for a name: it has one way for each era, and the handler has to choose."""
    if context.request_context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        pushed = await context.elicit(workload.QUESTION, str, response_title="Name")
        return workload.greeting(pushed.data)
    if context.input_responses is None:
        question = ElicitRequestFormParams(message=workload.QUESTION, requested_schema=workload.FORM)
        return InputRequiredResult(
            input_requests={"name": ElicitRequest(params=question)}, request_state=workload.QUESTION
        )
    return workload.greeting(context.input_responses["name"].content["name"])


async def filler(first: int, second: str = "", third: list[str] | None = None) -> str:
    """Say what was asked."""
    return f"{first} {second} {third}"


for name in workload.FILLERS:
    server.add_tool(Tool.from_function(filler, name=name, description=workload.FILLER_DESCRIPTION, output_schema=None))


@server.resource(workload.URI, name="text", mime_type="text/plain")
async def text() -> str:
    """A megabyte."""
    return workload.TEXT


def http() -> None:
    """Serve /mcp."""
    from serving_asgi import serve_asgi

    serve_asgi(server.http_app("/mcp"))


def stdio() -> None:
    """Serve the standard input and output."""
    server.run("stdio", show_banner=False, log_level="ERROR")


if __name__ == "__main__":
    workload.main(http=http, asgi=http, stdio=stdio)

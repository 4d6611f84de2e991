from typing import Annotated

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

server = MCPServer("bakery", version="1.0")


@server.tool()
def price(loaves: int, sliced: bool = False) -> str:
    """What that many loaves cost."""
    if loaves < 1:
        raise ToolError("At least one loaf.")
    return f"{loaves * 3 + sliced} euros"


@server.tool()
async def bake(loaves: int, ctx: Context) -> str:
    """Bake, and say how far it is."""
    for loaf in range(1, loaves + 1):
        await ctx.report_progress(loaf, loaves, f"loaf {loaf}")
    return "baked"


class Name(BaseModel):
    name: str


def ask_name(loaves: int) -> Elicit[Name]:
    return Elicit(f"Who wants {loaves} loaves?", Name)


@server.tool()
def order(loaves: int, answer: Annotated[ElicitationResult[Name], Resolve(ask_name)]) -> str:
    """Order bread. It can ask on every revision that has a form for it."""
    if not isinstance(answer, AcceptedElicitation):
        return "nothing ordered"
    return f"{loaves} for {answer.data.name}"


@server.resource("bread://{kind}")
def bread(kind: str) -> str:
    """A kind of bread."""
    return f"{kind} bread"


@server.prompt()
def recipe(kind: str) -> str:
    """Ask for a recipe."""
    return f"Write a recipe for {kind} bread."


if __name__ == "__main__":
    server.run("stdio")

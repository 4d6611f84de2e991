from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from pydantic import BaseModel

server = FastMCP("bakery", version="1.0")


@server.tool
def price(loaves: int, sliced: bool = False) -> str:
    """What that many loaves cost."""
    if loaves < 1:
        raise ToolError("At least one loaf.")
    return f"{loaves * 3 + sliced} euros"


@server.tool
async def bake(loaves: int, ctx: Context) -> str:
    """Bake, and say how far it is."""
    for loaf in range(1, loaves + 1):
        await ctx.report_progress(loaf, loaves, f"loaf {loaf}")
    return "baked"


class Name(BaseModel):
    name: str


@server.tool
async def order(loaves: int, ctx: Context) -> str:
    """Order bread. It can ask on the revisions with a handshake."""
    answer = await ctx.elicit(f"Who wants {loaves} loaves?", response_type=Name)
    return f"{loaves} for {answer.data.name}" if answer.action == "accept" else "nothing ordered"


@server.resource("bread://{kind}")
def bread(kind: str) -> str:
    """A kind of bread."""
    return f"{kind} bread"


@server.prompt
def recipe(kind: str) -> str:
    """Ask for a recipe."""
    return f"Write a recipe for {kind} bread."


if __name__ == "__main__":
    server.run(show_banner=False)

from mcp_sansio import Exchange, Registry, ToolError, elicit
from mcp_sansio_stdio import run_stdio

registry = Registry("bakery", "1.0")


@registry.tool
def price(loaves: int, sliced: bool = False) -> str:
    """What that many loaves cost."""
    if loaves < 1:
        raise ToolError("At least one loaf.")
    return f"{loaves * 3 + sliced} euros"


@registry.tool
async def bake(loaves: int, ex: Exchange) -> str:
    """Bake, and say how far it is."""
    for loaf in range(1, loaves + 1):
        await ex.progress(loaf, loaves, f"loaf {loaf}")
    return "baked"


NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@registry.tool
async def order(loaves: int, ex: Exchange) -> str:
    """Order bread. It can ask on every revision."""
    answer = await ex.ask("name", elicit(f"Who wants {loaves} loaves?", NAME))
    return f"{loaves} for {answer['name']}" if answer.accepted else "nothing ordered"


@registry.resource("bread://{kind}")
def bread(kind: str) -> str:
    """A kind of bread."""
    return f"{kind} bread"


@registry.prompt
def recipe(kind: str) -> str:
    """Ask for a recipe."""
    return f"Write a recipe for {kind} bread."


if __name__ == "__main__":
    run_stdio(registry)

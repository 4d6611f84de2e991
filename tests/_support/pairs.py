"""A conversation over the first HTTP transport."""

from __future__ import annotations

from heard import text_of
from mcp_sansio import Exchange, Registry
from talk import PairClient


def bakery() -> Registry:
    """With a tool that answers, one that changes the list of tools, and one that reports."""
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def price(loaves: int) -> str:
        """What that many loaves cost."""
        return f"{loaves * 3} euros"

    @registry.tool
    def rename() -> str:
        """Add a tool, in a thread."""
        registry.tool(name=f"tool-{len(registry.tools)}")(lambda: "new")
        return "renamed"

    @registry.tool
    async def bake(ex: Exchange) -> str:
        """Report."""
        await ex.progress(1, 2)
        await ex.progress(2, 2)
        return "baked"

    return registry


def converse(client: PairClient) -> None:
    """Calls, progress, a change, and a fault."""
    with client.open():
        assert text_of(client.call("price", loaves=2)) == "6 euros"
        assert client.call("bake", token="t")["params"]["progress"] == 1
        assert client.stream.message()["params"]["progress"] == 2
        assert text_of(client.stream.message()) == "baked"
        changed, renamed = client.call("rename"), client.stream.message()
        assert {changed.get("method"), renamed.get("method")} == {"notifications/tools/list_changed", None}
        assert client.request(client.message("no/such"))["error"]["code"] == -32601

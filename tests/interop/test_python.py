"""What the Python clients make of results beyond the wire: typed data, errors, and caches that changes empty."""

from __future__ import annotations

import asyncio

import pytest

import support

from .conftest import PATIENCE, Find, need_some_client

need_some_client()
fastmcp = support.need("fastmcp")
mcp = support.need("mcp")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_fastmcp_hydrates_structured_content(mode: str, where: Find) -> None:
    async with asyncio.timeout(PATIENCE), fastmcp.Client(where("http").url, mode=mode) as client:
        result = await client.call_tool("forecast", {"city": "Pau", "days": 2})
        assert (result.data.city, result.data.source) == ("Pau", None)
        assert [(day.degrees, day.sky) for day in result.data.days] == [(20.5, "clear")] * 2
        with pytest.raises(fastmcp.exceptions.ToolError, match=r"^The oven is cold\.$"):
            await client.call_tool("fail", {"how": "told"})


async def test_a_list_is_kept_until_the_client_hears_of_a_change(where: Find) -> None:
    async with asyncio.timeout(PATIENCE), mcp.Client(where("http").url) as client:

        async def is_offered() -> bool:
            return "note://passing" in [resource.uri for resource in (await client.list_resources()).resources]

        assert not await is_offered()
        await client.call_tool("offer", {"passing": True})
        try:
            assert not await is_offered()
            async with client.listen(resources_list_changed=True) as subscription:
                await client.call_tool("change", {"what": "resources"})
                await anext(subscription)
                assert await is_offered()
        finally:
            await client.call_tool("offer", {"passing": False})

"""What a client can be asked for: at every revision, with a window of them, and finding out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import bakery
import speak
from core_site import core_site
from mcp_sansio import AdapterSet, ServerError
from plugs import HttpClient

OLDEST = speak.VERSIONS[-1]
#: Every revision at the one endpoint, what is found out there, and what is found out at the pair.
WAYS = [*((version, "/mcp") for version in speak.VERSIONS), (None, "/mcp"), (None, "/sse")]
everyone = pytest.mark.parametrize(("version", "path"), WAYS)


def adapter_of(version: str | None) -> Any:
    return None if version is None else AdapterSet.default().by_version[version]


def in_front_of_the_bakery(
    plug: HttpClient, version: str | None, path: str, test: Callable[[Any], Awaitable[None]], **options: Any
) -> None:
    """Run a test that is given a client of the bakery."""
    with core_site(bakery.build) as site:

        async def body() -> None:
            async with plug.client(site.url + path, adapter_of(version), **options) as client:
                await test(client)

        plug.world().run(body)


def text_of(result: Any) -> str:
    """What a tool said."""
    (content,) = result.content
    return str(content.text)


@everyone
def test_a_tool_is_called(http_client: HttpClient, version: str | None, path: str) -> None:
    async def body(client: Any) -> None:
        assert text_of(await client.call_tool("price", {"loaves": 2})) == "8 euros"
        told = await client.call_tool("burn", {"how": "told"})
        assert (text_of(told), told.is_error) == ("The oven is too hot.", True)
        shown = await client.call_tool("show")
        assert [content.type for content in shown.content][:2] == ["text", "image"]
        with pytest.raises(ServerError, match="nothing like that") as refused:
            await client.call_tool("nothing like that")
        assert refused.value.code == -32602
        assert refused.value.status in (200, 400) or path == "/sse"

    in_front_of_the_bakery(http_client, version, path, body)


@everyone
def test_a_hundred_calls_at_once(http_client: HttpClient, version: str | None, path: str) -> None:
    async def body(client: Any) -> None:
        calls = [lambda number=number: client.call_tool("stock", {"kind": f"kind {number}"}) for number in range(100)]
        said = await http_client.world().gather(*calls)
        assert all(f"kind {number}" in text_of(one) for number, one in enumerate(said))

    in_front_of_the_bakery(http_client, version, path, body)

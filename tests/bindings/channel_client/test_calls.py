"""A client that starts its server, and what it calls: every revision, many calls at once."""

from __future__ import annotations

from typing import Any

import pytest

import speak
from child_servers import bakery, text_of
from mcp_sansio import AdapterSet, ServerError
from plugs import ChannelClient


@pytest.mark.parametrize("version", speak.VERSIONS)
def test_a_child_describes_itself_and_is_called(channel_client: ChannelClient, version: str) -> None:
    async def body() -> None:
        async with bakery(channel_client, adapter=AdapterSet.default().by_version[version]) as client:
            server = await client.initialize()
            assert (server.name, server.version, server.revision) == ("bakery", "1.0", version)
            tools = {tool.name: tool for tool in await client.list_tools()}
            assert tools["echo"].input_schema["required"] == ["text"]
            assert text_of(await client.call_tool("echo", {"text": "Größe — ★ 漢"})) == "Größe — ★ 漢"
            await client.ping()
            with pytest.raises(ServerError, match="nothing") as raised:
                await client.call_tool("nothing")
            assert raised.value.code == -32602

    channel_client.world().run(body)


def test_many_calls_are_in_flight_at_once(channel_client: ChannelClient) -> None:
    world = channel_client.world()

    async def body() -> None:
        async with bakery(channel_client) as client:

            def echo(number: int) -> Any:
                return lambda: client.call_tool("echo", {"text": str(number)})

            results = await world.gather(*(echo(number) for number in range(100)))
            assert [text_of(result) for result in results] == [str(number) for number in range(100)]

    world.run(body)

import asyncio
import sys

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client


async def answer(context, params):
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def main(command: str, *args: str) -> None:
    server = stdio_client(StdioServerParameters(command=command, args=[*args]))
    async with Client(server, elicitation_callback=answer) as client:
        tools = await client.list_tools()
        print([tool.name for tool in tools.tools])
        result = await client.call_tool("order", {"loaves": 2})
        print(result.content[0].text)
        contents = await client.read_resource("bread://rye")
        print(contents.contents[0].text)


asyncio.run(main(*sys.argv[1:]))

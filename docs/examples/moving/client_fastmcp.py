import asyncio
import sys

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport


async def answer(message, response_type, params, context):
    return ElicitResult(action="accept", content={"name": "Ada"})


async def main(command: str, *args: str) -> None:
    async with Client(StdioTransport(command, [*args]), elicitation_handler=answer) as client:
        print([tool.name for tool in await client.list_tools()])
        result = await client.call_tool("order", {"loaves": 2})
        print(result.content[0].text)
        contents = await client.read_resource("bread://rye")
        print(contents[0].text)


asyncio.run(main(*sys.argv[1:]))

import asyncio
import sys

from mcp_sansio import elicit_accept
from mcp_sansio_stdio import StdioClient


def answer(request):
    return elicit_accept({"name": "Ada"})


async def main(command: str, *args: str) -> None:
    async with StdioClient(command, args, on_ask=answer) as client:
        print([tool.name for tool in await client.list_tools()])
        result = await client.call_tool("order", {"loaves": 2})
        print(result.content[0].text)
        contents = await client.read_resource("bread://rye")
        print(contents.contents[0].text)


asyncio.run(main(*sys.argv[1:]))

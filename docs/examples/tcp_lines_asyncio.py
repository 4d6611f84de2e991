"""MCP over TCP, with asyncio's streams: each line is a message. A channel's driver, of docs/write-a-transport.md."""

import asyncio
import secrets
import time
from functools import partial

from mcp_sansio import ChannelDriver, Registry, Runtime, Server
from mcp_sansio.wire.lines import LineDecoder, encode_line


def runtime():
    """What the running loop lends."""
    loop = asyncio.get_running_loop()
    return Runtime(
        now=time.monotonic,
        token_bytes=secrets.token_bytes,
        event=asyncio.Event,
        run_sync=asyncio.to_thread,
        run_in_loop=loop.call_soon_threadsafe,
    )


async def wait(event, seconds):
    """Wait for `event` so many seconds at most."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


async def serve_connection(server, reader, writer):
    """Serve the client at the other end of a connection."""

    async def send(message):
        writer.write(encode_line(message))
        await writer.drain()

    lines = LineDecoder(server.config.max_message)
    driver = ChannelDriver(server, asyncio.create_task)
    beside = [asyncio.create_task(driver.write(send)), asyncio.create_task(driver.mind(wait))]
    try:
        while data := await reader.read(2**16):
            lines.receive_data(data)
            for line in lines.lines():
                await driver.receive(line)
    except ConnectionError:
        pass  # it has ended
    finally:
        await driver.close()
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        writer.close()


async def listen(registry, host, port, **options):
    """Serve `registry` on a TCP port. What is given is an ``asyncio.Server``."""
    server = Server(registry, runtime=runtime(), **options)
    return await asyncio.start_server(partial(serve_connection, server), host, port)


async def main():
    listener = await listen(Registry("lines", "1.0"), "127.0.0.1", 8000)
    await listener.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

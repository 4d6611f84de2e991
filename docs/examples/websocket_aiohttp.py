"""MCP over a WebSocket, on aiohttp: each text is a message. A channel's driver, of docs/write-a-transport.md."""

import asyncio
import secrets
import time
from functools import partial

from aiohttp import WSMsgType, web

from mcp_sansio import ChannelDriver, Registry, Runtime, Server

SERVER = web.AppKey("server", Server)


def runtime():
    """What the running loop lends."""
    loop = asyncio.get_running_loop()
    return Runtime(
        now=time.monotonic,
        token_bytes=secrets.token_bytes,
        event=asyncio.Event,
        run_sync=asyncio.to_thread,
        run_in_loop=lambda function: loop.call_soon_threadsafe(function),
    )


async def wait(event, seconds):
    """Wait for `event` so many seconds at most."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


async def serve_websocket(server, request):
    """Serve the client that opened a WebSocket."""
    socket = web.WebSocketResponse(max_msg_size=2 * server.config.max_message)
    await socket.prepare(request)
    driver = ChannelDriver(server, asyncio.create_task, request=request)
    beside = [
        asyncio.create_task(driver.write(lambda message: socket.send_str(message.decode()))),
        asyncio.create_task(driver.mind(wait)),
    ]
    try:
        async for message in socket:
            is_text = message.type is WSMsgType.TEXT
            await driver.receive(message.data.encode() if is_text else message.data)
    finally:
        await driver.close()
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    return socket


async def app(registry, **options):
    """An application that serves `registry` at ``/mcp``."""
    app = web.Application()
    server = app[SERVER] = Server(registry, runtime=runtime(), **options)
    app.router.add_get("/mcp", partial(serve_websocket, server))
    return app


if __name__ == "__main__":
    web.run_app(app(Registry("websocket", "1.0")), host="127.0.0.1", port=8000)

"""MCP over HTTP, as an ASGI application on asyncio. A driver of requests, of docs/write-a-transport.md.

It is what is needed and no more. `mcp_sansio_asgi.Application` is the one to install.
"""

import asyncio
import secrets
import time
from threading import get_ident

from mcp_sansio import Body, End, Server
from mcp_sansio.driving import Orphans
from mcp_sansio.response_driver import LentLoop, ResponseDriver


def running_loop():
    """What the running loop lends."""
    loop = asyncio.get_running_loop()
    start = asyncio.ensure_future
    return LentLoop(loop, now=time.monotonic, event=asyncio.Event, start=start, thread=get_ident)


class Request(ResponseDriver):
    """One request."""

    watching = None
    begun = False

    def __init__(self, app, scope, receive, send):
        super().__init__(app.loop, app.orphans)
        self.loop, self.scope, self.receive, self.send = app.loop, scope, receive, send
        self.engine = app.server.http_transaction(
            principal=scope.get("user"),
            loopback=(scope.get("server") or ("",))[0] in ("127.0.0.1", "::1"),
            request=scope,
            wake=self.wake,
        )

    async def serve(self):
        try:
            await self.take_in()
            more = True
            while more:
                more = await self.send_parts(await self.take())
        except OSError:
            self.disconnect()
        finally:
            if self.watching:
                self.watching.cancel()
            self.leave()

    async def take_in(self):
        target = self.scope["path"].encode() + b"?" + self.scope.get("query_string", b"")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self.scope["headers"]]
        self.engine.receive_request(self.scope["method"], target.decode("latin-1"), headers)
        due = self.engine.next_deadline()
        try:
            async with asyncio.timeout(due and due - self.loop.now()):
                await self.take_in_body()
        except TimeoutError:
            self.engine.handle_timeout(self.loop.now())

    async def take_in_body(self):
        while self.engine.receiving:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError
            self.engine.receive_body(message.get("body", b""))
            if not message.get("more_body"):
                self.engine.receive_end()

    async def send_parts(self, parts):
        self.pause()
        if not self.begun:
            self.begun, head = True, parts[0]
            pairs = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in head.headers]
            await self.send({"type": "http.response.start", "status": head.status, "headers": pairs})
        data = b"".join(part.data for part in parts if isinstance(part, Body))
        more = not isinstance(parts[-1], End)
        await self.send({"type": "http.response.body", "body": data, "more_body": more})
        self.resume()
        return more

    def watch(self):
        self.watching = asyncio.ensure_future(self.look_out())

    async def look_out(self):
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.lose()


class App:
    """Serves `registry` on the running loop, at whatever path it is mounted."""

    def __init__(self, registry, **options):
        loop = self.loop = running_loop()
        self.orphans = Orphans()
        self.server = Server(registry, runtime=loop.runtime(secrets.token_bytes, asyncio.to_thread), **options)

    async def __call__(self, scope, receive, send):
        await Request(self, scope, receive, send).serve()

"""MCP over HTTP, as an ASGI application on asyncio. A driver of requests, of docs/write-a-transport.md.

It is what is needed and no more. `mcp_sansio_asgi.Application` is the one to install.
"""

import asyncio
import secrets
import time
from threading import get_ident

from mcp_sansio import Body, End, Runtime, Server
from mcp_sansio.driving import Orphans
from mcp_sansio.response_driver import ResponseDriver


class Loop:
    """What the running loop lends, to a driver and to the core."""

    now, event, start = time.monotonic, asyncio.Event, asyncio.ensure_future

    def __init__(self):
        self.loop, self.thread = asyncio.get_running_loop(), get_ident()
        self.call_soon = self.loop.call_soon

    def call_at(self, when, callback):
        return self.loop.call_later(when - time.monotonic(), callback)

    def run_in_loop(self, callback):
        callback() if get_ident() == self.thread else self.loop.call_soon_threadsafe(callback)


class Request(ResponseDriver):
    """One request."""

    watching = None
    begun = False

    def __init__(self, app, scope, receive, send):
        super().__init__(app.loop, app.orphans)
        self.scope, self.receive, self.send = scope, receive, send
        self.engine = app.server.http_transaction(
            principal=scope.get("user"),
            loopback=(scope.get("server") or ("",))[0] in ("127.0.0.1", "::1"),
            request=scope,
            wake=self.wake,
        )

    async def serve(self):
        try:
            await self.take_in()
            while not self.engine.ended or not self.begun:
                await self.send_parts(await self.take())
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

    def watch(self):
        self.watching = asyncio.ensure_future(self.look_out())

    async def look_out(self):
        while (await self.receive())["type"] != "http.disconnect":
            pass
        self.lose()


class App:
    """Serves `registry` on the running loop, at whatever path it is mounted."""

    def __init__(self, registry, **options):
        loop = self.loop = Loop()
        self.orphans = Orphans()
        self.server = Server(
            registry,
            runtime=Runtime(
                now=loop.now,
                token_bytes=secrets.token_bytes,
                event=asyncio.Event,
                run_sync=asyncio.to_thread,
                run_in_loop=loop.run_in_loop,
            ),
            **options,
        )

    async def __call__(self, scope, receive, send):
        await Request(self, scope, receive, send).serve()

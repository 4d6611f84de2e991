"""Requests and responses over pipes of multiprocessing, with plain threads. A driver of docs/write-a-transport.md.

Each has a pipe. What comes is `(method, target, headers, body)`, and what goes are the parts of the response. The
client closes its end when it has the last of them, or wants no more.
"""

from contextlib import suppress
from functools import partial

from tcp_prefixed_threads import Threads

from mcp_sansio import Server
from mcp_sansio.driving import Orphans
from mcp_sansio.response_driver import ResponseDriver
from mcp_sansio.stepping import run_outside


class Request(ResponseDriver):
    """One request."""

    def __init__(self, app, pipe):
        super().__init__(app.threads, app.orphans)
        self.threads, self.pipe = app.threads, pipe
        self.looking_out = None
        self.engine = app.server.http_transaction(loopback=True, wake=self.wake)

    async def serve(self):
        try:
            method, target, headers, body = await run_outside(self.pipe.recv)
            self.engine.receive_request(method, target, headers)
            self.engine.receive_body(body)
            self.engine.receive_end()
            await self.respond(self.send)
        except (OSError, EOFError):
            self.disconnect()
        finally:
            self.leave()
            if self.looking_out is not None:  # a pipe that is closed under its reader has them read the next one
                await self.looking_out.ended.wait()
            self.pipe.close()

    async def send(self, parts):
        for part in parts:
            await run_outside(partial(self.pipe.send, part))

    def watch(self):
        self.looking_out = self.threads.start(self.look_out())

    async def look_out(self):
        with suppress(OSError, EOFError):
            await run_outside(self.pipe.recv)  # nothing comes any more but the end
        self.lose()


class App:
    """Serves `registry` in this process. `serve` serves one request, in a thread of its own, say."""

    def __init__(self, registry, **options):
        self.threads, self.orphans = Threads(), Orphans()
        self.server = Server(registry, runtime=self.threads.runtime(), **options)

    def serve(self, pipe):
        self.threads.run(Request(self, pipe).serve())

    def close(self):
        self.threads.run(self.orphans.close(self.threads.event))
        self.threads.close()

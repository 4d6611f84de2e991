"""`serve_stdio` keeps the rules of a transport: what an author would run on a driver of their own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

import drivers
import support
from mcp_sansio import Config, Registry, Server
from mcp_sansio.testing import check_channel
from mcp_sansio.wire.lines import encode_line

serve_stdio = support.need("mcp_sansio_stdio").serve_stdio

#: What the client keeps of what it has not been asked for; the pipe keeps the rest.
_LIMIT = 2**20


@attrs.define
class PipeClient:
    """See `mcp_sansio.testing.ChannelClient`."""

    server: Server
    output: int | None
    lines: asyncio.StreamReader

    async def send(self, message: bytes) -> None:
        """Send a line, in a thread, since the server may be slow to read."""
        assert self.output is not None
        await asyncio.to_thread(_write, self.output, encode_line(message))

    async def receive(self, seconds: float) -> bytes | None:
        """The next line."""
        try:
            return (await asyncio.wait_for(self.lines.readline(), seconds)).removesuffix(b"\n")
        except TimeoutError:
            return None

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Close the pipe that the server reads."""
        if self.output is not None:
            os.close(self.output)
            self.output = None

    def shutdown(self) -> None:
        """Shut the server down."""
        self.server.shutdown()


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@asynccontextmanager
async def open_pipes(registry: Registry, config: Config) -> AsyncIterator[PipeClient]:
    """Serve on pipes in this process."""
    server = Server(registry, runtime=drivers.runtime(), config=config)
    source, output = os.pipe()
    input, sink = os.pipe()
    lines = asyncio.StreamReader(limit=_LIMIT)
    with open(input, "rb", buffering=0) as pipe:
        protocol = asyncio.StreamReaderProtocol(lines)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        serving = asyncio.ensure_future(serve_stdio(server, source, sink))
        client = PipeClient(server, output, lines)
        try:
            yield client
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            client.close()
            os.close(source)
            os.close(sink)
            transport.close()
            await asyncio.sleep(0)


async def test_serve_stdio_keeps_the_rules() -> None:
    await check_channel(open_pipes, patience=30.0)

"""`StdioClient` keeps the rules of a client's channel, with a process between it and the check that answers it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs

import support
from mcp_sansio import Adapter, ClientApi, ClientOptions
from mcp_sansio.testing import check_channel_client
from mcp_sansio.wire.lines import encode_line

StdioClient = support.need("mcp_sansio_stdio").StdioClient

#: Copies its standard input to a socket, and what comes from there to its standard output.
RELAY = """
import os, socket, sys, threading

there = socket.socket(socket.AF_UNIX)
there.connect(sys.argv[1])

def up():
    while data := os.read(0, 65536):
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)

threading.Thread(target=up, daemon=True).start()
while data := there.recv(65536):
    while data:
        data = data[os.write(1, data):]
"""
_LIMIT = 2**22


@attrs.define
class SocketServer:
    """See `mcp_sansio.testing.ChannelServer`."""

    client: ClientApi
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def receive(self, seconds: float) -> bytes | None:
        """The next line."""
        try:
            line = await asyncio.wait_for(self.reader.readline(), seconds)
        except TimeoutError:
            return None
        return line.removesuffix(b"\n")

    async def send(self, message: bytes) -> None:
        """Send a line."""
        self.writer.write(encode_line(message))
        await self.writer.drain()

    async def wait(self, seconds: float) -> None:
        """Let time pass."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """The server ends."""
        self.writer.close()


async def test_a_client_keeps_the_rules(tmp_path: Path) -> None:
    relay, path = tmp_path / "relay.py", tmp_path / "socket"
    relay.write_text(RELAY, "utf-8")

    @asynccontextmanager
    async def open_client(adapter: Adapter, options: ClientOptions) -> AsyncIterator[SocketServer]:
        joined: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            joined.put_nowait((reader, writer))

        listener = await asyncio.start_unix_server(connected, path, limit=_LIMIT)
        async with StdioClient(
            sys.executable, [str(relay), str(path)], adapter=adapter, grace=0.2, **options
        ) as client:
            reader, writer = await asyncio.wait_for(joined.get(), 30)
            try:
                yield SocketServer(client, reader, writer)
            finally:
                writer.close()
        listener.close()
        path.unlink(missing_ok=True)  # it went with its listener, since Python 3.13

    await check_channel_client(open_client, patience=30.0)

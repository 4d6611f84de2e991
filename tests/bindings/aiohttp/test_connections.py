"""What becomes of connections for which aiohttp alone answers: errors of the network, and heads that trickle."""

from __future__ import annotations

import asyncio
import errno
import logging

import pytest

import speak
from mcp_sansio import Registry
from sockets import ACCEPT, Client, Endpoint, serving, text_of

HEAD = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: {ACCEPT}\r\nContent-Type: application/json\r\n".encode()


def echoing() -> Registry:
    registry = Registry("besieged", "1.0")

    @registry.tool
    async def echo(text: str) -> str:
        """Give it back."""
        return text

    return registry


async def test_a_connection_that_ends_by_an_error_of_the_network(caplog: pytest.LogCaptureFixture) -> None:
    """A host that is gone is no ConnectionError to Python, and no fault of the server's."""
    caplog.set_level(logging.INFO)
    async with serving(Endpoint(echoing()).app()) as site:
        reader, writer = await asyncio.open_connection(*site.runner.addresses[0][:2])
        writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: 500\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"100"  # a handler waits for the body
        writer.write(b"{")
        assert site.runner.server is not None
        [connection] = site.runner.server.connections
        connection.connection_lost(OSError(errno.EHOSTUNREACH, "No route to host"))
        writer.close()
        assert text_of(await Client(speak.VERSIONS[0], site).call("echo", text="still here")) == "still here"
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []


async def test_heads_that_trickle_have_the_time_that_aiohttp_gives_them() -> None:
    """No handler is asked before they are complete, so that is the operator's to set, as docs/aiohttp.md says."""
    async with serving(Endpoint(echoing()).app(), keepalive_timeout=0.2) as site:
        reader, writer = await asyncio.open_connection(*site.runner.addresses[0][:2])
        writer.write(HEAD)
        reading = asyncio.create_task(reader.read())
        while not reading.done():
            writer.write(b"X: y\r\n")
            await asyncio.sleep(0.02)
        assert await reading == b""
        writer.close()
        assert text_of(await Client(speak.VERSIONS[0], site).call("echo", text="still here")) == "still here"

"""The driver of one response, on a loop of asyncio: what the engine has to say does not wait for a slow client."""

from __future__ import annotations

import asyncio
from typing import Any

from lent import lent_loop
from mcp_sansio import Exchange, HttpTransaction, Registry
from mcp_sansio.driving import Orphans
from mcp_sansio.response_driver import ResponseDriver
from mcp_sansio.wire.json import encode
from speak import ENVELOPE, Http


class Driver(ResponseDriver):
    """For a transport that a test is."""

    engine: HttpTransaction


async def test_what_comes_up_between_a_take_and_a_write_does_not_wait_for_the_write() -> None:
    registry, running, given_up = Registry("s", "1"), list[Exchange](), asyncio.Event()

    @registry.tool
    async def wait(ex: Exchange) -> str:
        running.append(ex)
        await ex.progress(1)
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return "late"

    loop, server = lent_loop(registry)
    driver = Driver(loop, Orphans())
    driver.engine = server.http_transaction(wake=driver.wake)
    peer = Http(ENVELOPE[0], registry)
    message: Any = peer.message("tools/call", {"name": "wait", "arguments": {}}, token="t")
    forms = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    driver.engine.receive_request("POST", "/mcp", forms | peer.headers(message))
    driver.engine.receive_end(encode(message))
    await driver.take()
    running[0].cancel()
    driver.pause()
    async with asyncio.timeout(5):
        await given_up.wait()
    driver.resume()
    driver.leave()

"""Requests like those before are answered on a socket as the first was, whatever way they come in."""

from __future__ import annotations

import asyncio
import gc
import re
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

import speak
from mcp_sansio import AdapterSet, Exchange, Registry
from mcp_sansio.wire.json import encode
from sockets import ACCEPT, Client, Endpoint, Site, serving
from talk import request

ADAPTERS = AdapterSet.default().by_version
KINDS = ("ends", "ends_late", "logs", "fails", "interrupted", "gives_up", "plain")


class Kiosk:
    """A registry with a tool for each of `KINDS`, and what became of their calls."""

    def __init__(self) -> None:
        self.registry = Registry("kiosk", "1.0")
        self.traces: list[weakref.ref[Any]] = []
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()
        for handler in (self.ends, self.ends_late, self.logs, self.fails, self.interrupted, self.gives_up, self.plain):
            self.registry.tool(handler)
        self.registry.tool(self.waits)

    def trace(self, ex: Exchange) -> None:
        self.traces += [weakref.ref(ex), weakref.ref(ex.request)]

    async def ends(self, ex: Exchange) -> str:
        self.trace(ex)
        return "ended"

    async def ends_late(self, ex: Exchange) -> str:
        self.trace(ex)
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0.001))
        return "ended"

    async def logs(self, ex: Exchange) -> str:
        self.trace(ex)
        await ex.log("error", "before")
        await asyncio.sleep(0)
        await ex.log("error", "after")
        return "logged"

    async def fails(self) -> str:
        raise SystemExit("secret")

    async def interrupted(self, ex: Exchange) -> str:
        self.trace(ex)
        raise asyncio.CancelledError

    async def gives_up(self, ex: Exchange) -> str:
        self.trace(ex)
        ex.cancel()
        await asyncio.sleep(10)
        return "never"

    def plain(self, ex: Exchange) -> str:
        self.trace(ex)
        return "from a thread"

    async def waits(self, ex: Exchange) -> str:
        self.trace(ex)
        self.started.set()
        try:
            await asyncio.sleep(10)
        finally:
            self.cancelled.set()
        return "never"

    async def leaves_nothing(self) -> None:
        """Fails where something that the calls held is not freed."""
        async with asyncio.timeout(10):
            while any(trace() is not None for trace in self.traces):
                gc.collect()
                await asyncio.sleep(0.001)


def written(client: Client, name: str, *more: tuple[str, str]) -> bytes:
    """The bytes of a call."""
    meta = {} if client.adapter.has_handshake else {"_meta": {speak.META + "logLevel": "debug"}}
    message = client.message("tools/call", {"name": name, "arguments": {}, **meta})
    headers = {"Content-Type": "application/json", "Accept": ACCEPT, **client.headers(message)}
    return request("POST", "/mcp", [*headers.items(), *more], encode(message))


@asynccontextmanager
async def connected(site: Site) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*site.runner.addresses[0][:2])
    try:
        yield reader, writer
    finally:
        writer.close()


async def said(site: Site, *pieces: bytes) -> bytes:
    """All that comes back on a connection that `pieces` are sent on, one after the other."""
    async with connected(site) as (reader, writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        return plain(await reader.read())


def plain(response: bytes) -> bytes:
    """A response without what is new each time: the date, the names of streams, and where chunks are cut."""
    response = re.sub(rb"Date: [^\r]*|id: [0-9a-f]{32}-\d+\n", b"", response)
    return re.sub(rb"\r\n[0-9a-f]+\r\n|\r\n", b"", response) if b"chunked" in response else response


def halves(data: bytes, *at: int) -> Iterator[bytes]:
    """`data`, cut at those places, of which a negative one counts from the end."""
    places = [0, *sorted(place % len(data) for place in at), len(data)]
    yield from (data[start:end] for start, end in pairwise(places))


CLOSE = ("Connection", "close")


@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_calls_are_answered_alike_whole_in_pieces_and_one_behind_the_other(version: str) -> None:
    kiosk = Kiosk()
    async with serving(Endpoint(kiosk.registry).app()) as site:
        client = await Client(version, site).open()
        for name in KINDS:
            call, last = written(client, name), written(client, name, CLOSE)
            first = await said(site, last)
            assert first.startswith(b"HTTP/1.1 200 OK"), first
            for _ in range(2):
                assert await said(site, last) == first, name
            head = len(last.partition(b"\r\n\r\n")[0]) + 4
            for at in ([10], [head], [head + 10], [head, -1], [-1]):
                assert await said(site, *halves(last, *at)) == first, (name, at)
            alone = first.replace(b"Connection: close", b"")
            for pieces in ([call * 3 + last], [call, call, call + last], halves(call * 3 + last, 10, head + 10, -10)):
                together = (await said(site, *pieces)).replace(b"Connection: close", b"")
                assert together.count(b"HTTP/1.1 200 OK") == 4
                assert re.sub(rb"\s", b"", together) == re.sub(rb"\s", b"", alone) * 4, name
            assert {*await asyncio.gather(*(said(site, last) for _ in range(8)))} == {first}
        await kiosk.leaves_nothing()


@pytest.mark.parametrize("how", ["after its call", "between two", "within a second one"])
@pytest.mark.parametrize("version", speak.VERSIONS)
async def test_who_leaves_a_call_that_was_begun_at_once_is_seen_to_leave(version: str, how: str) -> None:
    kiosk = Kiosk()
    async with serving(Endpoint(kiosk.registry).app()) as site:
        client = await Client(version, site).open()
        call = written(client, "waits")
        more = {"after its call": b"", "between two": call, "within a second one": call[:-10]}[how]
        for _ in range(3):  # the first one is new to the server
            async with connected(site) as (_, writer):
                writer.write(written(client, "ends") + call + more)
                await kiosk.started.wait()
                assert not kiosk.cancelled.is_set()
            if not ADAPTERS[version].disconnect_cancels:
                text = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
                while not kiosk.cancelled.is_set():
                    assert (await client.post(text)).status == 202
            await kiosk.cancelled.wait()
            kiosk.started.clear()
            kiosk.cancelled.clear()
        await kiosk.leaves_nothing()

"""`ChannelDriver`: what a transport may rely on, whatever its loop is. Its rules are checked with real transports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import speak
from drivers import runtime
from mcp_sansio import ChannelDriver, Config, Registry, Server
from mcp_sansio.wire.json import decode, encode
from mcp_sansio.wire.lines import Overlong


class Peer(speak.Speaker):
    """Knows what a message has in it."""


def bakery(log: list[str]) -> Registry:
    registry = Registry("bakery", "1.0")

    @registry.tool
    async def wait() -> str:
        """Wait to be given up, and take a while to end."""
        log.append("begun")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            log.append("ended")
        return "never"

    @registry.tool
    async def knock() -> str:
        """Wait for nothing."""
        return "come in"

    return registry


class Channel:
    """A driver, and what it sent. `start` runs its coroutines."""

    def __init__(self, log: list[str], start: Any = asyncio.ensure_future, **config: Any) -> None:
        server = Server(bakery(log), runtime=runtime(), config=Config(**config))
        self.driver = ChannelDriver(server, start)
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.breaks: Exception | None = None
        self.speaker = Peer(speak.VERSIONS[0], server.registry)
        self.tasks = [asyncio.ensure_future(work) for work in (self.driver.write(self.send), self.driver.mind(wait))]

    async def send(self, message: bytes) -> None:
        await self.may_send.wait()
        if self.breaks is not None:
            raise self.breaks
        self.sent.put_nowait(message)

    async def open(self) -> Channel:
        """Make the handshake, where there is one."""
        if speak.VERSIONS[0] in speak.HANDSHAKE:
            await self.driver.receive(encode(self.speaker.initialize()))
            await self.sent.get()
            await self.driver.receive(encode(speak.notification("notifications/initialized")))
        return self

    def call(self, id: int, name: str = "wait") -> bytes:
        """A call of a tool."""
        return encode(self.speaker.message("tools/call", {"name": name, "arguments": {}}, id=id))

    async def end(self) -> None:
        await self.driver.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.wait(self.tasks)


async def wait(event: Any, seconds: float | None) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


async def test_a_call_that_is_given_up_before_its_first_step_does_not_begin() -> None:
    log: list[str] = []
    channel = await Channel(log).open()
    await channel.driver.receive(channel.call(1))
    await channel.end()
    assert log == []


async def test_the_end_waits_for_the_calls() -> None:
    log: list[str] = []
    channel = await Channel(log).open()
    await channel.driver.receive(channel.call(1))
    while not log:
        await asyncio.sleep(0)
    await channel.end()
    assert log == ["begun", "ended"]


async def test_a_start_may_run_the_first_step_or_all_of_it() -> None:
    def at_once(coroutine: Any) -> asyncio.Future[Any]:
        try:
            coroutine.send(None)
        except StopIteration:
            return asyncio.get_running_loop().create_future()
        raise AssertionError("this waits for nothing")

    channel = await Channel([], at_once).open()
    await channel.driver.receive(channel.call(7, "knock"))
    assert decode(await channel.sent.get())["id"] == 7
    await channel.end()


async def test_a_call_that_waits_for_nothing_is_not_started_from_its_second_time_on() -> None:
    started: list[Any] = []

    def start(coroutine: Any) -> asyncio.Future[Any]:
        started.append(coroutine.cr_code.co_qualname)
        return asyncio.ensure_future(coroutine)

    channel = await Channel([], start).open()
    for id in range(3):
        await channel.driver.receive(channel.call(id, "knock"))
        assert decode(await channel.sent.get())["id"] == id
    assert len(started) == 1
    await channel.end()


async def test_a_message_that_was_too_long_to_be_kept_is_refused() -> None:
    channel = Channel([], max_message=1000)
    await channel.driver.receive(Overlong(1001))
    assert b"larger than 1000 bytes" in await channel.sent.get()
    await channel.end()


async def test_nothing_more_is_read_while_the_client_reads_nothing() -> None:
    channel = Channel([], max_unsent=1000)
    channel.may_send.clear()
    refused = b'{"jsonrpc":"2.0","id":%d,"method":"no/such"}'

    async def read() -> None:
        for id in range(100):
            await channel.driver.receive(refused % id)

    reading = asyncio.ensure_future(read())
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not reading.done()
    assert channel.driver.engine.unsent < 2000
    channel.may_send.set()
    await reading
    answers = [decode(await channel.sent.get())["id"] for _ in range(100)]
    assert answers == list(range(100))
    await channel.end()


async def test_a_client_that_leaves_while_it_reads_nothing_is_let_go_of() -> None:
    channel = Channel([], max_unsent=10)
    channel.may_send.clear()

    async def read() -> None:
        for id in range(100):
            await channel.driver.receive(b'{"jsonrpc":"2.0","id":%d,"method":"no/such"}' % id)

    reading = asyncio.ensure_future(read())
    for _ in range(10):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    await asyncio.wait_for(channel.end(), timeout=30)


async def test_when_nothing_can_be_sent_any_more_the_channel_is_over() -> None:
    log: list[str] = []
    channel = await Channel(log, max_unsent=1).open()
    await channel.driver.receive(channel.call(1))
    await asyncio.sleep(0)
    channel.may_send.clear()

    async def read() -> None:
        for id in range(10, 110):
            await channel.driver.receive(b'{"jsonrpc":"2.0","id":%d,"method":"no/such"}' % id)

    reading = asyncio.ensure_future(read())
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not reading.done()
    channel.breaks = BrokenPipeError("nobody reads")
    channel.may_send.set()
    await asyncio.wait_for(reading, timeout=30)
    with pytest.raises(BrokenPipeError, match="nobody reads"):
        await channel.tasks[0]
    await channel.driver.receive(channel.call(5))
    await channel.end()
    assert log == ["begun", "ended"]
    assert channel.sent.empty()

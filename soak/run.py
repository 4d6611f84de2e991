"""A long run by hand: does a server that has worked for long look like one that has just begun?

``python soak/run.py`` makes 200,000 calls over HTTP and as many over pipes, 20,000 sessions that expire, 20,000
requests that are refused, and 5,000 listen streams that are dropped; ``--scale 0.01`` makes a hundredth of that. Server
and clients are in this process, on real sockets and pipes.

Each part is run a little, twice, to warm up, then its full count, and then a little more under ``tracemalloc``. What is
measured before and after the full count has to be the same, within `BOUNDS`. The exit status is 1 where it is not.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import resource
import socket
import struct
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
from aiohttp import web

from mcp_sansio import AdapterSet, Change, ChangeKind, Config, Exchange, Registry, Server
from mcp_sansio_aiohttp import Endpoint
from mcp_sansio_stdio import serve_stdio

VERSIONS = AdapterSet.default().versions
NEWEST = VERSIONS[0]
HANDSHAKE = next(name for name in VERSIONS if AdapterSet.default().by_version[name].has_handshake)
#: How much more there may be after than before, in bytes and in Python's blocks of memory. Of anything else: nothing.
BOUNDS = {"memory": 8 * 2**20, "blocks": 3000, "traced": 256 * 2**10}

Part = Callable[["Place", int], Awaitable[None]]


def registry() -> Registry:
    """A server with something of each kind of work."""
    made = Registry("soak", "1.0")

    @made.tool
    async def echo(text: str) -> str:
        """Give it back."""
        return text

    @made.tool
    async def report(ex: Exchange) -> str:
        """Report: over HTTP the reply becomes a stream."""
        await ex.progress(1, 2)
        await asyncio.sleep(0)
        return "done"

    @made.tool
    def block() -> str:
        """Run in a thread."""
        return "done"

    @made.tool
    async def fail() -> str:
        """Fail where the caller is to know it."""
        raise ValueError("the caller is told nothing of this")

    return made


# What is measured


@attrs.frozen
class Measure:
    """What there is of everything. `left` is what the server holds of its clients."""

    memory: int
    blocks: int
    tasks: int
    files: int
    left: dict[str, int]


def measure(server: Server) -> Measure:
    """Take it, once everything that is free is freed."""
    for _ in range(3):
        gc.collect()
    left = {
        "topics": len(server.topics),
        "streams": len(server._streams),
        "live sessions": len(server._live),
        "pairs": len(server.pairs),
        "sessions": len(server.store),  # type: ignore[arg-type]
        "questions": len(server.questions._pending),
    }
    with open("/proc/self/statm", encoding="ascii") as file:
        memory = int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return Measure(memory, sys.getallocatedblocks(), len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")), left)


def excess(before: Measure, after: Measure, traced: int) -> list[str]:
    """What there is too much of, in words."""
    grown = {name: getattr(after, name) - getattr(before, name) for name in ("memory", "blocks", "tasks", "files")}
    grown |= {name: after.left[name] - count for name, count in before.left.items()} | {"traced": traced}
    return [f"{name}: {count} more" for name, count in grown.items() if count > BOUNDS.get(name, 0)]


# The clients


@attrs.define(eq=False)
class Place:
    """Where a part is run: a server, its port, and how many connections there may be at once."""

    server: Server
    port: int
    most: int

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection for the time of the block."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def settle(self) -> None:
        """Return when the server has seen that its clients left, and has no task for them any more; in ten seconds."""
        for _ in range(1000):
            await asyncio.sleep(0.01)
            if len(asyncio.all_tasks()) == 1:
                return


async def shared(place: Place, count: int, work: Callable[[Any, Any, int], Awaitable[None]], workers: int = 16) -> None:
    """Do `work` for each number below `count`, on some connections that are kept."""
    numbers = iter(range(count))

    async def on_one_connection() -> None:
        async with place.connected() as (reader, writer):
            for number in numbers:
                await work(reader, writer, number)

    await asyncio.gather(*(on_one_connection() for _ in range(workers)))


def message(version: str, method: str, params: dict[str, Any], id: Any = 1, token: Any = None) -> bytes:
    """The bytes of a request."""
    meta: dict[str, Any] = {} if token is None else {"progressToken": token}
    if version == NEWEST:
        prefix = "io.modelcontextprotocol/"
        meta |= {f"{prefix}protocolVersion": version, f"{prefix}clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, **({"_meta": meta} if meta else {})}}
    return json.dumps(body).encode()


def call(version: str, number: int) -> bytes:
    """A call: mostly of a tool that answers at once."""
    name, arguments = "echo", {"text": f"call {number}"}
    if number % 10 == 9:
        name, arguments = ("report", "block", "fail", "nothing")[number // 10 % 4], {}
    token = number if name == "report" else None
    return message(version, "tools/call", {"name": name, "arguments": arguments}, number, token)


def post(version: str, body: bytes, **headers: str) -> bytes:
    """The bytes of an HTTP request."""
    own = {
        "Host": "localhost",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": version,
        "Content-Length": str(len(body)),
    }
    if version == NEWEST and body.startswith(b'{"jsonrpc"'):
        said = json.loads(body)
        own["Mcp-Method"] = said["method"]
        own |= {"Mcp-Name": said["params"]["name"]} if "name" in said["params"] else {}
    own |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in own.items()]
    return "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode() + body


async def response(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    """A whole response: its status, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = b""
    if b"chunked" in head:
        while (size := int(await reader.readline(), 16)) > 0:
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readline()
    else:
        body = await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0))
    return int(head.split(b" ", 2)[1]), head, body


async def initialize(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """Open a session: its id."""
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}
    writer.write(post(HANDSHAKE, message(HANDSHAKE, "initialize", params)))
    status, head, _ = await response(reader)
    assert status == 200, head
    return head.partition(b"Mcp-Session-Id: ")[2].partition(b"\r\n")[0].decode()


# The parts


async def calls_over_http(place: Place, count: int) -> None:
    """Calls of both kinds of revision, on connections that are kept; those with a handshake in a session each."""
    sessions: dict[Any, str] = {}

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        if number % 2:
            writer.write(post(NEWEST, call(NEWEST, number)))
        else:
            if writer not in sessions:
                sessions[writer] = await initialize(reader, writer)
            writer.write(post(HANDSHAKE, call(HANDSHAKE, number), Mcp_Session_Id=sessions[writer]))
        status, _, body = await response(reader)
        assert status in (200, 400), body
        assert b'"id":%d' % number in body, body

    await shared(place, count, one)
    for session in sessions.values():
        await place.server.store.delete(f"session::{session}")
        place.server.end_session(session)


async def calls_over_pipes(place: Place, count: int) -> None:
    """Calls by a client that has fifty on their way at a time."""
    loop = asyncio.get_running_loop()
    source, output = os.pipe()
    input, sink = os.pipe()
    serving = asyncio.ensure_future(serve_stdio(place.server, source, sink))
    reader = asyncio.StreamReader(limit=2**20)
    reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), open(input, "rb", 0))
    writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, open(output, "wb", 0))
    for start in range(0, count, 50):
        numbers = range(start, min(start + 50, count))
        writing.write(b"".join(call(NEWEST, number) + b"\n" for number in numbers))
        missing = set(numbers)
        while missing:
            missing.discard(json.loads(await reader.readline()).get("id"))
    writing.close()
    await serving
    reading.close()
    os.close(source)
    os.close(sink)


async def sessions_that_expire(place: Place, count: int) -> None:
    """Sessions with a call each, which nobody comes back to."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        session = await initialize(reader, writer)
        writer.write(post(HANDSHAKE, call(HANDSHAKE, number * 10), Mcp_Session_Id=session))
        status, _, body = await response(reader)
        assert status == 200, body

    await shared(place, count, one)
    await asyncio.sleep(place.server.config.session_ttl + 0.1)


async def refusals(place: Place, count: int) -> None:
    """Requests that are refused, for every reason that there is room for, with something new in each."""

    def requests(number: int) -> bytes:
        mixed = [
            post(NEWEST, b'{"number": %d' % number),
            post(NEWEST, b"[%d]" % number),
            post(NEWEST, message(NEWEST, f"none/{number}", {})),
            post(NEWEST, message(NEWEST, "tools/call", {"name": f"none-{number}", "arguments": {}})),
            post(NEWEST, message(NEWEST, "resources/read", {"uri": f"none:{number}"})),
            post(NEWEST, message(NEWEST, "tools/list", {"cursor": f"none-{number}"})),
            post(f"1999-01-{number}", message(HANDSHAKE, "tools/list", {})),
            post(NEWEST, call(NEWEST, number), Host=f"{number}.example"),
            post(NEWEST, call(NEWEST, number), Origin=f"https://{number}.example"),
            post(NEWEST, call(NEWEST, number), Content_Type=f"text/{number}"),
            post(NEWEST, call(NEWEST, number), Accept=f"text/{number}"),
            post(HANDSHAKE, message(HANDSHAKE, "tools/list", {}), Mcp_Session_Id=f"none-{number}"),
        ]
        return mixed[number % len(mixed)]

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(requests(number))
        status, _, body = await response(reader)
        assert status >= 400, (status, body)

    await shared(place, count, one)


async def listen_streams(place: Place, count: int) -> None:
    """Streams that all hear of a change and are then dropped: some in order, some by a reset, some unread."""
    listen = message(NEWEST, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})

    async def one(number: int, everybody: asyncio.Event) -> None:
        async with place.connected() as (reader, writer):
            writer.write(post(NEWEST, listen))
            await reader.readuntil(b"subscriptions/acknowledged")
            await everybody.wait()
            if number % 3:
                await reader.readuntil(b"tools/list_changed")
            if number % 2:
                option = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, option)
                writer.transport.abort()

    for start in range(0, count, place.most):
        everybody = asyncio.Event()
        numbers = range(start, min(start + place.most, count))
        streams = [asyncio.ensure_future(one(number, everybody)) for number in numbers]
        while len(place.server._streams) < len(numbers):
            await asyncio.sleep(0.01)
        everybody.set()
        place.server.publish(Change(ChangeKind.TOOLS))
        await asyncio.gather(*streams)
        while place.server._streams:
            await asyncio.sleep(0.01)


PARTS: dict[str, tuple[Part, int, int]] = {
    # What is run, how often, and what part of that warms it up: streams all at once, since they take room at once.
    "calls over HTTP": (calls_over_http, 200_000, 20),
    "calls over pipes": (calls_over_pipes, 200_000, 20),
    "sessions that expire": (sessions_that_expire, 20_000, 4),
    "refused requests": (refusals, 20_000, 10),
    "listen streams": (listen_streams, 5_000, 1),
}


# The run


def open_files() -> int:
    """Let this process have as many open files as it may; how many those are."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


@asynccontextmanager
async def serving(config: Config, most: int) -> AsyncIterator[Place]:
    """A server on a port."""
    endpoint = Endpoint(registry(), config=config)
    runner = web.AppRunner(endpoint.app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    try:
        yield Place(endpoint.server, runner.addresses[0][1], most)
    finally:
        await runner.cleanup()


async def soak(name: str, scale: float) -> list[str]:
    """Run one part, print its figures, and give what there was too much of."""
    part, full, share = PARTS[name]
    count = max(20, round(full * scale))
    # Long enough for each call to find its session, however busy the machine is for a moment.
    config = Config(session_ttl=0.3 + 2 * scale) if part is sessions_that_expire else Config()
    async with serving(config, most=(open_files() - 100) // 2) as place:

        async def run(count: int) -> Measure:
            await part(place, count)
            await place.settle()
            return measure(place.server)

        await run(max(10, count // share))
        # The second time finds the memory in the pieces that the first one left it in.
        before = await run(max(10, count // share))
        began = time.perf_counter()
        after = await run(count)
        seconds = time.perf_counter() - began
        traced = await growth(run, max(10, count // 20))
    print(f"{name}: {count:,} in {seconds:.1f} s")
    print(f"  memory {before.memory / 2**20:.1f} -> {after.memory / 2**20:.1f} MiB", end=", ")
    print(f"blocks {before.blocks:,} -> {after.blocks:,}", end=", ")
    print(f"traced {traced:+,} bytes over {max(10, count // 20):,} more", end=", ")
    print(
        f"tasks {before.tasks} -> {after.tasks}, files {before.files} -> {after.files}, left {after.left}", flush=True
    )
    return [f"{name}: {words}" for words in excess(before, after, traced)]


async def growth(run: Callable[[int], Awaitable[Measure]], count: int) -> int:
    """By how many bytes what Python holds grows with `count` more, after as many that are traced as well.

    Otherwise what takes the place of something that was there before the tracing would count as growth.
    """
    tracemalloc.start()
    try:
        await run(count)
        before, _ = tracemalloc.get_traced_memory()
        await run(count)
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="which parts; all unless given")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of the full counts")
    given = parser.parse_args()
    logging.disable()  # what is refused, and what fails, is logged, and is meant here
    faults = [words for name in given.parts or PARTS for words in asyncio.run(soak(name, given.scale))]
    for words in faults:
        print(f"TOO MUCH  {words}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""The transcripts of channels, on pipes: `serve_stdio` in this process, and `run_stdio` in one of its own.

What a server says on them is what the pure core says, line by line.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import pytest

import bakery
import support
import transcripts
from child_servers import PACKAGES
from mcp_sansio import Config, Runtime, Server
from mcp_sansio.testing.folding import unfolded
from mcp_sansio.wire.lines import encode_line

serve_stdio = support.need("mcp_sansio_stdio").serve_stdio

PLAYED = [one for one in transcripts.playable() if one.is_channel]
#: Those in which nothing happens but what the client does, so that the server may be a process of its own.
ALONE = [
    one
    for one in PLAYED
    if one.adapters is None and all(step.lines == ["@ eof"] for step in one.steps if step.mark == "@")
]
#: Without an event loop, a channel says the same.
PROGRAMS = {
    "asyncio": "import asyncio, bakery, mcp_sansio_stdio as m; m.run_stdio(bakery.build(asyncio.Event))",
    "blocking": "import bakery, mcp_sansio.stepping as s, mcp_sansio_sync as m; m.run_stdio(bakery.build(s.Event))",
}
#: Long enough for any machine; a test that waits this long has failed.
PATIENCE = 30.0


def cases(played: list[transcripts.Transcript]) -> pytest.MarkDecorator:
    """The parameters of a test of `played`."""
    made = [pytest.param(one.version, one, id=f"{one.version}-{one.name}") for one in played]
    return pytest.mark.parametrize(("version", "transcript"), made)


class ChannelSide:
    """A client that writes to `output` and reads lines from `lines`. `server` and `clock` are there where the server is
    in this process.
    """

    def __init__(
        self,
        output: int,
        lines: asyncio.StreamReader,
        server: Server | None = None,
        clock: transcripts.MovableClock | None = None,
    ) -> None:
        self._output: int | None = output
        self._lines = lines
        self._server = server
        self._clock = clock

    async def send(self, label: str, lines: list[str]) -> None:
        """See `transcripts.Side.send`."""
        assert self._output is not None
        os.write(self._output, encode_line(unfolded(lines)))

    async def move(self, move: transcripts.Move) -> None:
        """See `transcripts.Side.move`."""
        if move.word == "eof":
            self.hang_up()
        elif move.word == "shutdown":
            assert self._server is not None
            self._server.shutdown()
        else:
            assert self._clock is not None
            assert move.seconds is not None
            await self._clock.advance(move.seconds)

    async def settle(self) -> None:
        """See `transcripts.Side.settle`."""
        await transcripts.settled()

    async def output(self, like: transcripts.Output) -> transcripts.Output:
        """See `transcripts.Side.output`."""
        try:
            async with asyncio.timeout(PATIENCE):
                line = await self._lines.readline()
        except TimeoutError:
            line = b"(nothing more came)\n"
        return attrs.evolve(like, data=line.removesuffix(b"\n"))

    def hang_up(self) -> None:
        """Close the client's output."""
        if self._output is not None:
            os.close(self._output)
            self._output = None

    async def rest(self) -> bytes:
        """What nobody expected: all that comes until the server ends."""
        self.hang_up()
        async with asyncio.timeout(PATIENCE):
            return await self._lines.read()


@asynccontextmanager
async def reading(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    """Read a pipe."""
    lines = asyncio.StreamReader(limit=2**24)
    with open(descriptor, "rb", buffering=0) as pipe:
        protocol = asyncio.StreamReaderProtocol(lines)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        try:
            yield lines
        finally:
            transport.close()
            await transcripts.settled()


@cases(PLAYED)
async def test_serve_stdio(version: str, transcript: transcripts.Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = transcripts.MovableClock()
    monkeypatch.setattr("time.monotonic", clock)
    runtime = Runtime(now=time.monotonic, token_bytes=secrets.token_bytes, event=asyncio.Event)
    server = Server(
        bakery.build(asyncio.Event), runtime=runtime, config=transcript.config, adapters=transcript.adapters
    )
    source, output = os.pipe()
    input, sink = os.pipe()

    async def serve() -> None:
        try:
            await serve_stdio(server, source, sink)
        finally:
            os.close(sink)
            os.close(source)

    serving = asyncio.ensure_future(serve())
    async with reading(input) as lines:
        side = ChannelSide(output, lines, server, clock)
        try:
            await transcripts.replay(transcript, side)
        finally:
            rest = await side.rest()
            await serving
    assert rest == b""


@pytest.mark.parametrize("program", PROGRAMS)
@cases(ALONE)
async def test_run_stdio(version: str, transcript: transcripts.Transcript, program: str) -> None:
    if program == "blocking":
        support.need("mcp_sansio_sync")
    assert transcript.config == Config(), "the process has no way to be told"
    environment = {**os.environ, **PACKAGES}
    source, output = os.pipe()
    input, sink = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAMS[program]], stdin=source, stdout=sink, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(source)
    os.close(sink)
    try:
        async with reading(input) as lines:
            side = ChannelSide(output, lines)
            try:
                await transcripts.replay(transcript, side)
            finally:
                rest = await side.rest()
        assert (rest, process.wait(PATIENCE)) == (b"", 0)
    finally:
        process.kill()
        process.wait()

"""The transcripts over HTTP, on a real socket: what comes back is what the pure core says."""

from __future__ import annotations

import asyncio

import attrs
import pytest

import bakery
import transcripts
from mcp_sansio import Head
from sockets import PATIENCE, Endpoint, SseEndpoint, web

from aiohttp import ClientResponse, ClientSession, ClientTimeout, TCPConnector  # isort: skip
from yarl import URL  # isort: skip

#: Those of which the suite cannot play all: the clock is put forward, or the server is shut down.
PLAYED = [one for one in transcripts.playable() if not one.is_channel and not one.is_the_clients_alone]
#: What the HTTP library puts into a response, which the core knows nothing of. It also counts the bytes of a body that
#: is empty, and of a stream that is complete when its head goes out.
ADDED = {"date", "server", "connection", "transfer-encoding"}
#: What the HTTP library would put into a request.
UNWANTED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")


@attrs.define(eq=False)
class Pending:
    """A request on its way, and its response as soon as there is one."""

    task: asyncio.Task[ClientResponse]

    async def head(self) -> Head:
        """The head of the response, without what was added."""
        response = await self.task
        raw = [(name.decode(), value.decode()) for name, value in response.raw_headers]
        whole = response.content_type == transcripts.STREAM_TYPE or ("Content-Length", "0") in raw
        added = ADDED | {"content-length"} if whole else ADDED
        kept = [pair for pair in raw if pair[0].lower() not in added]
        return Head(response.status, tuple(kept))

    async def leave(self) -> None:
        """Cut the connection."""
        if self.task.done():
            self.task.result().close()
        else:
            self.task.cancel()
            await asyncio.wait([self.task])


class HttpSide:
    """A client of the endpoints at `base`."""

    def __init__(self, clock: transcripts.MovableClock, http: ClientSession, base: str, endpoint: Endpoint) -> None:
        self._clock = clock
        self._http = http
        self._base = base
        self._endpoint = endpoint
        self._pending: dict[str, Pending] = {}

    async def send(self, label: str, lines: list[str]) -> None:
        """See `transcripts.Side.send`."""
        request = transcripts.Request.of(lines)
        url = URL(self._base + request.target, encoded=True)
        task = asyncio.ensure_future(
            self._http.request(
                request.method,
                url,
                headers=request.headers,
                data=request.body or None,
                skip_auto_headers=UNWANTED,
                allow_redirects=False,
            )
        )
        self._pending[label] = Pending(task)

    async def move(self, move: transcripts.Move) -> None:
        """See `transcripts.Side.move`."""
        if move.seconds is not None:
            await self._clock.advance(move.seconds)
        elif move.leaves is not None:
            await self._pending.pop(move.leaves).leave()
        else:
            assert move.word == "shutdown"
            await self._endpoint.on_shutdown()

    async def settle(self) -> None:
        """See `transcripts.Side.settle`."""
        await transcripts.settled()

    async def output(self, like: transcripts.Output) -> transcripts.Output:
        """See `transcripts.Side.output`."""
        pending, head, data, ended = self._pending[like.label], None, b"", False
        try:
            async with asyncio.timeout(PATIENCE):
                if like.head is not None:
                    head = await pending.head()
                content = (await pending.task).content
                while len(data) < len(like.data) and not content.at_eof():
                    data += await content.read(len(like.data) - len(data))
                if like.ended:
                    data += await content.read()
                    ended = True
        except TimeoutError:
            data += b"\n(nothing more came)"
        return attrs.evolve(like, head=head, data=data, ended=ended)

    async def close(self) -> None:
        """Leave everything. Fails where something was said that nobody expected."""
        await transcripts.settled()
        for label, pending in self._pending.items():
            if pending.task.done():
                assert pending.task.result().content.read_nowait() == b"", label
            await pending.leave()


@pytest.mark.parametrize(
    ("version", "transcript"), [pytest.param(one.version, one, id=f"{one.version}-{one.name}") for one in PLAYED]
)
async def test_transcript(version: str, transcript: transcripts.Transcript, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = transcripts.MovableClock()
    monkeypatch.setattr("time.monotonic", clock)
    registry = bakery.build(asyncio.Event)
    endpoint = Endpoint(
        registry,
        adapters=transcript.adapters,
        config=transcript.config,
        principal=lambda request: request.headers.get("Authorization"),
    )
    app = endpoint.app()
    if endpoint.server.adapters.with_handshake() is not None:
        SseEndpoint(endpoint).setup(app, transcripts.STREAM_PATH, transcripts.MESSAGE_PATH)
    site = web.AppRunner(app, access_log=None)
    await site.setup()
    await web.TCPSite(site, "127.0.0.1", 0).start()
    host, port = site.addresses[0][:2]
    connector = TCPConnector(limit=0, force_close=True)
    try:
        async with ClientSession(connector=connector, timeout=ClientTimeout(), auto_decompress=False) as http:
            side = HttpSide(clock, http, f"http://{host}:{port}", endpoint)
            try:
                await transcripts.replay(transcript, side)
            finally:
                await side.close()
    finally:
        await site.cleanup()

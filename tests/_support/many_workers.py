"""Workers in processes of their own, behind a splitter that gives each connection to the next of them.

Nothing of a client's ties it to a worker: its connections are not kept (``force_close``), and there is no affinity.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import runpy
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import support
from engine_servers import EngineServer, running
from flags import Flag
from mcp_sansio import Config, MemoryHub, MemorySessionStore
from sockets import Client, ClientSession, ClientTimeout, Site, TCPConnector
from worlds import Trio, in_a_thread

PROGRAM = support.ROOT / "tests" / "workers" / "program.py"
#: Long enough for a machine that is busy with something else; a test that waits this long has failed.
PATIENCE = 60.0


async def until(condition: Callable[[], Any], what: str) -> None:
    """Return once `condition` holds. Fails where it never does."""
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"it never came to pass that {what}") from None


#: What workers can share.
#: Each takes its time. What PostgreSQL has of its own is tried in tests/stores, always.
ENGINES = ("sqlite", "redis", pytest.param("postgres", marks=pytest.mark.thorough))


class Engines:
    """Engines that the deployments of a run share, each with a namespace of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._servers: dict[str, EngineServer] = {}
        self._stack = ExitStack()
        self._numbers = itertools.count(1)

    def options(self, engine: str) -> dict[str, Any]:
        """What a worker has to be told of that engine. Skips or fails, as `support.need` does, where it is missing."""
        support.need(f"mcp_sansio_{engine}")
        namespace = f"test{next(self._numbers)}"
        return {"engine": engine, "where": self._where(engine), "store": {"namespace": namespace}}

    def _where(self, engine: str) -> str:
        if engine == "sqlite":
            return str(self._folder / "mcp.sqlite")
        return self.server(engine).url

    def server(self, engine: str) -> EngineServer:
        """The program of that engine, to be killed and started again by who has it alone."""
        if engine not in self._servers:
            self._servers[engine] = self._stack.enter_context(running(engine))
        return self._servers[engine]

    def close(self) -> None:
        """Stop what was started."""
        self._stack.close()


class Worker:
    """A process that serves at `port`."""

    def __init__(self, process: asyncio.subprocess.Process, port: int, stderr: Path) -> None:
        self.process = process
        self.port = port
        self.stderr = stderr

    @classmethod
    async def start(cls, options: dict[str, Any]) -> Worker:
        """Start one, and wait until it serves."""
        folder = Path(options["folder"])
        stderr = folder / f"worker-{len(list(folder.glob('worker-*')))}.txt"
        with stderr.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(PROGRAM), json.dumps(options), stdout=asyncio.subprocess.PIPE, stderr=errors
            )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = await process.stdout.readline()
        assert line, stderr.read_text()
        return cls(process, int(line), stderr)

    @property
    def pid(self) -> int:
        return self.process.pid

    async def kill(self) -> None:
        """End it as a power cut would."""
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def stop(self) -> None:
        """End it as a deployment does: it finishes what it has in flight."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            assert await self.process.wait() == 0, self.stderr.read_text()


class Splitter:
    """Takes connections at `port`, and gives each to the next worker in turn that takes it."""

    def __init__(self) -> None:
        self.workers: list[Worker] = []
        self.port = 0
        self.open: Counter[int] = Counter()
        self._turn = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Splitter]:
        """Serve until the block ends."""
        server = await asyncio.start_server(self._take, "127.0.0.1", 0, backlog=1024)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with self._connection() as (there, back):
                await asyncio.gather(_carry(reader, back), _carry(there, writer))
        except (OSError, asyncio.CancelledError):
            pass  # the client learns it from its connection's end
        finally:
            writer.close()
            self._tasks.discard(task)

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """A connection to the next worker. One that takes none is passed over, as a load balancer does."""
        for _ in range(len(self.workers)):
            self._turn += 1
            worker = self.workers[self._turn % len(self.workers)]
            self.open[worker.port] += 1
            try:
                yield await asyncio.open_connection("127.0.0.1", worker.port)
                return
            except ConnectionRefusedError:
                continue
            finally:
                self.open[worker.port] -= 1
        raise ConnectionError("no worker takes connections")


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry what comes in one direction. The end of either connection is the end of both."""
    try:
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


class Fleet:
    """A deployment: its workers, the splitter in front of them, and the options that each new worker gets."""

    def __init__(self, splitter: Splitter, site: Site, options: dict[str, Any]) -> None:
        self.splitter = splitter
        self.site = site
        self.options = options
        self.folder = Path(options["folder"])
        self.started: list[Worker] = []

    @property
    def workers(self) -> list[Worker]:
        """Those that get connections."""
        return self.splitter.workers

    async def start(self, count: int) -> None:
        """Start so many workers more."""
        started = await asyncio.gather(*(Worker.start(self.options) for _ in range(count)))
        self.started.extend(started)
        self.workers.extend(started)

    def at(self, worker: Worker, client: Client) -> Client:
        """The same client, whose requests all go to that worker."""
        site = Site(f"http://127.0.0.1:{worker.port}", self.site.http, self.site.runner)
        moved = Client(client.version, site)
        moved.session, moved.extra = client.session, client.extra
        return moved

    def client(self, version: str, *, user: str | None = None) -> Client:
        """A client of the deployment."""
        client = Client(version, self.site)
        client.extra = {} if user is None else {"X-User": user}
        return client

    def open_gate(self, name: str) -> None:
        """Let a handler go on."""
        (self.folder / name).touch()

    async def happened(self, name: str) -> None:
        """Return once a handler has said so."""
        await until((self.folder / name).exists, f"there is {name}")

    async def leave_out(self, worker: Worker) -> None:
        """Give `worker` no more connections, and end it once it has none any more."""
        self.workers.remove(worker)
        await until(lambda: not self.splitter.open[worker.port], "its connections have ended")
        await worker.stop()

    def errors(self) -> str:
        """What all workers have written to their error output."""
        return "".join(path.read_text() for path in sorted(self.folder.glob("worker-*")))


@asynccontextmanager
async def fleet(count: int, folder: Path, **options: Any) -> AsyncIterator[Fleet]:
    """`count` workers behind a splitter. `options` are those of the program; `folder` is for this deployment alone."""
    folder.mkdir(exist_ok=True)
    async with _in_front(folder, options) as held:
        try:
            await held.start(count)
            yield held
        finally:
            for worker in held.started:
                await worker.kill()


@asynccontextmanager
async def _in_front(folder: Path, options: dict[str, Any]) -> AsyncIterator[Fleet]:
    """A deployment without workers yet."""
    async with (
        Splitter().serving() as splitter,
        ClientSession(connector=TCPConnector(limit=0, force_close=True), timeout=ClientTimeout(PATIENCE)) as http,
    ):
        site = Site(f"http://127.0.0.1:{splitter.port}", http, None)  # type: ignore[arg-type]
        yield Fleet(splitter, site, {**options, "folder": str(folder)})


class Place:
    """Where something serves."""

    def __init__(self, port: int) -> None:
        self.port = port


@asynccontextmanager
async def trio_fleet(count: int, folder: Path) -> AsyncIterator[Fleet]:
    """`count` workers on trio, in one process and one run of it: they share what is in memory."""
    trio, binding = support.need("trio"), support.need("mcp_sansio_trio")
    folder.mkdir()
    shop = runpy.run_path(str(PROGRAM.with_name("shop.py")))["shop"]

    async def serve(ready: Callable[[list[int]], None], stop: Flag) -> None:
        shared = {"store": MemorySessionStore(clock=trio.current_time), "hub": MemoryHub(event=trio.Event)}
        config = Config(deletable_sessions=True, retry=10)
        endpoints = [
            binding.Endpoint(shop(folder, trio.sleep), config=config, sse_path="/sse", **shared) for _ in range(count)
        ]
        async with trio.open_nursery() as nursery:
            starts = [partial(binding.serve_http, endpoint, "127.0.0.1", 0) for endpoint in endpoints]
            ready([(await nursery.start(start))[0][1] for start in starts])
            await stop.wait()
            for endpoint in endpoints:
                endpoint.shutdown()

    with in_a_thread(Trio(), serve) as ports:
        async with _in_front(folder, {}) as held:
            held.workers.extend(Place(port) for port in ports)
            yield held


#: What differs from run to run: identifiers of 128 bits, and sealed tokens.
_CHANCE = re.compile(r"[0-9a-f]{32}|[A-Za-z0-9_-]{80,}")


def without_chance(text: str) -> str:
    """`text` with each random identifier in it replaced by a number, in the order in which they come."""
    seen: dict[str, str] = {}
    return _CHANCE.sub(lambda match: seen.setdefault(match[0], f"<{len(seen) + 1}>"), text)

"""Many workers: sessions and questions in a second on each engine, with 1, 2 and 4 processes and no affinity.

Run by the environment that has mcp-sansio, its aiohttp binding and the stores in it. It prints a line of JSON for each
table, and starts Redis and PostgreSQL by itself, from the programs of the system; what is missing has the reason there.

    python stores.py [--rows PATTERN] [--quick] [--rounds N] [--seconds S]

Each of the eight clients has a connection to every worker, and sends each request to the next one: what one worker
keeps another needs at once, and no balancer takes time of the processors.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
# Last: its other modules are the tests' own.
sys.path.append(str(Path(__file__).parent.parent / "tests" / "_support"))

from load import CONNECTIONS, HttpClient, HttpLoad, Process, Run, Waiting, Wire
from rows import NEW, OLD, Row, Wrong

import engine_programs

HERE = Path(__file__).parent
PROCESSES = (1, 2, 4)
#: What each engine needs: modules, of which the first is its store's.
MODULES = {
    "memory": (),
    "sqlite": ("mcp_sansio_sqlite", "aiosqlite"),
    "redis": ("mcp_sansio_redis", "redis"),
    "postgres": ("mcp_sansio_postgres", "psycopg", "psycopg_pool"),
    "sealed": ("cryptography",),
}
TITLES = {"memory": "memory", "sqlite": "SQLite", "redis": "Redis", "postgres": "PostgreSQL", "sealed": "sealed tokens"}


class Fleet:
    """The workers of a deployment, each a process that serves at a port of its own."""

    def __init__(self, engine: str, where: list[str], count: int) -> None:
        self._stack = ExitStack()
        self.workers: list[Process] = []
        try:
            for _ in range(count):
                worker = Process(
                    Path(sys.executable), HERE / "servers" / "stored.py", engine, *where, environment=dict(os.environ)
                )
                self._stack.callback(worker.close)
                self.workers.append(worker)
            self.ports = [worker.port() for worker in self.workers]
        except BaseException:
            self.close()
            raise

    def processor_time(self) -> float:
        """Seconds that all of them have computed so far."""
        return sum(worker.processor_time() for worker in self.workers)

    def close(self) -> None:
        """End them."""
        self._stack.close()


# Clients --------------------------------------------------------------------------------------------------------------


class Client(HttpClient):
    """One of the concurrent clients, which is at another worker with each request."""

    def __init__(self, row: Row, ports: list[int], number: int) -> None:
        self.ports = ports
        super().__init__(row, ports[number % len(ports)], number)

    def connect(self) -> list[Wire]:
        """See `HttpClient.connect`: a connection to each, two at least: answers come in beside their calls."""
        wires = [Wire(port) for port in (self.ports if len(self.ports) > 1 else self.ports * 2)]
        self._turns = cycle(wires)
        self.wire = self.side = next(self._turns)
        return wires

    def _exchange(self, request: bytes) -> Waiting:
        self.wire = next(self._turns)
        yield from super()._exchange(request)

    def _pushed(self) -> Waiting:
        # Whoever answers is one further than who asks, and the next call begins one further than that.
        self.wire, self.side = next(self._turns), next(self._turns)
        yield from super()._pushed()


class SessionClient(Client):
    """Opens a session, makes a call in it, and ends it."""

    def _shake_hands(self) -> None:
        """Each exchange does so."""

    def _plain(self) -> Waiting:
        self.session = {}
        yield from self._exchange(self.packed(self.row.initialize()))
        assert self.wire.head is not None
        self.session = {"Mcp-Session-Id": self.wire.head.session or ""}
        yield from self._exchange(self.packed(self.row.request(self.id)))
        answered = self.wire
        yield from self._exchange(self._end())
        self.wire = answered  # whose message is looked at

    def _end(self) -> bytes:
        headers = {"Host": f"127.0.0.1:{self.port}", "MCP-Protocol-Version": self.row.revision, **self.session}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"DELETE /mcp HTTP/1.1\r\n{lines}\r\n".encode()


class Load(HttpLoad):
    """Eight clients on a fleet."""

    def __init__(self, row: Row, fleet: Fleet) -> None:
        kind = SessionClient if row.kind == "call" else Client
        self.process = fleet
        self.clients = [kind(row, fleet.ports, number) for number in range(CONNECTIONS)]


# Tables ---------------------------------------------------------------------------------------------------------------


class Table:
    """An exchange, and the engines that it is made on."""

    def __init__(self, name: str, title: str, row: Row, engines: tuple[str, ...]) -> None:
        self.name = f"workers/{name}"
        self.title = title
        self.row = row
        self.engines = engines


SHARED = ("memory", "sqlite", "redis", "postgres")
TABLES = (
    Table("session", "Sessions in a second: initialize, a call, DELETE", Row("http", "call", OLD), SHARED),
    Table("ask", "Questions in a second that are results (2026-07-28)", Row("http", "ask", NEW), (*SHARED, "sealed")),
    Table("pushed", "Questions in a second that are pushed (2025-11-25)", Row("http", "ask", OLD), SHARED),
)
COLUMNS = [
    "kept in",
    *(f"{count} process{'es' if count > 1 else ''}, a second" for count in PROCESSES),
    f"µs of the processor for one, with {PROCESSES[0]}",
    f"with {PROCESSES[-1]}",
]


class Engines:
    """What workers share, started when it is first needed."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._servers: dict[str, engine_programs.EngineServer] = {}

    def missing(self, engine: str) -> str | None:
        """Why there is no `engine` here, or ``None``."""
        for module in MODULES[engine]:
            if importlib.util.find_spec(module) is None:
                return f"{module} is not installed"
        if engine in engine_programs.SERVERS and self._program(engine) is None:
            return f"no program {engine_programs.SERVERS[engine].name}"
        return None

    @contextmanager
    def empty(self, engine: str) -> Iterator[list[str]]:
        """Where a fresh deployment's store is: the arguments of its workers."""
        if engine in engine_programs.SERVERS:
            yield [self._server(engine).url]
        elif engine == "sqlite":
            with tempfile.TemporaryDirectory(prefix="mcp-bench-") as folder:
                yield [str(Path(folder, "mcp.sqlite"))]
        else:
            yield []

    def close(self) -> None:
        """End what was started."""
        self._stack.close()

    def _program(self, engine: str) -> str | None:
        places = [*map(str, engine_programs.SERVERS[engine].places()), os.environ.get("PATH", os.defpath)]
        return shutil.which(engine_programs.SERVERS[engine].name, path=os.pathsep.join(places))

    def _server(self, engine: str) -> engine_programs.EngineServer:
        if engine not in self._servers:
            program = self._program(engine)
            assert program is not None
            self._servers[engine] = self._stack.enter_context(engine_programs.serving(engine, program))
        return self._servers[engine]


class Measuring:
    """Rounds of so many seconds, on engines."""

    def __init__(self, engines: Engines, rounds: int, seconds: float) -> None:
        self._engines = engines
        self._rounds = rounds
        self._seconds = seconds
        #: By the table's name, the engine and the number of processes.
        self._runs: dict[tuple[str, str, int], list[Run]] = {}

    def run(self, tables: list[Table]) -> None:
        """Make all exchanges of those tables."""
        for engine in MODULES:
            here = [table for table in tables if engine in table.engines]
            if not here or self._engines.missing(engine):
                continue
            # The memory of a process is its own.
            for count in PROCESSES[:1] if engine == "memory" else PROCESSES:
                self._deployment(engine, count, here)

    def _deployment(self, engine: str, count: int, tables: list[Table]) -> None:
        with self._engines.empty(engine) as where:
            fleet = Fleet(engine, where, count)
            try:
                for table in tables:
                    self._runs[table.name, engine, count] = self._rounds_of(table.row, fleet)
            except (Wrong, OSError) as error:
                raise SystemExit(f"{count} processes on {engine}: {error}") from error
            finally:
                fleet.close()

    def _rounds_of(self, row: Row, fleet: Fleet) -> list[Run]:
        load = Load(row, fleet)
        load.verify()
        load.run(self._seconds / 2)
        return [load.run(self._seconds) for _ in range(self._rounds)]

    def table(self, table: Table) -> dict[str, Any]:
        """What `run` measured of it."""
        lines = [[TITLES[engine], *self._cells(table, engine)] for engine in table.engines]
        return {"name": table.name, "title": table.title, "columns": COLUMNS, "rows": lines}

    def _cells(self, table: Table, engine: str) -> list[str]:
        reason = self._engines.missing(engine)
        if reason is not None:
            return [reason] + [""] * (len(COLUMNS) - 2)
        measured = {count: self._runs.get((table.name, engine, count)) for count in PROCESSES}
        rates = [_median(runs, lambda run: run.rate) for runs in measured.values()]
        costs = [_median(measured[count], lambda run: run.cost) for count in (PROCESSES[0], PROCESSES[-1])]
        return [*rates, *costs]


def _median(runs: list[Run] | None, of: Callable[[Run], float]) -> str:
    return f"{statistics.median(map(of, runs)):,.0f}" if runs else "–"


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", metavar="PATTERN")
    parser.add_argument("--quick", action="store_true", help="3 rounds of a tenth of a second")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="how long a round takes")
    given = parser.parse_args()
    rounds = given.rounds or (3 if given.quick else 5)
    seconds = given.seconds or (0.1 if given.quick else 0.3)
    tables = [table for table in TABLES if given.rows in table.name]
    engines = Engines()
    try:
        measuring = Measuring(engines, rounds, seconds)
        measuring.run(tables)
        for table in tables:
            print(json.dumps(measuring.table(table)), flush=True)
    finally:
        engines.close()


if __name__ == "__main__":
    main()

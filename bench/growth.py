"""What grows with what in the pure core: calls, changes, batches, large messages, memory; and import.

Run by the environment that has mcp-sansio in it. It prints a line of JSON for each table.

    python growth.py [--rows PATTERN] [--quick] [--rounds N]
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import importlib.util
import json
import random
import re
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial, partialmethod
from operator import truediv
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import core
import rows
from core import Channel, Driver, Http, new_server, seconds_of
from rows import Row

import mcp_sansio
from mcp_sansio import AdapterSet, Change, ChangeKind, Config, MemorySessionStore, Registry, Server
from mcp_sansio.wire.headers import Headers
from mcp_sansio.wire.lines import LineDecoder

KNOWN = AdapterSet.default().versions
MEGABYTE = 2**20
PIECE = 64 * 2**10


def registry_of(tools: int) -> Registry:
    """`add`, `length`, and so many tools in all."""
    registry = Registry("bench", "1.0", page_size=tools)

    @registry.tool
    async def add(a: int, b: int) -> str:
        return str(a + b)

    @registry.tool
    async def length(text: str) -> str:
        return str(len(text))

    for number in range(tools - 2):
        registry.tool(name=f"tool_{number}", description="Look something up.")(add)
    return registry


def big(**more: Any) -> Config:
    """A configuration that does not stop what is measured here."""
    return Config(max_streams=10**6, max_message=64 * MEGABYTE, max_batch=10**4, max_calls=10**5, **more)


class Tables:
    """The tables, and how large they get."""

    def __init__(self, quick: bool, calls: int, repeats: int) -> None:
        self.quick = quick
        self.repeats = repeats
        self.calls = calls

    def upto(self, most: int) -> list[int]:
        """1, 10, 100 … `most`."""
        most = max(10, most // 100) if self.quick else most
        return [10**power for power in range(len(str(most)))]

    def costs(self, runs: Mapping[str, Callable[[], Any]], each: Mapping[str, int] | None = None) -> list[list[str]]:
        """For each run its microseconds, and how they compare with the first run's: medians of interleaved series.

        `each` says how many things a run does, where that is not one.
        """
        parts = {label: (each or {}).get(label, 1) for label in runs}
        series: dict[str, list[float]] = {label: [] for label in runs}
        for number in range(-1, self.repeats):
            gc.collect()
            for label in random.sample(sorted(runs), len(runs)):
                calls = max(1, self.calls // parts[label])
                taken = seconds_of(runs[label], calls) / calls / parts[label] * 1e6
                series[label] += [taken] if number >= 0 else []
        first = next(iter(series.values()))
        ratios = {label: statistics.median(map(truediv, taken, first)) for label, taken in series.items()}
        return [[label, f"{statistics.median(taken):.1f}", f"{ratios[label]:.2f}"] for label, taken in series.items()]

    # The cost of a call

    def streams(self) -> dict[str, Any]:
        """A call while streams of changes are open."""
        row = Row("core-http", "call", rows.NEW)
        runs, kept = {}, []
        for count in self.upto(10_000):
            server = new_server(registry_of(10), config=big())
            kept.append([open_listening(server, number) for number in range(count)])
            runs[f"{count:,}"] = core.exchange_of(row, Http(server, row))
        title = "A call over HTTP while listening streams are open"
        return {"title": title, "columns": ["open streams", "µs", "of the first"], "rows": self.costs(runs)}

    def sessions(self) -> dict[str, Any]:
        """A call in a session while others are open."""
        row = Row("core-http", "call", rows.OLD)
        runs = {}
        for count in self.upto(100_000):
            store = MemorySessionStore(clock=time.monotonic, max_records=10**6)
            server = new_server(registry_of(10), config=big(), store=store)
            for number in range(count - 1):
                open_session(server, number)
            runs[f"{count:,}"] = core.exchange_of(row, Http(server, row))
        title = "A call over HTTP while sessions are open"
        return {"title": title, "columns": ["open sessions", "µs", "of the first"], "rows": self.costs(runs)}

    def tools(self) -> dict[str, Any]:
        """A call by the number of declared tools."""
        row = Row("core-channel", "call", rows.NEW)
        counts = (10, 100) if self.quick else (10, 100, 1_000)
        runs = {
            f"{count:,}": core.exchange_of(row, Channel(new_server(registry_of(count), config=big()), row))
            for count in counts
        }
        title = "A call on a channel, by declared tools"
        return {"title": title, "columns": ["tools", "µs", "of the first"], "rows": self.costs(runs)}

    def publish(self) -> dict[str, Any]:
        """A change that listening streams are told of; encodings are counted."""
        cells = []
        for count in self.upto(10_000):
            server = new_server(registry_of(10), config=big())
            listening = [open_any(server, number) for number in range(count)]
            with counted_encodings() as encodings:
                taken = [published(server, listening) for _ in range(self.repeats)]
            each = statistics.median(taken) / count * 1e6
            cells.append([f"{count:,}", f"{len(encodings) / self.repeats:g}", f"{each:.1f}"])
        title = f"A published change, on streams of {len(KNOWN)} revisions mixed"
        return {"title": title, "columns": ["open streams", "encodings", "µs for each stream"], "rows": cells}

    def batch(self) -> dict[str, Any]:
        """A batch, and as many calls one by one."""
        row = Row("core-channel", "call", rows.OLDER)
        client = Channel(new_server(registry_of(10), config=big()), row)
        single = client.prepare(row.request("call"))
        runs: dict[str, Callable[[], Any]] = {"a call by itself": lambda: client.send(single)}
        counts = {f"a batch of {count:,}": count for count in ((1, 10) if self.quick else (1, 10, 100, 1_000))}
        for label, count in counts.items():
            batch = client.prepare([row.request(number) for number in range(count)])
            runs[label] = partial(client.send, batch)
        title = "A batch on a channel"
        return {"title": title, "columns": ["", "µs for each call", "of the first"], "rows": self.costs(runs, counts)}

    # Large messages

    def large(self) -> dict[str, Any]:
        """A large message that arrives in pieces: the framing of a line alone, and whole calls."""
        cells = []
        for megabytes in (1, 5, 10, 25, 50) if not self.quick else (1, 2):
            message = large_call(megabytes)
            runs = [partial(run, message) for run in (read_line, call_on_channel, call_over_http)]
            peak = memory_of(runs[0])[1] / len(message)
            cells.append([f"{megabytes}", *(f"{timed(run) / megabytes:.2f}" for run in runs), f"{peak:.2f}"])
        return {
            "title": f"A message that comes in pieces of {PIECE // 1024} KB, in ms for each MB",
            "columns": [
                "MB",
                "a line",
                "a call on a channel",
                "a call over HTTP",
                "most memory for the line, in lines",
            ],
            "rows": cells,
        }

    # Memory, and import

    def memory(self) -> dict[str, Any]:
        """What a session and an open stream keep."""
        count = 100 if self.quick else 10_000
        cells = []
        for title, opened in OPENED.items():
            server = new_server(registry_of(10), config=big())
            opened(server, 0)
            kept = memory_of(lambda o=opened, s=server: [o(s, number) for number in range(1, count + 1)])[0]
            cells.append([title, f"{kept / count / 1024:.2f}"])
        return {"title": f"Memory of the core, mean of {count:,}", "columns": ["open", "KB for each"], "rows": cells}

    def imports(self) -> dict[str, Any]:
        """What an import takes in a fresh interpreter, and what is resident after it."""
        installed = [statement for statement in IMPORTS if is_installed(statement)]
        taken: dict[str, list[tuple[float, ...]]] = {statement: [] for statement in installed}
        for number in range(-1, 1 if self.quick else self.repeats):
            for statement in installed:
                given = subprocess.run(
                    [sys.executable, "-c", _IMPORT, statement], check=True, capture_output=True, text=True
                )
                if number >= 0:
                    taken[statement].append(tuple(map(float, given.stdout.split())))
        cells = []
        for statement, measured in taken.items():
            milliseconds, megabytes, modules = map(statistics.median, zip(*measured, strict=True))
            label = f"`{statement}`" if statement else "bare Python"
            cells.append([label, f"{milliseconds:.1f}", f"{megabytes:.1f}", f"{modules:.0f}"])
        title = f"Import; the packages of the core are {package_megabytes():.1f} MB on disk, without bytecode"
        return {"title": title, "columns": ["", "ms", "resident MB", "modules"], "rows": cells}

    def every(self) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
        """All of them, by name."""
        for name in ("streams", "sessions", "tools", "publish", "batch", "large", "memory", "imports"):
            yield f"growth/{name}", getattr(self, name)


# Opening things -------------------------------------------------------------------------------------------------------


def open_listening(server: Server, number: int) -> Any:
    """A stream of changes, of the revision whose clients ask for it by a request."""
    row = Row("core-http", "list", rows.NEW)
    params = {"notifications": {"toolsListChanged": True}}
    message = row.envelope(number, "subscriptions/listen", params)
    client = Http(server, row)
    client.send(client.prepare(message))
    return client.engine


def open_session(server: Server, number: int) -> None:
    """A session, idle: the server alone knows it."""
    Http(server, Row("core-http", "list", rows.OLD))


def open_standalone(server: Server, number: int, revision: str = rows.OLD) -> Any:
    """A session with its stream of changes open."""
    client = Http(server, Row("core-http", "list", revision))
    headers = [("Accept", "text/event-stream"), ("MCP-Protocol-Version", revision), *client.session]
    engine = server.http_transaction(loopback=True)
    engine.receive_request("GET", "/mcp", headers)
    Driver().turn(engine)
    engine.data_to_send()
    return engine


def open_channel(server: Server, number: int) -> Any:
    """A channel, idle."""
    return Channel(server, Row("core-channel", "list", rows.OLD)).engine


def open_any(server: Server, number: int) -> Any:
    """A stream of changes of one revision after the other."""
    version = KNOWN[number % len(KNOWN)]
    if not AdapterSet.default().by_version[version].has_handshake:
        return open_listening(server, number)
    if version < rows.OLDER:
        return Channel(server, Row("core-channel", "list", version)).engine
    return open_standalone(server, number, version)


OPENED: dict[str, Callable[[Server, int], Any]] = {
    "listening stream over HTTP, 2026-07-28": open_listening,
    "session over HTTP, 2025-11-25, idle": open_session,
    "session over HTTP, 2025-11-25, with its stream": open_standalone,
    "channel, 2025-11-25, idle": open_channel,
}


@contextmanager
def counted_encodings() -> Iterator[list[Change]]:
    """The changes that adapters encode in the block."""
    owners = {kind for adapter in AdapterSet.default().adapters for kind in type(adapter).__mro__}
    before = {owner: vars(owner)["change_frame"] for owner in owners if "change_frame" in vars(owner)}
    counted: list[Change] = []

    def counting(encode: Callable[..., Any], adapter: Any, change: Change) -> Any:
        counted.append(change)
        return encode(adapter, change)

    for owner, encode in before.items():
        owner.change_frame = partialmethod(partial(counting, encode))  # type: ignore[attr-defined]
    try:
        yield counted
    finally:
        for owner, encode in before.items():
            owner.change_frame = encode  # type: ignore[attr-defined]


def published(server: Server, listening: list[Any]) -> float:
    """How long a change takes to be announced to all. Raises `rows.Wrong` unless each stream has it then."""
    started = time.perf_counter()
    server.publish(Change(ChangeKind.TOOLS))
    taken = time.perf_counter() - started
    if any(len(engine.data_to_send()) != 1 for engine in listening):
        raise rows.Wrong("a stream was not told of a change")
    return taken


# Large messages -------------------------------------------------------------------------------------------------------


def large_call(megabytes: int) -> bytes:
    """A call with so much text."""
    return rows.pack(LARGE_CALL.call("call", "length", {"text": "x" * (megabytes * MEGABYTE)}))


def pieces(data: bytes) -> Iterator[bytes]:
    """As a pipe or a socket gives them."""
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]


def read_line(message: bytes) -> list[Any]:
    """The framing alone."""
    decoder = LineDecoder(64 * MEGABYTE)
    for piece in pieces(message):
        decoder.receive_data(piece)
    decoder.receive_data(b"\n")
    return list(decoder.lines())


def call_on_channel(message: bytes) -> None:
    """The whole call on a channel, from the first piece of the line."""
    client = Channel(new_server(LARGE, config=big()), LARGE_CALL)
    [line] = read_line(message)
    [answer] = client.send(line)
    check_large(answer)


def call_over_http(message: bytes) -> None:
    """The whole call over HTTP, from the first piece of the body."""
    client = Http(new_server(LARGE, config=big()), LARGE_CALL)
    headers, _ = client.prepare(LARGE_CALL.call("call", "length", {"text": ""}))
    engine = client.server.http_transaction(loopback=True)
    endless = [pair for pair in headers if pair[0] != b"Content-Length"]
    engine.receive_request("POST", "/mcp", Headers.of_bytes(endless))
    for piece in pieces(message):
        engine.receive_body(piece)
    engine.receive_end()
    client.driver.turn(engine)
    _, body, _ = engine.data_to_send()
    check_large(body.data)


def check_large(answer: bytes) -> None:
    """Raise `rows.Wrong` unless it is the length."""
    if int(rows.text_of(json.loads(answer))) % MEGABYTE:
        raise rows.Wrong(f"not a length: {answer[:200]!r}")


LARGE, LARGE_CALL = registry_of(10), Row("core-channel", "call", rows.NEW)


def timed(run: Callable[[], Any]) -> float:
    """Milliseconds: the least of three, since a large allocation has its own moods."""
    return min(seconds_of(run, 1) for _ in range(3)) * 1e3


def memory_of(run: Callable[[], Any]) -> tuple[int, int]:
    """Bytes that what `run` gives keeps alive, and the most there was meanwhile."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        kept = run()
        gc.collect()
        now, most = tracemalloc.get_traced_memory()
        del kept
        return now - before, most - before
    finally:
        tracemalloc.stop()


# Import ---------------------------------------------------------------------------------------------------------------

IMPORTS = (
    "",
    "import attrs, cattrs, msgspec",
    "import mcp_sansio",
    "import asyncio",
    "import mcp_sansio_stdio",
    "from aiohttp import web",
    "import mcp_sansio_aiohttp",
)
_IMPORT = """
import resource, sys, time
started = time.perf_counter()
exec(sys.argv[1])
taken = (time.perf_counter() - started) * 1e3
with open("/proc/self/statm") as resident:
    print(taken, int(resident.read().split()[1]) * resource.getpagesize() / 1e6, len(sys.modules))
"""


def is_installed(statement: str) -> bool:
    """Whether what it imports is there: the bindings need not be."""
    modules = re.findall(r"(?:from|import) (\w+)", statement)[:1]
    return all(importlib.util.find_spec(module) for module in modules)


def package_megabytes() -> float:
    """What the core and its dependencies take on disk."""
    folder = Path(mcp_sansio.__file__).parent
    ours = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return (ours + sum(map(_size_of, ("attrs", "cattrs", "msgspec", "typing-extensions")))) / 1e6


def _size_of(name: str) -> int:
    try:
        files = importlib.metadata.distribution(name).files or ()
    except importlib.metadata.PackageNotFoundError:
        return 0  # older releases of the dependencies come without it
    return sum(Path(str(file.locate())).stat().st_size for file in files if file.suffix != ".pyc")


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--calls", type=int, default=1_000, help="calls in a series")
    parser.add_argument("--rounds", type=int, help="series of each")
    given = parser.parse_args()
    repeats = given.rounds or (3 if given.quick else 9)
    for name, table in Tables(given.quick, given.calls, repeats).every():
        if given.rows in name:
            print(json.dumps({"name": name, **table()}), flush=True)


if __name__ == "__main__":
    main()

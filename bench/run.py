"""Compares mcp-sansio with its peers and with a bare handler, in one run.

    python bench/run.py                     everything: about a quarter of an hour
    python bench/run.py --quick             a few rounds of everything, to see that it works
    python bench/run.py --rows http/call    the rows whose names have that in them
    python bench/run.py --only tiny         one peer, beside the bare handler and mcp-sansio
    python bench/run.py --write             everything, and docs/performance.md anew

It needs Python 3.11 and the network, once: the environments of the contestants are made with pip below bench/.envs.
Each row is measured in rounds. A round gives every contestant a moment in a shuffled order, and its rate is compared
with the bare handler's of the same round; what is shown is the median of those ratios, so what slows the machine down
for a while slows all of them. The results are in bench/results.json.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import envs
import load
import report
import rows
from contestants import CONTESTANTS, Contestant
from load import ClientLoad, HttpLoad, Process, StdioLoad
from rows import Row, Wrong

from sockets import open_streams

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parent / "docs" / "performance.md"
PATIENCE = 60


@contextmanager
def patience(seconds: int = PATIENCE) -> Iterator[None]:
    """Raise `Wrong` in the block after so many seconds: a server that hangs must not hang the run."""

    def give_up(*_: Any) -> None:
        raise Wrong(f"nothing happened for {seconds} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


class Bench:
    """The servers that run, and the rounds."""

    def __init__(self, contestants: list[Contestant], rounds: int, seconds: float) -> None:
        self.contestants = contestants
        self.rounds = rounds
        self.seconds = seconds
        self._serving: dict[tuple[str, str], tuple[Process, int]] = {}

    def start(self, contestant: Contestant, transport: str) -> Process:
        """A fresh process of that contestant."""
        return Process(envs.python_of(contestant.environment), HERE / "servers" / contestant.script, transport)

    def serving(self, contestant: Contestant, transport: str = "http") -> tuple[Process, int]:
        """Its HTTP server, and where that listens. It is started when it is needed, and serves every row."""
        key = (contestant.name, transport)
        if key not in self._serving:
            process = self.start(contestant, transport)
            self._serving[key] = (process, 0)
            self._serving[key] = (process, process.port())
        return self._serving[key]

    def close(self) -> None:
        """End the servers."""
        for process, _ in self._serving.values():
            process.close()
        self._serving.clear()

    def open(self, contestant: Contestant, row: Row) -> HttpLoad | StdioLoad | ClientLoad:
        """What makes the exchanges of `row` with that contestant."""
        if row.transport == "client":
            [bare] = (one for one in self.contestants if one.name == "bare")
            script = HERE / "clients" / contestant.script
            return ClientLoad(row, envs.python_of(contestant.environment), script, self.serving(bare)[1])
        if row.transport in rows.OVER_HTTP:
            return HttpLoad(row, *self.serving(contestant, row.transport))
        return StdioLoad(row, self.start(contestant, "stdio"))

    def row(self, row: Row) -> dict[str, Any]:
        """Measure one row: the rates of each contestant in each round, or why it has none."""
        cells: dict[str, dict[str, Any]] = {}
        able = []
        for contestant in self.contestants:
            if row.transport not in contestant.transports:
                continue
            reason = contestant.cannot(row)
            cells[contestant.name] = {"cannot": reason} if reason else {}
            able += [] if reason else [contestant]
        measure = self._starts if row.kind == "start" else self._rates
        measure(row, able, cells)
        return {"name": row.name, "title": row.title, "cells": cells}

    def _rates(self, row: Row, able: list[Contestant], cells: dict[str, dict[str, Any]]) -> None:
        loads: dict[str, HttpLoad | StdioLoad | ClientLoad] = {}
        answers: dict[str, Any] = {}
        try:
            for contestant in able:
                name = contestant.name
                try:
                    with patience():
                        loads[name] = self.open(contestant, row)
                        answers[name] = loads[name].verify()
                        loads[name].run(self.seconds / 2)
                except (Wrong, OSError) as error:
                    cells[name]["failed"] = str(error)
                    if name in loads:
                        loads.pop(name).close()
            self._compare_answers(answers, cells)
            for _ in range(self.rounds):
                gc.collect()
                for name in random.sample(sorted(loads), len(loads)):
                    try:
                        with patience():
                            note(cells[name], loads[name].run(self.seconds))
                    except (Wrong, OSError) as error:
                        cells[name] = {"failed": str(error)}
                        loads.pop(name).close()
        finally:
            for held in loads.values():
                held.close()

    def _compare_answers(self, answers: dict[str, Any], cells: dict[str, dict[str, Any]]) -> None:
        """The yardstick is fair only if it says what mcp-sansio says."""
        for name in report.OURS:
            if {"bare", name} <= set(answers) and _plain(answers["bare"]) != _plain(answers[name]):
                cells["bare"]["differs"] = f"{rows.shown(answers['bare'])} / {rows.shown(answers[name])}"

    def _starts(self, row: Row, able: list[Contestant], cells: dict[str, dict[str, Any]]) -> None:
        # The first is the warm-up: files come into the cache, bytecode is written.
        for number in range(-1, self.rounds):
            for contestant in random.sample(able, len(able)):
                cell = cells[contestant.name]
                if "failed" in cell:
                    continue
                try:
                    with patience():
                        run = load.first_answer(row, partial(self.start, contestant, "stdio"))
                except (Wrong, OSError) as error:
                    cell["failed"] = str(error)
                    continue
                if number >= 0:
                    note(cell, run)

    def sockets(self, *, quick: bool) -> dict[str, Any]:
        """What open streams cost over sockets."""
        [ours] = (contestant for contestant in self.contestants if contestant.name == "sansio")
        with patience(10 * PATIENCE):
            process, port = self.serving(ours)
            return open_streams(process, port, self.rounds, self.seconds, 100 if quick else 10_000)

    def generator(self, transport: str) -> dict[str, Any]:
        """How fast the load generator itself is: `tools/call` against a server that reads nothing."""
        row = Row(transport, "call", rows.NEW)
        process = Process(Path(sys.executable), HERE / "servers" / "trivial.py", transport)
        try:
            client = HttpLoad(row, process, process.port()) if transport == "http" else StdioLoad(row, process)
            client.run(self.seconds / 2)
            rates = [client.run(self.seconds).rate for _ in range(self.rounds)]
        finally:
            process.close()
        return {"name": f"{transport}/generator", "rounds": rates}


def note(cell: dict[str, Any], run: load.Run) -> None:
    """Keep a round: exchanges in a second, and microseconds that the server computed for one."""
    cell.setdefault("rates", []).append(run.rate)
    cell.setdefault("costs", []).append(run.cost)


def _plain(messages: list[Any]) -> Any:
    """Without what is drawn anew for each exchange."""
    return [{**one, "id": 0} if isinstance(one, dict) and "method" in one and "id" in one else one for one in messages]


def core_rows(pattern: str, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """The rows of the pure core, which the environment that has it measures by itself."""
    return _lines_of("core.py", "--rows", pattern, "--rounds", str(rounds), "--seconds", str(seconds))


def growth_rows(pattern: str, rounds: int, quick: bool) -> list[dict[str, Any]]:
    """What grows with what, measured likewise, in fewer rounds: most of its time goes by before them."""
    quickly = ["--quick"] if quick else []
    return _lines_of("growth.py", "--rows", pattern, "--rounds", str(min(rounds, 9)), *quickly)


def worker_rows(pattern: str, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """What many workers share on each engine, measured likewise."""
    return _lines_of("stores.py", "--rows", pattern, "--rounds", str(rounds), "--seconds", str(seconds))


def _lines_of(script: str, *arguments: str) -> list[dict[str, Any]]:
    command = [envs.python_of("sansio"), HERE / script, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found = []
        for line in process.stdout:
            found.append(json.loads(line))
            print(report.line_of(found[-1]), flush=True)
    if process.returncode:
        raise SystemExit(f"{script} failed")
    return found


def facts(given: argparse.Namespace) -> dict[str, Any]:
    """What was measured where, without names of hosts or paths."""
    environments = sorted({contestant.environment for contestant in chosen(given.only)})
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "rounds": given.rounds,
        "seconds": given.seconds,
        "connections": load.CONNECTIONS,
        "by": "processor time" if given.cpu else "rate",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
        "versions": {name: envs.versions_of(name) for name in environments},
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def chosen(only: list[str]) -> list[Contestant]:
    """What is no peer always; the peers unless some were named."""
    return [one for one in CONTESTANTS if not only or one.name not in report.PEERS or one.name in only]


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="3 rounds of a tenth of a second")
    parser.add_argument("--rows", default="", metavar="PATTERN", help="only rows with PATTERN in their names")
    parser.add_argument("--only", action="append", default=[], metavar="PEER", choices=[c.name for c in CONTESTANTS])
    parser.add_argument("--cpu", action="store_true", help="compare processor time, not rates: for a busy machine")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="how long a contestant is measured in a round")
    parser.add_argument(
        "--list", action="store_true", help="print the names of the rows, but for those of growth and workers"
    )
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    parser.add_argument("--page", action="store_true", help="write docs/performance.md from bench/results.json alone")
    given = parser.parse_args()
    given.rounds = given.rounds or (3 if given.quick else 15)
    given.seconds = given.seconds or (0.1 if given.quick else 0.3)
    if given.list:
        print("\n".join(row.name for row in rows.every_row()))
    elif given.page:
        PAGE.write_text(report.page(json.loads(RESULTS.read_text())))
    else:
        measure(given)


def measure(given: argparse.Namespace) -> None:
    """Measure, print, and write what was asked for."""
    if given.write and (given.rows or given.only or given.quick or given.cpu):
        raise SystemExit("the page is written from a whole run: leave out --rows, --only, --quick and --cpu")
    results: dict[str, Any] = {name: [] for name in ("core", "generator", "rows", "growth", "workers")}
    results["about"] = facts(given)
    wanted = [row for row in rows.every_row() if given.rows in row.name]
    if any(row.transport.startswith("core-") for row in wanted):
        results["core"] = core_rows(given.rows, given.rounds, given.seconds / 3)
    bench = Bench(chosen(given.only), given.rounds, given.seconds)
    try:
        for transport in report.COMPARED:
            here = [row for row in wanted if row.transport == transport]
            if here and transport in ("http", "stdio"):
                results["generator"].append(bench.generator(transport))
                print(report.line_of(results["generator"][-1]), flush=True)
            for row in here:
                results["rows"].append(report.summed_up(bench.row(row), by_cost=given.cpu))
                print(report.line_of(results["rows"][-1]), flush=True)
        if given.rows in "growth/sockets":
            results["growth"].append(bench.sockets(quick=given.quick))
            print(report.line_of(results["growth"][-1]), flush=True)
    finally:
        bench.close()
    if not given.rows or given.rows.startswith("growth"):
        results["growth"] = growth_rows(given.rows, given.rounds, given.quick) + results["growth"]
    if given.rows in "workers" or given.rows.startswith("workers"):
        results["workers"] = worker_rows(given.rows, given.rounds, given.seconds)
    RESULTS.write_text(json.dumps(results, indent=1))
    print(report.terminal(results))
    if given.write:
        PAGE.write_text(report.page(results))


if __name__ == "__main__":
    main()

"""What a call over HTTP costs while streams of changes are open on other sockets, as many as open files allow."""

from __future__ import annotations

import resource
import statistics
from typing import Any

from load import HttpClient, HttpLoad, Process, Wire
from rows import NEW, Row

STREAMS = (1, 10, 100, 1_000, 10_000)
#: Open files that are left for everything else.
SPARE = 200


def open_streams(process: Process, port: int, rounds: int, seconds: float, most: int) -> dict[str, Any]:
    """The table: rates, and processor time of the server, by the number of streams."""
    allowed = min(most, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE)
    listening: list[Wire] = []
    cells: list[list[str]] = []
    first = 0.0
    try:
        for count in (count for count in STREAMS if count <= allowed):
            listening += [listen(port, number) for number in range(len(listening), count)]
            load = HttpLoad(Row("http", "call", NEW), process, port)
            load.run(seconds)
            runs = [load.run(seconds) for _ in range(rounds)]
            cost = statistics.median(run.cost for run in runs)
            first = first or cost
            rate = statistics.median(run.rate for run in runs)
            cells.append([f"{count:,}", f"{rate:,.0f}", f"{cost:.0f}", f"{cost / first:.2f}"])
    finally:
        for wire in listening:
            wire.close()
    title = "A call over HTTP while listening streams are open on other sockets"
    columns = ["open streams", "calls a second", "µs of the server's processor", "of the first"]
    return {"name": "growth/sockets", "title": title, "columns": columns, "rows": cells}


def listen(port: int, number: int) -> Wire:
    """A stream, once its acknowledgement has come."""
    row = Row("http", "list", NEW)
    message = row.envelope(number, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    wire = Wire(port)
    wire.send(HttpClient(row, port, number).packed(message))
    while b"acknowledged" not in wire.data:
        wire.receive()
    return wire

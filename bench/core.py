"""The pure core alone: bytes in to bytes out, against the parse and the print of the same messages by msgspec.

Run by the environment that has mcp-sansio in it. It drives the engines as a binding does, without an event loop, and
prints a line of JSON for each row: the microseconds of an exchange, and of its yardstick, in each round.

    python core.py [--rows PATTERN] [--rounds N] [--seconds S]
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import msgspec

from mcp_sansio import Body, CallReceived, Head, Pending, Registry, Runtime, Server, StoreNeeded, Whole

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "servers"))

import rows
from rows import Row

Run = Callable[[], Any]
decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


class Flag:
    """What a coroutine of the core waits for. It goes on as soon as the flag is raised."""

    def __init__(self) -> None:
        self.raised = False
        self.waiting: list[Coroutine[Any, Any, None]] = []

    def set(self) -> None:
        """See `mcp_sansio.runtime.Event`."""
        self.raised = True

    async def wait(self) -> None:
        """See `mcp_sansio.runtime.Event`."""
        if not self.raised:
            await self

    def __await__(self) -> Iterator[Flag]:
        yield self


def new_server(registry: Registry, **options: Any) -> Server:
    """A server with a clock that is read for nothing and tokens that count."""
    now = time.monotonic
    draw = random.Random(1).randbytes
    return Server(registry, runtime=Runtime(now=now, token_bytes=draw, event=Flag), **options)


TO_RUN = (CallReceived, StoreNeeded)


class Driver:
    """What a binding does for an engine, and nothing else: run what is to be run, ask for the next deadline."""

    def __init__(self) -> None:
        self.parked: list[Coroutine[Any, Any, None]] = []

    def turn(self, engine: Any) -> None:
        """Run what there is to run, and again what that brought about."""
        while events := engine.events():
            for event in events:
                if isinstance(event, TO_RUN):
                    self.step(event.run())
        engine.next_deadline()

    def start(self, call: Any, work: Any) -> None:
        """What `Pending.begin` wants of a driver."""
        self.step(work)

    def step(self, work: Any) -> None:
        """Run `work` to its end, or to where it waits."""
        try:
            work.send(None)
        except StopIteration:
            return
        self.parked.append(work)

    def resume(self) -> None:
        """Go on with what waited."""
        parked, self.parked = self.parked, []
        for work in parked:
            self.step(work)


class Channel:
    """The client's end of a channel."""

    def __init__(self, server: Server, row: Row) -> None:
        self.row = row
        self.driver = Driver()
        self.engine = server.connection(runs_at_once=True)
        if not row.is_new:
            self.send(rows.pack(row.initialize()))
            self.send(rows.pack(row.initialized()))

    def prepare(self, message: Any) -> bytes:
        """A message, as far as it can be made before it is sent."""
        return rows.pack(message)

    def send(self, data: bytes) -> list[bytes]:
        """Send a message; what comes back at once."""
        self.engine.receive_message(data)
        self.driver.turn(self.engine)
        return self.engine.data_to_send()

    def answer(self, data: bytes) -> list[bytes]:
        """Answer a question; what comes back of the call that asked it."""
        self.engine.receive_message(data)
        self.driver.resume()
        self.driver.turn(self.engine)
        return self.engine.data_to_send()


class Http:
    """A client of the HTTP engine. A prepared message has its headers with it."""

    def __init__(self, server: Server, row: Row) -> None:
        self.row = row
        self.server = server
        self.driver = Driver()
        self.session: list[tuple[str, str]] = []
        self.waiting: Any = None
        if not row.is_new:
            opened = self._post(self.prepare(row.initialize()))
            self.session = [pair for pair in opened.headers if pair[0].lower() == "mcp-session-id"]
            self._post(self.prepare(row.initialized()))

    def prepare(self, message: Any) -> tuple[list[tuple[bytes, bytes]], bytes]:
        """A message, as far as it can be made before it is sent."""
        body = rows.pack(message)
        headers = [
            ("Host", "127.0.0.1:8080"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            *self.row.headers(message).items(),
            *self.session,
            ("Content-Length", str(len(body))),
        ]
        return [(name.encode(), value.encode()) for name, value in headers], body

    def _post(self, prepared: tuple[list[tuple[bytes, bytes]], bytes]) -> Whole:
        """The response, as far as it is there."""
        headers, body = prepared
        driver = self.driver
        head = self.server.admit("/mcp", headers, loopback=True)
        assert head is not None
        given = self.server.respond(head, body)
        if isinstance(given, Pending):
            given = given.begin(driver.start, lambda: None)
        if isinstance(given, Whole):
            return given
        self.engine = given
        driver.turn(given)
        head, *pieces = given.data_to_send()
        assert isinstance(head, Head)
        return Whole(head.status, head.headers, _data_of(pieces))

    def send(self, prepared: tuple[list[tuple[bytes, bytes]], bytes]) -> list[bytes]:
        """Send a message; what comes back of the response's body at once."""
        response = self._post(prepared)
        if response.status != 200:
            raise rows.Wrong(f"HTTP {response.status}")
        return [response.body]

    def answer(self, prepared: tuple[list[tuple[bytes, bytes]], bytes]) -> list[bytes]:
        """Answer a question on a request of its own; what comes back of the call that asked it."""
        call = self.engine
        assert self._post(prepared).status == 202
        self.driver.resume()
        self.driver.turn(call)
        return [_data_of(call.data_to_send())]


def _data_of(parts: list[Any]) -> bytes:
    return b"".join([part.data for part in parts if type(part) is Body])


CLIENTS: dict[str, type[Channel | Http]] = {"core-channel": Channel, "core-http": Http}


def exchange_of(row: Row, client: Channel | Http) -> Callable[[], list[bytes]]:
    """A function that makes one exchange, and gives what came back."""
    send = client.send
    request = client.prepare(row.request("call"))
    if row.way is None:
        return lambda: send(request)
    if row.way == "pushed":
        return lambda: _pushed(row, client, request)
    return lambda: _two_rounds(row, client, request)


def _pushed(row: Row, client: Channel | Http, request: Any) -> list[bytes]:
    asked = client.send(request)
    return asked + client.answer(client.prepare(row.answer(messages_of(asked)[-1])))


def _two_rounds(row: Row, client: Channel | Http, request: Any) -> list[bytes]:
    asked = client.send(request)
    return asked + client.send(client.prepare(row.second("call", messages_of(asked)[0])))


def messages_of(pieces: list[bytes]) -> list[Any]:
    """The messages in what came back, which may be events of a stream."""
    found = []
    for piece in pieces:
        lines = [line[6:] for line in piece.splitlines() if line.startswith(b"data: ")] or [piece]
        found += [decode(line) for line in lines if line.startswith((b"{", b"["))]
    return found


def yardstick_of(row: Row, client: Channel | Http) -> Run:
    """A function that parses what goes in and prints what comes out, all of it: no less can be done."""
    came = messages_of(exchange_of(row, client)())
    sent = [rows.pack(row.request("call"))]
    if row.way == "pushed":
        sent.append(rows.pack(row.answer(came[0])))
    elif row.way is not None:
        sent.append(rows.pack(row.second("call", came[0])))

    def parse_and_print() -> None:
        for data in sent:
            decode(data)
        for message in came:
            encode(message)

    return parse_and_print


def client_work(row: Row, client: Channel | Http) -> Run | None:
    """What an exchange with a question has the client do in between, to be taken off: the core has no part in it."""
    if row.way is None:
        return None
    asked = [piece for piece in exchange_of(row, client)() if b"elicitation/create" in piece]
    if row.way == "pushed":
        return lambda: client.prepare(row.answer(messages_of(asked)[-1]))
    return lambda: client.prepare(row.second("call", messages_of(asked)[0]))


def seconds_of(run: Run, count: int) -> float:
    """How long `count` runs take."""
    started = time.perf_counter()
    for _ in range(count):
        run()
    return time.perf_counter() - started


def count_for(run: Run, seconds: float) -> int:
    """How many runs take about `seconds`."""
    count = 1
    while (took := seconds_of(run, count)) < seconds / 8:
        count *= 2
    return max(1, round(count * seconds / took))


def measure(row: Row, registry: Registry, rounds: int, seconds: float) -> dict[str, Any]:
    """The row, in microseconds for each round."""
    client = CLIENTS[row.transport](new_server(registry), row)
    exchange = exchange_of(row, client)
    row.check(messages_of(exchange()))
    runs = {"core": exchange, "msgspec": yardstick_of(row, client)}
    between = client_work(row, client)
    if between is not None:
        runs["client"] = between
    counts = {name: count_for(run, seconds) for name, run in runs.items()}
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        gc.collect()
        for name in random.sample(sorted(runs), len(runs)):
            taken[name].append(seconds_of(runs[name], counts[name]) / counts[name] * 1e6)
    if between is not None:
        taken["core"] = [whole - part for whole, part in zip(taken["core"], taken.pop("client"), strict=True)]
    return {"name": row.name, **taken}


def main() -> None:
    """Measure what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.1)
    given = parser.parse_args()
    import sansio

    for row in rows.every_row():
        if row.transport in CLIENTS and given.rows in row.name:
            print(json.dumps(measure(row, sansio.registry, given.rounds, given.seconds)), flush=True)


if __name__ == "__main__":
    main()

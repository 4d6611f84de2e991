"""The server's role in a transcript: a server is told what the client said, and says what it says now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import attrs

from .folding import unfolded
from .simulation import SimulatedChannel, SimulatedHttp, Simulation
from .transcript import MESSAGE_PATH, STREAM_PATH, Move, Names, Output, Request, Step, Transcript, answers


class ServerRole:
    """A simulated server that is told what the steps of a transcript say."""

    def __init__(self, transcript: Transcript, simulation: Simulation) -> None:
        self.names = Names()
        self.simulation = simulation
        self._exchanges: dict[str, SimulatedHttp] = {}
        self._channel: SimulatedChannel | None = simulation.channel() if transcript.is_channel else None
        self._sent = 0

    def act(self, step: Step) -> list[Output]:
        """Do `step`: what came of it. Raises ``KeyError`` for a name that stands for nothing yet."""
        if step.mark == "@":
            self._move(Move.of(step.lines[0]))
        elif step.mark == "C" and self._channel is not None:
            self._channel.engine.receive_message(unfolded(self.names.show(step.lines)))
        elif step.mark == "C":
            self._request(step.label, Request.of(self.names.show(step.lines)))
        self.simulation.settle()
        return self._taken(step.label)

    def _move(self, move: Move) -> None:
        if move.seconds is not None:
            self.simulation.advance(move.seconds)
        elif move.leaves is not None:
            self._exchanges[move.leaves].disconnect()
        elif move.word == "shutdown":
            self.simulation.server.shutdown()
        elif self._channel is not None:
            self._channel.close()

    def _request(self, label: str, request: Request) -> None:
        before = self._exchanges.get(label)
        if before is not None and not before.ended:
            raise ValueError(f"a request whose response goes on needs a name: {request}")
        asked = request.method, request.target, request.headers, request.body
        self._exchanges.pop(label, None)
        self._exchanges[label] = exchange_of(self.simulation, *asked, principal=request.principal, loopback=True)

    def _taken(self, label: str) -> list[Output]:
        if self._channel is not None:
            messages, self._sent = self._channel.sent[self._sent :], len(self._channel.sent)
            return [Output("", None, message, is_stream=False, ended=False) for message in messages]
        # The response to what was just asked comes first.
        order = sorted(self._exchanges.items(), key=lambda item: item[0] != label)
        return [
            Output(name, new.head, new.data, is_stream=exchange.is_stream, ended=new.ended)
            for name, exchange in order
            if (new := exchange.unread()) is not None
        ]


def exchange_of(
    simulation: Simulation,
    method: str,
    target: str,
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
    body: bytes,
    **options: Any,
) -> SimulatedHttp:
    """A whole request, sent to the transport that `target` belongs to. `options` are those of the transaction."""
    if urlsplit(target).path in (STREAM_PATH, MESSAGE_PATH):
        engine = simulation.server.pair_transaction(message_path=MESSAGE_PATH, **options)
    else:
        engine = simulation.server.http_transaction(**options)
    exchange = SimulatedHttp(simulation, engine)
    simulation.add(exchange)
    engine.receive_request(method, target, headers)
    engine.receive_body(body)
    engine.receive_end()
    return exchange


def play_server(transcript: Transcript, simulation: Simulation) -> tuple[Transcript, list[list[Output]]]:
    """The transcript as `simulation`, which is fresh, has it now, and what came of each step.

    Raises ``ValueError`` for a name that stands for nothing yet.
    """
    role = ServerRole(transcript, simulation)
    steps: list[Step] = []
    recording: list[list[Output]] = []
    for step in transcript.steps:
        try:
            recording.append(role.act(step))
        except KeyError as missing:
            where = f"{transcript.source}:{step.number}"
            raise ValueError(f"{where}: {{{{{missing.args[0]}}}}} is not known yet") from None
        steps.append(attrs.evolve(step, answers=answers(recording[-1], role.names)))
    return attrs.evolve(transcript, steps=steps), recording

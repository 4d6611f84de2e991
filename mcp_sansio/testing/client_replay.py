"""The client's role in a transcript: a client is told what its caller and the server said, and what it says is seen."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Hashable, Sequence

import attrs

from mcp_sansio.client.http import HttpClientSession
from mcp_sansio.client.http_requests import HttpAbort, HttpRequest
from mcp_sansio.events import Head
from mcp_sansio.runtime import Runtime

from .clock import FakeClock
from .folding import folded, length, texts, unfolded
from .recorded import RecordedConnection, engine_of_settings
from .recorder import Recorder
from .scheduler import Scheduler
from .transcript import Move, Names, Request, Step, Transcript, unmarked

_DATA = "data: "


class ClientRole:
    """A client's engine, as the settings of a transcript tell of it, that is told what the steps say."""

    def __init__(self, transcript: Transcript) -> None:
        self.names = Names()
        self._clock = FakeClock()
        numbers = itertools.count(1)
        runtime = Runtime(
            now=self._clock,
            token_bytes=lambda size: next(numbers).to_bytes(size, "big"),
            event=Scheduler().event,
        )
        self._engine = engine_of_settings(transcript.settings, runtime)
        self._engine.recorder = Recorder(self._clock)
        self._exchanges: dict[str, Hashable] = {}
        self._answered: set[Hashable] = set()
        #: What its caller has heard, and what the server is to hear, and neither of them has been found in the file.
        self._heard: deque[str] = deque()
        self._said: deque[bytes | HttpRequest | HttpAbort] = deque()

    def act(self, step: Step) -> None:
        """The caller says what the step says, or time passes. Raises ``ValueError`` for what nobody can say."""
        if step.mark == ">":
            (line,) = self.names.invent(step.lines)
            self._engine.diary.obey(self._engine, line)
        elif (seconds := Move.of(step.lines[0]).seconds) is not None:
            self._advance(seconds)
        self._take()

    def next_like(self, step: Step) -> Step | None:
        """The next thing that was heard, or said, in place of the step that says so in the file; ``None`` for none."""
        if step.mark == "<":
            return self._found(step, [self._heard.popleft()]) if self._heard else None
        if not self._said:
            return None
        said = self._said.popleft()
        if isinstance(said, bytes):
            return self._found(step, folded(said.decode()))
        if isinstance(said, HttpAbort):
            labels = [label for label, exchange in self._exchanges.items() if exchange == said.exchange]
            return self._found(attrs.evolve(step, mark="@", label=""), [f"@ {labels[-1]} leaves"])
        self._exchanges[step.label] = said.exchange
        target = "/" + said.url.split("/", 3)[3]
        request = Request.made(said.method, target, said.headers, said.body)
        return self._found(attrs.evolve(step, mark="C"), request.lines())

    def rest(self) -> list[Step]:
        """What was heard and said, and is not in the file."""
        found = []
        while self._heard or self._said:
            like = Step(0, [""], "<" if self._heard else "C")
            step = self.next_like(like)
            assert step is not None
            found.append(step)
        return found

    def hear(self, lines: Sequence[str]) -> None:
        """The server says what the lines after a step say."""
        said = [unmarked(line) for line in lines]
        for label, group in itertools.groupby(said, key=lambda pair: pair[0]):
            texts_of = self.names.invent([text for _, text in group])
            if isinstance(self._engine, RecordedConnection):
                for message in texts(texts_of):
                    self._engine.receive_message(message)
            elif label in self._exchanges:
                self._hear_response(self._engine, self._exchanges[label], texts_of)
        self._take()

    def _hear_response(self, engine: HttpClientSession, exchange: Hashable, lines: list[str]) -> None:
        if exchange not in self._answered:
            self._answered.add(exchange)
            head, lines = _head_of(lines)
            engine.receive_response(exchange, head.status, head.headers)
            if dict(head.headers).get("Content-Type") != "text/event-stream":
                if lines:
                    engine.receive_data(exchange, unfolded(lines))
                engine.receive_end(exchange)
                return
        ended = lines[-1:] == ["(end)"]
        events = lines[: len(lines) - ended]
        if events:
            engine.receive_data(exchange, _stream_of(events))
        if ended:
            engine.receive_end(exchange)

    def _advance(self, seconds: float) -> None:
        end = self._clock() + seconds
        while (due := self._engine.next_deadline()) is not None and due <= end:
            self._clock.advance(max(0.0, due - self._clock()))
            self._engine.handle_timeout(self._clock())
            self._take()
        self._clock.advance(end - self._clock())

    def _take(self) -> None:
        diary = self._engine.diary
        self._heard += [diary.heard(event) for event in self._engine.events()]
        self._said += self._engine.data_to_send()

    def _found(self, step: Step, lines: list[str]) -> Step:
        return attrs.evolve(step, lines=self.names.hide("\n".join(lines)).split("\n"))


def _head_of(lines: list[str]) -> tuple[Head, list[str]]:
    end = lines.index("") if "" in lines else len(lines)
    headers = tuple((name, value) for name, _, value in (line.partition(": ") for line in lines[1:end]))
    return Head(int(lines[0]), headers), lines[end + 1 :]


def _stream_of(lines: list[str]) -> bytes:
    """The bytes of a piece of a stream, whose data may be folded."""
    found, rest = list[bytes](), list(lines)
    while rest:
        field = _DATA if rest[0].startswith(_DATA) else ""
        rest[0] = rest[0].removeprefix(field)
        size = length(rest) if field else 1
        found.append(field.encode() + unfolded(rest[:size]))
        del rest[:size]
    return b"".join(line + b"\n" for line in found)


def play_client(transcript: Transcript) -> Transcript:
    """The transcript as its client has it now. Raises ``ValueError`` for one that does not say what its client is."""
    role = ClientRole(transcript)
    steps: list[Step] = []
    for step in transcript.steps:
        if step.mark in ("C", "<") or (step.mark == "@" and Move.of(step.lines[0]).leaves is not None):
            found = role.next_like(step)
            if found is None:
                continue
            steps.append(found)
        else:
            if step.mark == "@":
                steps += role.rest()
            try:
                role.act(step)
            except ValueError as error:
                raise ValueError(f"{transcript.source}:{step.number}: {error}") from error
            steps.append(step)
        role.hear(step.answers)
    return attrs.evolve(transcript, steps=[*steps, *role.rest()])

"""What both sides say, written down while they say it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping

import attrs

from mcp_sansio.events import Head

from .folding import folded
from .transcript import Names, Output, Request, Step, Transcript

#: The steps that the server knows of.
_ACTING = ("C", "@")


@attrs.define
class _Entry:
    """A step as it was, before anything has a name. `exchange` is the one that it opened, or cut.

    Its lines are made when they are asked for, which for most conversations is never.
    """

    mark: str
    lines: Callable[[], list[str]]
    exchange: Hashable = None
    notes: list[str] = attrs.field(factory=list)
    outputs: list[tuple[Hashable, Output]] = attrs.field(factory=list)

    def add(self, exchange: Hashable, output: Output) -> None:
        """The server says more. What belongs to one response stays together, that to the request itself first."""
        for position, (known, before) in enumerate(self.outputs):
            if exchange is not None and known == exchange:
                data, ended = before.data + output.data, output.ended
                self.outputs[position] = exchange, attrs.evolve(before, data=data, ended=ended)
                return
        own = exchange is not None and exchange == self.exchange
        self.outputs.insert(0 if own else len(self.outputs), (exchange, output))


class Recorder:
    """Writes down what a client and a server say to each other, for people to read and for `replay` to run again.

    A client of `connect` has one: ``print(client.recorder)`` shows what was said so far, the bytes of both sides, what
    the client's caller wanted and heard, and the time that passed. `about` is its first line, `clock` gives the time,
    and `settings` tell of the two sides (see `Transcript`).
    """

    def __init__(
        self,
        clock: Callable[[], float],
        settings: Mapping[str, str] = {},
        about: str = "A recorded conversation.",
    ) -> None:
        self.about = about
        self.settings = {name: value for name, value in settings.items() if value}
        self._clock = clock
        self._time = clock()
        self._entries: list[_Entry] = []
        self._comments: list[str] = []

    def __str__(self) -> str:
        return self.text()

    # What is said

    def said(self, message: bytes) -> None:
        """The client sends a message on a channel."""
        self._add(_Entry("C", lambda: folded(message.decode("utf-8", "replace"))))

    def requested(self, exchange: Hashable, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        """The client sends a request over HTTP."""
        self._add(_Entry("C", lambda: Request.made(method, target, headers, body).lines(), exchange))

    def left(self, exchange: Hashable) -> None:
        """The client cuts the connection of a request."""
        self._add(_Entry("@", list, exchange))

    def moved(self, line: str) -> None:
        """Something happens that nobody sends."""
        self._add(_Entry("@", lambda: [line]))

    def noted(self, line: str) -> None:
        """The client's caller says or hears something."""
        self._add(_Entry(line[0], lambda: [line]))

    def answered(
        self,
        exchange: Hashable,
        data: bytes,
        head: Head | None = None,
        *,
        is_stream: bool = False,
        ended: bool = False,
    ) -> None:
        """The server says something."""
        self._pass_time()
        self._entries[-1].add(exchange, Output("", head, data, is_stream=is_stream, ended=ended))

    def _add(self, entry: _Entry) -> None:
        self._pass_time()
        self._append(entry)

    def _append(self, entry: _Entry) -> None:
        entry.notes, self._comments = self._comments, []
        self._entries.append(entry)

    def _pass_time(self) -> None:
        now = self._clock()
        if now > self._time:
            seconds = f"{now - self._time:.6f}".rstrip("0").rstrip(".")
            self._time = now
            self._append(_Entry("@", lambda: [f"@ +{seconds}s"]))

    def comment(self, text: str) -> None:
        """Say something about what comes next, for people to read."""
        self._comments.append(f"# {text}")

    # What is read

    def transcript(self) -> Transcript:
        """What was said so far."""
        labels, names, steps = self._labels(), Names(), list[Step]()
        for number, entry in enumerate(self._entries, 1):
            label = labels.get(entry.exchange, "")
            lines = names.hide("\n".join(entry.lines() or [f"@ {label} leaves"])).split("\n")
            outputs = [attrs.evolve(output, label=labels.get(exchange, "")) for exchange, output in entry.outputs]
            answers = [line for output in outputs for line in output.lines(names)]
            notes = ["", *entry.notes] if entry.notes or entry.mark != "<" else []
            steps.append(Step(number, notes, entry.mark, label if entry.mark == "C" else "", lines, answers))
        head = [f"# {self.about}", *(f"# {name}: {value}" for name, value in self.settings.items())]
        return Transcript.parse(
            "\n".join([*head, *(line for step in steps for line in step.text())]) + "\n", self.about
        )

    def text(self) -> str:
        """What was said so far, as the text of a transcript."""
        return self.transcript().text()

    def _labels(self) -> dict[Hashable, str]:
        """Names for the requests whose responses go on while something else happens."""
        running: dict[Hashable, str] = {}
        named: dict[Hashable, str] = {}
        kinds: Counter[str] = Counter()
        for entry in self._entries:
            if entry.mark in _ACTING:
                for exchange, kind in running.items():
                    if exchange not in named:
                        kinds[kind] += 1
                        named[exchange] = kind if kinds[kind] == 1 else f"{kind}-{kinds[kind]}"
            if entry.mark == "C" and entry.exchange is not None:
                running[entry.exchange] = "stream" if entry.lines()[0].startswith("GET") else "call"
            for exchange, output in entry.outputs:
                if output.ended:
                    running.pop(exchange, None)
        return named

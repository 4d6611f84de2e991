"""The transcripts of the suite: whole conversations with a bakery (`bakery`), files in ``tests/transcripts``.

`mcp_sansio.testing.transcript` says how they are written. In these files, the first lines may set ``covers:`` too, the
concerns of ``test_transcripts.py`` that a file shows.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest

import bakery
import speak
import support
from mcp_sansio.testing import Simulation
from mcp_sansio.testing import transcript as written
from mcp_sansio.testing.server_replay import play_server
from mcp_sansio.testing.transcript import (
    MESSAGE_PATH,
    STREAM_PATH,
    Move,
    Names,
    Output,
    Request,
    Step,
    answers,
    difference,
)
from mcp_sansio.wire.json import decode

__all__ = ["MESSAGE_PATH", "STREAM_PATH", "Move", "Names", "Output", "Request", "Step", "answers", "difference"]

FOLDER = support.ROOT / "tests" / "transcripts"
STREAM_TYPE = "text/event-stream"


@attrs.define
class Transcript(written.Transcript):
    """One of the files, at `path`."""

    path: Path = FOLDER

    @property
    def version(self) -> str:
        """The revision that is spoken."""
        return self.path.parent.name

    @property
    def name(self) -> str:
        """What tests call it."""
        return self.path.stem

    @property
    def covers(self) -> set[str]:
        """The concerns that it shows."""
        return set(self.listed("covers"))

    @property
    def has_client(self) -> bool:
        """Whether it can be played to a client as well."""
        return "client" in self.settings

    @property
    def moves(self) -> bool:
        """Whether something happens in it that the client does not send."""
        return any(step.mark == "@" for step in self.steps)

    @property
    def is_the_clients_alone(self) -> bool:
        """Whether nothing happens in it but what the client does: no time passes, and the server goes on to serve."""
        return all(step.lines[0].startswith("@ leave") for step in self.steps if step.mark == "@")

    def methods(self) -> set[str]:
        """The methods that the client names."""
        return {method for step in self.steps for method in self.methods_of(step).values()}

    def methods_of(self, step: Step) -> dict[Any, str]:
        """The methods of what the client sends in a step, by id."""
        if step.mark != "C":
            return {}
        lines = step.lines if self.is_channel else Request.of(step.lines).body_lines
        try:
            return speak.methods_of(decode("\n".join(lines).encode()))
        except ValueError:
            return {}


def load(path: Path) -> Transcript:
    """The transcript in a file. Raises ``ValueError`` for a line that is none of the kinds."""
    return Transcript.parse(path.read_text("utf-8"), str(path), path=path)


def every() -> list[Transcript]:
    """All transcripts."""
    return [load(path) for path in sorted(FOLDER.glob("*/*.txt"))]


def playable() -> list[Transcript]:
    """Those that mention no revision which is missing from the package under test."""
    gone = support.DELETED_REVISION
    return [one for one in every() if gone is None or (one.version != gone and gone not in one.text())]


def simulation_for(transcript: Transcript) -> Simulation:
    """A new bakery, with the limits of the transcript."""
    simulation = Simulation(
        bakery.build(lambda: simulation.runtime.event()), config=transcript.config, adapters=transcript.adapters
    )
    return simulation


def play(transcript: Transcript) -> tuple[Transcript, list[list[Output]]]:
    """The transcript as the core has it now, and what came of each step, held against the revision's schema.

    Raises ``ValueError`` for a name that stands for nothing yet.
    """
    now, recording = play_server(transcript.gathered(), simulation_for(transcript))
    methods: dict[Any, str] = {}
    for step, outputs in zip(now.steps, recording, strict=True):
        methods |= transcript.methods_of(step)
        for output in outputs:
            speak.check_all(transcript.version, output.messages(), methods)
    return now, recording


# The bindings


class MovableClock:
    """The system's clock, which can be put forward. Have it replace ``time.monotonic``, which event loops go by, too:
    what was to happen meanwhile happens at once, and nobody waits.
    """

    def __init__(self) -> None:
        self._real = time.monotonic
        self._moved = 0.0

    def __call__(self) -> float:
        return self._real() + self._moved

    async def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._moved += seconds
        await settled()


async def settled() -> None:
    """Return once what was sent within this process has arrived, and what it brings about has been done."""
    for _ in range(200):
        await asyncio.sleep(0)


class Side(Protocol):
    """A client in front of a binding."""

    async def send(self, label: str, lines: list[str]) -> None:
        """Send a request or a message."""

    async def move(self, move: Move) -> None:
        """Make what is not sent happen."""

    async def settle(self) -> None:
        """Return once what was sent has arrived, and what it brings about has been done."""

    async def output(self, like: Output) -> Output:
        """As much as the core had to say at this point, or what there is of it in a reasonable time."""


async def replay(transcript: Transcript, side: Side) -> None:
    """Play the transcript to a binding. Fails where it says anything else than the file."""
    transcript = transcript.gathered()
    _, recording = play(transcript)
    names = Names()
    for step, wanted in zip(transcript.steps, recording, strict=True):
        if step.mark in "<>":
            continue
        if step.mark == "@":
            await side.move(Move.of(step.lines[0]))
        else:
            await side.send(step.label, names.show(step.lines))
        if not any(output.label == step.label for output in wanted):
            # Nothing tells that it has arrived, and the next step may be about it.
            await side.settle()
        found = answers([await side.output(output) for output in wanted], names)
        if found != step.answers:
            source = f"{transcript.version}/{transcript.name}, line {step.number}"
            pytest.fail(difference(step.answers, found, source), pytrace=False)

"""Whole conversations as text: how they are written down, and how they are held against the core.

A transcript is a file ``tests/transcripts/<revision>/<name>.txt``, made of lines:

``# ...``
    A comment. The first lines of a file say what it is about, and may set ``covers:`` (the concerns of
    ``test_transcripts.py`` that it shows) and ``config:`` (members of `mcp_sansio.Config`).
``C> ...``
    What the client sends. Over HTTP: the request line without its version, headers, an empty line, the body. On a
    channel: one message. Lines that follow each other are one request, or one message.
``S> ...``
    What the server sends because of it: status, headers, an empty line, the body as far as it has come, and ``(end)``
    where a stream ends. On a channel: its messages.
``C name> ...``, ``S name> ...``
    The same, of a request with a name: one whose response goes on while others are made.
``@ +15s``
    Time passes. ``@ shutdown`` stops the server, ``@ name leaves`` cuts the connection of that request, and
    ``@ eof`` is the end of the channel's input.

A JSON text in several lines stands for the same text without any whitespace; everything else is byte by byte. What a
server makes up (the id of a session, a stream, a question) stands as ``{{session}}``, ``{{stream:2}}``, ``{{ask}}``,
numbered where there are several; the client quotes it by the same name.
"""

from __future__ import annotations

import ast
import asyncio
import difflib
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import attrs
import pytest

import bakery
import speak
import support
from mcp_sansio import Config, Head
from mcp_sansio.testing import SimulatedChannel, SimulatedHttp, Simulation
from mcp_sansio.wire.json import decode, encode

FOLDER = support.ROOT / "tests" / "transcripts"
#: The paths of the first HTTP transport, beside /mcp.
STREAM_PATH, MESSAGE_PATH = "/sse", "/messages"
STREAM_TYPE = "text/event-stream"
WIDTH = 110

_LINE = re.compile(r"([CS])(?: ([a-z0-9-]+))?>(?: (.*))?")
_MOVE = re.compile(r"@ (?:\+(?P<seconds>[0-9.]+)s|(?P<leaves>[a-z0-9-]*) ?leaves|(?P<word>shutdown|eof))")
_SETTING = re.compile(r"# (covers|config): (.*)")


# What is written down


@attrs.define
class Step:
    """A request, a message or a move (`lines`, without their marks), and what the server sent for it (`answers`).

    `notes` are the comments and empty lines before it, `number` is the line that it starts in.
    """

    number: int
    notes: list[str]
    mark: str
    label: str = ""
    lines: list[str] = attrs.field(factory=list)
    answers: list[str] = attrs.field(factory=list)


@attrs.define
class Transcript:
    """A file of steps. `tail` is what follows the last one."""

    path: Path
    settings: Mapping[str, str]
    steps: list[Step]
    tail: list[str]

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
        return set(filter(None, re.split(r",\s*", self.settings.get("covers", ""))))

    @property
    def config(self) -> Config:
        """The settings of its server."""
        pairs = (item.split("=", 1) for item in filter(None, re.split(r",\s*", self.settings.get("config", ""))))
        return Config(**{name: ast.literal_eval(value) for name, value in pairs})

    @property
    def is_channel(self) -> bool:
        """Whether it is about a channel, and not about HTTP."""
        first = next(step for step in self.steps if step.mark == "C")
        return not re.match(r"[A-Z]+ /", first.lines[0])

    @property
    def moves(self) -> bool:
        """Whether something happens in it that the client does not send."""
        return any(step.mark == "@" for step in self.steps)

    def text(self) -> str:
        """The file."""
        lines: list[str] = []
        for step in self.steps:
            lines += [*step.notes, *_marked(step), *step.answers]
        return "\n".join([*lines, *self.tail]) + "\n"

    def methods(self) -> set[str]:
        """The methods that the client names."""
        found: set[str] = set()
        for step in self.steps:
            lines = step.lines if self.is_channel else Request.of(step.lines).body_lines
            try:
                found |= set(speak.methods_of(decode("\n".join(lines).encode())).values())
            except ValueError:
                continue
        return found


def load(path: Path) -> Transcript:
    """The transcript in a file. Raises ``ValueError`` for a line that is none of the kinds above."""
    transcript = Transcript(path, _settings(path), [], [])
    notes: list[str] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        step = transcript.steps[-1] if transcript.steps else None
        mark = _LINE.fullmatch(line)
        if line.startswith("@"):
            if not _MOVE.fullmatch(line):
                raise ValueError(f"{path}:{number}: {line!r} moves nothing")
            transcript.steps.append(Step(number, notes, "@", lines=[line]))
            notes = []
        elif mark is None:
            if line and not line.startswith("#"):
                raise ValueError(f"{path}:{number}: {line!r} is no line of a transcript")
            notes.append(line)
        elif mark[1] == "S":
            if step is None or notes:
                raise ValueError(f"{path}:{number}: what the server sends follows a step at once")
            step.answers.append(line)
        else:
            label, content = mark[2] or "", mark[3] or ""
            goes_on = step is not None and not notes and step.mark == "C" and step.label == label and not step.answers
            if step is None or not goes_on:
                step = Step(number, notes, "C", label)
                transcript.steps.append(step)
                notes = []
            step.lines.append(content)
    transcript.tail = notes
    return transcript


def _settings(path: Path) -> dict[str, str]:
    head = path.read_text("utf-8").partition("\n\n")[0].splitlines()
    return {found[1]: found[2] for line in head if (found := _SETTING.fullmatch(line))}


def _marked(step: Step) -> list[str]:
    return step.lines if step.mark == "@" else [_mark("C", step.label, line) for line in step.lines]


def _mark(who: str, label: str, line: str) -> str:
    return f"{who}{' ' if label else ''}{label}> {line}".rstrip()


def every() -> list[Transcript]:
    """All transcripts."""
    return [load(path) for path in sorted(FOLDER.glob("*/*.txt"))]


def playable() -> list[Transcript]:
    """Those that mention no revision which is missing from the package under test."""
    gone = support.DELETED_REVISION
    return [one for one in every() if gone is None or (one.version != gone and gone not in one.text())]


# JSON in several lines


def folded(text: str) -> list[str]:
    """`text` in one line; a JSON text that is too long for that and has no whitespace, in several."""
    if len(text) <= WIDTH:
        return [text]
    try:
        value = decode(text.encode())
    except ValueError:
        return [text]
    return _folded(value) if encode(value).decode() == text else [text]


def _folded(value: Any, indent: str = "", name: str = "", after: str = "") -> list[str]:
    whole = indent + name + _spaced(value) + after
    if len(whole) <= WIDTH or not isinstance(value, dict | list) or not value:
        return [whole]
    if isinstance(value, dict):
        brackets, members = "{}", [(f"{_spaced(key)}: ", held) for key, held in value.items()]
    else:
        brackets, members = "[]", [("", held) for held in value]
    lines = [indent + name + brackets[0]]
    for position, (key, held) in enumerate(members, 1):
        lines += _folded(held, indent + "  ", key, "," if position < len(members) else "")
    return [*lines, indent + brackets[1] + after]


def _spaced(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_spaced(name)}: {_spaced(held)}" for name, held in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_spaced, value)) + "]"
    return encode(value).decode()


def unfolded(lines: list[str]) -> bytes:
    """The bytes that `lines` stand for."""
    text = "\n".join(lines).encode()
    if len(lines) == 1:
        return text
    try:
        return encode(decode(text))
    except ValueError:
        return text


# What a server makes up

_TOKEN = "[0-9a-f]{32}"
_MADE_UP = (
    ("session", re.compile(rf"(?m)^Mcp-Session-Id: ({_TOKEN})$")),
    ("stream", re.compile(rf"(?m)^id: ({_TOKEN})-[0-9]+$")),
    ("pair", re.compile(rf"\?session_id=({_TOKEN})")),
    ("ask", re.compile(rf"(ask-{_TOKEN})")),
    ("state", re.compile(rf"(?:requestState|mcpState)\\?\":\\?\"({_TOKEN})")),
)


class Names:
    """The names of what one server made up, in the order in which it was seen."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def hide(self, text: str) -> str:
        """`text` with names in place of what they stand for."""
        for kind, pattern in _MADE_UP:
            for value in pattern.findall(text):
                if value not in self._values.values():
                    count = sum(name.partition(":")[0] == kind for name in self._values) + 1
                    self._values[kind if count == 1 else f"{kind}:{count}"] = value
        for name, value in self._values.items():
            text = text.replace(value, "{{" + name + "}}")
        return text

    def show(self, lines: list[str]) -> list[str]:
        """`lines` with what the names in it stand for. Raises ``KeyError`` for a name that stands for nothing yet."""
        return [re.sub(r"\{\{([a-z]+(?::[0-9]+)?)\}\}", lambda found: self._values[found[1]], line) for line in lines]


# What both sides send


@attrs.frozen
class Move:
    """Something that happens without being sent. Exactly one of these is set."""

    seconds: float | None = None
    leaves: str | None = None
    word: str | None = None

    @classmethod
    def of(cls, line: str) -> Move:
        """The move in a line."""
        found = _MOVE.fullmatch(line)
        assert found is not None
        return cls(float(found["seconds"]) if found["seconds"] else None, found["leaves"], found["word"])


@attrs.frozen
class Request:
    """A request over HTTP."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body_lines: list[str]

    @classmethod
    def of(cls, lines: list[str]) -> Request:
        """The request in the lines of a step."""
        method, _, target = lines[0].partition(" ")
        end = lines.index("") if "" in lines else len(lines)
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines[1:end])]
        return cls(method, target, headers, lines[end + 1 :])

    @property
    def body(self) -> bytes:
        """Its body."""
        return unfolded(self.body_lines) if self.body_lines else b""

    @property
    def principal(self) -> str | None:
        """Who sends it. In the transcripts that is whatever the Authorization header says."""
        return dict(self.headers).get("Authorization")


@attrs.frozen
class Output:
    """What came of one request, or on the channel, since the step before.

    `head` is there once, `data` are further bytes of the body, and `ended` says that nothing more can come. On a
    channel `data` holds lines.
    """

    label: str
    head: Head | None
    data: bytes
    is_stream: bool
    ended: bool

    def lines(self, names: Names) -> list[str]:
        """The lines of a transcript for it."""
        lines = []
        if self.head is not None:
            lines = [str(self.head.status), *(f"{name}: {value}" for name, value in self.head.headers)]
            lines = names.hide("\n".join(lines)).split("\n") + ([""] if self.data else [])
        body = names.hide(self.data.decode())
        if body and self.is_stream:
            lines += [part for line in body.removesuffix("\n").split("\n") for part in _event_line(line)]
        elif body:
            lines += folded(body)
        lines += ["(end)"] if self.is_stream and self.ended else []
        return [_mark("S", self.label, line) for line in lines]

    def messages(self) -> list[Any]:
        """The messages in it."""
        if not self.is_stream:
            return [decode(self.data)] if self.data else []
        found = []
        for line in self.data.decode().split("\n"):
            text = line.removeprefix("data:").strip()
            if text.startswith(("{", "[")):
                found.append(decode(text.encode()))
        return found


def _event_line(line: str) -> list[str]:
    name, separator, text = line.partition(": ") if line.startswith("data: ") else ("", "", line)
    first, *more = folded(text)
    return [name + separator + first, *more]


def answers(outputs: Iterable[Output], names: Names) -> list[str]:
    """What the lines after a step should be."""
    return [line for output in outputs for line in output.lines(names)]


# The core


class CoreSide:
    """The pure core, told what a transcript says."""

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.names = Names()
        self.simulation = Simulation(bakery.build(lambda: self.simulation.runtime.event()), config=transcript.config)
        self.methods: dict[Any, str] = {}
        self._exchanges: dict[str, tuple[SimulatedHttp, list[int]]] = {}
        self._channel: SimulatedChannel | None = self.simulation.channel() if transcript.is_channel else None
        self._sent = 0

    def act(self, step: Step) -> list[Output]:
        """Do `step`; what came of it, each message held against the revision's schema."""
        if step.mark == "@":
            self._move(Move.of(step.lines[0]))
        elif self._channel is not None:
            self._send(unfolded(self.names.show(step.lines)))
        else:
            self._request(step.label, Request.of(self.names.show(step.lines)))
        self.simulation.settle()
        outputs = self._taken(step.label)
        for output in outputs:
            speak.check_all(self.transcript.version, output.messages(), self.methods)
        return outputs

    def _move(self, move: Move) -> None:
        if move.seconds is not None:
            self.simulation.advance(move.seconds)
        elif move.leaves is not None:
            self._exchanges[move.leaves][0].disconnect()
        elif move.word == "shutdown":
            self.simulation.server.shutdown()
        else:
            assert self._channel is not None
            self._channel.close()

    def _send(self, message: bytes) -> None:
        assert self._channel is not None
        self._said(message)
        self._channel.engine.receive_message(message)

    def _request(self, label: str, request: Request) -> None:
        before = self._exchanges.get(label)
        assert before is None or before[0].ended, f"a request whose response goes on needs a name: {request}"
        options: dict[str, Any] = {"principal": request.principal, "loopback": True}
        server = self.simulation.server
        if request.target.startswith((STREAM_PATH, MESSAGE_PATH)):
            engine = server.pair_transaction(message_path=MESSAGE_PATH, **options)
        else:
            engine = server.http_transaction(**options)
        exchange = SimulatedHttp(self.simulation, engine)
        self.simulation.peers.append(exchange)
        self._exchanges.pop(label, None)
        self._exchanges[label] = exchange, [0]
        self._said(request.body)
        engine.receive_request(request.method, request.target, request.headers)
        engine.receive_body(request.body)
        engine.receive_end()

    def _said(self, body: bytes) -> None:
        try:
            self.methods |= speak.methods_of(decode(body))
        except ValueError:
            return

    def _taken(self, label: str) -> list[Output]:
        if self._channel is not None:
            new, self._sent = self._channel.sent[self._sent :], len(self._channel.sent)
            return [Output("", None, message, is_stream=False, ended=False) for message in new]
        # The response to what was just asked comes first.
        order = sorted(self._exchanges.items(), key=lambda item: item[0] != label)
        return [output for name, held in order if (output := _new_of(name, *held)) is not None]


def _new_of(label: str, exchange: SimulatedHttp, seen: list[int]) -> Output | None:
    """What is new on `exchange`. `seen` holds how much was seen: nothing, or 1 for the head and more for the body."""
    total = (exchange.head is not None) + len(exchange.body) + exchange.ended
    if total == seen[0]:
        return None
    head = exchange.head if not seen[0] else None
    data = exchange.body[max(0, seen[0] - 1) :]
    seen[0] = total
    return Output(label, head, data, is_stream=exchange.is_stream, ended=exchange.ended)


def play(transcript: Transcript) -> tuple[Transcript, list[list[Output]]]:
    """The transcript as the core has it now, and what came of each step.

    Raises ``ValueError`` for a name that stands for nothing yet.
    """
    core = CoreSide(transcript)
    steps, recording = [], []
    for step in transcript.steps:
        try:
            recording.append(core.act(step))
        except KeyError as missing:
            raise ValueError(f"{transcript.path}:{step.number}: {{{{{missing.args[0]}}}}} is not known yet") from None
        steps.append(attrs.evolve(step, answers=answers(recording[-1], core.names)))
    return attrs.evolve(transcript, steps=steps), recording


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

    async def output(self, like: Output) -> Output:
        """As much as the core had to say at this point, or what there is of it in a reasonable time."""


async def replay(transcript: Transcript, side: Side) -> None:
    """Play the transcript to a binding. Fails where it says anything else than the file."""
    _, recording = play(transcript)
    names = Names()
    for step, wanted in zip(transcript.steps, recording, strict=True):
        if step.mark == "@":
            await side.move(Move.of(step.lines[0]))
        else:
            await side.send(step.label, names.show(step.lines))
        if not any(output.label == step.label for output in wanted):
            # Nothing tells that it has arrived, and the next step may be about it.
            await settled()
        found = answers([await side.output(output) for output in wanted], names)
        if found != step.answers:
            source = f"{transcript.version}/{transcript.name}, line {step.number}"
            pytest.fail(difference(step.answers, found, source), pytrace=False)


def difference(wanted: Iterable[str], found: Iterable[str], source: str) -> str:
    """What differs, as a diff in which ``-`` is the file and ``+`` what was there in fact."""
    return "\n".join(difflib.unified_diff(list(wanted), list(found), f"{source} (file)", "now", lineterm="", n=6))

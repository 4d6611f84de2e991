"""Whole conversations as text: how they are written down.

A transcript is made of lines:

``# …``
    A comment. The first lines say what it is about, and may set ``config:`` (members of the server's `Config`, as
    ``name=value``), ``revisions:`` (those that the server speaks, where that is not all) and ``client:`` (the client,
    as JSON: see `Recorder`).
``C> …``
    What the client sends. Over HTTP: the request line without its version, headers, an empty line, the body. On a
    channel: one message. Lines that follow each other are one request, or one message.
``S> …``
    What the server sends because of it: status, headers, an empty line, the body as far as it has come, and ``(end)``
    where a stream ends. On a channel: its messages.
``C name> …``, ``S name> …``
    The same, of a request with a name: one whose response goes on while others are made.
``@ +15s``
    Time passes. ``@ shutdown`` stops the server, ``@ name leaves`` cuts the connection of that request, and
    ``@ eof`` is the end of the channel's input.
``> …``, ``< …``
    What the caller wants of the client, and what comes of it: ``> 1 call_tool {…}``, ``< 1 result {…}``.

A JSON text in several lines stands for the same text without any whitespace; everything else is byte by byte. What a
server makes up (the id of a session, a stream, a question) stands as ``{{session}}``, ``{{stream:2}}``, ``{{ask}}``,
numbered where there are several; the client quotes it by the same name.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import attrs

from mcp_sansio.adapters.selection import AdapterSet
from mcp_sansio.events import Head
from mcp_sansio.server.config import Config
from mcp_sansio.wire.json import decode

from .folding import folded, unfolded

#: The paths of the first HTTP transport, in transcripts.
STREAM_PATH, MESSAGE_PATH = "/sse", "/messages"

_LINE = re.compile(r"([CS])(?: ([a-z0-9-]+))?>(?: (.*))?")
_MOVE = re.compile(r"@ (?:\+(?P<seconds>[0-9.]+)s|(?P<leaves>[a-z0-9-]*) ?leaves|(?P<word>shutdown|eof))")
_SETTING = re.compile(r"# ([a-z]+): (.*)")


@attrs.define
class Step:
    """What happens, without its mark (`lines`), and what the server sends then (`answers`).

    `mark` is ``C`` for what the client sends, ``@`` for a move, and ``>`` or ``<`` for what its caller says and hears.
    `notes` are the comments and empty lines before it, `number` is the line that it starts in.
    """

    number: int
    notes: list[str]
    mark: str
    label: str = ""
    lines: list[str] = attrs.field(factory=list)
    answers: list[str] = attrs.field(factory=list)

    def text(self) -> list[str]:
        """Its lines in a file."""
        marked = self.lines if self.mark != "C" else [mark("C", self.label, line) for line in self.lines]
        return [*self.notes, *marked, *self.answers]


@attrs.define
class Transcript:
    """A conversation: steps, and the lines that follow the last one (`tail`). `source` is its name in messages."""

    source: str
    settings: Mapping[str, str] = attrs.field(factory=dict)
    steps: list[Step] = attrs.field(factory=list)
    tail: list[str] = attrs.field(factory=list)

    @classmethod
    def parse(cls, text: str, source: str = "transcript", **more: Any) -> Self:
        """The transcript in a text. Raises ``ValueError`` for a line that is none of the kinds above."""
        head = text.partition("\n\n")[0].splitlines()
        settings = {found[1]: found[2] for line in head if (found := _SETTING.fullmatch(line))}
        made = cls(source, settings, **more)
        for number, line in enumerate(text.splitlines(), 1):
            made._add(number, line)
        return made

    def _add(self, number: int, line: str) -> None:
        """Read one more line."""
        said = _LINE.fullmatch(line)
        if said is not None:
            self._add_said(number, said)
        elif line.startswith(("@", ">", "<")):
            if line.startswith("@") and not _MOVE.fullmatch(line):
                raise ValueError(f"{self.source}:{number}: {line!r} moves nothing")
            self._add_step(Step(number, [], line[0], lines=[line]))
        elif line and not line.startswith("#"):
            raise ValueError(f"{self.source}:{number}: {line!r} is no line of a transcript")
        else:
            self.tail.append(line)

    def _add_step(self, step: Step) -> None:
        step.notes, self.tail = self.tail, []
        self.steps.append(step)

    def _add_said(self, number: int, said: re.Match[str]) -> None:
        step = self.steps[-1] if self.steps else None
        if said[1] == "S":
            if step is None or self.tail:
                raise ValueError(f"{self.source}:{number}: what the server sends follows a step at once")
            step.answers.append(said[0])
            return
        label = said[2] or ""
        goes_on = step is not None and step.mark == "C" and step.label == label and not self.tail and not step.answers
        if step is None or not goes_on:
            step = Step(number, [], "C", label)
            self._add_step(step)
        step.lines.append(said[3] or "")

    def text(self) -> str:
        """The text."""
        return "\n".join([line for step in self.steps for line in step.text()] + self.tail) + "\n"

    def gathered(self) -> Self:
        """The same where all that the server sends follows what the server knows of, as it does in a server's role."""
        steps: list[Step] = []
        acting: Step | None = None
        for step in self.steps:
            copy = attrs.evolve(step, answers=list(step.answers))
            steps.append(copy)
            if step.mark in ("C", "@"):
                acting = copy
            elif acting is not None:
                acting.answers += copy.answers
                copy.answers = []
        return attrs.evolve(self, steps=steps)

    @property
    def is_channel(self) -> bool:
        """Whether it is about a channel, and not about HTTP."""
        first = next((step for step in self.steps if step.mark == "C"), None)
        return first is None or not re.match(r"[A-Z]+ /", first.lines[0])

    @property
    def config(self) -> Config:
        """The settings of its server."""
        pairs = (item.split("=", 1) for item in self.listed("config"))
        return Config(**{name: ast.literal_eval(value) for name, value in pairs})

    @property
    def adapters(self) -> AdapterSet | None:
        """The revisions that its server speaks, or ``None`` for all."""
        versions = self.listed("revisions")
        return AdapterSet.default().only(*versions) if versions else None

    def listed(self, setting: str) -> list[str]:
        """What a setting lists."""
        return list(filter(None, re.split(r",\s*", self.settings.get(setting, ""))))


def mark(who: str, label: str, line: str) -> str:
    """A line of `who`, which is ``C`` or ``S``."""
    return f"{who}{' ' if label else ''}{label}> {line}".rstrip()


def unmarked(line: str) -> tuple[str, str]:
    """The label of a line of the client's or server's, and what it says."""
    found = _LINE.fullmatch(line)
    assert found is not None
    return found[2] or "", found[3] or ""


def difference(wanted: Iterable[str], found: Iterable[str], source: str) -> str:
    """What differs, as a diff in which ``-`` is the file and ``+`` what was there in fact."""
    return "\n".join(difflib.unified_diff(list(wanted), list(found), f"{source} (file)", "now", lineterm="", n=6))


# What a server makes up

_TOKEN = "[0-9a-f]{32}"
_MADE_UP = (
    ("session", re.compile(rf"(?m)^Mcp-Session-Id: ({_TOKEN})$")),
    ("stream", re.compile(rf"(?m)^id: ({_TOKEN})-[0-9]+$")),
    ("pair", re.compile(rf"\?session_id=({_TOKEN})")),
    ("ask", re.compile(rf"(ask-{_TOKEN})")),
    ("state", re.compile(rf"(?:requestState|mcpState)\\?\":\\?\"({_TOKEN})")),
)
_NAME = re.compile(r"\{\{([a-z]+(?::[0-9]+)?)\}\}")


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

    def show(self, lines: Sequence[str]) -> list[str]:
        """`lines` with what the names in it stand for. Raises ``KeyError`` for a name that stands for nothing yet."""
        return [_NAME.sub(lambda found: self._values[found[1]], line) for line in lines]

    def invent(self, lines: Sequence[str]) -> list[str]:
        """The same for a server that is not there: a name that stands for nothing yet gets a value of its own."""
        for line in lines:
            for name in _NAME.findall(line):
                self._values.setdefault(name, f"{len(self._values) + 1:032x}")
        return self.show(lines)


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
    def of(cls, lines: Sequence[str]) -> Request:
        """The request in the lines of a step."""
        method, _, target = lines[0].partition(" ")
        end = lines.index("") if "" in lines else len(lines)
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines[1:end])]
        return cls(method, target, headers, list(lines[end + 1 :]))

    @classmethod
    def made(cls, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Request:
        """The request that a client sends."""
        return cls(method, target, list(headers.items()), folded(body.decode("utf-8", "replace")) if body else [])

    @property
    def body(self) -> bytes:
        """Its body."""
        return unfolded(self.body_lines) if self.body_lines else b""

    @property
    def principal(self) -> str | None:
        """Who sends it. In transcripts that is whatever the Authorization header says."""
        return dict(self.headers).get("Authorization")

    def lines(self) -> list[str]:
        """The lines of a step for it."""
        head = [f"{self.method} {self.target}", *(f"{name}: {value}" for name, value in self.headers)]
        return [*head, "", *self.body_lines] if self.body_lines else head


@attrs.frozen
class Output:
    """What came of one request, or on the channel, since the step before.

    `head` is there once, `data` are further bytes of the body, and `ended` says that nothing more can come. On a
    channel `data` is a message.
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
        return [mark("S", self.label, line) for line in lines]

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

"""What a client's caller wants of it and what comes of that, as lines of a transcript, and back from such lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from mcp_sansio.client.calls import Answered, Failed, OutgoingCall, Question
from mcp_sansio.client.engine import ClientEngine
from mcp_sansio.client.events import (
    CallEnded,
    ChangeReceived,
    ClientEvent,
    ConnectionEnded,
    ListenStarted,
    LogReceived,
    Negotiated,
    ProgressReceived,
    QuestionReceived,
    QuestionWithdrawn,
    ServerFaulted,
)
from mcp_sansio.operation import Operation
from mcp_sansio.types import JSON
from mcp_sansio.wire.json import decode, encode

_COMMAND = re.compile(r"> (?:(?P<number>[0-9]+) )?(?P<verb>[a-z_]+)(?: (?P<given>.*))?")


class Diary:
    """The calls and the questions of one engine, by number."""

    def __init__(self) -> None:
        self._calls: dict[OutgoingCall, int] = {}
        self._questions: dict[Question, int] = {}

    # What the caller says

    def called(self, call: OutgoingCall, verb: str, options: Mapping[str, Any]) -> str:
        """The line for a call, with those of its options that are not the usual ones."""
        self._calls[call] = len(self._calls) + 1
        given = {name: value for name, value in options.items() if value not in (None, False, (), {})}
        return _line(">", self._calls[call], verb, given)

    def cancelled(self, call: OutgoingCall) -> str:
        """The line for a call that is given up."""
        return f"> {self._calls[call]} cancel"

    def answered(self, question: Question, reply: Mapping[str, JSON]) -> str:
        """The line for an answer."""
        return _line(">", self._questions[question], "answer", reply)

    def refused(self, question: Question, message: str) -> str:
        """The line for a question that nobody answers."""
        return _line(">", self._questions[question], "fail", message)

    # What the caller hears

    def heard(self, event: ClientEvent) -> str:
        """The line for an event."""
        verb, given = _HEARD[type(event)](event)
        number: int | None = None
        if isinstance(event, QuestionReceived | QuestionWithdrawn):
            number = self._questions.setdefault(event.question, len(self._questions) + 1)
        elif not isinstance(event, LogReceived | Negotiated | ServerFaulted | ConnectionEnded):
            number = None if event.call is None else self._calls[event.call]
        return _line("<", number, verb, given)

    # From a line

    def obey(self, engine: ClientEngine, line: str) -> None:
        """Have `engine` do what a line of the caller's says. Raises ``ValueError`` for one that says nothing."""
        found = _COMMAND.fullmatch(line)
        if found is None:
            raise ValueError(f"{line!r} is no command")
        given: Any = decode(found["given"].encode()) if found["given"] else {}
        number, verb = int(found["number"] or 0), found["verb"]
        if verb == "cancel":
            engine.cancel(_by_number(self._calls, number))
        elif verb == "answer":
            engine.answer(_by_number(self._questions, number), given)
        elif verb == "fail":
            engine.fail(_by_number(self._questions, number), given)
        elif verb == "close":
            engine.close()
        elif verb == "listen":
            self._calls[engine.listen(**{**given, "uris": tuple(given.get("uris", ()))})] = number
        else:
            self._calls[engine.call(Operation(verb), **given)] = number


def _by_number(held: Mapping[Any, int], number: int) -> Any:
    found = [key for key, known in held.items() if known == number]
    if not found:
        raise ValueError(f"there is no number {number} yet")
    return found[0]


def _line(mark: str, number: int | None, verb: str, given: JSON) -> str:
    words = [mark, *([] if number is None else [str(number)]), verb]
    return " ".join([*words, *([] if given is None else [encode(given).decode()])])


def _outcome(event: CallEnded) -> tuple[str, JSON]:
    outcome = event.call.outcome
    if isinstance(outcome, Answered):
        return "result", dict(outcome.result)
    assert isinstance(outcome, Failed)
    return "error", f"{type(outcome.error).__name__}: {outcome.error}"


_HEARD: Mapping[type[ClientEvent], Callable[[Any], tuple[str, JSON]]] = {
    CallEnded: _outcome,
    ListenStarted: lambda event: ("listens", None),
    ProgressReceived: lambda event: ("progress", [event.progress, event.total, event.message]),
    LogReceived: lambda event: ("log", [event.level, event.data, event.logger]),
    ChangeReceived: lambda event: ("change", [event.change.kind.value, event.change.uri]),
    QuestionReceived: lambda event: ("question", dict(event.question.request)),
    QuestionWithdrawn: lambda event: ("withdrawn", None),
    Negotiated: lambda event: ("negotiated", event.known.to_json()),
    ServerFaulted: lambda event: ("fault", event.fault),
    ConnectionEnded: lambda event: ("ended", str(event.error)),
}

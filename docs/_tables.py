"""The tables that the documentation prints from the code: state machines, revisions, failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path

from mcp_sansio import AdapterSet, FailureKind
from mcp_sansio.client import _state as _client
from mcp_sansio.server import _state as _server

MACHINES = {
    "A server's call, which a handler runs": _server.CALL,
    "An HTTP request and its response": _server.RESPONSE,
    "A channel with a client": _server.CHANNEL,
    "A stream of changes": _server.SUBSCRIPTION,
    "A client's call, from the command to its outcome": _client.CALL,
    "What a client knows of its server": _client.NEGOTIATION,
    "A question that a server put to a client": _client.QUESTION,
}
FLAGS = (
    "can_ask",
    "can_push_ask",
    "asks_in_arguments",
    "has_handshake",
    "allows_batch",
    "is_implied",
    "disconnect_cancels",
    "resumes_streams",
    "primes_streams",
    "null_error_id",
)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def machine(steps: Mapping[Enum, Mapping[Enum, Enum]]) -> str:
    """The steps of a state machine: a row for each state, a column for each input."""
    inputs = list(dict.fromkeys(given for row in steps.values() for given in row))
    rows = [
        [state.name, *(row[given].name if given in row else "" for given in inputs)] for state, row in steps.items()
    ]
    return table(["state", *(given.name for given in inputs)], rows)


def states() -> str:
    """Every state machine of both roles."""
    return "\n".join(f"**{title}**\n\n{machine(steps)}" for title, steps in MACHINES.items())


def revisions() -> str:
    """The flags of every revision."""
    adapters = AdapterSet.default().adapters
    rows = [[f"`{flag}`", *("yes" if getattr(adapter, flag) else "" for adapter in adapters)] for flag in FLAGS]
    return table(["flag", *(adapter.version for adapter in adapters)], rows)


def failures() -> str:
    """The JSON-RPC code and the HTTP status of every failure, on every revision."""
    adapters = AdapterSet.default().adapters
    rows = []
    for kind in FailureKind:
        codes = [adapter.failures[kind] for adapter in adapters]
        rows.append([f"`{kind}`", *(f"{code}, {status}" for code, status in codes)])
    return table(["failure", *(adapter.version for adapter in adapters)], rows)


def write(folder: Path) -> None:
    """Write every table into `folder`."""
    folder.mkdir(exist_ok=True)
    for make in (states, revisions, failures):
        (folder / f"{make.__name__}.md").write_text(make(), "utf-8")

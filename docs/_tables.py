"""The tables and drawings that the documentation prints from the code."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path

import attrs

from mcp_sansio import Adapter, AdapterSet, Call, ClientConfig, Config, FailureKind, Operation, Registry
from mcp_sansio.adapters.preamble import Preamble
from mcp_sansio.client import _state as _client
from mcp_sansio.dispatcher import Dispatcher
from mcp_sansio.outcome import Outcome
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
#: Written by the tests of the bindings, and held against them by a test: see tests/bindings/README.md.
BEHAVIOURS = Path(__file__).with_name("bindings.json")
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


def by_revision(head: str, cells: Mapping[str, Sequence[str]]) -> str:
    """A table with a row of `cells` for each name, one for each revision; revisions that are alike share a column."""
    columns: dict[tuple[str, ...], list[str]] = {}
    for number, adapter in enumerate(AdapterSet.default().adapters):
        columns.setdefault(tuple(row[number] for row in cells.values()), []).append(adapter.version)
    rows = [[name, *row] for name, *row in zip(cells, *columns, strict=True)]
    return table([head, *map(", ".join, columns.values())], rows)


def machine(steps: Mapping[Enum, Mapping[Enum, Enum]]) -> str:
    """The steps of a state machine: a row for each state, a column for each input."""
    inputs = list(dict.fromkeys(given for row in steps.values() for given in row))
    rows = [
        [state.name, *(row[given].name if given in row else "" for given in inputs)] for state, row in steps.items()
    ]
    return table(["state", *(given.name for given in inputs)], rows)


def drawing(words: str, lines: Iterable[str]) -> str:
    """A directed graph; `words` say what it shows to those who cannot see it."""
    body = "\n".join(f"  {line}" for line in (*_STYLE, *lines))
    return f"```{{graphviz}}\n:alt: {words}\n\ndigraph {{\n{body}\n}}\n```\n"


_FEW_STATES = 4
_STYLE = (
    'bgcolor="transparent" rankdir=LR fontname="sans-serif"',
    'node [shape=box style="rounded,filled" fillcolor="#eef3fb" color="#5b6b82" fontname="sans-serif" fontsize=11]',
    'edge [color="#5b6b82" fontname="sans-serif" fontsize=9 fontcolor="#33415c"]',
)


def machine_drawn(title: str, steps: Mapping[Enum, Mapping[Enum, Enum]]) -> str:
    """A state machine as a graph. Steps that lead where they began are left to the table."""
    inputs: dict[tuple[str, str], list[str]] = {}
    for state, row in steps.items():
        for given, following in row.items():
            if following is not state:
                inputs.setdefault((state.name, following.name), []).append(given.name)
    ends = [f"{state.name} [peripheries=2]" for state, row in steps.items() if set(row.values()) <= {state}]
    edges = [f'{before} -> {after} [label="{", ".join(given)}"]' for (before, after), given in inputs.items()]
    way = ["rankdir=TB"] if len(steps) > _FEW_STATES else []  # or it is wider than a page
    return drawing(title, [*way, next(iter(steps)).name, *ends, *edges])


def states() -> str:
    """Every state machine of both roles."""
    return "\n".join(
        f"**{title}**\n\n{machine_drawn(title, steps)}\n{machine(steps)}" for title, steps in MACHINES.items()
    )


def rings() -> str:
    """The rings, the outermost first, read off the test that asserts them."""
    held: dict[int, list[str]] = {}
    for module, ring in _rings_of_the_tests().items():
        held.setdefault(ring, []).append(module or "mcp_sansio")
    boxes = ['bindings [label="bindings, and your driver"]']
    for ring, modules in sorted(held.items(), reverse=True):
        label = r"\n".join(", ".join(modules[start : start + 5]) for start in range(0, len(modules), 5))
        boxes.append(f'ring{ring} [label="{ring}: {label}"]')
    arrows = " -> ".join(["bindings", *(f"ring{ring}" for ring in sorted(held, reverse=True))])
    return drawing("The rings: each module imports inwards alone", ["rankdir=TB", *boxes, arrows])


def _rings_of_the_tests() -> dict[str, int]:
    source = Path(__file__).parents[1] / "tests" / "test_architecture.py"
    for node in ast.parse(source.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "RINGS":
            found: dict[str, int] = ast.literal_eval(node.value)
            return found
    raise LookupError("the rings")


#: What a request passes through: the class or function that does it, what it hands on, and to whom.
_FLOW = (
    (Preamble, "states a revision", AdapterSet),
    (AdapterSet, "chooses", Adapter),
    (Adapter, "decodes", Call),
    (Call, "is run by", Dispatcher),
    (Dispatcher, "runs", Registry),
    (Registry, "a handler comes to", Outcome),
    (Outcome, "is encoded by", Adapter),
)


def request() -> str:
    """What a request passes through, from bytes to bytes."""
    names = {Outcome: "Outcome"}
    steps = [
        f'{names.get(one) or one.__name__} -> {names.get(other) or other.__name__} [label="{words}"]'
        for one, words, other in _FLOW
    ]
    ends = ['"bytes and headers" [shape=plaintext fillcolor=none]', '"bytes out" [shape=plaintext fillcolor=none]']
    return drawing(
        "A request, from the bytes that come in to the bytes that go out",
        ["rankdir=TB", *ends, '"bytes and headers" -> Preamble', *steps, 'Adapter -> "bytes out" [label="encodes"]'],
    )


def methods() -> str:
    """The method of every operation, on every revision."""
    adapters = AdapterSet.default().adapters
    rows = {}
    for operation in Operation:
        names = [adapter.method_for(operation) for adapter in adapters]
        rows[f"`{operation}`"] = [f"`{name}`" if name else "" for name in names]
    return by_revision("operation", rows)


def limits() -> str:
    """Every limit of both roles that is a number, with its default."""
    parts = []
    for cls in (Config, ClientConfig):
        rows = [
            [f"`{field.name}`", f"{field.default:,}"]
            for field in attrs.fields(cls)
            if isinstance(field.default, int | float) and not isinstance(field.default, bool)
        ]
        parts.append(table([f"`{cls.__name__}`", "default"], rows))
    return "\n".join(parts)


def revisions() -> str:
    """The flags of every revision."""
    adapters = AdapterSet.default().adapters
    return by_revision(
        "flag", {f"`{flag}`": ["yes" if getattr(adapter, flag) else "" for adapter in adapters] for flag in FLAGS}
    )


def failures() -> str:
    """The JSON-RPC code and the HTTP status of every failure, on every revision."""
    adapters = AdapterSet.default().adapters
    rows = {}
    for kind in FailureKind:
        codes = [adapter.failures[kind] for adapter in adapters]
        rows[f"`{kind}`"] = [f"{code}, {status}" for code, status in codes]
    return by_revision("failure", rows)


def behaviours(kind: str) -> str:
    """What the bindings of a kind do, as their suite found it when it last ran in full."""

    def words(behaviour: str) -> str:
        # Some tests are named for the case of the field that they are from, which says nothing here.
        said = re.sub(r"^Case \d+( and \d+)* ", "", behaviour)
        return said[0].upper() + said[1:]

    rows: dict[str, dict[str, str]] = json.loads(BEHAVIOURS.read_text("utf-8"))[kind]
    bindings = sorted({binding for held in rows.values() for binding in held})
    reasons = sorted({said for held in rows.values() for said in held.values()} - {"yes", "no"})

    def cell(said: str) -> str:
        return f"no ({reasons.index(said) + 1})" if said in reasons else said

    lines = [
        [words(behaviour), *(cell(held.get(binding, "")) for binding in bindings)] for behaviour, held in rows.items()
    ]
    notes = [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join([table(["", *bindings], lines), *notes, ""])


def write(folder: Path) -> None:
    """Write every table into `folder`."""
    folder.mkdir(exist_ok=True)
    for kind in json.loads(BEHAVIOURS.read_text("utf-8")):
        (folder / f"{kind}.md").write_text(behaviours(kind), "utf-8")
    for make in (states, rings, request, revisions, methods, failures, limits):
        (folder / f"{make.__name__}.md").write_text(make(), "utf-8")

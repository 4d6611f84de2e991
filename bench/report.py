"""What is shown of the results: a line while they come in, tables at the end, and the page of the documentation."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from operator import truediv
from pathlib import Path
from typing import Any

import rows
from contestants import CONTESTANTS

TEMPLATE = Path(__file__).parent / "performance.md.in"
TITLES = {contestant.name: contestant.title for contestant in CONTESTANTS}
#: Where there are two servers of ours, an aim is for the faster of them.
OURS = ("sansio", "blocking")
PEERS = ("tiny", "official", "fastmcp")
#: The transports on which contestants are compared, in the order of the tables.
COMPARED = ("http", "trio", "asgi", "uvloop", "stdio", "client")

Cell = dict[str, Any]


def spread(values: Iterable[float]) -> dict[str, float]:
    """The median, and the quartiles on either side of it."""
    ordered = sorted(values)
    if len(ordered) < 2:
        return {"median": ordered[0], "low": ordered[0], "high": ordered[0]}
    low, median, high = statistics.quantiles(ordered, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def summed_up(row: dict[str, Any], *, by_cost: bool = False) -> dict[str, Any]:
    """The row with what its rounds come to: rates, each contestant's share of the bare one's, how far we are ahead.

    `by_cost` takes the rates from the processor time of an exchange: what there would be with nothing else to wait for.
    """
    cells = row["cells"]
    measured = {name: cell["rates"] for name, cell in cells.items() if "rates" in cell}
    if by_cost:
        measured = {name: [1e6 / cost for cost in cells[name]["costs"]] for name in measured}
    for name, rates in measured.items():
        cells[name]["rate"] = statistics.median(rates)
        cells[name]["cost"] = statistics.median(cells[name]["costs"])
        if "bare" in measured:
            cells[name]["ratio"] = spread(map(truediv, rates, measured["bare"]))
    ours = measured.get("sansio", [])
    row["ahead"] = {peer: spread(map(truediv, ours, measured[peer])) for peer in PEERS if ours and peer in measured}
    return row


# Words ----------------------------------------------------------------------------------------------------------------


def rate(value: float) -> str:
    """So many a second."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def share(cell: Cell, *, exact: bool) -> str:
    """The share of the bare handler's rate, or why there is none."""
    if "ratio" not in cell:
        return cell.get("cannot") or ("failed" if "failed" in cell else "")
    ratio = cell["ratio"]
    text = number(ratio["median"])
    return f"{text} ({number(ratio['low'])}–{number(ratio['high'])})" if exact else text


def number(value: float) -> str:
    """Two digits that mean something."""
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 5 else f"{value:.2f}"


def bare(row: dict[str, Any]) -> str:
    """What the bare handler does."""
    value = row["cells"]["bare"].get("rate")
    if value is None:
        return "failed"
    return f"{1000 / value:.0f} ms" if row["name"].split("/")[1] == "start" else f"{rate(value)}/s"


def best_peer(row: dict[str, Any]) -> str:
    """How many times the best peer's rate ours is."""
    if not row["ahead"]:
        return ""
    peer, ahead = min(row["ahead"].items(), key=lambda item: item[1]["median"])
    return f"{number(ahead['median'])} × {TITLES[peer]}"


def line_of(result: dict[str, Any]) -> str:
    """One result, as soon as it is there."""
    if "cells" in result:
        shown = [
            f"{TITLES[name]} {share(cell, exact=False)}" for name, cell in result["cells"].items() if name != "bare"
        ]
        return f"{result['name']:32} bare {bare(result)}, {', '.join(shown)}"
    if "core" in result:
        taken = spread(map(truediv, result["core"], result["msgspec"]))
        return f"{result['name']:32} {statistics.median(result['core']):.1f} µs, {number(taken['median'])} × msgspec"
    if "columns" in result:
        return f"{result['name']:32} {'; '.join(' | '.join(map(str, line)) for line in result['rows'])}"
    return f"{result['name']:32} {rate(statistics.median(result['rounds']))}/s"


# Tables ---------------------------------------------------------------------------------------------------------------


def tables(results: dict[str, Any], *, exact: bool) -> dict[str, list[list[str]]]:
    """The tables, each with its header first, by name."""
    found = {"core": core_table(results["core"])}
    for transport in COMPARED:
        here = [row for row in results["rows"] if row["name"].startswith(f"{transport}/")]
        found[transport] = compared_table(here, exact=exact)
    return {name: table for name, table in found.items() if len(table) > 1}


def core_table(measured: list[dict[str, Any]]) -> list[list[str]]:
    """The pure core: what it takes, and how many times the parse and the print alone."""
    table = [["exchange", "revision", "channel, µs", "times msgspec", "HTTP, µs", "times msgspec"]]
    by_name = {row["name"]: row for row in measured}
    for row in rows.every_row():
        other = rows.Row("core-http", row.kind, row.revision)
        if row.transport == "core-channel" and (row.name in by_name or other.name in by_name):
            cells = [*_core_cells(by_name.get(row.name)), *_core_cells(by_name.get(other.name))]
            table.append([row.title, row.revision, *cells])
    return table


def _core_cells(measured: dict[str, Any] | None) -> list[str]:
    if measured is None:
        return ["", ""]
    ratio = spread(map(truediv, measured["core"], measured["msgspec"]))
    return [f"{statistics.median(measured['core']):.1f}", number(ratio["median"])]


def compared_table(measured: list[dict[str, Any]], *, exact: bool) -> list[list[str]]:
    """The contestants: the bare handler's rate, the shares of it, and how far ahead of the best peer we are."""
    names = list(measured[0]["cells"]) if measured else []
    peers = any(row["ahead"] for row in measured)
    head = ["exchange", "revision", "bare", *(TITLES[name] for name in names if name != "bare")]
    table = [[*head, "mcp-sansio is"] if peers else head]
    for row in measured:
        shares = [share(row["cells"][name], exact=exact and name in OURS) for name in names if name != "bare"]
        table.append(
            [row["title"], row["name"].rpartition("/")[2], bare(row), *shares, *([best_peer(row)] if peers else [])]
        )
    return table


def aligned(table: Sequence[Sequence[str]]) -> str:
    """A table for the terminal."""
    widths = [max(len(str(line[column])) for line in table) for column in range(len(table[0]))]
    return "\n".join(
        "  ".join(str(cell).ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table
    )


def markdown(table: Sequence[Sequence[str]]) -> str:
    """A table for the page."""
    head, *body = ([str(cell) for cell in line] for line in table)
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def notes(results: dict[str, Any]) -> list[str]:
    """What a reader of the tables has to know besides."""
    found = []
    for row in results["rows"]:
        for name, cell in row["cells"].items():
            if "failed" in cell:
                found.append(f"{row['name']}: {TITLES[name]} failed: {cell['failed']}")
            if "differs" in cell:
                found.append(f"{row['name']}: the bare server says something else than mcp-sansio: {cell['differs']}")
    return found


def goals(results: dict[str, Any]) -> list[list[str]]:
    """What is aimed at, what was measured, and whether that is enough."""
    table = [["aim", "measured", ""]]
    by_name = {row["name"]: row for row in results["rows"]}
    for name, least in GOALS:
        cells = by_name.get(name, {"cells": {}})["cells"]
        shares = {one: cells[one]["ratio"]["median"] for one in OURS if "ratio" in cells.get(one, {})}
        if shares:
            fastest = max(shares, key=shares.__getitem__)
            by = f", by {TITLES[fastest]}" if len(shares) > 1 else ""
            table.append(_goal(f"{name}: {least} of the bare one{by}", shares[fastest], at_least=least))
    for name, peer, least in AHEAD:
        ahead = by_name.get(name, {"ahead": {}})["ahead"].get(peer)
        if ahead:
            table.append(_goal(f"{name}: {least:g} times {TITLES[peer]}", ahead["median"], at_least=least))
    for row in results["core"]:
        if "/call/" in row["name"]:
            times = statistics.median(map(truediv, row["core"], row["msgspec"]))
            table.append(_goal(f"{row['name']}: {CORE_AT_MOST} times msgspec at most", times, at_most=CORE_AT_MOST))
    for row in results["rows"]:
        if row["ahead"]:
            least_ahead = min(ahead["median"] for ahead in row["ahead"].values())
            table.append(_goal(f"{row['name']}: ahead of every peer", least_ahead, at_least=1.0))
    return table


GOALS = (
    ("http/call/2026-07-28", 0.75),
    ("http/call/2025-11-25", 0.75),
    ("trio/call/2026-07-28", 0.80),
    ("trio/call/2025-11-25", 0.80),
    ("asgi/call/2026-07-28", 0.65),
    ("asgi/call/2025-11-25", 0.65),
    ("uvloop/call/2026-07-28", 0.65),
    ("uvloop/call/2025-11-25", 0.65),
    ("stdio/call/2026-07-28", 0.70),
    ("stdio/call/2025-11-25", 0.70),
    ("http/list/2026-07-28", 0.85),
    ("http/list/2025-11-25", 0.85),
    ("client/one/2026-07-28", 0.65),
    ("client/one/2025-11-25", 0.65),
    ("client/many/2026-07-28", 0.65),
    ("client/many/2025-11-25", 0.65),
)
AHEAD = (
    ("stdio/pipelined/2026-07-28", "tiny", 5.0),
    ("stdio/pipelined/2025-11-25", "tiny", 5.0),
    ("stdio/start/2026-07-28", "tiny", 2.0),
    ("stdio/start/2025-11-25", "tiny", 2.0),
    ("asgi/call/2026-07-28", "official", 4.0),
    ("asgi/call/2025-11-25", "official", 4.0),
    ("asgi/call/2026-07-28", "fastmcp", 4.0),
    ("asgi/call/2025-11-25", "fastmcp", 4.0),
    ("uvloop/call/2026-07-28", "official", 4.0),
    ("uvloop/call/2025-11-25", "official", 4.0),
    ("uvloop/call/2026-07-28", "fastmcp", 4.0),
    ("uvloop/call/2025-11-25", "fastmcp", 4.0),
)
CORE_AT_MOST = 9


def _goal(aim: str, value: float, *, at_least: float = 0.0, at_most: float = float("inf")) -> list[str]:
    return [aim, number(value), "met" if at_least <= value <= at_most else "missed"]


def terminal(results: dict[str, Any]) -> str:
    """Everything, for the terminal."""
    parts = [f"{name}\n{aligned(table)}" for name, table in tables(results, exact=True).items()]
    for table in results["growth"] + results["workers"]:
        parts.append(f"{table['title']}\n{aligned([table['columns'], *table['rows']])}")
    aims = goals(results)
    parts += [aligned(aims)] if len(aims) > 1 else []
    return "\n\n".join(["", *parts, *notes(results)])


# The page -------------------------------------------------------------------------------------------------------------


def page(results: dict[str, Any]) -> str:
    """The documentation's page: the template with the tables in it."""
    text = TEMPLATE.read_text()
    missing = "(not measured in this run)"
    filled = {name: markdown(table) for name, table in tables(results, exact=True).items()}
    for name, measured in (("growth", results["growth"]), ("workers", results["workers"])):
        filled[name] = "\n\n".join(
            f"### {table['title']}\n\n{markdown([table['columns'], *table['rows']])}" for table in measured
        )
    cores = results["about"]["cores"]
    filled["cores"] = f"{cores} core{'s' if cores > 1 else ''}"
    filled["machine"] = machine(results["about"])
    filled["generator"] = generator(results)
    filled["notes"] = "\n".join(f"- {note}" for note in notes(results))
    for name in ("core", *COMPARED, "growth", "workers", "cores", "machine", "generator", "notes"):
        text = text.replace(f"{{{{ {name} }}}}", filled.get(name) or ("" if name == "notes" else missing))
    return text.rstrip() + "\n"


def machine(about: dict[str, Any]) -> str:
    """Where and with what it was measured."""
    lines = [
        f"Measured on {about['date']}: {about['cores']} cores of {about['processor']}, {about['system']}, "
        f"CPython {about['python']}; {about['rounds']} rounds of {about['seconds']:g} s for each contestant, "
        f"{about['connections']} connections over HTTP.",
        "",
    ]
    for name, versions in about["versions"].items():
        held = ", ".join(f"{package} {version}" for package, version in versions.items())
        lines.append(f"- {name}: {held}")
    return "\n".join(lines)


def generator(results: dict[str, Any]) -> str:
    """What the load generator can do, beside the bare handler's rate."""
    by_name = {row["name"]: row for row in results["rows"]}
    lines = []
    for measured in results["generator"]:
        transport = measured["name"].partition("/")[0]
        own = statistics.median(measured["rounds"])
        held = by_name.get(f"{transport}/call/{rows.NEW}", {"cells": {"bare": {}}})["cells"]["bare"].get("rate")
        beside = f", {own / held:.1f} times what the bare server answers" if held else ""
        lines.append(f"- {transport}: {rate(own)} exchanges a second{beside}")
    return "\n".join(lines)

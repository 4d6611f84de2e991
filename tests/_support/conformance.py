"""What the official conformance suite wrote down of a run, read check by check.

The suite's own verdict is not enough. It ignores warnings, a scenario that finds nothing to check passes, and a check
of the messages against the schema succeeds where there were no messages. So every check that it wrote is read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Container
from pathlib import Path

import attrs

import support

#: A check that the suite's runner adds to every scenario whose messages it sees, even if there were none.
ADDED = "wire-schema-valid"


def command() -> list[str]:
    """The suite's command, with the Node that it needs; skips or fails like `support.need`."""
    return [support.need_node(), str(support.need_npm("@modelcontextprotocol/conformance") / "dist" / "index.js")]


@attrs.frozen
class Tally:
    """What became of one scenario: how many checks had which status, and what speaks against it."""

    scenario: str
    statuses: Counter[str]
    faults: list[str]

    @classmethod
    def of(cls, folder: Path, may_be_skipped: Container[str] = ()) -> Tally:
        """The tally of a results folder, ``[server-]<scenario>-<date>T<time>``.

        Checks whose name is in `may_be_skipped` are for what the implementation has no use of.
        """
        scenario = re.sub(r"^(server-)?(.*)-\d{4}-\d\d-\d\dT.*$", r"\2", folder.name)
        checks = json.loads((folder / "checks.json").read_text("utf-8"))
        faults = [_fault(check) for check in checks if _is_bad(check, may_be_skipped)]
        if not any(check["status"] == "SUCCESS" and check["id"] != ADDED for check in checks):
            faults.append("nothing was checked")
        return cls(scenario, Counter(check["status"] for check in checks), faults)


def _is_bad(check: dict[str, str], may_be_skipped: Container[str]) -> bool:
    if check["status"] == "SKIPPED":
        return check["name"] not in may_be_skipped
    return check["status"] not in ("SUCCESS", "INFO")


def _fault(check: dict[str, str]) -> str:
    # Clipped, since some messages quote all that the peer sent.
    return f"{check['status']} {check['id']}: {check.get('errorMessage', check['description'])[:300]}"


def table(title: str, tallies: list[Tally]) -> str:
    """The tallies for people to read."""
    statuses = ("SUCCESS", "FAILURE", "WARNING", "SKIPPED", "INFO")
    total = Tally(f"{len(tallies)} scenarios", sum((tally.statuses for tally in tallies), Counter()), [])
    lines = ["", f"{title:<46}" + "".join(f"{status:>9}" for status in statuses)]
    for tally in [*tallies, total]:
        lines.append(f"{tally.scenario:<46}" + "".join(f"{tally.statuses[status]:>9}" for status in statuses))
        lines += [f"    {fault}" for fault in tally.faults]
    return "\n".join(lines)


def faults_of(tallies: list[Tally]) -> dict[str, list[str]]:
    """What speaks against each scenario, for those against which something does."""
    return {tally.scenario: tally.faults for tally in tallies if tally.faults}


def successes(tallies: list[Tally]) -> int:
    """How many checks succeeded."""
    return sum(tally.statuses["SUCCESS"] for tally in tallies)

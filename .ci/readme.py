"""Prints a command of the README (``serve``, ``curl`` or ``test``), so that CI runs what a reader pastes."""

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
ENDS = {"serve": "docs/examples/quickstart.py", "test": ".venv/bin/pytest -n auto", "curl": "'"}


def command(which: str) -> str:
    blocks = re.findall(r"^```console\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    starts = "curl " if which == "curl" else "python3 -m venv .venv && "
    (found,) = [block.strip() for block in blocks if block.startswith(starts) and block.strip().endswith(ENDS[which])]
    return found


if __name__ == "__main__":
    print(command(sys.argv[1]))

"""What every server of the comparison offers, so that each file beside this one says only how its library does it.

A hundred tools, of which three do something: `add` two integers, `report` progress ten times, `ask` for a name. One
resource of a megabyte of text. Nothing here may import more than the standard library: every environment runs it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

TOOLS = 100
FILLERS = [f"tool_{number:03}" for number in range(TOOLS - 3)]
FILLER_DESCRIPTION = "Look something up. It is here to be listed, and answers with what it was asked."

STEPS = 10
URI = "bench://text"
#: A megabyte of ASCII in lines of 64, so that the printing has something to escape now and then.
TEXT = ("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-\n" * 2**14)[: 2**20]

#: The member of a call's ``_meta`` that tells the bare server how its client wants to be asked; the others ignore it.
WAY = "bench/way"
QUESTION = "What is your name?"
FORM = {
    "type": "object",
    "properties": {"name": {"type": "string", "title": "Name"}},
    "required": ["name"],
}


def message_of(step: int) -> str:
    """What goes with the report of a step."""
    return f"step {step} of {STEPS}"


def greeting(name: str) -> str:
    """What `ask` says in the end."""
    return f"Hello, {name}"


def main(**transports: Callable[[], None]) -> None:
    """Serve the one that the command line names."""
    parser = argparse.ArgumentParser()
    # An application is the same whatever runs it.
    offered = transports | ({"uvloop": transports["asgi"]} if "asgi" in transports else {})
    parser.add_argument("transport", choices=offered)
    offered[parser.parse_args().transport]()


def announce(port: int) -> None:
    """Tell whoever started this process where it listens."""
    print(port, flush=True)

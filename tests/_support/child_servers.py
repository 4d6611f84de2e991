"""Servers that clients of any binding start: the core by itself, and scripts of a few lines that are no server."""

from __future__ import annotations

import gc
import os
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import support
from plugs import ChannelClient

#: Long enough for a machine that is busy; a test that waits this long has failed.
PATIENCE = 60.0
#: What a server that does as it should does not need.
SHORT = 0.2
SUPPORT = str(support.ROOT / "tests" / "_support")
#: The core by itself, as a program.
PROGRAM = f"{SUPPORT}/core_stdio.py"
#: Where the packages under test are, if they are not installed, and what `core_stdio` is made of.
PACKAGES = {"PYTHONPATH": os.pathsep.join(filter(None, [SUPPORT, os.environ.get("PYTHONPATH")]))}

#: What scripts may use: `say` writes a line, `hear` reads one, `reply` answers a request, and `serve` whatever comes.
PRELUDE = """
import json, os, signal, subprocess, sys, time
def say(line):
    data = line if isinstance(line, bytes) else line.encode() if isinstance(line, str) else json.dumps(line).encode()
    sys.stdout.buffer.write(data + b"\\n"); sys.stdout.buffer.flush()
def hear():
    line = sys.stdin.buffer.readline()
    return json.loads(line) if line else sys.exit(0)
def reply(request, result=None):
    if request["method"] == "initialize":
        result = {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "script", "version": "1"}}
    say({"jsonrpc": "2.0", "id": request["id"], "result": result or {}})
def request():
    while True:
        message = hear()
        if message.get("method") == "server/discover":
            say({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
        elif message.get("method") == "initialize":
            reply(message)
        elif "id" in message and "method" in message:
            return message
def text_line(request, text):
    result = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()
def text(request, text):
    say(text_line(request, text))
"""


def program(plug: ChannelClient, **options: Any) -> Any:
    """A client of `core_stdio`; `options` are the client's."""
    options["env"] = {**PACKAGES, **options.get("env", {})}
    return plug.client(sys.executable, [PROGRAM], **options)


def script(plug: ChannelClient, code: str, **options: Any) -> Any:
    """A client of a process that runs `code` after the prelude."""
    return plug.client(sys.executable, ["-S", "-c", PRELUDE + code], **options)


def give(expression: str) -> str:
    """A script that answers its first call with that value, as JSON."""
    return f"text(request(), json.dumps({expression}))\nhear()"


def text_of(result: Any) -> str:
    """The text that a tool gave."""
    text: str = result.content[0].text
    return text


def has_ended(pid: int) -> bool:
    """Whether the process has ended or does so now."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], PATIENCE)[0])
    finally:
        os.close(descriptor)


@contextmanager
def nothing_left() -> Iterator[None]:
    """A block that leaves no descriptor and no thread."""
    gc.collect()
    files, threads = _descriptors(), _running_threads()
    yield
    gc.collect()
    for thread in _running_threads() - threads:
        thread.join(PATIENCE)
    assert (_descriptors(), _running_threads() - threads) == (files, set())


def _running_threads() -> set[threading.Thread]:
    """The threads that do something: trio keeps those that are done for ten seconds, in case it needs one."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("Trio thread")}


def _descriptors() -> list[str]:
    """What this process has open."""
    numbers = Path("/proc/self/fd")
    if not numbers.exists():
        return []
    found = []
    for number in os.listdir(numbers):
        try:
            found.append(f"{number} {os.readlink(numbers / number)}")
        except FileNotFoundError:
            pass  # the one of the listing itself
    return sorted(found)

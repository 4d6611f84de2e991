"""The server that tests start as a process. Its tools do what handlers should not, and what they may.

What serves it is named by ``PROGRAM_RUN``, as ``module:function``; nothing in it is about an event loop.
"""

from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
import threading
import time

from flags import Flag
from mcp_sansio import Config, Exchange, Registry, elicit

registry = Registry("program", "1.0", instructions="Größe — ★ 漢")


def begun() -> None:
    """Tell the test that the call has begun."""
    os.write(2, b"begun\n")


@registry.tool
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@registry.tool
def echo_in_thread(text: str) -> str:
    """Give the text back."""
    return text


@registry.tool
async def order(loaves: int, ex: Exchange) -> str:
    """Order bread."""
    answer = await ex.ask("confirm", elicit(f"Order {loaves} loaves?"))
    return f"ordered {loaves}" if answer.accepted else f"not ordered: {answer.action}"


@registry.tool
async def wait() -> str:
    """Wait for ever."""
    begun()
    await Flag().wait()
    return "never"


@registry.tool
def sleep() -> str:
    """Sleep in a thread."""
    begun()
    time.sleep(60)
    return "never"


@registry.tool
async def leave_a_thread() -> str:
    """Leave a thread behind that is no daemon."""
    threading.Thread(target=time.sleep, args=(60,)).start()
    return "left"


@registry.tool
async def block() -> str:
    """Block the loop, which no handler should."""
    begun()
    time.sleep(60)
    return "never"


@registry.tool
async def chatter() -> str:
    """Write in every way there is."""
    print("by print")
    sys.stdout.write("by sys.stdout\n")
    kept.write("by a stdout that was kept\n")
    kept.flush()
    logging.getLogger("program").warning("by logging")
    os.write(1, b"by descriptor\n")
    subprocess.run([sys.executable, "-c", "print('by a child')"], check=True)
    return "said"


kept = sys.stdout


@registry.tool
async def listen() -> list[str]:
    """Read the standard input in every way there is."""
    child = [sys.executable, "-c", "import sys; sys.stdout.write('<' + sys.stdin.read() + '>')"]
    by_child = subprocess.run(child, check=True, stdout=subprocess.PIPE, text=True).stdout
    try:
        by_input = input()
    except EOFError:
        by_input = "EOFError"
    return [sys.stdin.read(), repr(os.read(0, 100)), by_child, by_input]


@registry.tool
async def flood(ex: Exchange) -> str:
    """Log for ever."""
    begun()
    while True:
        await ex.log("error", "x" * 1000)


def main() -> None:
    """Serve by what is named."""
    if "PROGRAM_GREETS" in os.environ:
        print("Server started")
    module, _, function = os.environ["PROGRAM_RUN"].partition(":")
    run_stdio = getattr(importlib.import_module(module), function)
    run_stdio(registry, config=Config(max_message=int(os.environ.get("PROGRAM_MAX_MESSAGE", 2**24))))
    if "PROGRAM_SAYS_BYE" in os.environ:
        print("bye", [os.get_blocking(descriptor) for descriptor in (0, 1, 2)])
        print(input())


if __name__ == "__main__":
    main()

"""The bare loop on asyncio: what the event loop costs by itself, for whatever is run by one."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from bare import Asked, Message, answer, decode, encode, greet

PIECE = 2**16


def stdio() -> None:
    """Serve the standard input and output."""
    asyncio.run(_serve())


async def _serve() -> None:
    ended = asyncio.Event()
    asked: dict[str, Message] = {}
    rest = b""

    def receive() -> None:
        nonlocal rest
        data = os.read(0, PIECE)
        if not data:
            ended.set()
            return
        *lines, rest = (rest + data).split(b"\n")
        written = [one + b"\n" for line in lines for one in _answers(decode(line), asked)]
        _write(b"".join(written))

    asyncio.get_running_loop().add_reader(0, receive)
    await ended.wait()


def _answers(message: Any, asked: dict[str, Message]) -> list[bytes]:
    if "result" in message:
        return [greet(asked.pop(message["id"]), message)]
    given = answer(message)
    if isinstance(given, Asked):
        asked[given.question["id"]] = message
        return [encode(given.question)]
    return [given] if type(given) is bytes else given or []


def _write(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    stdio()

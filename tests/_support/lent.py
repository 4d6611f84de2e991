"""asyncio's loop as a driver of one's own lends it to a server."""

from __future__ import annotations

import asyncio
import secrets
import time
from threading import get_ident

from mcp_sansio import Registry, Server
from mcp_sansio.response_driver import LentLoop


def lent_loop(registry: Registry) -> tuple[LentLoop, Server]:
    """The running loop, whose tasks begin in their turn, and a server of `registry` on it."""
    loop = LentLoop(
        asyncio.get_running_loop(),
        now=time.monotonic,
        event=asyncio.Event,
        start=asyncio.ensure_future,
        thread=get_ident,
    )
    return loop, Server(registry, runtime=loop.runtime(secrets.token_bytes, asyncio.to_thread))

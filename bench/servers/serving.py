"""Serving an aiohttp application on a free port of the loopback: the same for each of the three that use aiohttp."""

from __future__ import annotations

import asyncio

import workload
from aiohttp import web


def serve_aiohttp(app: web.Application) -> None:
    """Serve `app` until the process is ended."""
    asyncio.run(_serve(app))


async def _serve(app: web.Application) -> None:
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    workload.announce(runner.addresses[0][1])
    await asyncio.Event().wait()

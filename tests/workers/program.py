"""A worker of a deployment, in a process of its own: ``python program.py '{"engine": "sqlite", …}'``.

It prints the port that it serves at, and ends with SIGTERM as a well-behaved server does: streams end, calls finish.
`folder` is one that all workers and the test share.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from aiohttp import web
from shop import shop

from mcp_sansio import Config, SealedState
from mcp_sansio_aiohttp import PRINCIPAL, Endpoint, SseEndpoint

#: Each takes where its engine is: a file, or a server's address.
STORES = {
    "sqlite": ("mcp_sansio_sqlite", "SqliteStore"),
    "redis": ("mcp_sansio_redis", "RedisStore"),
    "postgres": ("mcp_sansio_postgres", "PostgresStore"),
}


async def engine(options: dict[str, Any], stack: AsyncExitStack) -> dict[str, Any]:
    """The store and the hub of that engine: the options of an endpoint."""
    if options["engine"] == "memory":
        return {}
    module, name = STORES[options["engine"]]
    made = getattr(importlib.import_module(module), name)
    store = await stack.enter_async_context(made(options["where"], **options.get("store", {})))
    return {"store": store, "hub": store.hub}


@web.middleware
async def principal(request: web.Request, handler: Any) -> web.StreamResponse:
    """Whoever the request says it is from, as a proxy that knows would put it."""
    request[PRINCIPAL] = request.headers.get("X-User")
    response: web.StreamResponse = await handler(request)
    return response


def application(options: dict[str, Any], **held: Any) -> web.Application:
    """What serves the shop, with what it shares with other workers."""
    if options.get("sealed"):
        held["states"] = SealedState([bytes.fromhex(key) for key in options["sealed"]])
    config = Config(**{"deletable_sessions": True, "retry": 10, **options.get("config", {})})
    endpoint = Endpoint(shop(Path(options["folder"]), asyncio.sleep), config=config, **held)
    app = web.Application(middlewares=[principal])
    endpoint.setup(app)
    SseEndpoint(endpoint).setup(app)
    return app


async def main(options: dict[str, Any]) -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with AsyncExitStack() as stack:
        app = application(options, **await engine(options, stack))
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=options.get("patience", 10))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", options.get("port", 0), reuse_port=False).start()
        print(runner.addresses[0][1], flush=True)
        await stopped.wait()
        await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))

"""A worker of a deployment, in a process of its own: ``python program.py '{"engine": "sqlite", …}'``.

It prints the port that it serves at, and ends with SIGTERM as a well-behaved server does: streams end, calls finish.
`folder` is one that all workers and the test share; a file in it is how a test and a handler wait for each other.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from aiohttp import web

from mcp_sansio import Config, Exchange, NeedInput, Registry, SealedState, elicit
from mcp_sansio_aiohttp import PRINCIPAL, Endpoint, SseEndpoint

#: Each takes where its engine is: a file, or a server's address.
STORES = {
    "sqlite": ("mcp_sansio_sqlite", "SqliteStore"),
    "redis": ("mcp_sansio_redis", "RedisStore"),
    "postgres": ("mcp_sansio_postgres", "PostgresStore"),
}


def shop(folder: Path) -> Registry:
    """What every worker serves."""
    registry = Registry("shop", "1.0")

    async def gate(name: str) -> None:
        """Wait until the test, or another handler, opens that gate; have it known that somebody waits."""
        (folder / f"{name}.waiting").write_text(str(os.getpid()))
        while not (folder / name).exists():
            await asyncio.sleep(0.01)

    @registry.tool
    async def who() -> str:
        """Which process this is."""
        return str(os.getpid())

    @registry.tool
    async def count(ex: Exchange, by: int = 1) -> str:
        """Count in the session."""
        assert ex.session is not None
        await ex.session.update(lambda values: {**values, "n": values.get("n", 0) + by})
        return str(ex.session.get("n"))

    @registry.tool
    async def keep(ex: Exchange, handle: str = "") -> str:
        """Count in a session by handle."""
        session = await (ex.sessions.use(handle) if handle else ex.sessions.open())
        if session is None:
            return "no such session"
        await session.update(lambda values: {**values, "n": values.get("n", 0) + 1})
        return f"{session.handle} {session.get('n')}"

    @registry.tool
    async def order(ex: Exchange) -> str:
        """Ask twice."""
        answers = [(await ex.ask(key, elicit(f"{key}?"))).action for key in ("rye", "oat")]
        return " ".join(answers)

    @registry.tool
    async def refund(ex: Exchange, amount: int = 0) -> str:
        """Leave state behind, and ask."""
        if ex.answered("sure"):
            return f"refunded {ex.state['amount']} of {amount}"
        raise NeedInput({"sure": elicit("Sure?")}, state={"amount": amount})

    @registry.tool
    async def say(ex: Exchange) -> str:
        """Log at three levels."""
        for level in ("debug", "warning", "error"):
            await ex.log(level, {"at": level})
        return "said"

    @registry.tool
    async def slow(ex: Exchange, at: str) -> str:
        """Report, wait, report, wait, and end."""
        await ex.progress(1)
        await gate(f"{at}-1")
        await ex.progress(2)
        await gate(f"{at}-2")
        return "done"

    @registry.tool
    async def wait(ex: Exchange, at: str) -> str:
        """Wait to be cancelled."""
        (folder / f"{at}.waiting").touch()
        try:
            await ex.wait_cancelled()
        finally:
            (folder / f"{at}.cancelled").touch()
        return "cancelled"

    @registry.tool
    async def update(ex: Exchange, uri: str = "bread://rye") -> str:
        """Announce an update."""
        registry.resource_updated(uri)
        return "updated"

    @registry.tool
    async def change() -> str:
        """Have another list of prompts for a moment: each process has its own."""
        registry.prompt(lambda: "x", name="x")
        registry.remove_prompt("x")
        return "changed"

    @registry.resource("bread://rye")
    def rye() -> str:
        return "rye"

    @registry.resource("bread://oat")
    def oat() -> str:
        return "oat"

    return registry


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
    endpoint = Endpoint(shop(Path(options["folder"])), config=config, **held)
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

"""mcp-sansio as one worker of several: ``stored.py ENGINE [WHERE]``, where the engine keeps what the workers share.

``memory`` shares nothing, and ``sealed`` a key: the state of a question then travels with the client.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import workload
from aiohttp import web
from serving import serve_aiohttp

from mcp_sansio import Config, Exchange, NeedInput, Registry, SealedState, elicit
from mcp_sansio_aiohttp import Endpoint

registry = Registry("bench", "1.0")


@registry.tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@registry.tool
async def ask(ex: Exchange) -> str:
    """Ask for a name, and leave something to go on with."""
    question = elicit(workload.QUESTION, workload.FORM)
    if ex.state is None:
        raise NeedInput({"name": question}, state={"asked": workload.QUESTION})
    return workload.greeting((await ex.ask("name", question))["name"])


STORES = {
    "sqlite": ("mcp_sansio_sqlite", "SqliteStore"),
    "redis": ("mcp_sansio_redis", "RedisStore"),
    "postgres": ("mcp_sansio_postgres", "PostgresStore"),
}
#: Every worker has the same; it keeps nothing secret here.
KEY = bytes(32)


def shared(engine: str, *where: str) -> dict[str, Any]:
    """The options of an endpoint on that engine."""
    if engine == "sealed":
        return {"states": SealedState([KEY])}
    if engine == "memory":
        return {}
    module, name = STORES[engine]
    store = getattr(importlib.import_module(module), name)(*where)
    return {"store": store, "hub": store.hub}


if __name__ == "__main__":
    app = web.Application()
    Endpoint(registry, config=Config(deletable_sessions=True), **shared(*sys.argv[1:])).setup(app, "/mcp")
    serve_aiohttp(app)

"""Serving an ASGI application on a free port of the loopback, with the server that both SDKs start by themselves."""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
import workload


class Announcing(uvicorn.Server):
    """Tells where it listens as soon as it does.

    Its socket is its own: on one that is handed over asyncio leaves Nagle's algorithm on, at 40 ms an answer.
    """

    async def startup(self, sockets: Any = None) -> None:
        """See ``uvicorn.Server``."""
        await super().startup(sockets)
        workload.announce(self.servers[0].sockets[0].getsockname()[1])


def serve_asgi(app: Any) -> None:
    """Serve `app` until the process is ended: as uvicorn is by itself, or with what its ``standard`` extra adds."""
    parts = {"loop": "uvloop", "http": "httptools"} if "uvloop" in sys.argv else {"loop": "asyncio", "http": "h11"}
    Announcing(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", access_log=False, **parts)).run()

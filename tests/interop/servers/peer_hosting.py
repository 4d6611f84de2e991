"""What the Python programs of this folder share: their arguments, and how an ASGI application is served."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from typing import Any

PATHS = {"http": "/mcp", "sse": "/sse"}


def arguments(*eras: str) -> argparse.Namespace:
    """``TRANSPORT [--era ERA]``, where the library can be told an era."""
    parser = argparse.ArgumentParser()
    parser.add_argument("transport", choices=["http", "sse", "stdio"])
    parser.add_argument("--era", choices=eras, default=eras[0])
    return parser.parse_args()


def free_socket() -> socket.socket:
    """A socket bound to a free port of the loopback."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", 0))
    return bound


def announce(bound: socket.socket, transport: str) -> None:
    """Print where the server is."""
    print(f"http://127.0.0.1:{bound.getsockname()[1]}{PATHS[transport]}", flush=True)


def serve_asgi(app: Any, transport: str) -> None:
    """Serve on a free port of the loopback, print the address, and stop when the input ends."""
    import uvicorn

    bound = free_socket()
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, lifespan="on"))

    async def main() -> None:
        serving = asyncio.create_task(server.serve([bound]))
        while not server.started:
            await asyncio.sleep(0.01)
        announce(bound, transport)
        await asyncio.to_thread(sys.stdin.read)
        server.should_exit = True
        await serving

    asyncio.run(main())

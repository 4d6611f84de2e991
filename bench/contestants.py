"""Who is compared, and what each cannot do."""

from __future__ import annotations

from dataclasses import dataclass, field

from rows import Row

EVERYWHERE = ("http", "trio", "asgi", "uvloop", "stdio", "client")
#: Their HTTP servers are ASGI applications under uvicorn in any case.
ON_ASGI = ("http", "asgi", "uvloop", "stdio", "client")


@dataclass(frozen=True)
class Contestant:
    """A server of `bench/servers`, and a client of `bench/clients` that has the same name.

    `unable` says why it has no row, by the row's kind or its way of asking, with or without the transport before it.
    """

    name: str
    title: str
    environment: str
    script: str
    unable: dict[str, str] = field(default_factory=dict)
    transports: tuple[str, ...] = ("http", "stdio", "client")

    def cannot(self, row: Row) -> str | None:
        """Why it cannot do `row`, or ``None``."""
        names = [row.kind, *([row.way] if row.way else [])]
        names += [f"{row.transport}/{name}" for name in names]
        return next((self.unable[name] for name in names if name in self.unable), None)


_NOT_THERE = {"batch": "no batches", "arguments": "cannot ask"}
#: It agrees to the older revision in the handshake, and then speaks a newer one.
_NOT_OVER_STDIO = {"stdio/batch": "no batches", "stdio/arguments": "pushes it"}

CONTESTANTS = [
    Contestant("bare", "bare", "sansio", "bare.py", transports=EVERYWHERE),
    Contestant("asyncio", "bare, on asyncio", "sansio", "bare_asyncio.py", transports=("stdio",)),
    Contestant("sansio", "mcp-sansio", "sansio", "sansio.py", transports=EVERYWHERE),
    Contestant("blocking", "mcp-sansio, blocking", "sansio", "sansio_blocking.py", transports=("stdio",)),
    Contestant("tiny", "aiohttp-tiny-mcp", "tiny", "tiny.py", _NOT_OVER_STDIO),
    Contestant("official", "mcp", "official", "official.py", _NOT_THERE, ON_ASGI),
    Contestant("fastmcp", "FastMCP", "fastmcp", "fast.py", _NOT_THERE, ON_ASGI),
]

"""The programs of Redis and PostgreSQL as tests need them: what is missing skips a test or fails it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import support
from engine_programs import SERVERS, EngineServer, serving

__all__ = ["EngineServer", "running"]


@contextmanager
def running(engine: str) -> Iterator[EngineServer]:
    """A server of that engine, up and empty. Skips or fails, as `support.need` does, where its program is missing."""
    kind = SERVERS[engine]
    with serving(engine, support.need_program(kind.name, *kind.places())) as server:
        yield server

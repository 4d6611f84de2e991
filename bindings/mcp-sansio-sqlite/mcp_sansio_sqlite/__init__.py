"""A session store and a hub for mcp-sansio in SQLite: many workers on one machine.

``SqliteStore(path)`` is the store, and its `hub` the hub. Both are asyncio's, by way of aiosqlite.
"""

from .hub import SqliteHub
from .store import SqliteStore

__all__ = ["SqliteHub", "SqliteStore"]

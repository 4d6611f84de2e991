"""A session store and a hub for mcp-sansio in PostgreSQL: many workers on many machines.

``PostgresStore(conninfo)`` is the store, and its `hub` the hub. Both are asyncio's, by way of psycopg.
"""

from .hub import PostgresHub
from .store import PostgresStore

__all__ = ["PostgresHub", "PostgresStore"]

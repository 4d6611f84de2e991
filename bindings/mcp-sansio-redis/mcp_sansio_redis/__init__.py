"""A session store and a hub for mcp-sansio in Redis: many workers on many machines.

``RedisStore(url)`` is the store, and its `hub` the hub. Both are asyncio's, by way of redis-py.
"""

from .hub import RedisHub
from .store import RedisStore

__all__ = ["RedisHub", "RedisStore"]

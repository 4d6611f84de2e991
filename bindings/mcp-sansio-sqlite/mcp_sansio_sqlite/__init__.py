"""A session store and a hub for mcp-sansio in SQLite: many workers on one machine."""

__all__: list[str] = []

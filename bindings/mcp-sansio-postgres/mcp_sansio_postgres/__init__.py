"""A session store and a hub for mcp-sansio in PostgreSQL: many workers on many machines."""

__all__: list[str] = []

"""mcp-sansio without an event loop: a blocking client over HTTP and stdio, and a WSGI application."""

__all__: list[str] = []

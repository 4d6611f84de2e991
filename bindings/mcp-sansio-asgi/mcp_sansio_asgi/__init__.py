"""mcp-sansio as an ASGI application, for Starlette, FastAPI, uvicorn and hypercorn."""

__all__: list[str] = []

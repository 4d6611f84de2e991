"""mcp-sansio on trio: HTTP over h11 and standard input and output, a server and a client for each."""

__all__: list[str] = []
